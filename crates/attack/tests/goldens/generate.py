"""Trajectories of PGD and DDN, by PyTorch in float64. Writes trajectories.json.

Independent of the Rust code: losses and gradients come from autograd, noise from
its own Philox, attacks from the formulas of Madry et al. and Rony et al.

    python generate.py
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
HEIGHT, WIDTH, CHANNELS, CLASSES = 5, 5, 2, 5
SEED = 11
PREDICTION = 3  # network::Purpose::Prediction


def philox(counter, key):
    c, k = [int(v) for v in counter], [int(v) for v in key]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def noise(image, sample, length, sigma):
    out = []
    for block in range(-(-length // 4)):
        r = philox([block, sample, image, PREDICTION], [SEED, 0])
        u = [(v + 0.5) / 2**32 for v in r]
        for i in (0, 2):
            radius, angle = math.sqrt(-2 * math.log(u[i])), 2 * math.pi * u[i + 1]
            out += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.float32(sigma) * np.array(out[:length], dtype=np.float32)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.linear = torch.nn.Linear(6 * 3 * 3, CLASSES)

    def forward(self, x):  # NHWC
        x = F.relu(self.conv1(x.permute(0, 3, 1, 2)))
        x = F.relu(self.conv2(x))
        return self.linear(x.flatten(1))


def look(net, x, noises, y):
    """Loss -log(mean softmax_y), rank of y and gradient at one image."""
    x = x.clone().requires_grad_(True)
    copies = x[None] if noises is None else x[None] + noises
    logits = net(copies)
    p = F.softmax(logits, 1)
    loss = -torch.log(p[:, y].mean())
    (gradient,) = torch.autograd.grad(loss, x)
    # Order: votes, then mean probability.
    votes = torch.bincount(logits.argmax(1), minlength=CLASSES).double()
    score = votes + 1e-3 * p.mean(0).detach()
    return loss.item(), int((score > score[y]).sum()), gradient


def direction(gradient):
    return gradient / gradient.norm()


DOT = torch.cos(torch.arange(HEIGHT * WIDTH * CHANNELS) + 1.0)


def numbers(x, adv):
    return [(adv - x).norm().item(), float(DOT @ adv.flatten())]


def pgd(case, observe, x, net, noises, y, sign, success):
    adv, step_size = x.clone(), 2 * case["eps"] / case["steps"]
    for step in range(1, case["steps"] + 1):
        loss, rank, gradient = look(net, adv, noises, y)
        observe(step, adv, loss, success(rank))
        if success(rank) and case["stop_at_success"]:
            return adv, step - 1
        p = adv + sign * step_size * direction(gradient)
        p = p.clamp(0, 1) - x
        if p.norm() > case["eps"]:
            p = p * case["eps"] / p.norm()
        adv = x + p
    return adv, case["steps"]


def ddn(case, observe, x, net, noises, y, sign, success):
    p, norm, best = torch.zeros_like(x), 1.0, None
    worst = torch.maximum(x, 1 - x).norm()
    for i in range(case["steps"]):
        loss, rank, gradient = look(net, x + p, noises, y)
        observe(i + 1, x + p, loss, success(rank))
        if success(rank) and (best is None or p.norm() < best.norm()):
            best = p
        lr = 0.01 + 0.99 * (1 + math.cos(math.pi * i / case["steps"])) / 2
        p = p + sign * lr * direction(gradient)
        norm = min(norm * (0.95 if success(rank) else 1.05), worst)
        adv = x + norm * p / p.norm()
        if case["levels"]:
            adv = torch.round(adv * (case["levels"] - 1)) / (case["levels"] - 1)
        p = adv.clamp(0, 1) - x
    return x + (torch.zeros_like(x) if best is None else best), case["steps"]


CASES = [
    dict(attack="pgd", steps=8, eps=0.7, stop_at_success=False),
    dict(attack="pgd", steps=20, eps=4.0, stop_at_success=True),
    dict(attack="pgd", steps=8, eps=0.7, stop_at_success=False, samples=4),
    dict(attack="pgd", steps=20, eps=2.0, stop_at_success=True, samples=4),
    dict(attack="pgd", steps=20, eps=2.0, stop_at_success=True, targeted=True, top_k=2),
    dict(attack="ddn", steps=20, levels=256),
    dict(attack="ddn", steps=20, levels=256, samples=4),
    dict(attack="ddn", steps=12, levels=None, targeted=True),
    dict(attack="ddn", steps=20, levels=256, top_k=2, samples=4),
]


def main():
    torch.manual_seed(SEED)
    net = Net()
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.mul_(12.0 if name == "linear.weight" else 2.0)
        # Centred logits, so that no class wins everywhere.
        net.linear.bias.sub_(net(torch.rand(1000, HEIGHT, WIDTH, CHANNELS)).mean(0))
        for p in net.parameters():
            p.copy_(p.float().double())
    rng = np.random.default_rng(SEED)
    sigma, images, indices, labels = 0.25, [], [], []
    for index in range(3, 33000, 4):
        levels = rng.integers(0, 256, (HEIGHT, WIDTH, CHANNELS))
        x = torch.tensor((levels.astype(np.float32) / np.float32(255)).astype(np.float64))
        y = net(x[None]).argmax().item()
        # Only images that the network, and its average, are fairly sure of, and
        # no more than two of a class.
        if len(labels) == 6 or labels.count(y) == 2 or look(net, x, None, y)[0] > 0.1:
            continue
        loss, rank, _ = look(net, x, make_noises(index, sigma, 4), y)
        if rank == 0 and loss < 0.3:
            images.append(x)
            indices.append(index)
            labels.append(y)
    targets = [(y + 2) % CLASSES for y in labels]

    cases = []
    for case in CASES:
        case = dict(dict(targeted=False, top_k=1, samples=0), **case)
        case["trajectories"] = []
        for x, index, y, target in zip(images, indices, labels, targets):
            noises = make_noises(index, sigma, case["samples"]) if case["samples"] else None
            visits = []

            def observe(step, adv, loss, success):
                visits.append([loss, *numbers(x, adv), float(success)])

            success = (lambda r: r < case["top_k"]) if case["targeted"] else (lambda r: r >= case["top_k"])
            attack = pgd if case["attack"] == "pgd" else ddn
            c, sign = (target, -1) if case["targeted"] else (y, 1)
            adv, steps = attack(case, observe, x, net, noises, c, sign, success)
            case["trajectories"].append(dict(steps=steps, final=numbers(x, adv), visits=visits))
        cases.append(case)

    flat = lambda t: [float(np.float32(v)) for v in t.detach().flatten().tolist()]
    golden = dict(
        seed=SEED,
        sigma=sigma,
        weights={name: flat(p) for name, p in net.named_parameters()},
        images=[flat(x) for x in images],
        indices=indices,
        labels=labels,
        targets=targets,
        cases=cases,
    )
    path = pathlib.Path(__file__).with_name("trajectories.json")
    rounded = json.loads(json.dumps(golden), parse_float=lambda s: float(f"{float(s):.9g}"))
    path.write_text(json.dumps(rounded, separators=(",", ":")) + "\n")


def make_noises(index, sigma, samples):
    length = HEIGHT * WIDTH * CHANNELS
    stack = np.stack([noise(index, s, length, sigma) for s in range(samples)])
    return torch.tensor(stack.astype(np.float64)).reshape(samples, HEIGHT, WIDTH, CHANNELS)


if __name__ == "__main__":
    main()
