"""Checks the import of torchvision's and timm's networks of today.

Run from the repository, with torch, torchvision, timm, onnx, onnxscript, onnxruntime:

    python crates/exchange/tests/check_networks.py [--folder FOLDER] [NAME ...]

Each network gets random weights, with statistics of random images where it has batch
norms, and is exported by both of torch's exporters (a name `timm.NAME` is timm's). For
each file, `examples/differentiate.rs` imports it, computes logits and input gradients,
and exports it again. Compared with PyTorch in f64, relative to the largest logit and to
the gradient's norm:

| column | what | bound |
|---|---|---|
| logits | largest difference | 1e-4 |
| gradient | of the f32 executor: the best of 5 images, the median one | 1e-4, see below |
| PyTorch's | the same of PyTorch's own f32 gradient | |
| back | ONNX Runtime's logits of what was exported from here | 1e-4 |

A rectifier whose input is within rounding of 0 is open in one computation and closed in
another; so networks of rectifiers miss 1e-4 on some images in PyTorch's f32 as here. A
wrong import would be wrong on every image: the best one must be within 1e-4, or, where
PyTorch's own median image is not, the median one within 4 times that.

PyTorch's f64 gradient is itself compared with central differences of its logits along one
direction for each image. Where the two are more than 1e-5 of the gradient's norm apart, it
is torch that is wrong (2.15: a mean over transposed tokens behind a convolution), and all
gradients are compared with these differences instead; such rows have a star.

Exit code 1 on a miss.
"""

import argparse
import copy
import gc
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import timm
import torch
import torchvision
from torch import nn

NETWORKS = """resnet18 resnet50 resnext50_32x4d wide_resnet50_2 vgg11_bn densenet121 googlenet
inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 efficientnet_b0
efficientnet_v2_s regnet_y_400mf shufflenet_v2_x1_0 squeezenet1_1 convnext_tiny vit_b_16
swin_t swin_v2_t maxvit_t timm.convnext_atto timm.vit_tiny_patch16_224
timm.deit_tiny_patch16_224 timm.mixer_s32_224 timm.resmlp_12_224 timm.poolformer_s12
timm.edgenext_xx_small timm.mobilevit_xxs timm.levit_128s timm.gmlp_ti16_224 timm.resnet10t
timm.swin_tiny_patch4_window7_224 timm.hrnet_w18_small timm.efficientformerv2_s0""".split()
IMAGES = 5
BOUND = 1e-4


def network(name):
    """Random weights of unit scale; statistics of random images."""
    torch.manual_seed(8)
    if name.startswith("timm."):
        net = timm.create_model(name.removeprefix("timm."))
        size = net.default_cfg["input_size"][-1]
    else:
        extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        net = torchvision.models.get_model(name, weights=None, **extra)
        size = 299 if name == "inception_v3" else 224
    return settle(net, size), size


def settle(net, size):
    """The network in eval mode, with statistics of random images where it has batch norms."""
    for parameter in net.parameters():
        # What starts as 0 or nearly so would hide mistakes.
        if parameter.abs().max() < 1e-3:
            nn.init.normal_(parameter, std=0.1)
    norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None
    if norms:
        with torch.no_grad():
            for _ in range(2):
                net(torch.rand(4, 3, size, size))
    return net.eval()


def differentiate(net, images, cotangents):
    logits, gradients = [], []
    for image, cotangent in zip(images, cotangents):
        image = image[None].requires_grad_()
        logits.append(net(image))
        gradients.append(torch.autograd.grad(logits[-1], image, cotangent[None])[0])
    return torch.cat(logits).detach(), torch.cat(gradients).permute(0, 2, 3, 1)


def distances(gradients, expected):
    gradients, expected = gradients.flatten(1).double(), expected.flatten(1)
    return ((gradients - expected).norm(dim=1) / expected.norm(dim=1)).numpy()


def directions(images):
    """One for each image."""
    return torch.randn(images.shape, generator=torch.Generator().manual_seed(3)).double()


def directional(net, images, cotangents, directions, step=1e-6):
    """Slopes of `cotangent . logits` along one direction for each image, by differences."""
    with torch.no_grad():
        ends = [net(images + sign * step * directions) for sign in (1, -1)]
    return ((ends[0] - ends[1]) * cotangents).sum(1) / (2 * step)


def off_slopes(gradients, slopes, images):
    """How far gradients are from these slopes, relative to their norm."""
    gradients = gradients.flatten(1).double()
    along = directions(images).permute(0, 2, 3, 1).flatten(1)
    return (((gradients * along).sum(1) - slopes).abs() / gradients.norm(dim=1)).numpy()


def spread(distances):
    """The best image, and the median one."""
    return float(distances.min()), float(np.median(distances))


def close(gradient, pytorch):
    """The best image is good, or the median one about as bad as PyTorch's."""
    return gradient[0] < BOUND or BOUND < pytorch[1] and gradient[1] < 4 * pytorch[1]


def read(path, images, classes):
    values = torch.from_numpy(np.fromfile(path, dtype="<f4"))
    logits, gradients = values.split([images * classes, len(values) - images * classes])
    return logits.reshape(images, -1), gradients.reshape(images, -1)


def runtime(path, images):
    """Logits by ONNX Runtime of a file that ONNX's checker takes."""
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    return torch.from_numpy(session.run(None, {name: images.numpy()})[0])


def check(name, folder, program, opsets):
    net, size = network(name)
    images = torch.rand(IMAGES, 3, size, size)
    with torch.no_grad():
        classes = net(images[:1]).shape[1]
    cotangents = torch.randn(IMAGES, classes)
    _, rough = differentiate(net, images, cotangents)
    double = copy.deepcopy(net).double()
    logits, gradients = differentiate(double, images.double(), cotangents.double())
    slopes = directional(double, images.double(), cotangents.double(), directions(images))
    del double
    # torch's own f64 gradient may be wrong: where it does not fit its logits, those count.
    trusted = off_slopes(gradients, slopes, images).max() < 1e-5
    compare = lambda g: distances(g, gradients) if trusted else off_slopes(g, slopes, images)
    pytorch = spread(compare(rough))
    inputs = folder / "inputs.pt"
    nhwc = images.permute(0, 2, 3, 1).contiguous()
    torch.save({"images": nhwc, "cotangents": cotangents}, inputs)
    scale = logits.abs().max()
    missed = False
    for kind in ["script", "dynamo"]:
        for opset in opsets:
            file, out = folder / f"{kind}.onnx", folder / "out"
            label = f"{name}, {kind}" + (f" {opset}" if opset else "") + ("" if trusted else " *")
            try:
                options = {"opset_version": opset} if opset else {}
                if kind == "dynamo":
                    options["verbose"] = False
                torch.onnx.export(net, (images[:1],), file, dynamo=kind == "dynamo", **options)
            except Exception as error:
                reason = str(error).splitlines()[0][:60]
                print(f"| {label} | not exported by torch: {reason} | | | | | | - |", flush=True)
                continue
            run = subprocess.run([*program, file, inputs, out, "--fast"], capture_output=True, text=True)
            if run.returncode != 0:
                print(f"| {label} | REFUSED: {run.stderr.strip()[:300]} | | | | | | NO |", flush=True)
                missed = True
                continue
            ours, fast = read(f"{out}.cpu.f32", IMAGES, classes)
            largest = lambda other: ((other.double() - logits).abs().max() / scale).item()
            gradient = spread(compare(fast))
            try:
                again = largest(runtime(f"{out}.keep.onnx", images))
            except Exception as error:
                print(f"{label}: {error}", file=sys.stderr)
                again = float("inf")
            row = [largest(ours), *gradient, *pytorch, again]
            ok = row[0] < BOUND and close(gradient, pytorch) and again < BOUND
            missed |= not ok
            cells = " | ".join(f"{value:.0e}" for value in row)
            print(f"| {label} | {cells} | {'yes' if ok else 'NO'} |", flush=True)
    return missed


def main():
    warnings.simplefilter("ignore")  # the older exporter's, each time
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--program", help="the built example `differentiate`")
    parser.add_argument("--opsets", type=int, nargs="*", help="instead of the exporters' own")
    parser.add_argument("names", nargs="*", default=NETWORKS)
    options = parser.parse_args()
    program = "cargo run -q --release -p heatsmooth-exchange --example differentiate --".split()
    if options.program:
        program = [options.program]
    print("|network|logits|gradient, best|median|PyTorch's, best|median|back|agrees|")
    print("|---|---|---|---|---|---|---|---|")
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = options.folder or Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or NETWORKS:
            missed |= check(name, folder, program, options.opsets or [None])
            gc.collect()
    return missed


if __name__ == "__main__":
    sys.exit(main())
