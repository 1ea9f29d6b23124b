"""A ResNet of PyTorch's is smoothed on the digits and handed back.

Run from the repository, with torch, onnx and onnxruntime:

    python crates/cli/tests/own_model/check.py [--make]

Lets the released binary import `resnet.onnx`, smooth it and export the result,
and compares the logits of our executor with ONNX Runtime's on the test images.
With --make, first trains that network in PyTorch and writes it with the number
of test images it has right, for `own_model.rs`.
"""

import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent


def digits():
    """Train and test split of `crates/data/assets/digits/README.md`."""
    path = HERE.parents[2] / "data/assets/digits/digits.bin.gz"
    records = np.frombuffer(gzip.open(path).read(), dtype=np.uint8).reshape(-1, 65)
    labels = records[:, 0].astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        members = np.flatnonzero(labels == label)
        k, n = np.arange(len(members)), len(members)
        test[members] = 36 * (k + 1) // n > 36 * k // n
    images = torch.from_numpy(records[:, 1:].reshape(-1, 1, 8, 8) / np.float32(16))
    labels = torch.from_numpy(labels)
    return (images[~test], labels[~test]), (images[test], labels[test])


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def resnet():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def make():
    torch.manual_seed(8)
    (images, labels), (test_images, test_labels) = digits()
    net = resnet()
    epochs, size = 12, 32
    optimiser = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(size):
            optimiser.zero_grad()
            F.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimiser.step()
        schedule.step()
    net.eval()
    torch.onnx.export(
        net,
        (images[:1],),
        HERE / "resnet.onnx",
        dynamo=False,
        input_names=["image"],
        dynamic_axes={"image": {0: "n"}},
        do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE,
    )
    with torch.no_grad():
        right = (net(test_images).argmax(1) == test_labels).sum().item()
    (HERE / "right.txt").write_text(f"{right}\n")
    print(f"resnet.onnx: {right} of {len(test_labels)} test images right")


def check(folder):
    run = lambda command: subprocess.run(command.split(), check=True)
    heatsmooth = "cargo run -q --release -p heatsmooth --"
    run(
        f"{heatsmooth} smooth --model {HERE}/resnet.onnx --data digits --sigma 0.25"
        f" --out {folder}/smoothed"
    )
    model = f"{folder}/smoothed/model.safetensors"
    _, (images, _) = digits()
    nhwc = images.permute(0, 2, 3, 1).contiguous()
    cotangents = torch.zeros(len(images), 10)
    torch.save({"images": nhwc, "cotangents": cotangents}, folder / "inputs.pt")
    differentiate = "cargo run -q --release -p heatsmooth-exchange --example differentiate --"
    run(f"{differentiate} {model} {folder}/inputs.pt {folder}/out")
    values = np.fromfile(folder / "out.cpu.f32", dtype="<f4")
    ours = values[: 10 * len(images)].reshape(-1, 10)
    for flag, name in (("", "smoothed"), (" --fold", "folded")):
        run(f"{heatsmooth} convert {model} {folder}/{name}.onnx{flag}")
        path = str(folder / f"{name}.onnx")
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path)
        logits = session.run(None, {session.get_inputs()[0].name: images.numpy()})[0]
        distance = np.abs(logits - ours).max()
        largest = np.abs(ours).max()
        print(f"{name}.onnx: checked, ONNX Runtime within {distance:.0e} of logits up to {largest:.0f}")
        assert distance < 1e-3


if __name__ == "__main__":
    if "--make" in sys.argv[1:]:
        make()
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
