"""Speed and agreement on a ResNet-20, beside the program and beside a plain loop of torch.

    python tools/measure.py WEIGHTS.th --data cifar10 --program heatsmooth --images 4 --n 1000

Figures of speed are ratios of times taken in turn, the smallest of ``--rounds``.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import heatsmooth as hs
import heatsmooth.torch as hst

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Block(nn.Module):
    """A basic block whose shortcut subsamples and pads with zeros (He et al., option A)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = 1 if before == after else 2
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.more = (after - before) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        short = x[:, :, :: self.stride, :: self.stride]
        return functional.relu(y + functional.pad(short, (0, 0, 0, 0, self.more, self.more)))


class ResNet20(nn.Module):
    """The network of the published weights, input normalisation included."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        blocks = [Block(a, b) for a, b in itertools.pairwise(widths)]
        self.layer1, self.layer2, self.layer3 = (nn.Sequential(*blocks[i : i + 3]) for i in (0, 3, 6))
        self.linear = nn.Linear(64, 10)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1((x - self.mean) / self.std)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def seconds(work) -> float:
    """How long something takes."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--program", default="heatsmooth")
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--sigma", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    said = parser.parse_args()
    module = ResNet20()
    weights = torch.load(said.weights, map_location="cpu", weights_only=True)["state_dict"]
    module.load_state_dict({name.removeprefix("module."): value for name, value in weights.items()})
    module.eval()
    folder = Path(tempfile.mkdtemp())
    native = hs.load(said.weights, arch="resnet20-cifar", input="32x32x3", classes=10, normalise="imagenet").save(
        folder / "native.safetensors"
    )
    count = iter(range(1_000_000))
    keywords = {"sigma": said.sigma, "n": said.n, "images": said.images, "progress": False}

    def ours() -> hs.Measured:
        return hs.certify(native, said.data, out=folder / f"{next(count)}.tsv", **keywords)

    def program() -> Path:
        log = folder / f"{next(count)}.tsv"
        words = f"certify --model {native} --data {said.data} --sigma {said.sigma} --n {said.n}"
        words = f"{words} --images 0..{said.images} --out {log} --quiet"
        subprocess.run([said.program, *words.split()], check=True, capture_output=True)
        return log

    def spent(table: dict) -> float:
        return sum(table["time"])

    # The time of the rows themselves: starting a program, or Python, is not certification.
    here, there = [], []
    for _ in range(said.rounds):
        here.append(spent(ours().to_dict()))
        there.append(spent(hs._core.Table(str(program())).to_dict()))
    print(f"certification, native: Python {min(here):.2f} s, program {min(there):.2f} s")
    print(f"  Python runs at {100 * min(there) / min(here):.1f} % of the program's speed")

    model = hst.wrap(module, (32, 32, 3), classes=hs.read(said.data, images=range(1)).classes)
    images = torch.from_numpy(hs.read(said.data, images=range(said.images)).array / np.float32(255))
    images = images.permute(0, 3, 1, 2).contiguous()

    def plain() -> None:
        with torch.inference_mode():
            for image in images:
                counts = torch.zeros(10)
                left = said.n + 100 + 1
                while left > 0:
                    here = min(left, 256)
                    batch = image.repeat(here, 1, 1, 1)
                    votes = module(batch + said.sigma * torch.randn_like(batch)).argmax(1)
                    counts += torch.bincount(votes, minlength=10)
                    left -= here

    logs = []

    def on_torch() -> None:
        logs.append(hs.certify(model, said.data, out=folder / f"{next(count)}.tsv", **keywords))

    device, loop = [], []
    for _ in range(said.rounds):
        device.append(seconds(on_torch))
        loop.append(seconds(plain))
    print(f"the same passes in torch: device {min(device):.2f} s, plain loop {min(loop):.2f} s")
    print(f"  overhead {100 * (min(device) / min(loop) - 1):.1f} %")
    a, b = ours().to_dict(), logs[-1].to_dict()
    same = sum(x == y for x, y in zip(a["n_a"], b["n_a"], strict=True))
    apart = max(abs(x - y) for x, y in zip(a["n_a"], b["n_a"], strict=True))
    print(f"counts: {same} of {len(a['n_a'])} images the same, the others at most {apart} apart")


if __name__ == "__main__":
    main()
