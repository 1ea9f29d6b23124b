"""Goldens of the reverse Weibull fit of CLEVER: python weibull.py (SciPy).

For each set of numbers drawn from a reverse Weibull distribution: location, shape and
scale of largest likelihood, by scipy.stats.weibull_max.fit from two starts, polished
by scipy.optimize (Nelder and Mead), with a shape of at least 1; the Kolmogorov-Smirnov distance by scipy.stats.kstest; the
log-likelihood by weibull_max.logpdf; then the
numbers.
"""

from pathlib import Path

import numpy as np
from scipy import optimize, stats

HERE = Path(__file__).parent


def fit(x):
    def loss(p):
        gap, more, scale = np.exp(p)
        t = (x.max() + gap - x) / scale
        return -np.sum(np.log((1 + more) / scale) + more * np.log(t) - t ** (1 + more))

    best = None
    for start in [2, 6]:
        shape, location, scale = stats.weibull_max.fit(x, start, loc=x.max() + 0.1 * np.ptp(x), scale=np.ptp(x))
        if shape <= 1 or location <= x.max() or not np.isfinite(location):
            continue
        p = np.log([location - x.max(), shape - 1, scale])
        for _ in range(3):
            options = {"xatol": 1e-10, "fatol": 1e-11, "maxiter": 1000, "maxfev": 1000}
            found = optimize.minimize(loss, p, method="Nelder-Mead", options=options)
            p = found.x
        if best is None or found.fun < best.fun:
            best = found
    if best is None:
        return x.max(), 1.0, np.ptp(x), -np.inf
    gap, more, scale = np.exp(best.x)
    value = stats.weibull_max.logpdf(x, 1 + more, x.max() + gap, scale).sum()
    return x.max() + gap, 1 + more, scale, value


lines = ["location\tshape\tscale\tks\tlog_likelihood\tnumbers"]
for shape, location, scale in [(2.5, 1.0, 0.2), (3.0, 4.0, 1.0), (4.0, 0.3, 0.05), (6.0, 10.0, 5.0)]:
    kept = 0
    for seed in range(100):
        x = stats.weibull_max.rvs(shape, location, scale, size=[50, 80, 120][kept], random_state=seed)
        a, c, s, value = fit(x)
        # Where the likelihood has its maximum inside: neither at the largest number
        # nor at infinity.
        if not (1.2 < c < 40 and a - x.max() > 1e-3 * np.ptp(x)):
            continue
        ks = stats.kstest(x, stats.weibull_max(c, a, s).cdf).statistic
        lines.append("\t".join(repr(float(v)) for v in [a, c, s, ks, value, *x]))
        kept += 1
        if kept == 3:
            break
(HERE / "weibull.tsv").write_text("\n".join(lines) + "\n")
print(len(lines) - 1, "sets")
