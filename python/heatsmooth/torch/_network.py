"""The verbs of the library, served by a module: see ``crates/network/src/verbs.rs``.

Arrays come and go flat, in the order NHWC.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._arrays import Shape
from .._errors import ModelError
from ._module import TorchModel, answer, device_of, named_values, set_values, to_host
from ._noise import noisy_copies
from ._ranks import BUCKET, Ranks, SharedNorm

#: Images a pass: few enough for memory, at most so many bytes of pixels.
BATCH, BATCH_BYTES = 256, 64 << 20


class Tape(NamedTuple):
    """What a pass keeps for backward passes."""

    images: torch.Tensor
    logits: torch.Tensor
    statistics: list[tuple[torch.Tensor, torch.Tensor]]


class Engine:
    """Makes networks of the modules that it was given."""

    def __init__(self, models: list[TorchModel], ranks: Ranks | None = None) -> None:
        self.ranks = ranks
        self.models = {model.network: model for model in models}
        first = models[0]
        autocast = first.options["autocast"]
        precision = "float32" if autocast is None else f"autocast to {str(autocast).split('.')[-1]}"
        where = device_of(first.module)
        self.description = f"torch {torch.__version__} on {where}, {precision}"

    def load(self, network: str, values: list[np.ndarray]) -> Network:
        """A copy of the module of this name with these parameters."""
        model = self.models.get(network)
        if model is None:
            known = ", ".join(self.models)
            raise ModelError(f"{network} is another network than {known}", "give its own module")
        module = copy.deepcopy(model.module)
        set_values(module, values)
        return Network(module, model.shape, ranks=self.ranks, **model.options)


class Network:
    """A module that serves the verbs. It is in eval mode, except that batch norms use the
    statistics of the batch where a pass is to train: dropout and stochastic depth would make two
    passes of one step different functions."""

    def __init__(
        self,
        module: nn.Module,
        shape: Shape,
        *,
        batch_size: int | None = None,
        channels_last: bool = False,
        autocast: torch.dtype | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.module = module.eval()
        self.ranks, self.shared = ranks, "nothing"
        self.shape, self.autocast = shape, autocast
        self.device = device_of(module)
        self.channels_last = channels_last
        if channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
        values = named_values(self.module)
        self.names = [name for name, _, _ in values]
        self.trained = [(v, role) for _, v, role in values if isinstance(v, nn.Parameter) and v.requires_grad]
        self.is_trained = [isinstance(v, nn.Parameter) and v.requires_grad for _, v, _ in values]
        self.norms = [m for m in self.module.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        self.velocity: list[torch.Tensor] | None = None
        fit = max(1, BATCH_BYTES // (4 * shape[0] * shape[1] * shape[2]))
        #: Read by the core: noise is drawn by its kernels where the memory is the CPU's.
        self.on_host = self.device.type == "cpu"
        self.batch = batch_size or min(BATCH, fit)
        self.taped_batch = max(1, self.batch // 4)

    # Passes

    def images(self, flat: np.ndarray | torch.Tensor) -> torch.Tensor:
        """Flat pixels as a batch (images, channels, height, width) on the device."""
        h, w, c = self.shape
        tensor = torch.from_numpy(flat) if isinstance(flat, np.ndarray) else flat
        tensor = tensor.view(-1, h, w, c).to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        return tensor if self.channels_last else tensor.contiguous()

    def _pass(self, images: torch.Tensor) -> torch.Tensor:
        lower = nullcontext()
        if self.autocast is not None:
            lower = torch.autocast(self.device.type, self.autocast)
        with lower:
            return answer(self.module(images)).float()

    def logits(self, flat: np.ndarray | torch.Tensor) -> np.ndarray:
        """Verb one: eval mode, nothing kept."""
        with torch.inference_mode():
            images = self.images(flat)
            parts = [to_host(self._pass(part)) for part in images.split(self.batch)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def noisy_logits(self, noise: dict[str, Any]) -> np.ndarray:
        """The same of noisy copies, drawn on the device."""
        with torch.inference_mode():
            return self.logits(noisy_copies(noise, self.device))

    def forward(self, flat: np.ndarray, train: bool) -> tuple[np.ndarray, Tape]:
        """Verb two: logits, and what backward passes need."""
        images = self.images(flat).detach().requires_grad_(True)
        with torch.enable_grad(), self._batch_statistics(train) as statistics:
            logits = self._pass(images)
        return to_host(logits), Tape(images, logits, statistics)

    @contextmanager
    def _batch_statistics(self, train: bool) -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
        """Batch norms use the batch and leave their running statistics alone: with a momentum of
        1 they write the batch's own into tensors of the tape instead."""
        found: list[tuple[torch.Tensor, torch.Tensor]] = []
        if not train:
            yield found
            return
        kept = [(norm.momentum, norm.running_mean, norm.running_var) for norm in self.norms]
        for norm in self.norms:
            assert norm.running_mean is not None and norm.running_var is not None
            found.append((torch.zeros_like(norm.running_mean), torch.ones_like(norm.running_var)))
            norm.momentum, norm.training = 1.0, True
            norm.running_mean, norm.running_var = found[-1]
            if self.shared == "statistics":
                norm.forward = partial(self._shared_norm, norm, found[-1])
        try:
            yield found
        finally:
            for norm, (momentum, mean, variance) in zip(self.norms, kept, strict=True):
                norm.momentum, norm.training = momentum, False
                norm.running_mean, norm.running_var = mean, variance
                norm.__dict__.pop("forward", None)

    def _shared_norm(
        self, norm: _BatchNorm, statistics: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        return SharedNorm.apply(x, norm.weight, norm.bias, norm.eps, self.ranks, statistics)

    # Backward passes

    def _cotangent(self, flat: np.ndarray, tape: Tape) -> torch.Tensor:
        return torch.from_numpy(flat).to(self.device).view_as(tape.logits)

    def input_gradient(self, tape: Tape, cotangent: np.ndarray) -> np.ndarray:
        """Verb three: the gradient with respect to the pixels; a tape may be used many times."""
        weights = self._cotangent(cotangent, tape)
        (found,) = torch.autograd.grad(tape.logits, tape.images, weights, retain_graph=True)
        return to_host(found.permute(0, 2, 3, 1))

    def gradients(self) -> list[torch.Tensor]:
        """Gradients of value 0."""
        return [torch.zeros_like(parameter) for parameter, _ in self.trained]

    def parameter_gradient(self, tape: Tape, cotangent: np.ndarray, gradients: list[torch.Tensor]) -> None:
        """Verb four: adds the gradient with respect to the parameters."""
        weights = self._cotangent(cotangent, tape)
        parameters = [parameter for parameter, _ in self.trained]
        found = torch.autograd.grad(tape.logits, parameters, weights, retain_graph=True, allow_unused=True)
        for gradient, more in zip(gradients, found, strict=True):
            if more is not None:
                gradient.add_(more)

    # Training

    def update_running_statistics(self, tape: Tape) -> None:
        """Moves the running statistics towards those of a pass; once a step."""
        statistics = tape.statistics
        if self.shared == "running" and self.ranks is not None and statistics:
            # The means over the ranks, by their numbers of images.
            images = tape.images.new_tensor([float(len(tape.images))])
            own = torch.cat([part for pair in statistics for part in pair]) * images
            total = self.ranks.gather_tensor(torch.cat([images, own])).sum(0)
            parts = iter((total[1:] / total[0]).split([len(part) for pair in statistics for part in pair]))
            statistics = [(next(parts), next(parts)) for _ in statistics]
        for norm, (mean, variance) in zip(self.norms, statistics, strict=False):
            assert norm.running_mean is not None and norm.running_var is not None
            momentum = 0.1 if norm.momentum is None else norm.momentum
            # New tensors: tapes may still hold the old ones.
            norm.running_mean = norm.running_mean.lerp(mean, momentum)
            norm.running_var = norm.running_var.lerp(variance, momentum)

    def share_norms(self, shared: str) -> None:
        """What batch norms share with those of other ranks from now on: nothing, the statistics
        of a pass, or the running ones."""
        self.shared = shared

    def sum_gradients(self, gradients: list[torch.Tensor]) -> None:
        """Sums up gradients over the ranks, small ones together."""
        assert self.ranks is not None
        waiting: list[torch.Tensor] = []
        for place, gradient in enumerate(gradients):
            waiting.append(gradient)
            if place + 1 < len(gradients) and sum(map(torch.Tensor.numel, waiting)) < BUCKET:
                continue
            flat = torch.cat([part.reshape(-1) for part in waiting])
            self.ranks.sum_tensor(flat)
            for part, summed in zip(waiting, flat.split([part.numel() for part in waiting]), strict=True):
                part.copy_(summed.view_as(part))
            waiting = []

    def optimise(
        self,
        rate: float,
        momentum: float,
        weight_decay: float,
        clip: float | None,
        gradients: list[torch.Tensor],
    ) -> float:
        """One step of stochastic gradient descent; sets the gradients to 0 again."""
        wide = torch.float32 if self.device.type == "mps" else torch.float64
        squares = [gradient.to(wide).square().sum() for gradient in gradients]
        norm = float(torch.stack(squares).sum().sqrt()) if squares else 0.0
        if np.isfinite(norm):
            shrink = clip / norm if clip is not None and norm > clip else 1.0
            if self.velocity is None:
                self.velocity = self.gradients()
            with torch.no_grad():
                steps = zip(self.trained, self.velocity, gradients, strict=True)
                for (parameter, role), velocity, gradient in steps:
                    velocity.mul_(momentum).add_(gradient, alpha=shrink)
                    if role == "weight" and weight_decay:
                        velocity.add_(parameter, alpha=weight_decay)
                    parameter.sub_(velocity, alpha=rate)
        for gradient in gradients:
            gradient.zero_()
        return norm

    def parameters(self) -> list[np.ndarray]:
        """Copies of all parameters and statistics."""
        return [to_host(value).copy() for _, value, _ in named_values(self.module)]

    def velocities(self) -> list[np.ndarray]:
        """The optimiser's velocities; empty for what is not trained."""
        moving = iter(self.velocity if self.velocity is not None else self.gradients())
        empty = np.zeros(0, dtype=np.float32)
        return [to_host(next(moving)).copy() if trained else empty for trained in self.is_trained]

    def restore(self, parameters: list[np.ndarray], velocities: list[np.ndarray]) -> None:
        """Goes on from copies."""
        set_values(self.module, parameters)
        moving = [v for v, trained in zip(velocities, self.is_trained, strict=True) if trained]
        self.velocity = [
            torch.from_numpy(np.array(value)).view(parameter.shape).to(self.device)
            for value, (parameter, _) in zip(moving, self.trained, strict=True)
        ]
