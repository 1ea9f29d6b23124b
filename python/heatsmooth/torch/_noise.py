"""The library's noise in operations of torch, for devices that its kernels do not reach.

The same counters as ``crates/kernels/src/random.rs`` and ``noise/grid.rs``: exact noise gives the
same integers, Gaussian noise the same numbers up to the last digits.
"""

from __future__ import annotations

from typing import Any

import torch

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
#: Set in the last word of a counter for 32 further bits of the same draw.
FURTHER = 1 << 31


def philox(counter: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Ten rounds of Philox4x32, words in tensors of int64: a product wraps around at 64 bits, and
    both of its halves are right."""
    a, b, c, d = counter
    key = [seed & WORD, (seed >> 32) & WORD]
    for _ in range(10):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (
            ((second >> 32) & WORD) ^ b ^ key[0],
            second & WORD,
            ((first >> 32) & WORD) ^ d ^ key[1],
            first & WORD,
        )
        key = [(key[0] + WEYL[0]) & WORD, (key[1] + WEYL[1]) & WORD]
    return [a, b, c, d]


def words(images: torch.Tensor, samples: torch.Tensor, length: int, seed: int, purpose: int) -> torch.Tensor:
    """Random words, one row a copy: word i mod 4 of the counter (i/4, sample, image, purpose)."""
    blocks = torch.arange((length + 3) // 4, device=images.device)
    shape = (len(images), len(blocks))
    counter = [
        blocks.expand(shape),
        samples[:, None].expand(shape),
        images[:, None].expand(shape),
        torch.full((1, 1), purpose, dtype=torch.int64, device=images.device).expand(shape),
    ]
    return torch.stack(philox(counter, seed), dim=-1).view(len(images), -1)[:, :length]


def normal(bits: torch.Tensor) -> torch.Tensor:
    """Box and Muller's transform: pairs of words to pairs of normal numbers."""
    wide = torch.float32 if bits.device.type == "mps" else torch.float64
    uniform = (bits.to(wide) + 0.5) / 2.0**32
    radius = (-2.0 * uniform[:, 0::2].log()).sqrt()
    angle = 2.0 * torch.pi * uniform[:, 1::2]
    pairs = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return pairs.view(len(bits), -1).float()


def integers(noise: dict[str, Any], images: torch.Tensor, samples: torch.Tensor, length: int) -> torch.Tensor:
    """Whole steps on the grid, by Walker's alias method."""
    device, seed, purpose = images.device, noise["seed"], noise["purpose"]

    def table(name: str) -> torch.Tensor:
        return torch.from_numpy(noise[name].astype("int64")).to(device)

    thresholds, packed, low = table("thresholds"), table("integers"), table("low")
    word = words(images, samples, length, seed, purpose)
    column = word >> (32 - noise["bits"])
    rest = word & ((1 << (32 - noise["bits"])) - 1)
    threshold = thresholds[column]
    own = rest < threshold
    equal = rest == threshold
    if bool(equal.any()):
        further = words(images, samples, length, seed, purpose | FURTHER)
        own = own | (equal & (further < low[column]))
    both = packed[column]
    half = torch.where(own, both & 0xFFFF, both >> 16)
    return torch.where(half >= 1 << 15, half - (1 << 16), half)


def noisy_copies(noise: dict[str, Any], device: torch.device) -> torch.Tensor:
    """Noisy copies of images, one behind the other: what ``pixels``, ``images``,
    ``first_samples`` and ``counts`` say, on a device; one flat row each."""
    counts = torch.tensor(noise["counts"], device=device)
    numbers = torch.tensor(noise["images"], dtype=torch.int64, device=device)
    first = torch.tensor(noise["first_samples"], dtype=torch.int64, device=device)
    clean = torch.from_numpy(noise["pixels"]).to(device).view(len(counts), -1)
    which = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
    starts = torch.cumsum(counts, 0) - counts
    within = torch.arange(len(which), device=device) - starts[which]
    images, samples, clean = numbers[which], first[which] + within, clean[which]
    length = clean.shape[1]
    if "sigma" in noise:
        padded = (length + 3) // 4 * 4
        drawn = normal(words(images, samples, padded, noise["seed"], noise["purpose"]))
        return clean + noise["sigma"] * drawn[:, :length]
    levels = float(noise["levels"])
    steps = integers(noise, images, samples, length).float()
    return ((clean * levels).round() + steps) / levels
