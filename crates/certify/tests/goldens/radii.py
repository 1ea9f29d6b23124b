"""Goldens of the radii of Lecuyer et al. and Li et al. at sigma 1: python radii.py

The formulas as the papers print them, with 40 digits.
"""

import mpmath as mp

mp.mp.dps = 40


def peak(value, low, high):
    """Largest value of a function with one peak, by thirds, ends included."""
    ends = value(low), value(high)
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if value(left) < value(right) else (low, right)
    return max(*ends, value((low + high) / 2))


def lecuyer(p):
    q = 1 - p

    def value(b):
        d = (p - mp.e ** (2 * b) * q) / (1 + mp.e**b)
        return b / mp.sqrt(2 * mp.log(mp.mpf(5) / 4 / d)) if d > 0 else mp.mpf(0)

    return peak(value, mp.mpf(0), min(mp.mpf(1), mp.log(p / q) / 2))


def li(p):
    q = 1 - p

    def value(r):
        return -2 / r * mp.log(1 - p - q + 2 * ((p ** (1 - r) + q ** (1 - r)) / 2) ** (1 / (1 - r)))

    return mp.sqrt(peak(value, mp.mpf("1.000001"), mp.mpf(3)))


for p in [0.5001, 0.6, 0.75, 0.9, 0.99, 0.999, 0.999999]:
    print(f"({p!r}, {mp.nstr(lecuyer(mp.mpf(p)), 15)}, {mp.nstr(li(mp.mpf(p)), 15)}),")
