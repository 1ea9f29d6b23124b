"""Writes digits.bin.gz from scikit-learn's copy of the data.

    pip download scikit-learn --no-deps && unzip scikit_learn-*.whl
    python generate.py sklearn/datasets/data/digits.csv.gz

One record of 65 bytes an image, in the order of the source: the label, then
the 64 pixels (0..16) row by row. The split is made by the reader.
"""

import gzip
import sys
from pathlib import Path

records = bytearray()
with gzip.open(sys.argv[1], "rt") as source:
    for line in source:
        *pixels, label = (int(float(value)) for value in line.split(","))
        assert len(pixels) == 64 and 0 <= label <= 9
        assert all(0 <= pixel <= 16 for pixel in pixels)
        records += bytes([label, *pixels])
assert len(records) == 1797 * 65

target = Path(__file__).with_name("digits.bin.gz")
# No name and no time in the header: the same bytes on every run.
target.write_bytes(gzip.compress(bytes(records), compresslevel=9, mtime=0))
