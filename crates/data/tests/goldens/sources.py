"""Writes the golden files for JPEGs, odd images, Parquet tables and ImageNet's tables.

    pip install pillow==13.0.0 numpy scipy pyarrow==26.0.1 simplejpeg==1.9.0 && python sources.py
"""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg
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
for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
    scene.save(here / f"scene-{name}.jpg", quality=90, subsampling=subsampling)
scene.save(here / "scene-progressive.jpg", quality=90, subsampling=2, progressive=True)
scene.convert("CMYK").save(here / "cmyk.jpg", quality=90)

# More kinds of JPEG, small and of awkward sizes.
noisy = np.asarray(scene).astype(float)[20:83, 30:117] + random.normal(0, 25, (63, 87, 3))
noisy = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
few = noisy.crop((0, 0, 41, 29))
few.convert("L").save(here / "jpeg-grey.jpg", quality=80)
few.convert("L").save(here / "jpeg-grey-progressive.jpg", quality=80, progressive=True)
few.save(here / "jpeg-rgb.jpg", quality=80, keep_rgb=True)
few.save(here / "jpeg-restart.jpg", quality=85, restart_marker_blocks=2)
few.save(here / "jpeg-worst.jpg", quality=3)
few.save(here / "jpeg-best.jpg", quality=100, optimize=True)
noisy.save(here / "jpeg-progressive-422.jpg", quality=60, subsampling=1, progressive=True)
noisy.save(here / "jpeg-progressive-restart.jpg", quality=60, progressive=True, restart_marker_rows=1)
few.convert("CMYK").save(here / "jpeg-cmyk-progressive.jpg", quality=80, progressive=True)
for width, height in [(1, 1), (3, 5), (4, 4), (5, 3), (16, 16), (17, 33)]:
    noisy.crop((0, 0, width, height)).save(here / f"jpeg-{width}x{height}.jpg", quality=90)
for kind in ["440", "411"]:
    bytes_ = simplejpeg.encode_jpeg(np.ascontiguousarray(noisy), 85, colorsubsampling=kind)
    (here / f"jpeg-{kind}.jpg").write_bytes(bytes_)
# Inks as Adobe's other way: the same file, said to be YCCK.
ycck = (here / "cmyk.jpg").read_bytes()
mark = ycck.index(b"Adobe") + 11
(here / "jpeg-ycck.jpg").write_bytes(ycck[:mark] + b"\x02" + ycck[mark + 1 :])
# What Pillow's decoder (libjpeg-turbo) makes of them, as RGB, before any resizing.
lines = []
for path in sorted(here.glob("*.jpg")):
    pixels = np.asarray(Image.open(path).convert("RGB"))
    lines.append(f"{hashlib.sha256(pixels.tobytes()).hexdigest()}  {path.name}\n")
(here / "jpeg.sha256").write_text("".join(lines))
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
