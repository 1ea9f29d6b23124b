"""Checks that checkpoints are read as torchvision, timm, Cohen et al., Salman et al.,
RobustBench and the robustness package save them.

Run from the repository, with torch, torchvision and timm:

    python crates/exchange/tests/check_checkpoints.py [--out TABLE.md] [NAME ...]

None of their weights is needed: each network is built with random ones (by torchvision or
timm, or here after its public layout), with statistics of random images, and saved with
the names and the wrapping of that project. `examples/differentiate.rs` loads the file by
the built-in architecture's name; its logits and input gradients are compared with
PyTorch's in f64 by the rules of `check_networks.py`, whose columns the table has. Exit code
1 on a miss.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
import torchvision
from torch import nn

from check_networks import Expected, options, settle, write_inputs
from cifar_networks import CifarResNet, WideResNet


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


def check(name, folder, program, table):
    label = f"{name}, `{LAYOUTS[name][0]}`"
    if label in table.rows:
        return
    architecture, make, size, saved = LAYOUTS[name]
    torch.manual_seed(8)
    net = settle(make(), size)
    images = torch.rand(2 if size <= 64 else 1, 3, size, size)
    with torch.no_grad():
        classes = net(images[:1]).shape[1]
    cotangents = torch.randn(len(images), classes)
    file, inputs, out = (folder / n for n in ("checkpoint.pth.tar", "inputs.pt", "out"))
    torch.save(saved(net), file)
    write_inputs(inputs, images, cotangents)
    expected = Expected(net, images, cotangents)
    command = [*program, file, inputs, out, architecture]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        table.add(label, [f"REFUSED: {run.stderr.strip()[:300]}"], "NO")
        return
    row, ok = expected.judge(out)
    table.add(label, row, "yes" if ok else "NO")


def main():
    columns = "saved by, logits, f64, f32, moved, PyTorch's, agrees".split(", ")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked, program, table = options(parser, columns)
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names or LAYOUTS:
            check(name, Path(folder), program, table)
    return table.missed


if __name__ == "__main__":
    sys.exit(main())
