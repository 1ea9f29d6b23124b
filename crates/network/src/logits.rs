//! Reading logits: ranks and probabilities. Equal logits rank by class number.

/// The class with the largest logit.
pub fn argmax<T: PartialOrd + Copy>(values: &[T]) -> usize {
    let mut best = 0;
    for (class, value) in values.iter().enumerate().skip(1) {
        if *value > values[best] {
            best = class;
        }
    }
    best
}

/// The `k` classes with the largest values, best first.
pub fn top_k<T: PartialOrd + Copy>(values: &[T], k: usize) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..values.len()).collect();
    classes.sort_by(|&a, &b| {
        values[b]
            .partial_cmp(&values[a])
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(a.cmp(&b))
    });
    classes.truncate(k);
    classes
}

/// Whether `class` is among the `k` largest.
pub fn in_top_k<T: PartialOrd + Copy>(values: &[T], class: usize, k: usize) -> bool {
    let own = values[class];
    let ahead = values
        .iter()
        .enumerate()
        .filter(|&(other, &value)| value > own || (value == own && other < class))
        .count();
    ahead < k
}

/// A whole vote for the class with the largest logit: 1 there, 0 elsewhere.
pub fn vote(logits: &[f32]) -> Vec<f64> {
    let mut votes = vec![0.0; logits.len()];
    votes[argmax(logits)] = 1.0;
    votes
}

/// `softmax(z)` in f64, shifted by the maximum.
pub fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits[argmax(logits)]);
    let exp = logits.iter().map(|&z| (f64::from(z) - largest).exp());
    let mut probabilities: Vec<f64> = exp.collect();
    let total: f64 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|p| *p /= total);
    probabilities
}

/// `log softmax(z)` in f64.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits[argmax(logits)]);
    let exp = logits.iter().map(|&z| (f64::from(z) - largest).exp());
    let shift = largest + exp.sum::<f64>().ln();
    logits.iter().map(|&z| f64::from(z) - shift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_agree_with_each_other(values in prop::collection::vec(-3..3_i32, 1..12), k in 1..12_usize) {
            let ranked = top_k(&values, k);
            prop_assert_eq!(ranked[0], argmax(&values));
            for class in 0..values.len() {
                prop_assert_eq!(ranked.contains(&class), in_top_k(&values, class, k));
            }
        }

        #[test]
        fn softmax_is_a_distribution_in_the_logits_order(logits in prop::collection::vec(-90_f32..90.0, 1..12)) {
            let p = softmax(&logits);
            for (p, log_p) in p.iter().zip(log_softmax(&logits)) {
                prop_assert!((p.ln() - log_p).abs() < 1e-9);
            }
            prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            prop_assert_eq!(argmax(&p), argmax(&logits));
        }
    }
}
