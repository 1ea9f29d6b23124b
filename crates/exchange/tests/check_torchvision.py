"""Checks import and export with torchvision's networks, too large to be kept.

Run from the repository, with torch, torchvision, onnx, onnxscript, onnxruntime:

    python crates/exchange/tests/check_torchvision.py [FOLDER]

Five networks with random weights and running statistics gathered on random
images are exported by both of torch's exporters, and the weights of the ResNets
also saved alone. For each file, `examples/differentiate.rs` imports it,
computes logits and input gradients, and exports the network with its batch
norms kept and folded. This is compared with PyTorch in f64:

| column | what | bound |
|---|---|---|
| logits | largest difference over all images | 1e-3 |
| f64 | input gradient by plain loops in f64, in norm, one image | 1e-3 |
| median | input gradient of the fast f32 executor, in norm, median image | 1e-3, see below |
| good | images on which it is within 1e-3 | |
| PyTorch | the same two of PyTorch's own f32 gradient | |
| keep, fold | ONNX Runtime's logits of what was exported, after ONNX's checker | 1e-3 |

A rectifier whose input is within rounding of 0 is open in one computation and
closed in another. With a share p of them flipped, the gradient moves by about
sqrt(p) in norm: rounding of 1e-6 is worth 1e-3. So a gradient in f32, PyTorch's
as well as ours, is within some 1e-6 of the one in f64 on images where nothing
flips, and 1e-3 to 1e-2 off where something does. Where PyTorch's own median
image is off by more than 1e-3 in f32, ours may be by up to four times as much:
Winograd's convolutions round several times more coarsely than direct ones. The
plain loops in f64 have no such excuse; they get the image that PyTorch's f32
flips least on, as exporters that fold batch norms round the weights.

Exit code 1 on a miss.
"""

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
import torch
import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

# Name, side of the images. VGG's head exports at its own size only.
NETWORKS = {
    "resnet18": 64,
    "resnet50": 64,
    "vgg11_bn": 224,
    "mobilenet_v3_small": 64,
    "densenet121": 64,
}
IMAGES = 16
CLASSES = 1000
BOUND = 1e-3


def network(name, size):
    """Random weights, statistics of random images: activations of unit scale.

    Residual branches are small, as in trained networks: otherwise these deep
    ones are chaotic, and no two roundings of them have the same gradient.
    """
    torch.manual_seed(8)
    net = torchvision.models.get_model(name, weights=None)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.uniform_(-0.5, 0.5)
            module.momentum = None  # the plain average of all batches
    for module in net.modules():
        if isinstance(module, (BasicBlock, Bottleneck)):
            last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
            last.weight.data *= 0.2
    with torch.no_grad():
        for _ in range(4):
            net(torch.rand(16, 3, size, size))
    return net.eval()


def differentiate(net, images, cotangents):
    """Logits and cotangents pulled back to the images, one after the other."""
    logits, gradients = [], []
    for image, cotangent in zip(images, cotangents):
        image = image[None].requires_grad_()
        logits.append(net(image))
        gradients.append(torch.autograd.grad(logits[-1], image, cotangent[None])[0])
    return torch.cat(logits).detach(), torch.cat(gradients).permute(0, 2, 3, 1)


def export(net, images, path):
    """The files to be imported, by a short name."""
    batch = torch.export.Dim("batch", min=1, max=64)
    # One keeps the batch norms, the other multiplies them into the weights.
    script = {
        "dynamo": False,
        "input_names": ["x"],
        "dynamic_axes": {"x": {0: "n"}},
        "do_constant_folding": False,
        "training": torch.onnx.TrainingMode.PRESERVE,
    }
    dynamo = {"dynamo": True, "verbose": False, "dynamic_shapes": ({0: batch},)}
    files = {}
    for exporter, options in {"script": script, "dynamo": dynamo}.items():
        files[exporter] = path.with_name(f"{path.name}-{exporter}.onnx")
        torch.onnx.export(net, (images[:1],), files[exporter], **options)
    if path.name.startswith("resnet"):
        files["weights"] = path.with_name(f"{path.name}.pth")
        torch.save({"state_dict": net.state_dict()}, files["weights"])
    return files


def distances(gradients, expected):
    """Norm of the difference over the norm, image by image."""
    gradients, expected = gradients.flatten(1).double(), expected.flatten(1)
    return ((gradients - expected).norm(dim=1) / expected.norm(dim=1)).numpy()


def read(path, images):
    """Logits and gradients that `differentiate` wrote."""
    values = torch.from_numpy(np.fromfile(path, dtype="<f4"))
    logits, gradients = values.split([images * CLASSES, len(values) - images * CLASSES])
    return logits.reshape(images, -1), gradients.reshape(images, -1)


def runtime(path, images):
    """Logits by ONNX Runtime of a file that ONNX's checker takes."""
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path))
    name = session.get_inputs()[0].name
    return torch.from_numpy(session.run(None, {name: images.numpy()})[0])


def check(name, size, folder, program):
    """Prints a row for each file; true if one missed a bound."""
    net = network(name, size)
    images, cotangents = torch.rand(IMAGES, 3, size, size), torch.randn(IMAGES, CLASSES)
    _, rough = differentiate(net, images, cotangents)
    double = copy.deepcopy(net).double()
    logits, gradients = differentiate(double, images.double(), cotangents.double())
    pytorch = distances(rough, gradients)
    # The image that rounding moves least comes first.
    order = pytorch.argsort()
    images, cotangents = images[order], cotangents[order]
    logits, gradients, pytorch = logits[order], gradients[order], pytorch[order]
    inputs = folder / f"{name}-inputs.pt"
    nhwc = images.permute(0, 2, 3, 1).contiguous()
    torch.save({"images": nhwc, "cotangents": cotangents}, inputs)

    def largest(other):
        return (other.double() - logits).abs().max().item()

    def summary(distances):
        return {"median": np.median(distances), "good": int((distances < BOUND).sum())}

    missed = False
    for kind, file in export(net, images, folder / name).items():
        out = folder / f"{name}-{kind}"
        architecture = [name] if kind == "weights" else []
        subprocess.run([*program, file, inputs, out, *architecture], check=True)
        ours, fast = read(f"{out}.cpu.f32", IMAGES)
        _, plain = read(f"{out}.plain.f32", 1)
        fast, plain = distances(fast, gradients), distances(plain, gradients[:1])
        row = {
            "logits": largest(ours),
            "f64": plain[0],
            **summary(fast),
            **{f"PyTorch's {key}": value for key, value in summary(pytorch).items()},
            "keep": largest(runtime(f"{out}.keep.onnx", images)),
            "fold": largest(runtime(f"{out}.fold.onnx", images)),
        }
        bounds = dict.fromkeys(["logits", "f64", "median", "keep", "fold"], BOUND)
        if row["PyTorch's median"] > BOUND:
            bounds["median"] = 4 * row["PyTorch's median"]
        ok = all(row[key] < bound for key, bound in bounds.items())
        missed |= not ok
        show = lambda value: str(value) if isinstance(value, int) else f"{value:.0e}"
        cells = " | ".join(map(show, row.values()))
        print(f"| {name}, {kind} | {cells} | {'yes' if ok else 'MISSED'} |", flush=True)
    return missed


def main(folder):
    warnings.simplefilter("ignore")  # the older exporter's, each time
    folder.mkdir(parents=True, exist_ok=True)
    program = "cargo run -q --release -p heatsmooth-exchange --example differentiate --".split()
    columns = "network, logits, f64, median, good, PyTorch's, good, keep, fold, agrees"
    columns = columns.split(", ")
    for cells in [columns, ["---"] * len(columns)]:
        print("|" + "|".join(cells) + "|")
    missed = False
    for name, size in NETWORKS.items():
        missed |= check(name, size, folder, program)
        gc.collect()
    return missed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder)))
