"""Checks import and export with torchvision's and timm's networks, too large to be kept.

Run from the repository, with torch, torchvision, timm, onnx, onnxscript, onnxruntime:

    python crates/exchange/tests/check_networks.py [--out TABLE.md] [--opsets N ...] [NAME ...]

Each network gets random weights, with statistics of random images where it has batch
norms, and is exported by both of torch's exporters, as they do it unasked (a name
`timm.NAME` is timm's). For each file, `examples/differentiate.rs` imports it, computes
logits and input gradients, and exports it again with batch norms kept and folded. Compared
with PyTorch in f64, relative to the largest logit and to the gradient's norm:

| column | what | bound |
|---|---|---|
| logits | of the f32 executor, the largest difference | 1e-4 |
| f64 | input gradient by plain loops in f64, the worse image: checks the import itself | 1e-4 |
| f32 | input gradient of the f32 executor, mean of the images | 1e-4, or four times one of the next two |
| moved | how far PyTorch's f64 gradient moves where every layer rounds, the worst of four draws | |
| PyTorch's | PyTorch's own f32 gradient, mean | |
| kept, folded | ONNX Runtime's logits of what was exported from here, after ONNX's checker | 1e-4 |

A rectifier whose input is within rounding of 0 is open in one computation and closed in
another, and each one that flips moves the gradient by some 1e-4 to 1e-2 of its norm: an f32
gradient of millions of rectifiers is within 1e-4 of the one in f64 only where by chance none
flips. How much is to be expected says `moved`: PyTorch in f64, with random noise on the
output of each convolution and linear layer, as large as moves the logits as far as those of
the f32 executor are off. Without rectifiers it is of the size of the logits' error, and a
wrong gradient would stand out.

An exporter that multiplies batch norms into weights rounds these to f32, and that flips
rectifiers in f64 as well. So PyTorch's side of such a network is computed with the very
weights of the file, each found as the one that is within 1e-5 of PyTorch's (`=` beside the
name).

PyTorch's f64 gradient is itself compared with differences of its logits along one direction
for each image, with steps small enough that hardly any rectifier is passed.

With `--out`, the table is kept in this file, and what it has already is not done again.
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
from onnx import numpy_helper
from torch import nn

from cifar_networks import CifarResNet, WideResNet

NETWORKS = """resnet18 resnet50 resnext50_32x4d wide_resnet50_2 vgg11_bn densenet121 googlenet
inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 efficientnet_b0
efficientnet_v2_s regnet_y_400mf shufflenet_v2_x1_0 squeezenet1_1 convnext_tiny vit_b_16
swin_t swin_v2_t maxvit_t timm.convnext_atto timm.vit_tiny_patch16_224
timm.deit_tiny_patch16_224 timm.mixer_s32_224 timm.resmlp_12_224 timm.poolformer_s12
timm.edgenext_xx_small timm.mobilevit_xxs timm.levit_128s timm.gmlp_ti16_224 timm.resnet10t
timm.swin_tiny_patch4_window7_224 timm.hrnet_w18_small timm.efficientformerv2_s0
resnet110-cifar wide_resnet28_10""".split()
HERE = {"resnet110-cifar": lambda: CifarResNet(110), "wide_resnet28_10": WideResNet}
# Networks with these in their names are made for images of one size; the wide ResNet-50 with
# random weights amplifies rounding on smaller ones, with statistics of 16 values at its end.
FIXED = "vit deit swin mixer mlp levit efficientformer vgg inception wide_resnet50".split()
BOUND = 1e-4
COLUMNS = "network, logits, f64, f32, moved, PyTorch's, kept, folded, agrees".split(", ")


def network(name):
    """The network with random weights, and images: two small ones, or one of the size that
    the network is made for."""
    torch.manual_seed(8)
    if name in HERE:
        net, size = HERE[name](), 32
    elif name.startswith("timm."):
        net = timm.create_model(name.removeprefix("timm."))
        size = net.default_cfg["input_size"][-1]
    else:
        extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        net = torchvision.models.get_model(name, weights=None, **extra)
        size = 299 if name == "inception_v3" else 224
    if not any(part in name for part in FIXED):
        size = min(size, 64)
    return settle(net, size), torch.rand(2 if size <= 64 else 1, 3, size, size)


def batch_norms(net):
    return [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def settle(net, size):
    """The network in eval mode, with statistics of random images where it has batch norms."""
    for parameter in net.parameters():
        # What starts as 0 or nearly so would hide mistakes.
        if parameter.abs().max() < 1e-3:
            nn.init.normal_(parameter, std=0.1)
    norms = batch_norms(net)
    for norm in norms:
        norm.momentum = None  # the plain average of all batches
    if norms:
        with torch.no_grad():
            for _ in range(2):
                net(torch.rand(4, 3, size, size))
    return net.eval()


def folded(net, image):
    """A copy with each batch norm right after a convolution or a linear layer in its weights,
    and these layers."""
    net = copy.deepcopy(net)
    made, pairs = {}, []

    def record(module, inputs, output):
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            made[id(output)] = module, output
        elif isinstance(module, nn.modules.batchnorm._BatchNorm) and id(inputs[0]) in made:
            pairs.append((made[id(inputs[0])][0], module))

    hooks = [m.register_forward_hook(record) for m in net.modules()]
    with torch.no_grad():
        net(image)
        for layer, norm in pairs:
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            bias = torch.zeros_like(scale) if layer.bias is None else layer.bias
            shift = (bias - norm.running_mean) * scale + norm.bias
            layer.bias = nn.Parameter(shift)
            layer.weight *= scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
            # What is left of it is exactly the identity.
            norm.weight.fill_(1), norm.bias.fill_(0)
            norm.running_mean.fill_(0), norm.running_var.fill_(1)
            norm.eps = 0.0
    for hook in hooks:
        hook.remove()
    return net, [layer for layer, _ in pairs]


def take_weights(layers, exported):
    """Gives layers the weights of an ONNX file that are theirs but for rounding."""
    stored = [torch.from_numpy(numpy_helper.to_array(t).copy()) for t in exported.graph.initializer]
    stored = [t for t in stored if t.dtype == torch.float32]
    turned = [t.T for t in stored if t.dim() == 2]
    with torch.no_grad():
        for parameter in (p for layer in layers for p in (layer.weight, layer.bias)):
            fit = [t for t in stored + turned if t.shape == parameter.shape]
            distance = [(t - parameter).abs().max() for t in fit]
            best = min(range(len(fit)), key=distance.__getitem__, default=None)
            if best is not None and distance[best] < 1e-5 * parameter.abs().max():
                parameter.copy_(fit[best])


def differentiate(net, images, cotangents):
    """Logits and cotangents pulled back to the images, one after the other."""
    logits, gradients = [], []
    for image, cotangent in zip(images, cotangents):
        image = image[None].requires_grad_()
        logits.append(net(image))
        gradients.append(torch.autograd.grad(logits[-1], image, cotangent[None])[0])
    return torch.cat(logits).detach(), torch.cat(gradients).permute(0, 2, 3, 1)


def distances(gradients, expected):
    """Norm of the difference over the norm, image by image."""
    gradients, expected = gradients.flatten(1).double(), expected.flatten(1)
    return ((gradients - expected).norm(dim=1) / expected.norm(dim=1)).numpy()


def off_slopes(net, logits, gradients, images, cotangents):
    """How far gradients are, relative to their norm, from slopes of the logits along one
    direction for each image; of a few steps to both sides the best, as rectifiers change
    sides on others."""
    direction = torch.randn(images.shape, generator=torch.Generator().manual_seed(3)).double()
    along = (gradients * direction.permute(0, 2, 3, 1)).flatten(1).sum(1)
    off = []
    for step in (1e-8, -1e-8, 1e-9, -1e-9, 1e-10, -1e-10):
        with torch.no_grad():
            moved = net(images + step * direction)
        slopes = ((moved - logits) * cotangents).sum(1) / step
        off.append((along - slopes).abs() / gradients.flatten(1).norm(dim=1))
        best = torch.stack(off).amin(0).max().item()
        if best < 1e-5:
            break
    return best


def mended(net):
    """A copy whose gradients are right: the backward pass of batch norms in eval mode misreads
    cotangents that a mean over transposed tokens spreads (PyTorch 2.15)."""
    def lay_out(module, inputs, output):
        if output.requires_grad:
            output.register_hook(lambda cotangent: cotangent.contiguous())

    net = copy.deepcopy(net)
    for norm in batch_norms(net):
        norm.register_forward_hook(lay_out)
    return net


class Expected:
    """What PyTorch says in f64, and how far its own f32 is from it."""

    def __init__(self, net, images, cotangents):
        net = mended(net)
        _, rough = differentiate(net, images, cotangents)
        self.net = net.double()
        self.inputs = images.double(), cotangents.double()
        self.logits, self.gradients = differentiate(self.net, *self.inputs)
        off = off_slopes(self.net, self.logits, self.gradients, *self.inputs)
        if off > 1e-5:
            sys.exit(f"PyTorch's f64 gradient does not fit its logits: {off:.0e} off")
        self.pytorch = self.mean(rough)

    def off(self, gradients):
        """How far these gradients are off, image by image."""
        return distances(gradients, self.gradients)

    def mean(self, gradients):
        return float(np.mean(self.off(gradients)))

    def largest(self, logits):
        """The largest difference of these logits, relative to the largest one."""
        return ((logits.double() - self.logits).abs().max() / self.logits.abs().max()).item()

    def moved(self, target):
        """How far gradients move where noise on all layers moves the logits this far."""
        noise = torch.Generator()

        def shake(module, inputs, output):
            drawn = torch.randn(output.shape, generator=noise, dtype=output.dtype)
            return output + size * output.detach().abs().mean() * drawn

        layers = [m for m in self.net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        hooks = [layer.register_forward_hook(shake) for layer in layers]
        size = 1e-9
        with torch.no_grad():
            size *= target / self.largest(self.net(self.inputs[0]))
        moved = [self.mean(differentiate(self.net, *self.inputs)[1]) for _ in range(4)]
        for hook in hooks:
            hook.remove()
        return max(moved)

    def judge(self, out):
        """Of what `differentiate` wrote: logits, f64, f32, moved, PyTorch's; whether they
        agree."""
        shape = self.logits.shape
        logits, fast = read(f"{out}.cpu.f32", shape)
        _, plain = read(f"{out}.plain.f32", shape)
        off, exact, rough = self.largest(logits), float(self.off(plain).max()), self.mean(fast)
        moved = self.moved(off) if rough > BOUND else ""
        ok = max(off, exact) < BOUND and rough < max(BOUND, 4 * (moved or 0), 4 * self.pytorch)
        return [off, exact, rough, moved, self.pytorch], ok


def read(path, shape):
    """Logits of this shape and gradients that `differentiate` wrote."""
    values = torch.from_numpy(np.fromfile(path, dtype="<f4"))
    logits, gradients = values.split([shape.numel(), len(values) - shape.numel()])
    return logits.reshape(shape), gradients.reshape(shape[0], -1)


def write_inputs(path, images, cotangents):
    nhwc = images.permute(0, 2, 3, 1).contiguous()
    torch.save({"images": nhwc, "cotangents": cotangents}, path)


def runtime(path, images):
    """Logits by ONNX Runtime of a file that ONNX's checker takes."""
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    return torch.from_numpy(session.run(None, {name: images.numpy()})[0])


def export(net, image, file, kind, opset):
    options = {"opset_version": opset} if opset else {}
    if kind == "dynamo":
        options["verbose"] = False
    torch.onnx.export(net, (image,), file, dynamo=kind == "dynamo", **options)
    return onnx.load(file)


class Table:
    """Rows of a Markdown table, printed and kept in a file."""

    def __init__(self, path, columns):
        self.path = path
        self.columns = columns
        self.rows = {}
        if path and path.exists():
            for line in path.read_text().splitlines()[2:]:
                self.rows[line.split(" | ")[0].removeprefix("| ")] = line
        self.missed = any(not row.endswith(("| yes |", "| - |")) for row in self.rows.values())
        print(*self.head(), sep="\n", flush=True)

    def head(self):
        return ["|" + "|".join(self.columns) + "|", "|" + "---|" * len(self.columns)]

    def add(self, label, cells, verdict):
        cells = [f"{cell:.0e}" if isinstance(cell, float) else cell for cell in cells]
        cells += [""] * (len(self.columns) - 2 - len(cells))
        line = "| " + " | ".join([label, *cells, verdict]) + " |"
        self.missed |= verdict == "NO"
        self.rows[label] = line
        print(line, flush=True)
        if self.path:
            self.path.write_text("\n".join([*self.head(), *self.rows.values()]) + "\n")


def check(name, folder, program, opsets, table):
    labels = {
        (kind, opset): f"{name}, {kind}" + (f" {opset}" if opset else "")
        for kind in ["script", "dynamo"]
        for opset in opsets
    }
    done = {row.removesuffix(" =") for row in table.rows}
    labels = {key: label for key, label in labels.items() if label not in done}
    if not labels:
        return
    net, images = network(name)
    with torch.no_grad():
        classes = net(images[:1]).shape[1]
    cotangents = torch.randn(len(images), classes)
    inputs, out = folder / "inputs.pt", folder / "out"
    write_inputs(inputs, images, cotangents)
    kept, into = None, None
    for (kind, opset), label in labels.items():
        file = folder / f"{kind}.onnx"
        try:
            exported = export(net, images[:1], file, kind, opset)
        except Exception as error:
            reason = str(error).splitlines()[0][:80].replace("|", "/")
            table.add(label, [f"torch does not export it: {reason}"], "-")
            continue
        into = into or folded(net, images[:1])
        left = sum(node.op_type == "BatchNormalization" for node in exported.graph.node)
        if into[1] and left <= len(batch_norms(net)) - len(into[1]):
            take_weights(into[1], exported)
            expected, label = Expected(into[0], images, cotangents), label + " ="
        else:
            expected = kept = kept or Expected(net, images, cotangents)
        run = subprocess.run([*program, file, inputs, out], capture_output=True, text=True)
        if run.returncode != 0:
            table.add(label, [f"REFUSED: {run.stderr.strip()[:300]}"], "NO")
            continue
        row, ok = expected.judge(out)
        for fold in ["keep", "fold"]:
            try:
                row.append(expected.largest(runtime(f"{out}.{fold}.onnx", images)))
            except Exception as error:
                print(f"{label}: {error}", file=sys.stderr)
                row.append(float("inf"))
        ok &= max(row[5:]) < BOUND
        table.add(label, row, "yes" if ok else "NO")


def options(parser, columns):
    """What is asked for on the command line, the program to run, the table to fill."""
    warnings.simplefilter("ignore")  # the older exporter's, each time
    parser.add_argument("--program", help="the built example `differentiate`")
    parser.add_argument("--out", type=Path, help="keep the table here, and go on with it")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    program = "cargo run -q --release -p heatsmooth-exchange --example differentiate --".split()
    if options.program:
        program = [options.program]
    return options, program, Table(options.out, columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--opsets", type=int, nargs="*", help="instead of the exporters' own")
    asked, program, table = options(parser, COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names or NETWORKS:
            check(name, Path(folder), program, asked.opsets or [None], table)
            gc.collect()
    return table.missed


if __name__ == "__main__":
    sys.exit(main())
