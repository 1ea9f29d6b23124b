"""Goldens of one heat step from PyTorch: run `python heat.py` in this folder.

A small residual network, student in train mode and teacher in eval mode. The
loss is built as Algorithm 1 says it, one autograd graph over all passes: a clean
and a moved pass for every projection. Projections are drawn by a Philox4x32-10
and a Box-Muller transform of their own, in f64.
"""
import copy
import json
import math
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(4)
torch.set_default_dtype(torch.float64)

CLASSES, SEED, EPOCH, INDICES = 4, 0x1234567890, 2, [3, 70000, 0, 12, 5, 41]
SIGMA, LAMBDA, TIMESTEPS, KAPPA, FD_STEP = 1.0, 5.0, 5, 3, 0.1
PROJECTION = 5  # the purpose's number in the noise's key


class Shift(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return self.norm(x) + self.bias.view(1, -1, 1, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = Shift(8)
        self.linear = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1((x - 0.45) / 0.25)))
        x = torch.relu(self.bn2(self.conv2(x)) + x)
        return self.linear(x.mean((2, 3)))


def make():
    net = Net()
    with torch.no_grad():
        for name, p in net.named_parameters():
            if "bn" in name:
                p.add_(0.2 * torch.randn_like(p))
            if "linear" in name:
                p.mul_(3)
            p.copy_(p.float().double())
        for name, b in net.named_buffers():
            if name.endswith("running_mean"):
                b.copy_((0.2 * torch.randn_like(b)).float())
            if name.endswith("running_var"):
                b.copy_((1 + 0.3 * torch.rand_like(b)).float())
    return net


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def normals(image, sample, count):
    out = []
    for block in range(-(-count // 4)):
        r = philox([block, sample, image, PROJECTION], [SEED & 0xFFFFFFFF, SEED >> 32])
        for a, b in [(r[0], r[1]), (r[2], r[3])]:
            radius = math.sqrt(-2 * math.log((a + 0.5) / 2**32))
            angle = 2 * math.pi * (b + 0.5) / 2**32
            out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


def projection(j):
    rows = [normals(i, EPOCH * KAPPA + j, CLASSES) for i in INDICES]
    return torch.tensor(rows) / math.sqrt(CLASSES)


def outputs(fit, logits):
    return torch.softmax(logits, 1) if fit == "l2-prob" else logits


def distance(fit, v, f):
    if fit == "kl":
        log_p = F.log_softmax(f, 1)
        return (log_p.exp() * (log_p - F.log_softmax(v, 1))).sum(1)
    return 0.5 * (outputs(fit, v) - outputs(fit, f)).pow(2).sum(1)


def step(student, teacher, x, fit, scale, scale_free):
    student = copy.deepcopy(student).train()
    teacher = copy.deepcopy(teacher).eval()
    with torch.no_grad():
        f = teacher(x)
    variance = outputs(fit, f).var(unbiased=False) if scale_free else torch.tensor(1.0)
    v = student(x)
    running = {n: b.clone() for n, b in student.named_buffers()}
    fit_loss = distance(fit, v, f).mean() / variance
    penalty = 0
    for j in range(KAPPA):
        w = projection(j)
        z = x.clone().requires_grad_(True)
        (g,) = torch.autograd.grad((w * outputs(fit, student(z))).sum(), z)
        l = g / g.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        here = (w * outputs(fit, student(x))).sum(1)
        there = (w * outputs(fit, student(x + FD_STEP * l))).sum(1)
        penalty = penalty + ((there - here) / FD_STEP).pow(2)
    factor = LAMBDA / TIMESTEPS * SIGMA**2 / 2 * (CLASSES / KAPPA if scale == "unbiased" else 1)
    penalty = factor * penalty.mean() / variance
    (fit_loss + penalty).backward()
    return {
        "fit": fit,
        "scale": scale,
        "scale_free": scale_free,
        "distance": fit_loss.item(),
        "penalty": penalty.item(),
        "gradients": {n: flat(p.grad) for n, p in student.named_parameters()},
    }, running


def ours(name):
    return name.replace("bn2.norm.", "bn2.")


def flat(t):
    return [float(f"{v:.8g}") for v in t.detach().reshape(-1)]


def state(net):
    return {ours(n): flat(t) for n, t in net.state_dict().items() if "num_batches" not in n}


student, teacher = make(), make()
x = torch.rand(len(INDICES), 2, 8, 8).float().double()
settings = [(fit, scale, False) for fit in ["l2", "kl", "l2-prob"] for scale in ["unbiased", "paper"]]
settings += [("l2", "unbiased", True), ("l2-prob", "unbiased", True)]
cases = [step(student, teacher, x, *s) for s in settings]
golden = {
    "seed": SEED,
    "epoch": EPOCH,
    "indices": INDICES,
    "sigma": SIGMA,
    "lambda": LAMBDA,
    "timesteps": TIMESTEPS,
    "kappa": KAPPA,
    "fd_step": FD_STEP,
    "student": state(student),
    "teacher": state(teacher),
    "images": flat(x.permute(0, 2, 3, 1)),
    "cases": [case for case, _ in cases],
    "running": {ours(n): flat(b) for n, b in cases[0][1].items() if "num_batches" not in n},
}
with open("heat.json", "w") as file:
    json.dump(golden, file, separators=(",", ":"))
    file.write("\n")
