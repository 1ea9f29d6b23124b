//! Other people's named tensors, and their way onto a graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use network::{Graph, Op, ParameterSpec, Parameters, Role, window_mask};

use super::{ImportError, ImportReport, Mismatch};

/// One tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// As many values as the shape says.
    pub values: Vec<f32>,
}

/// Named tensors, as PyTorch's `state_dict()`.
pub type StateDict = BTreeMap<String, Tensor>;

/// Prefixes that are tried at most.
const MAX_PREFIXES: usize = 64;

/// What different authors call the last layer.
const HEADS: [&str; 6] = [
    "fc",
    "linear",
    "classifier",
    "head",
    "last_linear",
    "output",
];

/// One spelling for names that mean the same: without the wrappers of
/// `DataParallel` and `torch.compile`, with torchvision's and timm's words.
fn canonical(name: &str) -> String {
    let mut parts: Vec<&str> = name
        .split('.')
        .filter(|part| !matches!(*part, "module" | "_orig_mod"))
        .map(|part| match part {
            "shortcut" => "downsample",
            // Attention's weights, and torchvision's first names of linear layers.
            "in_proj_weight" => "in_proj.weight",
            "in_proj_bias" => "in_proj.bias",
            "linear_1" => "0",
            "linear_2" => "3",
            part => part,
        })
        .collect();
    if parts.len() == 3 && parts[..2] == ["head", "fc"] {
        parts.remove(0);
    }
    if parts.len() == 2 && HEADS.contains(&parts[0]) {
        parts[0] = "fc";
    }
    parts.join(".")
}

/// Canonical name to name in the file, for the names under a prefix.
fn index<'a>(state_dict: &'a StateDict, prefix: &str) -> HashMap<String, &'a str> {
    let mut names = HashMap::new();
    for name in state_dict.keys() {
        if let Some(rest) = name.strip_prefix(prefix) {
            names.entry(canonical(rest)).or_insert(name.as_str());
        }
    }
    names
}

/// The prefix under which most parameters are found, the shortest of several;
/// models are often saved inside another module, as `1.conv1.weight`.
fn find_prefix(state_dict: &StateDict, wanted: &[String]) -> String {
    let mut prefixes = BTreeSet::from([(0, "")]);
    if let Some(first) = wanted.first() {
        for name in state_dict.keys() {
            // Compare behind every dot, as the wrappers may stand anywhere.
            for (dot, _) in name.match_indices('.') {
                if canonical(&name[dot + 1..]) == *first {
                    prefixes.insert((dot + 1, &name[..=dot]));
                }
            }
        }
    }
    let matches = |prefix: &str| {
        let names = index(state_dict, prefix);
        wanted
            .iter()
            .filter(|name| names.contains_key(*name))
            .count()
    };
    let candidates = prefixes.into_iter().take(MAX_PREFIXES).map(|(_, p)| p);
    let best = candidates.first_max_by_key(matches);
    best.unwrap_or_default().into()
}

/// `max_by_key` with the first of equals.
trait FirstMax: Iterator + Sized {
    fn first_max_by_key<K: Ord>(self, key: impl Fn(Self::Item) -> K) -> Option<Self::Item>
    where
        Self::Item: Copy,
    {
        self.fold(None, |best: Option<(K, Self::Item)>, item| {
            let k = key(item);
            match best {
                Some((b, i)) if b >= k => Some((b, i)),
                _ => Some((k, item)),
            }
        })
        .map(|(_, item)| item)
    }
}

impl<I: Iterator> FirstMax for I {}

/// Equal up to dimensions of 1: a 1x1 convolution may stand for a linear layer.
fn same_shape(a: &[usize], b: &[usize]) -> bool {
    let long = |&&d: &&usize| d != 1;
    a.iter().filter(long).eq(b.iter().filter(long))
}

/// Puts tensors into the places of a graph's parameters.
///
/// Names are compared without `module.`, with the usual words for the last
/// layer and the projections, and behind a common prefix (found, or given).
/// Every parameter must be found with its shape and with finite values; what
/// is left over is only reported, counters (`num_batches_tracked`) not even
/// that.
pub fn assign(
    mut state_dict: StateDict,
    graph: &Graph,
    prefix: Option<&str>,
) -> Result<(Parameters, ImportReport), ImportError> {
    state_dict.retain(|name, _| !name.ends_with("num_batches_tracked"));
    let specs = graph.parameters();
    let wanted: Vec<String> = specs.iter().map(|spec| canonical(&spec.name)).collect();
    let prefix = match prefix {
        Some(prefix) => prefix.to_string(),
        None => find_prefix(&state_dict, &wanted),
    };
    let names = index(&state_dict, &prefix);
    let mut report = ImportReport::default();
    if !prefix.is_empty() {
        report
            .notes
            .push(format!("prefix `{prefix}` removed from the names"));
    }
    for (spec, canonical) in specs.iter().zip(&wanted) {
        let exact = format!("{prefix}{}", spec.name);
        let exact = state_dict
            .get_key_value(&exact)
            .map(|(name, _)| name.as_str());
        match exact.or_else(|| names.get(canonical).copied()) {
            Some(name) => report.matched.push((spec.name.clone(), name.into())),
            // Follows from the shape of the network.
            None if spec.role == Role::Mask => {}
            None => report.missing.push(spec.name.clone()),
        }
    }
    let used: BTreeSet<&str> = report
        .matched
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    let left_over = state_dict
        .keys()
        .filter(|name| !used.contains(name.as_str()));
    report.left_over = left_over.cloned().collect();
    let mismatched = mismatches(specs, &state_dict, &report);
    if let Some(error) = class_count(graph, &mismatched) {
        return Err(error);
    }
    if !report.missing.is_empty() || !mismatched.is_empty() {
        return Err(ImportError::Mismatch {
            report: Box::new(report),
            mismatched,
        });
    }
    let mut values = Vec::with_capacity(specs.len());
    let matched: HashMap<&str, &str> = (report.matched.iter())
        .map(|(parameter, name)| (parameter.as_str(), name.as_str()))
        .collect();
    for spec in specs {
        let Some(&name) = matched.get(spec.name.as_str()) else {
            values.push(window_mask(&spec.shape));
            continue;
        };
        // Two parameters may share a tensor of the file.
        let tensor = &state_dict[name];
        check_values(name, spec.role, &tensor.values)?;
        values.push(tensor.values.clone());
    }
    Ok((Parameters::new(graph, values), report))
}

fn mismatches(
    specs: &[ParameterSpec],
    state_dict: &StateDict,
    report: &ImportReport,
) -> Vec<Mismatch> {
    let specs: HashMap<&str, &ParameterSpec> = specs
        .iter()
        .map(|spec| (spec.name.as_str(), spec))
        .collect();
    let wrong = report.matched.iter().filter_map(|(parameter, name)| {
        let (expected, got) = (&specs[parameter.as_str()].shape, &state_dict[name].shape);
        (!same_shape(expected, got)).then(|| Mismatch {
            name: name.clone(),
            expected: expected.clone(),
            got: got.clone(),
        })
    });
    wrong.collect()
}

/// Says so if nothing but the number of classes is wrong.
fn class_count(graph: &Graph, mismatched: &[Mismatch]) -> Option<ImportError> {
    let classes = graph.classes();
    let (first, rest) = mismatched.split_first()?;
    let only_rows = |m: &Mismatch| {
        m.expected.first() == Some(&classes)
            && m.got.first() == first.got.first()
            && m.expected.get(1..) == m.got.get(1..)
    };
    let linear = graph
        .nodes()
        .iter()
        .any(|n| matches!(n.op, Op::Linear { .. }));
    (linear && only_rows(first) && rest.iter().all(only_rows)).then(|| ImportError::Classes {
        name: first.name.clone(),
        file: first.got[0],
        asked: classes,
    })
}

/// Refuses what no training run leaves behind on purpose.
pub(super) fn check_values(name: &str, role: Role, values: &[f32]) -> Result<(), ImportError> {
    let bad = |v: &f32| !v.is_finite() || (role == Role::RunningVariance && *v < 0.0);
    match values.iter().position(bad) {
        None => Ok(()),
        Some(index) => Err(ImportError::Value {
            name: name.into(),
            index,
            value: values[index],
        }),
    }
}
