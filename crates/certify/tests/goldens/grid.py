"""Goldens of exact noise: python grid.py (mpmath).

Tails P(J > j) = Phi(-(2j+1) / (2 levels sigma)) of Gaussian noise that is rounded
to multiples of 1/levels, in units of 2^-64, from mpmath with 60 digits. Sigma is
the double that the decimal number reads as.
"""

from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
HERE = Path(__file__).parent

lines = ["levels\tsigma\tj\tunits"]
for levels, sigma in [(255, 0.1), (255, 0.12), (255, 0.5), (255, 1.0), (16, 0.25), (16, 0.1), (1, 0.3)]:
    scale = 2 * levels * mp.mpf(sigma)
    reach = int(9.2 * levels * sigma) + 1
    for j in sorted({0, 1, 2, *range(0, reach, max(1, reach // 24)), reach - 1, reach}):
        tail = mp.erfc((2 * j + 1) / scale / mp.sqrt(2)) / 2
        lines.append(f"{levels}\t{sigma}\t{j}\t{mp.nstr(tail * mp.mpf(2) ** 64, 30)}")
(HERE / "grid_tails.tsv").write_text("\n".join(lines) + "\n")
print(len(lines) - 1, "rows")
