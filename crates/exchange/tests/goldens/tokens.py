"""Writes small transformers as ONNX and what they compute, for `import_onnx.rs`.

Run from this folder: python tokens.py (needs torch, onnx, onnxscript). See
`onnx_models.py` for what is written.
"""

import json
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(19)


def flat(tensor):
    return [float(v) for v in tensor.detach().double().flatten()]


class Vit(nn.Module):
    """Class token, position embedding, PyTorch's own attention."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 5, 8))
        self.norm1, self.norm2 = nn.LayerNorm(8, eps=1e-6), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(x[:, 0])


class Windows(nn.Module):
    """Rolled windows with a bias and a mask, cosine attention, merged patches."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 6, 2, 2)
        self.norm = nn.LayerNorm(6)
        self.qkv, self.project = nn.Linear(6, 18), nn.Linear(6, 6)
        self.table = nn.Parameter(torch.randn(9, 2))
        rows = torch.arange(2).repeat_interleave(2)
        columns = torch.arange(2).repeat(2)
        index = (rows[:, None] - rows + 1) * 3 + columns[:, None] - columns + 1
        self.register_buffer("index", index.flatten())
        mask = torch.zeros(4, 4, 4)
        mask[1:, 1, 2:] = -100.0
        self.register_buffer("mask", mask)
        self.scale = nn.Parameter(torch.tensor([[[2.0]], [[3.0]]]))
        self.reduce = nn.Linear(24, 8, bias=False)
        self.group = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-1, -1), (1, 2))
        y = y.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        qkv = self.qkv(y).reshape(-1, 4, 3, 2, 3).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.scale
        bias = self.table[self.index].view(4, 4, 2).permute(2, 0, 1).unsqueeze(0)
        scores = scores + bias
        scores = scores.view(n, 4, 2, 4, 4) + self.mask[:, None][None]
        scores = scores.view(-1, 2, 4, 4).softmax(-1)
        y = self.project((scores @ v).transpose(1, 2).reshape(-1, 4, c))
        y = y.view(n, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        x = x + torch.roll(y, (1, 1), (1, 2))
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        x = self.reduce(torch.cat(parts, -1)).permute(0, 3, 1, 2)
        return self.head(self.group(x).mean((2, 3)))


class Mixer(nn.Module):
    """Linear layers across tokens, shuffled channels, einsum, layer scale."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 8, 2, 2)
        self.norm = nn.LayerNorm(8)
        self.across, self.along = nn.Linear(16, 16), nn.Linear(8, 8)
        self.gamma = nn.Parameter(torch.rand(8, 1, 1) + 0.5)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        y = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = x + self.gamma * self.depthwise(y)
        t = x.flatten(2).transpose(1, 2)
        t = t + F.gelu(self.across(self.norm(t).transpose(1, 2))).transpose(1, 2)
        a, b = self.along(t).chunk(2, dim=-1)
        g = torch.einsum("b i d, b j d -> b i j", a, b) / t.shape[1] ** 0.5
        t = t + torch.einsum("b i j, b j d -> b i d", g.softmax(1), t)
        return self.head(t.mean(1))


def write(name, net, exports):
    """The network's exports, by label, exporter and opset, and what it computes."""
    net.eval()
    images = torch.rand(2, 2, 8, 8)
    double = net.double()
    pixels = images.double().requires_grad_()
    logits = double(pixels)
    cotangent = torch.randn(2, 3)
    gradient = torch.autograd.grad(logits, pixels, cotangent.double())[0]
    data = {
        "images": flat(images.permute(0, 2, 3, 1)),
        "logits": flat(logits),
        "cotangent": flat(cotangent),
        "gradient": flat(gradient.permute(0, 2, 3, 1)),
    }
    net.float()
    for label, dynamo, opset in exports:
        options = {"opset_version": opset} if opset else {}
        if dynamo:
            options |= {"verbose": False, "external_data": False}
        path = f"onnx/{name}-{label}"
        torch.onnx.export(net, (images[:1],), path + ".onnx", dynamo=dynamo, **options)
        json.dump(data, open(path + ".json", "w"))


def main():
    # With attention, and with einsum, the older exporter wants newer operators.
    oldest = {"vit": 14, "windows": 11, "mixer": 12}
    for name, net in {"vit": Vit(), "windows": Windows(), "mixer": Mixer()}.items():
        scripts = [(f"script-{opset}", False, opset) for opset in (oldest[name], 17)]
        write(name, net, [*scripts, ("dynamo", True, None)])


if __name__ == "__main__":
    main()
