"""What rounding noisy images to 8 bits does to votes and certificates.

    heatsmooth convert results/cifar10/heat heat.onnx
    python bench/rounding.py heat.onnx results/cifar10/certify-heat.tsv CIFAR10/test_batch.bin [SAMPLES]

Exact noise is Gaussian noise after rounding to multiples of 1/255. So float and exact
certificates differ by how often the class of x + eta and that of q(x + eta) differ, which
is measured here on the same eta: far fewer samples show it than two runs with noises of
their own would. The votes of float noise are those of the log (its n); the share of misses
that rounding adds or takes away is estimated over all images whose share of hits is similar.
Needs numpy, scipy, onnxruntime.
"""

import csv
import sys

import numpy as np
import onnxruntime
from scipy.stats import beta, binom, norm

SIGMA, ALPHA, RADII = 0.1, 0.001, (0.0, 0.1, 0.2, 0.3)


def votes(session, image, chosen, samples, random):
    """Hits of both, of the float noise alone, of the rounded noise alone."""
    noise = random.standard_normal((samples, *image.shape), dtype=np.float32)
    noisy = image[None] + np.float32(SIGMA) * noise
    rounded = np.rint(noisy * 255) / np.float32(255)
    name = session.get_inputs()[0].name
    classes = (session.run(None, {name: x.astype(np.float32)})[0].argmax(1) for x in (noisy, rounded))
    hit = [found == chosen for found in classes]
    return (hit[0] & hit[1]).sum(), (hit[0] & ~hit[1]).sum(), (~hit[0] & hit[1]).sum()


def main(model, log, batch, samples="200"):
    samples = int(samples)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    rows = list(csv.DictReader(open(log), delimiter="\t"))
    data = np.fromfile(batch, np.uint8).reshape(-1, 3073)
    random = np.random.default_rng(0)
    n, shares, counts, right = int(rows[0]["n"]), [], [], []
    for row in rows:
        if row["predict"] == "-1":
            continue
        image = data[int(row["idx"]), 1:].reshape(3, 32, 32).astype(np.float32) / 255
        counts.append(votes(session, image, int(row["predict"]), samples, random))
        shares.append(int(row["n_a"]) / n)
        right.append(row["correct"] == "1")
    shares, counts, right = np.array(shares), np.array(counts, float), np.array(right)
    lost, won = counts[:, 1].sum(), counts[:, 2].sum()
    passes = samples * len(counts)
    print(f"{len(counts)} certified images, {passes} pairs: {lost:.0f} hits lost, {won:.0f} won by rounding")
    print("share of hits\timages\tmisses, float\tmisses, rounded\tchange (2 standard errors)")
    change, error = np.zeros(len(shares)), np.zeros(len(shares))
    for low, high in [(0.5, 0.9), (0.9, 0.97), (0.97, 0.99), (0.99, 0.997), (0.997, 1.1)]:
        inside = (shares >= low) & (shares < high)
        both, lost, won = counts[inside].sum(0)
        misses = samples * inside.sum() - both - lost
        if misses == 0:
            continue
        change[inside] = (lost - won) / misses
        error[inside] = np.sqrt(max(lost + won, 1)) / misses
        print(
            f"{low} to {min(high, 1)}\t{inside.sum()}\t{misses:.0f}\t{misses + lost - won:.0f}"
            f"\t{100 * (lost - won) / misses:+.1f} % ({200 * np.sqrt(max(lost + won, 1)) / misses:.1f})"
        )
    print(f"radius\tcertified, float (n = {n})\tchange by rounding, points (2 standard errors)")
    bounds = np.array([beta.ppf(ALPHA, h, n - h + 1) if h else 0.0 for h in range(n + 1)])
    p = (shares * n + 0.5) / (n + 1)
    for radius in RADII:
        needed = np.argmax((bounds > 0.5) & (SIGMA * norm.ppf(bounds) >= radius))
        certified = lambda misses: binom.sf(needed - 1, n, 1 - misses) * right / len(rows) * 100
        at = certified(1 - p).sum()
        by = certified((1 - p) * (1 + change)).sum() - at
        spread = abs(certified((1 - p) * (1 + change + 2 * error)).sum() - at - by)
        print(f"{radius}\t{at:.2f} %\t{by:+.3f} ({spread:.3f})")


if __name__ == "__main__":
    main(*sys.argv[1:])
