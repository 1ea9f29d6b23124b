"""Checks import and export with torchvision's networks, too large to be kept.

Run from the repository, with torch, torchvision, onnx, onnxscript, onnxruntime:

    python crates/network/tests/goldens/exchange/torchvision.py FOLDER

Writes the networks with random weights and non-trivial running statistics,
exported by both exporters, and what PyTorch computes; lets the ignored test of
`import_torchvision.rs` read them, compare logits and input gradients, and
export them again; checks what it wrote with ONNX's checker and ONNX Runtime.
"""

import copy
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from torch import nn

NETWORKS = {
    "resnet18": 64,
    "resnet50": 64,
    "vgg11_bn": 224,
    "mobilenet_v3_small": 64,
    "densenet121": 64,
}


def flat(tensor):
    return tensor.detach().flatten().tolist()


def differentiate(net, images, cotangent):
    images = images.clone().requires_grad_()
    logits = net(images)
    return logits, torch.autograd.grad(logits, images, cotangent)[0]


def make(folder):
    for name, size in NETWORKS.items():
        torch.manual_seed(8)
        net = torchvision.models.get_model(name, weights=None)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.data.uniform_(0.5, 1.5)
                module.bias.data.uniform_(-0.5, 0.5)
                module.momentum = 0.5
        with torch.no_grad():
            for _ in range(3):
                net(torch.rand(4, 3, size, size))
        net.eval()
        images = torch.rand(1, 3, size, size)
        cotangent = torch.randn(1, 1000)
        _, rough = differentiate(net, images, cotangent)
        # In f64: rounding in f32 flips rectifiers near their kinks, and the
        # gradients of PyTorch itself are then up to a few percent off.
        double = copy.deepcopy(net).double()
        logits, gradient = differentiate(double, images.double(), cotangent.double())
        expected = {
            "pytorch_f32": ((rough - gradient).norm() / gradient.norm()).item(),
            "shape": [size, size, 3],
            "images": flat(images.permute(0, 2, 3, 1)),
            "logits": flat(logits),
            "cotangent": flat(cotangent),
            "gradient": flat(gradient.permute(0, 2, 3, 1)),
        }
        batch = torch.export.Dim("batch", min=1, max=64)
        # One keeps the batch norms, the other multiplies them into the weights.
        exporters = {
            "script": {
                "dynamo": False,
                "input_names": ["x"],
                "dynamic_axes": {"x": {0: "n"}},
                "do_constant_folding": False,
                "training": torch.onnx.TrainingMode.PRESERVE,
            },
            "dynamo": {"dynamo": True, "verbose": False, "dynamic_shapes": ({0: batch},)},
        }
        for exporter, options in exporters.items():
            path = folder / f"{name}-{exporter}"
            torch.onnx.export(net, (images,), f"{path}.onnx", **options)
            json.dump(expected, open(f"{path}.json", "w"))
        # The weights alone, onto our own architecture of that name.
        if name.startswith("resnet"):
            torch.save({"state_dict": net.state_dict()}, folder / f"{name}.pth")
            json.dump(expected, open(folder / f"{name}.json", "w"))
        del net, double
        gc.collect()


def check(folder):
    worst = 0.0
    for path in sorted(folder.glob("*.out.onnx")):
        onnx.checker.check_model(str(path), full_check=True)
        expected = json.load(open(folder / (path.name.split(".")[0] + ".json")))
        height, width, channels = expected["shape"]
        images = np.array(expected["images"], dtype=np.float32)
        images = images.reshape(-1, height, width, channels).transpose(0, 3, 1, 2)
        session = onnxruntime.InferenceSession(str(path))
        logits = session.run(None, {session.get_inputs()[0].name: images})[0].ravel()
        distance = np.abs(logits - np.array(expected["logits"])).max()
        print(f"{path.name}: checked, ONNX Runtime within {distance:.1e}")
        worst = max(worst, distance)
    assert worst < 1e-3, worst


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    command = "cargo test --release -p heatsmooth-network --test import_torchvision"
    subprocess.run(
        [*command.split(), "--", "--ignored", "--nocapture"],
        env=os.environ | {"HEATSMOOTH_EXCHANGE": str(folder)},
        check=True,
    )
    check(folder)
