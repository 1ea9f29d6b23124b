//! Durations as Cohen's logs print them (Python's `str(timedelta)`).

use std::time::Duration;

/// `h:mm:ss.ffffff`, rounded to microseconds.
pub fn format_duration(duration: Duration) -> String {
    let micros = (duration.as_nanos() + 500) / 1000;
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    format!(
        "{}:{:02}:{:02}.{micros:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Reads [`format_duration`], Python's `str(timedelta)` (`0:00:07`,
/// `1 day, 2:03:04.5`) or a plain number of seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (days, clock) = match text.split_once(" day") {
        Some((days, rest)) => (
            days.parse::<f64>().ok()?,
            rest.strip_prefix('s').unwrap_or(rest).strip_prefix(", ")?,
        ),
        None => (0.0, text),
    };
    let mut seconds = 0.0;
    for part in clock.split(':') {
        if !part
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return None;
        }
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Duration::try_from_secs_f64(days * 86_400.0 + seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_python_and_ours() {
        let seconds = |text| parse_duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("0:00:07"), Some(7.0));
        assert_eq!(seconds("0:01:07.250000"), Some(67.25));
        assert_eq!(seconds("1 day, 2:03:04.5"), Some(93_784.5));
        assert_eq!(seconds("2 days, 0:00:00"), Some(172_800.0));
        assert_eq!(seconds("0.5"), Some(0.5));
        for bad in ["", "abc", "1:xx:02", "-1:00:00", "1 day 2", "1e400", "inf"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        assert_eq!(
            format_duration(Duration::from_micros(3_661_000_001)),
            "1:01:01.000001"
        );
        assert_eq!(
            format_duration(Duration::from_nanos(999_999_999)),
            "0:00:01.000000"
        );
    }

    proptest! {
        #[test]
        fn comes_back(micros in 0u64..100_000_000_000) {
            let duration = Duration::from_micros(micros);
            let back = parse_duration(&format_duration(duration)).unwrap();
            prop_assert!(back.abs_diff(duration) < Duration::from_nanos(500));
        }
    }
}
