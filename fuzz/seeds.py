"""Writes small inputs to start from, for readers without goldens.

    heatsmooth demo --out demo
    python fuzz/seeds.py demo [MORE...]

writes `fuzz/corpus/TARGET/*` for `idx`, `cifar`, `values`, `shards`, `pack`, `log` (from the
demo's logs, and those of further folders: `clever`, `calibrate` and intervals of real values)
and `config` (from the shipped presets).
"""

import gzip
import io
import json
import struct
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = HERE / "../crates/data/tests/goldens"
# As in `fuzz_targets/config.rs`.
COMMANDS = (
    "train-baseline train-gaussian train-smoothadv train-adversarial"
    " smooth eval certify lbound attack-pgd attack-ddn fidelity calibrate clever"
).split()
OPTIONS = 'model = "m.onnx"\ndata = "digits"\nout = "o"\nsigma = 0.25\n'


def put(target, name, content):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(content)


def idx():
    labels = struct.pack(">II", 0x801, 3) + bytes([1, 9, 0])
    images = struct.pack(">IIII", 0x803, 3, 2, 2) + bytes(range(12))
    for i, first in enumerate([labels, gzip.compress(labels)]):
        for j, second in enumerate([images, gzip.compress(images)]):
            put("idx", f"{i}{j}", struct.pack("<H", len(first)) + first + second)


def cifar():
    put("cifar", "cifar", (b"\3" + bytes(i % 251 for i in range(3072))) * 2)
    put("cifar", "digits", (b"\4" + bytes(i % 16 for i in range(64))) * 3)
    put("cifar", "tiny", (b"\5" + bytes(range(18))) * 5 + b"\12")


def values():
    put("values", "csv", b"\0path,angle,speed\n1.png,-0.5,30\n\"1.png\", 2e3 ,1\n")

    def npy(kind, shape, content):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        head = (head + " " * (-(len(head) + 11) % 64) + "\n").encode()
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + content

    images = npy("|u1", "(2, 2, 2)", bytes(range(8)))
    for name, target in [
        ("values", npy("<f4", "(2, 1)", struct.pack("<2f", 0.5, -1))),
        ("labels", npy("<i8", "(2,)", struct.pack("<2q", 0, 3))),
    ]:
        for method in [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]:
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", method) as archive:
                archive.writestr("images.npy", images)
                archive.writestr(f"{name}.npy", target)
            put("values", f"{name}-{method}", b"\xff" + file.getvalue())


def shards():
    small = [(IMAGES / name).read_bytes() for name in ("jpeg-4x4.jpg", "jpeg-grey.jpg")]
    kinds = {
        "keys": [("0.jpg", small[0]), ("0.cls", b"1"), ("1.jpg", small[1]), ("1.cls", b"0")],
        "json": [("0.json", b'{"label": 1}'), ("0.jpg", small[0])],
        "classes": [("ant/0.jpg", small[0]), ("bee/0.jpg", small[1])],
    }
    for kind, files in kinds.items():
        for form in [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]:
            file = io.BytesIO()
            with tarfile.open(fileobj=file, mode="w", format=form) as archive:
                for name, content in files:
                    about = tarfile.TarInfo(name)
                    about.size = len(content)
                    archive.addfile(about, io.BytesIO(content))
            put("shards", f"{kind}-{form}", file.getvalue())


def pack():
    view = {"height": 8, "width": 8, "channels": 3, "short_side": 8}
    sizes, pixels, images = [(8, 8), (8, 11)], b"", []
    for label, (height, width) in enumerate(sizes):
        image = bytes(i * 7 % 256 for i in range(height * width * 3))
        place = {"at": len(pixels), "height": height, "width": width}
        images.append({**place, "label": label, "crc": zlib.crc32(image)})
        pixels += image
    key = f"{64 * '0'} 8x8x3 short side 8"
    table = json.dumps({"key": key, "images": images, "left_out": []}).encode()
    part = pixels + table + struct.pack("<Q", len(table)) + b"hs-pack1"
    about = {"format": "heatsmooth-pack", "version": 1, "source": "a", "source_sha256": 64 * "0"}
    about |= {"view": view, "classes": ["ant", "bee"], "words": [], "labelled": True}
    about |= {"parts": 1, "images": 2, "left_out": []}
    about = json.dumps(about).encode()
    put("pack", "pack", struct.pack("<H", len(about)) + about + part)


def log(folders):
    for demo in folders:
        logs(demo)


def logs(demo):
    for path in demo.glob("*.tsv"):
        manifest = json.loads(path.with_suffix(".json").read_text())
        lines = path.read_bytes().splitlines(keepends=True)[:5]
        put("log", path.stem, json.dumps(manifest).encode() + b"\0" + b"".join(lines))
        # Four images are all of it: what can be merged.
        manifest["selection"] |= {"end": 4, "shard": {"index": 1, "count": 1}}
        put("log", f"{path.stem}-all", json.dumps(manifest).encode() + b"\0" + b"".join(lines))
    for name in ["run.json", "gallery.json"]:
        for path in list(demo.glob(f"*/{name}"))[:2]:
            put("log", f"{path.parent.name}-{path.stem}", path.read_bytes())
    for path in list(demo.glob("*/epochs.tsv"))[:2]:
        put("log", f"{path.parent.name}-epochs", b"\0" + path.read_bytes())


def config():
    for number, command in enumerate(COMMANDS):
        put("config", command, bytes([number]) + OPTIONS.encode())
        method = "heat" if command == "smooth" else command.removeprefix("train-")
        for path in HERE.glob(f"../crates/heatsmooth/presets/{method}-*.toml"):
            content = bytes([number]) + OPTIONS.encode() + path.read_bytes()
            put("config", path.stem, content)


if __name__ == "__main__":
    idx()
    cifar()
    values()
    shards()
    pack()
    log(map(Path, sys.argv[1:]))
    config()
