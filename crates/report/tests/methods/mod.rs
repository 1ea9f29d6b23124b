//! Options that know the methods of the samples.

use heatsmooth_report::Options;
use record::MethodInfo;

pub fn options() -> Options {
    Options {
        methods: vec![
            MethodInfo::deterministic("heat", "HeatSmoothing", 0),
            MethodInfo::stochastic("smoothadv", "SmoothAdv", 1),
            MethodInfo::stochastic("gaussian", "RandomizedSmoothing", 2),
            MethodInfo::deterministic("baseline", "baseline", 3),
        ],
        ..Options::default()
    }
}
