"""Goldens of exact noise: python grid.py (mpmath).

Tails P(J > j) = P(eta > (2j+1) / (2 levels)) of noise that is rounded to multiples
of 1/levels, in units of 2^-64, from mpmath with 60 digits. Sigma is the double that
the decimal number reads as; so are the half width sqrt(3) sigma of uniform noise and
the scale sigma / sqrt(2) of Laplace noise, which the radii use as well.
"""

import math
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
HERE = Path(__file__).parent


def tail(noise, sigma, t):
    if noise == "gaussian":
        return mp.erfc(t / mp.mpf(sigma) / mp.sqrt(2)) / 2
    if noise == "uniform":
        return max(mp.mpf(0), 1 - t / mp.mpf(math.sqrt(3.0) * sigma)) / 2
    return mp.exp(-t / mp.mpf(math.sqrt(0.5) * sigma)) / 2


REACH = {"gaussian": 9.2, "uniform": 1.74, "laplace": 32.0}
SETTINGS = [(255, 0.1), (255, 0.12), (255, 0.5), (255, 1.0), (16, 0.25), (16, 0.1), (1, 0.3)]

lines = ["noise\tlevels\tsigma\tj\tunits"]
for noise, most in REACH.items():
    for levels, sigma in SETTINGS if noise == "gaussian" else SETTINGS[:1] + SETTINGS[3:5]:
        reach = int(most * levels * sigma) + 1
        for j in sorted({0, 1, 2, *range(0, reach, max(1, reach // 24)), reach - 1, reach}):
            units = tail(noise, sigma, mp.mpf(2 * j + 1) / (2 * levels)) * mp.mpf(2) ** 64
            lines.append(f"{noise}\t{levels}\t{sigma}\t{j}\t{mp.nstr(units, 30)}")
(HERE / "grid_tails.tsv").write_text("\n".join(lines) + "\n")
print(len(lines) - 1, "rows")
