use super::*;

fn values(n: usize, key: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 37 + key * 11 + i * i % 7) % 101) as f32 / 50.0 - 1.0;
    (0..n).map(value).collect()
}

/// Result and gradients (queries, keys, values, bias) by plain loops.
fn plain(
    a: &Attention,
    [q, k, v]: [&[f32]; 3],
    biases: &[&[f32]],
    dy: &[f32],
) -> (Vec<f64>, [Vec<f64>; 4]) {
    let at = |x: &[f32], i: usize| f64::from(x[i]);
    let mut y = vec![0.0; a.queries * a.columns];
    let lengths = [q.len(), k.len(), v.len(), a.queries * a.keys];
    let mut gradients = lengths.map(|n| vec![0.0; n]);
    for i in 0..a.queries {
        let score = |j: usize| {
            let products = (0..a.depth).map(|d| at(q, i * a.depth + d) * at(k, j * a.depth + d));
            let biases = biases.iter().map(|b| at(b, i * a.keys + j));
            f64::from(a.scale) * products.sum::<f64>() + biases.sum::<f64>()
        };
        let mut weights: Vec<f64> = (0..a.keys).map(|j| score(j).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        let slope = |j: usize| -> f64 {
            let terms =
                (0..a.columns).map(|c| at(dy, i * a.columns + c) * at(v, j * a.columns + c));
            terms.sum()
        };
        let slopes: Vec<f64> = (0..a.keys).map(slope).collect();
        let dot: f64 = weights.iter().zip(&slopes).map(|(w, s)| w * s).sum();
        for j in 0..a.keys {
            for c in 0..a.columns {
                y[i * a.columns + c] += weights[j] * at(v, j * a.columns + c);
                gradients[2][j * a.columns + c] += weights[j] * at(dy, i * a.columns + c);
            }
            let ds = weights[j] * (slopes[j] - dot);
            gradients[3][i * a.keys + j] = ds;
            let ds = ds * f64::from(a.scale);
            for d in 0..a.depth {
                gradients[0][i * a.depth + d] += ds * at(k, j * a.depth + d);
                gradients[1][j * a.depth + d] += ds * at(q, i * a.depth + d);
            }
        }
    }
    (y, gradients)
}

fn assert_close(what: &str, got: &[f32], before: f64, want: &[f64]) {
    for (got, want) in got.iter().zip(want) {
        let want = want + before;
        assert!(
            (f64::from(*got) - want).abs() < 2e-5 * want.abs().max(1.0),
            "{what}: {got} {want}"
        );
    }
}

#[test]
fn both_ways_agree_with_plain_loops() {
    for isa in Isa::available() {
        for (queries, keys, depth, columns) in [
            (1, 1, 1, 1),
            (5, 7, 3, 4),
            (49, 49, 32, 32),
            (50, 97, 64, 64),
            (97, 20, 16, 40),
            (3, 130, 8, 17),
        ] {
            let a = Attention {
                queries,
                keys,
                depth,
                columns,
                scale: 0.3,
            };
            let (q, k) = (values(queries * depth, 1), values(keys * depth, 2));
            let (v, dy) = (values(keys * columns, 3), values(queries * columns, 4));
            let bias = [values(queries * keys, 5), values(queries * keys, 6)];
            let mut scratch = vec![f32::NAN; a.scratch_len(isa)];
            for count in 0..3 {
                let biases: Vec<&[f32]> = bias[..count].iter().map(Vec::as_slice).collect();
                let (want, gradients) = plain(&a, [&q, &k, &v], &biases, &dy);
                let mut y = vec![f32::NAN; dy.len()];
                a.forward(isa, [&q, &k, &v], &biases, &mut y, &mut scratch);
                let what = format!("{isa} {a:?} {count}");
                assert_close(&what, &y, 0.0, &want);
                let mut sums: [Vec<f32>; 3] = [&q, &k, &v].map(|x| vec![0.5; x.len()]);
                let mut of_bias = vec![vec![0.5; queries * keys]; count];
                let [dq, dk, dv] = &mut sums;
                let wanted = AttentionGradients {
                    q: Some(dq),
                    k: Some(dk),
                    v: Some(dv),
                    biases: of_bias.iter_mut().map(|b| Some(&mut b[..])).collect(),
                };
                a.backward(isa, [&q, &k, &v], &biases, &dy, wanted, &mut scratch);
                for (got, want) in sums.iter().zip(&gradients) {
                    assert_close(&what, got, 0.5, want);
                }
                for got in &of_bias {
                    assert_close(&what, got, 0.5, &gradients[3]);
                }
            }
        }
    }
}
