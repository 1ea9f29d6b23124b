"""The other side of bench/compare: networks in PyTorch, measured there and in
ONNX Runtime.

    peer.py versions
    peer.py cuda
    peer.py prepare FOLDER ARCH BATCH...
    peer.py serve FOLDER ARCH WORK BATCH ENGINE CONFIGURATION THREADS SECONDS DEVICE

`serve` gets everything ready, compilation included, and then measures once for
each line on its standard input.

Parameter names are those of heatsmooth's built-in networks.
"""

import copy
import json
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch._functorch import config as functorch

# Side of an image and number of classes.
TASKS = dict.fromkeys(["resnet50", "vit_b_16", "convnext_tiny"], (224, 1000))


class ShiftNorm(nn.Module):
    """Batch norm without scale but with a shift."""

    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("ones", torch.ones(channels), persistent=False)

    def forward(self, x):
        state = (self.running_mean, self.running_var, self.ones, self.bias)
        return F.batch_norm(x, *state, self.training, 0.1, 1e-5)


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Basic(nn.Module):
    def __init__(self, inputs, channels, stride, norm, shortcut):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, channels, 3, stride), norm(channels)
        self.conv2, self.bn2 = conv(channels, channels, 3), norm(channels)
        self.option_a = shortcut == "A" and (stride > 1 or inputs != channels)
        self.channels = channels
        self.downsample = None
        if shortcut == "B" and (stride > 1 or inputs != channels):
            self.downsample = nn.Sequential(conv(inputs, channels, 1, stride), norm(channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.option_a:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.channels // 4, self.channels // 4))
        elif self.downsample is not None:
            x = self.downsample(x)
        return F.relu(y + x)


class Bottleneck(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, channels, 1), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = conv(channels, channels, 3, stride), nn.BatchNorm2d(channels)
        self.conv3, self.bn3 = conv(channels, 4 * channels, 1), nn.BatchNorm2d(4 * channels)
        self.downsample = None
        if stride > 1 or inputs != 4 * channels:
            project = conv(inputs, 4 * channels, 1, stride)
            self.downsample = nn.Sequential(project, nn.BatchNorm2d(4 * channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Cifar(nn.Module):
    """He et al.'s ResNets with option-A shortcuts."""

    def __init__(self, blocks, classes):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), nn.BatchNorm2d(16)
        inputs = 16
        for stage, channels in ((1, 16), (2, 32), (3, 64)):
            layers = []
            for block in range(blocks):
                stride = 2 if stage > 1 and block == 0 else 1
                layers.append(Basic(inputs, channels, stride, nn.BatchNorm2d, "A"))
                inputs = channels
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class Transition(nn.Module):
    def __init__(self, inputs, channels):
        super().__init__()
        self.conv, self.bn = conv(inputs, channels, 1), ShiftNorm(channels)

    def forward(self, x):
        return F.avg_pool2d(F.relu(self.bn(self.conv(x))), 2)


class Paper(nn.Module):
    """The paper's ResNet-34 for CIFAR-10."""

    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), ShiftNorm(16)
        for stage, channels in ((1, 16), (2, 32), (3, 64)):
            if stage > 1:
                setattr(self, f"transition{stage}", Transition(channels // 2, channels))
            blocks = (Basic(channels, channels, 1, ShiftNorm, "") for _ in range(5))
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, classes, bias=False)
        self.bn2 = ShiftNorm(classes)

    def forward(self, x):
        x = self.layer1(F.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.transition2(x))
        x = self.layer3(self.transition3(x))
        return self.bn2(self.linear(x.mean((2, 3))))


class Wide(nn.Module):
    """torchvision's layout, 64 to 512 channels."""

    def __init__(self, blocks, classes, small, bottleneck):
        super().__init__()
        self.small = small
        self.conv1 = conv(3, 64, 3) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, count in enumerate(blocks):
            channels, layers = 64 << stage, []
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                if bottleneck:
                    layers.append(Bottleneck(inputs, channels, stride))
                    inputs = 4 * channels
                else:
                    layers.append(Basic(inputs, channels, stride, nn.BatchNorm2d, "B"))
                    inputs = channels
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def network(arch):
    _, classes = TASKS.get(arch, (32, 10))
    return {
        "resnet20-cifar": lambda: Cifar(3, classes),
        "resnet34-cifar": lambda: Paper(classes),
        "resnet34-wide-cifar": lambda: Wide((3, 4, 6, 3), classes, True, False),
        "resnet50": lambda: Wide((3, 4, 6, 3), classes, False, True),
        "vit_b_16": lambda: torchvision.models.vit_b_16(num_classes=classes),
        "convnext_tiny": lambda: torchvision.models.convnext_tiny(num_classes=classes),
    }[arch]()


def pattern(arch):
    """The image of `heatsmooth bench`: (i * 7919 mod 256) / 255 in NHWC order."""
    side, _ = TASKS.get(arch, (32, 10))
    values = (torch.arange(side * side * 3) * 7919 % 256).float() / 255
    return values.reshape(1, side, side, 3).permute(0, 3, 1, 2).contiguous()


def prepare(folder, arch, batches):
    """Random weights with plausible running statistics, as checkpoint and ONNX."""
    torch.manual_seed(0)
    net = network(arch)
    side, _ = TASKS.get(arch, (32, 10))
    net.train()
    with torch.no_grad():
        for _ in range(2 if side > 32 else 20):
            net(torch.rand(8 if side > 32 else 64, 3, side, side))
        for name, value in net.named_parameters():
            # Heads that start at zero would hide everything before them.
            if value.dim() == 1 or not value.any():
                value.add_(0.1 * torch.randn_like(value))
    net.eval()
    warnings.simplefilter("ignore")
    torch.save(net.state_dict(), folder / f"{arch}.pth")
    for batch in sorted({1, *batches}):
        image = pattern(arch).expand(batch, -1, -1, -1).contiguous()
        torch.onnx.export(
            net, (image,), str(folder / f"{arch}-{batch}.onnx"),
            input_names=["x"], output_names=["y"], dynamo=False,
        )


def macs(arch):
    """Multiply-adds of one image's forward pass, done directly."""
    net, counts = network(arch).eval(), []

    def count(layer, inputs, output):
        counts.append(output.numel() * layer.weight[0].numel())

    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.register_forward_hook(count)
    with torch.no_grad():
        net(pattern(arch))
    return sum(counts)


# Steps in one call of the work; times are those of one step.
STEPS = {"pgd": 20}


def pgd(net, images, labels):
    """PGD in L2 as `heatsmooth attack pgd` runs it, no image done early."""
    steps, eps = STEPS["pgd"], 4.0
    norm = lambda v: v.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    x = images.clone()
    for _ in range(steps):
        x.requires_grad_(True)
        logits = net(x)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        with torch.no_grad():
            moved = x + 2 * eps / steps * gradient / norm(gradient).clamp_min(1e-30)
            change = moved.clamp_(0, 1) - images
            x = images + change * (eps / norm(change).clamp_min(1e-30)).clamp_max(1)
    return x


# Projections of a heat step, and its other settings; they do not change its cost.
KAPPA, FD_STEP, FACTOR = 10, 0.1, 0.025


def projection(logits):
    return torch.randn_like(logits) / logits.shape[1] ** 0.5


def direction(weighted, x):
    (gradient,) = torch.autograd.grad(weighted.sum(), x, retain_graph=True)
    norm = gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    return gradient / norm.clamp_min(1e-30)


def heat_as_published(student, teacher, images):
    """A step in the authors' form: for each projection another pass on the clean
    images, and one backward pass through all of them at the end: 22 forwards,
    10 input gradients, 21 backwards."""
    with torch.no_grad():
        target = teacher(images)
    loss = 0.5 * (student(images) - target).square().sum(1).mean()
    for _ in range(KAPPA):
        x = images.clone().requires_grad_(True)
        clean = student(x)
        w = projection(clean)
        moved = student(images + FD_STEP * direction(w * clean, x))
        difference = (w * (moved - clean)).sum(1) / FD_STEP
        loss = loss + FACTOR * difference.square().mean()
    loss.backward()


def heat(student, teacher, images):
    """The same step in its best form, which is ours: one clean pass, and a
    backward pass through each moved one as soon as it is there."""
    with torch.no_grad():
        target = teacher(images)
    x = images.clone().requires_grad_(True)
    clean = student(x)
    cotangent = (clean.detach() - target) / len(images)
    for _ in range(KAPPA):
        w = projection(clean)
        moved = student(images + FD_STEP * direction(w * clean, x))
        difference = (w * (moved - clean.detach())).sum(1, keepdim=True) / FD_STEP
        (FACTOR * difference.square().mean()).backward()
        cotangent -= 2 * FACTOR / FD_STEP / len(images) * difference.detach() * w
    clean.backward(cotangent)


def average(student, teacher, images):
    """A step of averaging: two draws of noise, mirrored; noise on half of the
    inputs; the student's batch norms with their running statistics."""
    with torch.no_grad():
        x = images.clone()
        noisy = x[: len(x) // 2]
        noisy += 0.1 * torch.randn_like(noisy)
        noise = 0.1 * torch.randn_like(x)
        target = (teacher(x + noise).softmax(1) + teacher(x - noise).softmax(1)) / 2
    F.kl_div(student(x).log_softmax(1), target, reduction="batchmean").backward()


def steps_of(net, work, images, labels, engine, configuration):
    """The work as a function without arguments, and the logits of the pattern."""
    if configuration == "channels-last":
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    if configuration == "compiled":
        # A graph that is kept is pulled back more than once.
        functorch.donated_buffer = False
        net = torch.compile(net)
    if work in ("heat", "heat-as-published", "average"):
        teacher = copy.deepcopy(net).eval()
        net.train(work != "average")
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=0.9)
        step = {"heat": heat, "heat-as-published": heat_as_published, "average": average}[work]

        def run():
            optimiser.zero_grad()
            step(net, teacher, images)
            optimiser.step()

        return run
    if work in ("train", "input-gradient", "pgd"):
        net.train(work == "train")
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=0.9, weight_decay=5e-4)
        if work != "train":
            for parameter in net.parameters():
                parameter.requires_grad_(False)
        if work == "pgd":
            return lambda: pgd(net, images, labels)

        def run():
            x = images
            if work == "input-gradient":
                x = images.clone().requires_grad_(True)
            loss = F.cross_entropy(net(x), labels)
            if work == "train":
                optimiser.zero_grad()
            loss.backward()
            if work == "train":
                optimiser.step()

        return run
    net.eval()

    def run():
        with torch.inference_mode():
            if work.startswith("noisy"):
                noise = torch.randn_like(images)
                net(images + 0.1 * noise)
            else:
                net(images)

    return run


def ready(folder, arch, work, batch, engine, configuration, threads, device):
    """The work, warmed up, and the logits of the pattern."""
    torch.set_num_threads(threads)
    side, _ = TASKS.get(arch, (32, 10))
    images = torch.rand(batch, 3, side, side)
    if engine == "onnxruntime":
        import numpy as np
        import onnxruntime as ort

        def session(size):
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            path = str(folder / f"{arch}-{size}.onnx")
            return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        logits = session(1).run(None, {"x": pattern(arch).numpy()})[0][0].tolist()
        main, pixels = session(batch), images.numpy()
        random = np.random.default_rng(0)

        def run():
            x = pixels
            if work.startswith("noisy"):
                noise = random.standard_normal(pixels.shape, dtype=np.float32)
                x = pixels + np.float32(0.1) * noise
            main.run(None, {"x": x})
    else:
        net = network(arch)
        net.load_state_dict(torch.load(folder / f"{arch}.pth"))
        net, images = net.eval().to(device), images.to(device)
        with torch.inference_mode():
            logits = net(pattern(arch).to(device))[0].tolist()
        labels = (torch.arange(batch) % len(logits)).to(device)
        step = steps_of(net, work, images, labels, engine, configuration)

        def run():
            step()
            if device != "cpu":
                torch.cuda.synchronize()

    start = time.perf_counter()
    run()
    while time.perf_counter() - start < 1:
        run()
    return run, logits


def measure(run, seconds):
    """Median time of one call. The first one wakes the threads, so it counts only
    where a call is longer than a measurement should take."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    if first > seconds:
        return first
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def serve(folder, arch, work, batch, engine, configuration, threads, seconds, device):
    run, logits = ready(folder, arch, work, batch, engine, configuration, threads, device)
    print(json.dumps({"logits": logits}), flush=True)
    for _ in sys.stdin:
        result = {
            "images_per_second": batch * STEPS.get(work, 1) / measure(run, seconds),
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(result), flush=True)


def main():
    command, *rest = sys.argv[1:]
    if command == "versions":
        import onnxruntime

        print(json.dumps({"PyTorch": torch.__version__, "ONNX Runtime": onnxruntime.__version__}))
    elif command == "cuda":
        print(json.dumps(torch.cuda.is_available()))
    elif command == "macs":
        print(json.dumps({arch: macs(arch) for arch in rest}))
    elif command == "prepare":
        prepare(Path(rest[0]), rest[1], [int(b) for b in rest[2:]])
    else:
        folder, arch, work, batch, engine, configuration, threads, seconds, device = rest
        threads, seconds = int(threads), float(seconds)
        serve(Path(folder), arch, work, int(batch), engine, configuration, threads, seconds, device)


if __name__ == "__main__":
    main()
