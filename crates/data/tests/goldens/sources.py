"""Writes the golden files for JPEGs, odd images, Parquet tables and ImageNet's tables.

    pip install pillow==13.0.0 numpy scipy pyarrow==26.0.1 && python sources.py
"""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from scipy.io import savemat

here = Path(__file__).parent

# A photograph-like image: smooth colours, edges and a little texture.
random = np.random.default_rng(1)
y, x = np.mgrid[0:150, 0:200]
scene = np.stack(
    [
        120 + 80 * np.sin(x / 17) * np.cos(y / 23),
        110 + 70 * np.cos(x / 29 + y / 31),
        128 + 90 * np.sin((x + y) / 41),
    ],
    axis=2,
)
scene[40:90, 60:120] = (200, 40, 30)
scene[100:, 20:80, 2] += 60
scene += random.normal(0, 6, scene.shape)
scene = Image.fromarray(np.clip(scene, 0, 255).astype(np.uint8))
# Pillow's own pixels, before any resizing: what its decoder (libjpeg-turbo) makes.
for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
    path = here / f"scene-{name}.jpg"
    scene.save(path, quality=90, subsampling=subsampling)
    (here / f"scene-{name}.bin").write_bytes(np.asarray(Image.open(path)).tobytes())
scene.save(here / "scene-progressive.jpg", quality=90, subsampling=2, progressive=True)
scene.convert("CMYK").save(here / "cmyk.jpg", quality=90)
Image.fromarray((np.asarray(scene.convert("L")).astype(np.uint16) * 257)).save(here / "sixteen.png")

# Tables as Hugging Face's datasets writes them: a structure of bytes and path, a label,
# the names of the classes in the description.
names = ["n01440764", "n01443537"]
files = ["photo.png", "soft.jpg", "grey.png", "tall.png", "scene-420.jpg"]
labels = [0, 1, 1, 0, 1]
rows = [{"bytes": (here / name).read_bytes(), "path": name} for name in files]
image = pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
about = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}}}
schema = pa.schema(
    [("image", image.type), ("label", pa.int64())],
    metadata={"huggingface": json.dumps(about)},
)
table = pa.table([image, pa.array(labels, pa.int64())], schema=schema)
pq.write_table(table, here / "snappy.parquet", row_group_size=2)
pq.write_table(table, here / "plain.parquet", compression="none", use_dictionary=False, row_group_size=3)
pq.write_table(table, here / "second.parquet", compression="gzip", data_page_version="2.0")
pq.write_table(table, here / "zstd.parquet", compression="zstd")

# ImageNet's tables in small: three classes, one inner node, four images.
synsets = [
    (1, "n01443537", "goldfish, Carassius auratus"),
    (2, "n01440764", "tench, Tinca tinca"),
    (3, "n01484850", "great white shark, white shark"),
    (4, "n00001740", "entity"),
]
array = np.zeros((len(synsets), 1), dtype=[(n, object) for n in ["ILSVRC2012_ID", "WNID", "words", "num_children"]])
for place, (number, wnid, words) in enumerate(synsets):
    array[place, 0] = (float(number), wnid, words, 0.0)
savemat(here / "meta.mat", {"synsets": array}, do_compression=True)
