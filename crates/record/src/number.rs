//! Numbers as text: full precision, shortest form.

/// The shortest decimal text that reads back to the same `f64`; empty for NaN
/// ("not measured"), scientific where the plain form would be long.
pub fn format_number(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        String::new()
    } else if value.is_infinite() || size == 0.0 || (1e-5..1e16).contains(&size) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

/// Reads what [`format_number`] writes (and what Python prints).
pub(crate) fn parse_number(text: &str) -> Result<f64, String> {
    if text.is_empty() {
        return Ok(f64::NAN);
    }
    text.parse::<f64>()
        .map_err(|_| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_well() {
        let texts = [0.0, 1.0, 1000.0, 0.1, -2.5, 1e-7, 1e300].map(format_number);
        assert_eq!(texts, ["0", "1", "1000", "0.1", "-2.5", "1e-7", "1e300"]);
        assert_eq!(format_number(f64::NAN), "");
        assert!(parse_number("").unwrap().is_nan());
        assert!(parse_number("0,5").is_err());
    }

    proptest! {
        #[test]
        fn every_number_comes_back(bits: u64) {
            let value = f64::from_bits(bits);
            let back = parse_number(&format_number(value)).unwrap();
            prop_assert!(back == value || (back.is_nan() && value.is_nan()));
        }
    }
}
