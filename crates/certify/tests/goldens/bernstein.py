"""Goldens of the mean bound: python bernstein.py (mpmath, numpy).

The predictable plug-in empirical Bernstein bound of Waudby-Smith and Ramdas
(theorem 2, one-sided), written from the paper: v_t = 4 (x_t - m_(t-1))^2 and
psi(w) = (-ln(1-w) - w) / 4, whole sums anew for every t, with 40 digits. The draws
are x_t = (t^2 k mod 1009) / 1008 to a power; both are columns.
"""

from pathlib import Path

import mpmath as mp

mp.mp.dps = 40
HERE = Path(__file__).parent


def bounds(x, alpha, n):
    log = mp.log(1 / mp.mpf(alpha))
    means = [mp.mpf(1) / 2]
    for t in range(1, len(x) + 1):
        means.append((mp.mpf(1) / 2 + mp.fsum(x[:t])) / (t + 1))
    deviations = [(x[i] - means[i + 1]) ** 2 for i in range(len(x))]
    numerator, weights, margin = [], [], [log]
    for t in range(1, len(x) + 1):
        variance = (mp.mpf(1) / 4 + mp.fsum(deviations[: t - 1])) / t
        weight = min(mp.sqrt(2 * log / (variance * n)), mp.mpf(3) / 4)
        weights.append(weight)
        numerator.append(weight * x[t - 1])
        psi = (-mp.log(1 - weight) - weight) / 4
        margin.append(4 * (x[t - 1] - means[t - 1]) ** 2 * psi)
    centre, width = mp.fsum(numerator) / mp.fsum(weights), mp.fsum(margin) / mp.fsum(weights)
    return max(centre - width, mp.mpf(0)), min(centre + width, mp.mpf(1))


lines = ["n\talpha\tfactor\tpower\tlower\tupper"]
for n in [10, 60, 200, 800]:
    for alpha in [0.05, 0.001, 1e-6]:
        for factor, power in [(37, 1), (501, 4), (11, 0.01), (7, 40)]:
            # The draws as doubles: mpmath's powers rounded once.
            x = [mp.mpf(float(mp.mpf((t * t * factor) % 1009) / 1008) ** power) for t in range(1, n + 1)]
            lower, upper = bounds(x, alpha, n)
            lines.append(f"{n}\t{alpha}\t{factor}\t{power}\t{mp.nstr(lower, 17)}\t{mp.nstr(upper, 17)}")
(HERE / "mean_bound.tsv").write_text("\n".join(lines) + "\n")
print(len(lines) - 1, "rows")
