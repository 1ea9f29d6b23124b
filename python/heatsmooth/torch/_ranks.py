"""The processes of ``torch.distributed``, which train one network together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from .._errors import HeatsmoothError, SettingError

#: Numbers that are summed up at once.
BUCKET = 1 << 22


class Ranks:
    """The processes of a group: all make the same calls in the same order.

    Two and four ranks add up neighbours first, as one process does, so that the library's own
    networks get the same bits on one, two and four of them.
    """

    def __init__(self, group: Any = True) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise SettingError(
                "ranks need torch.distributed, which is not started",
                "call torch.distributed.init_process_group('gloo') in a process that torchrun or Ray Train started",
            )
        self.group = dist.group.WORLD if group is True else group
        if not isinstance(self.group, dist.ProcessGroup):
            raise SettingError(
                f"ranks is of type {type(group).__name__}", "give True, or a process group of torch.distributed"
            )
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise SettingError("this process is not in the group of ranks", "call it in those that are")
        # NCCL moves the memory of GPUs only.
        on_gpu = "gloo" not in dist.get_backend(self.group) and torch.cuda.is_available()
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    @property
    def threads(self) -> int:
        """Threads of this process, where the machine's cores are shared by its ranks."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise HeatsmoothError(
                f"training on several ranks failed: rank {self.rank} of {self.size} cannot reach the others: {error}",
                "start the run again, on any number of ranks: it goes on from the last checkpoint",
            ) from error

    def sum_tensor(self, values: torch.Tensor) -> None:
        """Sums up a tensor of one dimension over the ranks, in place."""
        with self._together():
            if self.size != 4:
                dist.all_reduce(values, group=self.group)
                return
            # The order of torch's own sum is the backend's choice.
            for part in values.split(BUCKET):
                a, b, c, d = self._gathered(part).view(4, -1)
                part.copy_((a + b) + (c + d))

    def _gathered(self, values: torch.Tensor) -> torch.Tensor:
        everyone = values.new_empty(self.size * len(values))
        dist.all_gather_into_tensor(everyone, values, group=self.group)
        return everyone

    def gather_tensor(self, values: torch.Tensor) -> torch.Tensor:
        """The values of all ranks, one row each."""
        with self._together():
            return self._gathered(values).view(self.size, -1)

    # What the core calls: arrays of NumPy.

    def sum(self, values: np.ndarray) -> None:
        """Sums up an array over the ranks, in place."""
        tensor = torch.from_numpy(values).to(self.device)
        self.sum_tensor(tensor)
        if self.device.type != "cpu":
            values[:] = tensor.cpu().numpy()

    def gather(self, values: np.ndarray) -> np.ndarray:
        """The values of all ranks, one behind the other."""
        return self.gather_tensor(torch.from_numpy(values).to(self.device)).reshape(-1).cpu().numpy()

    def broadcast(self, content: bytes) -> bytes:
        """The bytes of rank 0."""
        first = dist.get_global_rank(self.group, 0)
        with self._together():
            length = torch.tensor([len(content)], device=self.device)
            dist.broadcast(length, first, group=self.group)
            found = torch.zeros(int(length), dtype=torch.uint8)
            if self.rank == 0 and content:
                found = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            found = found.to(self.device)
            dist.broadcast(found, first, group=self.group)
        return found.cpu().numpy().tobytes()

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        with self._together():
            dist.barrier(group=self.group)


class SharedNorm(torch.autograd.Function):
    """A batch norm that normalises by the images of all ranks; its parameters' gradients are
    those of this rank's images, to be summed up with all others."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        epsilon: float,
        ranks: Ranks,
        statistics: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        kind, x = x.dtype, x.float()
        wide = torch.float32 if x.device.type == "mps" else torch.float64
        dims = [0, *range(2, x.ndim)]
        variance, mean = torch.var_mean(x, dims, correction=0)
        own = x.numel() // x.shape[1]
        rows = torch.full_like(mean, own, dtype=wide)
        everyone = ranks.gather_tensor(torch.cat([rows, mean.to(wide), variance.to(wide)]))
        rows, means, variances = everyone.view(ranks.size, 3, -1).unbind(1)
        total = rows.sum(0)
        mean = (rows * means).sum(0) / total
        variance = (rows * (variances + (means - mean).square())).sum(0) / total
        statistics[0].copy_(mean)
        statistics[1].copy_(variance * total / (total - 1).clamp(min=1))
        shape = [1, -1] + [1] * (x.ndim - 2)
        mean, inverse = mean.float(), (variance + epsilon).rsqrt().float()
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.ranks, ctx.rows, ctx.dims, ctx.shape = ranks, total[0].float(), dims, shape
        y = (x - mean.view(shape)) * inverse.view(shape)
        if weight is not None:
            y = y * weight.view(shape)
        return (y if bias is None else y + bias.view(shape)).to(kind)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, mean, inverse = ctx.saved_tensors
        shape, kind, dy = ctx.shape, dy.dtype, dy.float()
        normal = (x - mean.view(shape)) * inverse.view(shape)
        sums, dots = dy.sum(ctx.dims), (dy * normal).sum(ctx.dims)
        dx = None
        if ctx.needs_input_grad[0]:
            everyone = ctx.ranks.gather_tensor(torch.cat([sums, dots])).sum(0) / ctx.rows
            sum_share, dot_share = everyone.view(2, -1)
            dx = dy - sum_share.view(shape) - normal * dot_share.view(shape)
            dx = (dx * (inverse if weight is None else inverse * weight).view(shape)).to(kind)
        return (
            dx,
            dots if ctx.needs_input_grad[1] else None,
            sums if ctx.needs_input_grad[2] else None,
            None,
            None,
            None,
        )
