"""Checks that checkpoints are read as torchvision, timm, Cohen et al., Salman et al.,
RobustBench and the robustness package save them.

Run from the repository, with torch, torchvision and timm:

    python crates/exchange/tests/check_checkpoints.py [--program PROGRAM] [NAME ...]

None of their weights is needed: each network is built with random ones (by torchvision or
timm, or here after its public layout), with statistics of random images, and saved with
the names and the wrapping of that project. `examples/differentiate.rs` loads the file by
the built-in architecture's name; its logits and input gradients are compared with
PyTorch's in f64 by the rules of `check_networks.py`. Exit code 1 on a miss.
"""

import argparse
import copy
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from check_networks import BOUND, IMAGES, close, differentiate, distances, read, settle, spread


class CifarBlock(nn.Module):
    """Two convolutions; a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class CifarResNet(nn.Module):
    """The ResNet of Cohen et al. and Salman et al. for CIFAR-10."""

    def __init__(self, depth, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage, width in enumerate([16, 32, 64], 1):
            blocks = []
            for block in range((depth - 2) // 6):
                stride = 2 if stage > 1 and block == 0 else 1
                blocks.append(CifarBlock(inputs, width, stride))
                inputs = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.equal = inputs == outputs
        self.convShortcut = (
            None if self.equal else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        )

    def forward(self, x):
        y = F.relu(self.bn1(x))
        z = self.conv2(F.relu(self.bn2(self.conv1(y))))
        return z + (x if self.equal else self.convShortcut(y))


class WideStage(nn.Module):
    def __init__(self, count, inputs, outputs, stride):
        super().__init__()
        first = WideBlock(inputs, outputs, stride)
        rest = [WideBlock(outputs, outputs, 1) for _ in range(count - 1)]
        self.layer = nn.Sequential(first, *rest)

    def forward(self, x):
        return self.layer(x)


class WideResNet(nn.Module):
    """RobustBench's WideResNet-28-10."""

    def __init__(self, depth=28, width=10, classes=10):
        super().__init__()
        count, widths = (depth - 4) // 6, [16, 16 * width, 32 * width, 64 * width]
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.block1 = WideStage(count, widths[0], widths[1], 1)
        self.block2 = WideStage(count, widths[1], widths[2], 2)
        self.block3 = WideStage(count, widths[2], widths[3], 2)
        self.bn1 = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], classes)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


class Normalise(nn.Module):
    """Means and deviations that are no part of the state."""

    def forward(self, x):
        return x


class Robust(nn.Module):
    """The robustness package's wrapping: a normaliser, the model, and both again inside
    the attacker."""

    def __init__(self, net):
        super().__init__()
        self.normalizer = nn.Module()
        self.normalizer.register_buffer("new_mean", torch.zeros(3, 1, 1))
        self.normalizer.register_buffer("new_std", torch.ones(3, 1, 1))
        self.model = net
        self.attacker = nn.Module()
        self.attacker.normalize = self.normalizer
        self.attacker.model = net


def parallel(net):
    """As `DataParallel` names it, without its devices."""
    wrapped = nn.Module()
    wrapped.module = net
    return wrapped


def training(net, name, key, **more):
    """A checkpoint of a training run: the state under a key, beside an optimiser's."""
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    arguments = argparse.Namespace(model=name, lr=0.1, opt="sgd")
    return {
        key: net.state_dict(),
        "epoch": 90,
        "arch": name,
        "optimizer": optimiser.state_dict(),
        "args": arguments,
        "best_acc1": np.float64(76.1),
        **more,
    }


def first_names(state):
    """torchvision's names of a transformer's linear layers before version 0.13."""
    names = {".mlp.0.": ".mlp.linear_1.", ".mlp.3.": ".mlp.linear_2."}

    def old(name):
        for new, first in names.items():
            name = name.replace(new, first)
        return name

    return {old(name): value for name, value in state.items()}


def torchvision_net(name):
    return lambda: torchvision.models.get_model(name, weights=None)


def timm_net(name):
    return lambda: timm.create_model(name)


# Layout: the built-in architecture, the network, its image size, what is saved.
LAYOUTS = {
    "torchvision resnet18": ("resnet18", torchvision_net("resnet18"), 64, lambda n: n.state_dict()),
    "torchvision resnet50, train.py": (
        "resnet50",
        torchvision_net("resnet50"),
        64,
        lambda n: training(n, "resnet50", "model", lr_scheduler={"last_epoch": 90}),
    ),
    "torchvision convnext_tiny": (
        "convnext_tiny",
        torchvision_net("convnext_tiny"),
        224,
        lambda n: n.state_dict(),
    ),
    "torchvision vit_b_16": ("vit_b_16", torchvision_net("vit_b_16"), 224, lambda n: n.state_dict()),
    "torchvision vit_b_16, first names": (
        "vit_b_16",
        torchvision_net("vit_b_16"),
        224,
        lambda n: first_names(n.state_dict()),
    ),
    "torchvision swin_t": ("swin_t", torchvision_net("swin_t"), 224, lambda n: n.state_dict()),
    "timm vit_tiny_patch16_224": (
        "vit_tiny_patch16_224",
        timm_net("vit_tiny_patch16_224"),
        224,
        lambda n: n.state_dict(),
    ),
    "timm vit_tiny_patch16_224, train.py": (
        "vit_tiny_patch16_224",
        timm_net("vit_tiny_patch16_224"),
        224,
        lambda n: training(n, "vit", "state_dict", version=2, metric=70.0),
    ),
    "timm resnet18": ("resnet18", timm_net("resnet18"), 64, lambda n: n.state_dict()),
    "Cohen, CIFAR-10": (
        "resnet110-cifar",
        lambda: CifarResNet(110),
        32,
        lambda n: training(nn.Sequential(Normalise(), n), "cifar_resnet110", "state_dict"),
    ),
    "Cohen, ImageNet": (
        "resnet50",
        torchvision_net("resnet50"),
        64,
        lambda n: training(nn.Sequential(Normalise(), parallel(n)), "resnet50", "state_dict"),
    ),
    "Salman, CIFAR-10, DataParallel": (
        "resnet110-cifar",
        lambda: CifarResNet(110),
        32,
        lambda n: training(
            nn.Sequential(Normalise(), parallel(n)), "cifar_resnet110", "state_dict"
        ),
    ),
    "RobustBench WideResNet-28-10": (
        "wide_resnet28_10",
        WideResNet,
        32,
        lambda n: {"state_dict": parallel(n).state_dict(), "epoch": 200},
    ),
    "robustness package": (
        "resnet50",
        torchvision_net("resnet50"),
        64,
        lambda n: training(parallel(Robust(n)), "resnet50", "model"),
    ),
}


def check(name, folder, program):
    architecture, make, size, saved = LAYOUTS[name]
    torch.manual_seed(8)
    net = settle(make(), size)
    images = torch.rand(IMAGES, 3, size, size)
    cotangents = torch.randn(IMAGES, net(images[:1]).shape[1])
    _, rough = differentiate(net, images, cotangents)
    double = copy.deepcopy(net).double()
    logits, gradients = differentiate(double, images.double(), cotangents.double())
    file, inputs, out = (folder / n for n in ("checkpoint.pth.tar", "inputs.pt", "out"))
    torch.save(saved(net), file)
    nhwc = images.permute(0, 2, 3, 1).contiguous()
    torch.save({"images": nhwc, "cotangents": cotangents}, inputs)
    command = [*program, file, inputs, out, architecture, "--fast"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        print(f"| {name} | `{architecture}` | REFUSED: {run.stderr.strip()[:300]} | | | | | no |")
        return True
    ours, fast = read(f"{out}.cpu.f32", IMAGES, logits.shape[1])
    off = ((ours.double() - logits).abs().max() / logits.abs().max()).item()
    gradient, pytorch = spread(distances(fast, gradients)), spread(distances(rough, gradients))
    ok = off < BOUND and close(gradient, pytorch)
    cells = " | ".join(f"{value:.0e}" for value in (off, *gradient, *pytorch))
    print(f"| {name} | `{architecture}` | {cells} | {'yes' if ok else 'NO'} |", flush=True)
    return not ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", help="the built example `differentiate`")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    program = "cargo run -q --release -p heatsmooth-exchange --example differentiate --".split()
    if options.program:
        program = [options.program]
    print("|saved by|architecture|logits|gradient, best|median|PyTorch's, best|median|agrees|")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        names = options.names or LAYOUTS
        missed = [check(name, Path(folder), program) for name in names]
    return any(missed)


if __name__ == "__main__":
    sys.exit(main())
