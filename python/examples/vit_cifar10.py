"""A vision transformer, as a module of PyTorch: smoothed, certified and attacked.

    python vit_cifar10.py --out runs/vit                  # CIFAR-10, fetched with `heatsmooth data fetch cifar10`
    python vit_cifar10.py --out runs/vit --data digits    # embedded images, minutes on a CPU

With timm installed ``--model`` names any of its models that fit the images; without, the transformer
of torchvision is used, or a small one built from torch alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

import heatsmooth as hs
import heatsmooth.torch as hst


class Transformer(nn.Module):
    """A small ViT: patches, a class token, positions, encoder layers, a head."""

    def __init__(self, size: int, channels: int, classes: int, patch: int, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (size // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


def transformer(name: str | None, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The network: timm's by name, or the small one above."""
    height, _, channels = shape
    if name is not None:
        import timm

        return timm.create_model(name, num_classes=classes, img_size=height, in_chans=channels)
    return Transformer(height, channels, classes, patch=4 if height >= 32 else 2)


def fit(module: nn.Module, images: torch.Tensor, labels: torch.Tensor, sigma: float, steps: int) -> nn.Module:
    """Plain PyTorch: cross-entropy on noisy images."""
    optimiser = torch.optim.AdamW(module.parameters(), 1e-3)
    module.train()
    for _ in range(steps):
        some = torch.randint(len(images), (64,))
        noisy = images[some] + sigma * torch.randn_like(images[some])
        loss = nn.functional.cross_entropy(module(noisy), labels[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return module.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--model", help="a model of timm, such as vit_tiny_patch16_224")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--train-images", type=int, default=1000)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--n", type=int, default=1000)
    arguments = parser.parse_args()
    torch.manual_seed(0)

    train = hs.read(arguments.data, split="train", images=range(arguments.train_images))
    shape, classes = train.shape, train.classes
    images = torch.from_numpy(train.array / (255.0 if train.array.dtype == "uint8" else 1.0))
    images, labels = images.float().permute(0, 3, 1, 2).contiguous(), torch.from_numpy(train.labels)
    module = transformer(arguments.model, shape, len(classes))
    f = fit(module, images, labels, arguments.sigma, arguments.steps)

    out, some = arguments.out, {"images": arguments.images}
    v = hs.smooth(f, train, sigma=arguments.sigma, by="average", epochs=1, out=out / "v")
    print(v)
    model = hst.wrap(f, shape, classes=classes)
    certified = hs.certify(model, arguments.data, sigma=arguments.sigma, n=arguments.n, out=out / "certify.tsv", **some)
    print(certified)
    averaged = hst.wrap(v.module, shape, classes=classes)
    print(hs.attack("pgd", averaged, arguments.data, eps=1.0, out=out / "pgd.tsv", **some))
    hs.report(out, out=out / "report", open=False)
    print(out / "report" / "report.html")


if __name__ == "__main__":
    main()
