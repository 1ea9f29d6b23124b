//! Cross-entropy of one row of logits, free of cancellation and underflow.

/// `log sum exp`.
pub fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + values.map(|v| (v - max).exp()).sum::<f64>().ln()
}

/// `log p_y` and `log(1 - p_y)` with `p = softmax(logits)`.
pub fn log_probabilities(logits: &[f32], y: usize) -> (f64, f64) {
    let others = log_sum_exp(without(logits, y).map(|(_, z)| z));
    let z = f64::from(logits[y]);
    let all = log_sum_exp([others, z].into_iter());
    (z - all, others - all)
}

/// Writes `d(-log p_y)/d logits / (1 - p_y)`: -1 at `y`, the softmax over the
/// other classes elsewhere. The factor `1 - p_y`, which would underflow where
/// the network is sure, is [`log_probabilities`]'s.
pub fn cotangent(logits: &[f32], y: usize, out: &mut [f32]) {
    let others = log_sum_exp(without(logits, y).map(|(_, z)| z));
    for (j, z) in without(logits, y) {
        out[j] = (z - others).exp() as f32;
    }
    out[y] = -1.0;
}

fn without(logits: &[f32], y: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
    let all = logits.iter().map(|&z| f64::from(z)).enumerate();
    all.filter(move |&(j, _)| j != y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_textbook_formula() {
        let logits = [0.5, -1.0, 2.0];
        let total: f64 = logits.iter().map(|&z| f64::from(z).exp()).sum();
        let p = logits.map(|z| f64::from(z).exp() / total);
        for y in 0..3 {
            let (log_p, log_rest) = log_probabilities(&logits, y);
            assert!((log_p - p[y].ln()).abs() < 1e-14);
            assert!((log_rest - (1.0 - p[y]).ln()).abs() < 1e-14);
            let mut got = [0.0; 3];
            cotangent(&logits, y, &mut got);
            for j in 0..3 {
                let wanted = p[j] - if j == y { 1.0 } else { 0.0 };
                assert!((f64::from(got[j]) * log_rest.exp() - wanted).abs() < 1e-7);
            }
        }
    }

    /// In f32, `softmax - onehot` is (0, 0) here: no direction at all.
    #[test]
    fn a_sure_prediction_still_has_a_direction() {
        let logits = [900.0, 0.0];
        let mut got = [0.0; 2];
        cotangent(&logits, 0, &mut got);
        assert_eq!(got, [-1.0, 1.0]);
        assert_eq!(log_probabilities(&logits, 0), (0.0, -900.0));
        assert_eq!(log_probabilities(&logits, 1), (-900.0, 0.0));
    }
}
