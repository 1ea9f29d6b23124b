"""Goldens of the verbs from PyTorch: run `python generate.py` in this folder.

A small residual network with everything that makes train mode hard (batch norm
with and without scale, a strided projection, max and average pooling, batch
norm on the logits): weights, images, logits in both modes, running statistics
after one train-mode pass, and gradients of sum(cotangent * logits).
"""
import json
import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Shift(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.bias = nn.Parameter(torch.randn(channels) * 0.3)

    def forward(self, x):
        return self.norm(x) + self.bias.view(1, -1, 1, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=True)
        self.bn2 = Shift(12)
        self.conv3 = nn.Conv2d(12, 12, 3, padding=1, groups=2, bias=False)
        self.bn3 = nn.BatchNorm2d(12)
        self.project = nn.Conv2d(8, 12, 1, stride=2, bias=False)
        self.project_bn = nn.BatchNorm2d(12)
        self.average = nn.AvgPool2d(2, 1)
        self.linear = nn.Linear(12 * 2 * 2, 5)
        self.bn4 = nn.BatchNorm1d(5)

    def forward(self, x):
        x = (x - 0.45) / 0.25
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        y = torch.relu(self.bn2(self.conv2(x)))
        y = self.bn3(self.conv3(y)) + self.project_bn(self.project(x))
        y = self.average(torch.relu(y))
        return self.bn4(self.linear(torch.flatten(y, 1)))


net = Net()
for name, p in net.named_parameters():
    with torch.no_grad():
        if "bn" in name:
            p.add_(0.2 * torch.randn_like(p))
        p.copy_(p.float().double())
for name, b in net.named_buffers():
    if name.endswith("running_mean"):
        b.copy_((0.2 * torch.randn_like(b)).float())
    if name.endswith("running_var"):
        b.copy_((1 + 0.3 * torch.rand_like(b)).float())

x = torch.rand(4, 3, 12, 12).float().double()
cotangent = torch.randn(4, 5).float().double()


def ours(name):
    return name.replace("bn2.norm.", "bn2.")


def flat(t):
    return [float(v) for v in t.detach().reshape(-1)]


def nhwc(t):
    return flat(t.permute(0, 2, 3, 1).contiguous())


golden = {
    "parameters": {ours(n): flat(t) for n, t in net.state_dict().items() if "num_batches" not in n},
    "images": nhwc(x),
    "cotangent": flat(cotangent),
}
for mode in ["eval", "train"]:
    net.train(mode == "train")
    net.zero_grad()
    z = x.clone().requires_grad_(True)
    logits = net(z)
    (logits * cotangent).sum().backward()
    golden[mode] = {
        "logits": flat(logits),
        "input_gradient": nhwc(z.grad),
        "gradients": {ours(n): flat(p.grad) for n, p in net.named_parameters()},
    }
golden["running"] = {ours(n): flat(t) for n, t in net.named_buffers() if "num_batches" not in n}


def rounded(v):
    if isinstance(v, dict):
        return {k: rounded(w) for k, w in v.items()}
    return [float(f"{w:.9g}") for w in v]


with open("residual.json", "w") as f:
    json.dump(rounded(golden), f, separators=(",", ":"))
    f.write("\n")
