"""Goldens of the statistics module: python generate.py (mpmath, scipy; some minutes).

Every value is computed with 50 digits from its definition (sums of binomial
terms, roots of the equations) by code that shares nothing with the crate's
(continued fraction, saddle-point expansion), then compared here with SciPy,
then written with 17 digits as tab-separated text.
"""

from pathlib import Path

import mpmath as mp
import numpy as np
from scipy import special, stats

mp.mp.dps = 50
HERE = Path(__file__).parent
ALPHAS = [0.1, 0.01, 0.001, 1e-6, 1e-9]
SIZES = [1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000]


def hits(n):
    """The corners 0, 1, 2, n-2, n-1, n and points between."""
    some = [0, 1, 2, n // 10, n // 2, n // 2 + 1, n * 9 // 10, n * 99 // 100, n * 999 // 1000, n - 2, n - 1, n]
    return sorted({a for a in some if 0 <= a <= n})


def text(value):
    return mp.nstr(value, 17, strip_zeros=False, min_fixed=1, max_fixed=0)


def write(name, header, rows):
    lines = ["\t".join(header)] + ["\t".join(map(str, row)) for row in rows]
    (HERE / name).write_text("\n".join(lines) + "\n")
    print(name, len(rows), "rows")


def upper_tail(a, n, p):
    """(P(X >= a), P(X = a)) for X ~ Binomial(n, p), with a above the mean."""
    q = 1 - p
    first = mp.exp(mp.loggamma(n + 1) - mp.loggamma(a + 1) - mp.loggamma(n - a + 1) + a * mp.log(p) + (n - a) * mp.log(q))
    odds, term, total, k = p / q, mp.mpf(1), mp.mpf(1), a
    while k < n and term > total * mp.mpf(10) ** -45:
        term = term * (n - k) / (k + 1) * odds
        total += term
        k += 1
    return first * total, first


def clopper_pearson(a, n, alpha):
    """p with P(Binomial(n, p) >= a) = alpha, by Newton on the logarithm."""
    if a == 0:
        return mp.mpf(0)
    alpha = mp.mpf(alpha)
    if a == n:
        return mp.power(alpha, mp.mpf(1) / n)
    p = mp.mpf(special.betaincinv(a, n - a + 1, float(alpha)))
    for _ in range(20):
        tail, pmf = upper_tail(a, n, p)
        # d P(X >= a) / dp = a/p * P(X = a)
        step = mp.log(tail / alpha) * tail / (pmf * a / p)
        p -= step
        if abs(step) < p * mp.mpf(10) ** -30:
            return p
    raise ArithmeticError((a, n, alpha))


def confidence_sequence(a, n, alpha):
    """Both roots in p of ln M_n(p) = ln 1/alpha."""
    constant = mp.loggamma(a + mp.mpf(1) / 2) + mp.loggamma(n - a + mp.mpf(1) / 2) - mp.loggamma(n + 1) - mp.log(mp.pi)

    def excess(p):
        return constant - a * mp.log(p) - (n - a) * mp.log(1 - p) + mp.log(mp.mpf(alpha))

    def root(sign):
        # in z = ln odds, from the maximum of the likelihood outwards
        centre = mp.log((mp.mpf(a) + 0.5) / (n - a + 0.5))
        inner, outer = centre, centre + sign
        p_of = lambda z: 1 / (1 + mp.exp(-z))
        while excess(p_of(outer)) < 0:
            inner, outer = outer, centre + 2 * (outer - centre)
        for _ in range(190):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if excess(p_of(middle)) < 0 else (inner, middle)
        return p_of((inner + outer) / 2)

    lower = mp.mpf(0) if a == 0 else root(-1)
    upper = mp.mpf(1) if a == n else root(+1)
    return lower, upper


def two_sided(k, n):
    """Binomial test of p = 1/2: twice the tail from the larger count on."""
    k = max(k, n - k)
    if 2 * k == n:
        return mp.mpf(1)
    return 2 * upper_tail(k, n, mp.mpf(1) / 2)[0]


def normal_quantile(p):
    p = mp.mpf(p)
    x = mp.mpf(special.ndtri(float(p)))
    for _ in range(20):
        cdf = mp.erfc(-x / mp.sqrt(2)) / 2
        step = (cdf - p) / (mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
        x -= step / (1 + x * step / 2)
        if abs(step) < mp.mpf(10) ** -40:
            return x
    raise ArithmeticError(p)


def main():
    worst = 0.0
    rows = []
    for n in SIZES:
        for a in hits(n):
            for alpha in ALPHAS:
                value = clopper_pearson(a, n, alpha)
                if 0 < a < n:
                    worst = max(worst, float(abs(stats.beta.ppf(alpha, a, n - a + 1) / value - 1)))
                rows.append((a, n, alpha, text(value), text(clopper_pearson_upper(a, n, alpha))))
    write("clopper_pearson.tsv", ("a", "n", "alpha", "lower", "upper"), rows)
    print("SciPy's beta.ppf differs by at most", worst, "relative")

    rows = []
    for n in SIZES:
        for a in hits(n):
            for alpha in ALPHAS:
                rows.append((a, n, alpha, *map(text, confidence_sequence(a, n, alpha))))
    write("confidence_sequence.tsv", ("a", "n", "alpha", "lower", "upper"), rows)

    worst = 0.0
    rows = []
    for n in SIZES:
        for k in sorted({*hits(n), *(n // 2 + int(s * np.sqrt(n)) for s in (0.5, 1, 1.5, 2, 3) if n // 2 + s * np.sqrt(n) <= n)}):
            value = two_sided(k, n)
            if value < mp.mpf(10) ** -290:
                continue  # below what f64 holds in full precision
            worst = max(worst, float(abs(stats.binomtest(k, n, 0.5).pvalue / value - 1)))
            rows.append((k, n, text(value)))
    write("binomial_test.tsv", ("k", "n", "p_value"), rows)
    print("SciPy's binomtest differs by at most", worst, "relative")

    small = [10.0**-e for e in (300, 100, 30, 15, 9, 6, 4, 3, 2, 1)]
    probabilities = [*small, 0.02, 0.025, 0.07, 0.075, 0.08, 0.2, 0.3, 0.42, 0.425, 0.43, 0.49, 0.4999, 0.5]
    probabilities += [0.5 + d for d in (2**-52, 1e-12, 1e-9, 1e-6, 1e-3, 0.01)]
    probabilities += [1 - p for p in probabilities if 1e-15 < p < 0.49]
    rows = [(repr(p), text(normal_quantile(p))) for p in sorted(set(probabilities))]
    write("normal_quantile.tsv", ("p", "x"), rows)


def clopper_pearson_upper(a, n, alpha):
    return 1 - clopper_pearson(n - a, n, alpha)


if __name__ == "__main__":
    main()
