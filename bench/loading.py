"""Decode, resize and crop: heatsmooth beside a PyTorch DataLoader with torchvision, on the
same JPEGs, interleaved; wall and CPU seconds.

    python bench/loading.py HEATSMOOTH LOADING [--images 600] [--rounds 3]

HEATSMOOTH is the program (for `data pack`), LOADING the bench `loading` of the data crate.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument("heatsmooth")
parser.add_argument("loading")
parser.add_argument("--images", type=int, default=600)
parser.add_argument("--rounds", type=int, default=3)
arguments = parser.parse_args()

TORCH = """
import sys, time, torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as t
folder, train = sys.argv[1], sys.argv[2] == "train"
view = [t.RandomResizedCrop(224), t.RandomHorizontalFlip()] if train else [t.Resize(256), t.CenterCrop(224)]
data = datasets.ImageFolder(f"{folder}/{'train' if train else 'val'}", t.Compose([*view, t.ToTensor()]))
start = time.time()
count = 0
for images, _ in DataLoader(data, batch_size=32, shuffle=train, num_workers=2):
    count += len(images)
print(count / (time.time() - start))
"""


def photo(random):
    """Like a photograph of ImageNet: 500 x 375, about 110 kB at quality 90."""
    height, width = random.choice([(375, 500), (500, 375), (333, 500), (500, 500)])
    small = random.normal(128, 60, (height // 12 + 1, width // 12 + 1, 3))
    image = Image.fromarray(np.clip(small, 0, 255).astype(np.uint8)).resize((width, height), Image.BICUBIC)
    noisy = np.asarray(image, float) + random.normal(0, 9, (height, width, 1))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def run(command):
    """Images a second, and CPU seconds of all processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(output.split()[0]), cpu


with tempfile.TemporaryDirectory() as root:
    random = np.random.default_rng(0)
    size = 0
    for split in ["train", "val"]:
        for number in range(arguments.images):
            path = Path(root, "images", split, f"c{number % 4}", f"{number:05}.JPEG")
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(random).save(path, quality=90)
            size += path.stat().st_size
    print(f"{2 * arguments.images} JPEGs, {size / 2 / arguments.images / 1e3:.0f} kB each")
    images, pack = f"{root}/images", f"{root}/pack"
    subprocess.run([arguments.heatsmooth, "data", "pack", images, "--out", pack, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    for split in ["test", "train"]:
        peers = {
            "torch": [sys.executable, "-c", TORCH, images, split],
            "ours": [arguments.loading, images, split, "2"],
            "packed": [arguments.loading, pack, split, "2"],
        }
        results = {name: [] for name in peers}
        for _ in range(arguments.rounds):
            for name, command in peers.items():
                results[name].append(run(command))
        rates = {name: statistics.median(rate for rate, _ in rounds) for name, rounds in results.items()}
        for name, rounds in results.items():
            cpu = statistics.median(cpu for _, cpu in rounds)
            print(f"{split:5} {name:6} {rates[name]:8.0f} images/s, {rates[name] / rates['torch']:5.1f}x; {cpu:.2f} s of CPU, starting up included")
