"""A module with what the library must know about it."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import _core
from .._arrays import Shape
from .._errors import ModelError
from .._models import Model
from .._models import load as read

NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)


class TorchModel(Model):
    """A module of PyTorch; made by :func:`wrap`. ``module`` is the caller's own."""

    def __init__(self, core: _core.Model, module: nn.Module, network: str, options: dict[str, Any]) -> None:
        super().__init__(core)
        self.module, self.network, self.options = module, network, options

    def logits(self, images: Any, *, threads: int | None = None) -> np.ndarray:
        from ._network import Engine

        del threads  # torch has its own
        from .._arrays import as_floats, pixels

        flat, _ = pixels(images, self.shape)
        values = [value for _, _, value in self._core.values()]
        network = Engine([self]).load(self.network, values)
        return network.logits(as_floats(flat)).reshape(-1, len(self.classes))

    __call__ = logits


def named_values(module: nn.Module) -> list[tuple[str, torch.Tensor, str]]:
    """Name, tensor and role of all that a module's function depends on and that is kept with it:
    parameters first, each once, then buffers of floats."""
    found = []
    owners = dict(module.named_modules())

    def owner(name: str) -> tuple[nn.Module, str]:
        prefix, _, last = name.rpartition(".")
        return owners[prefix], last

    for name, parameter in module.named_parameters():
        norm, last = owner(name)
        if not parameter.requires_grad:
            role = "constant"
        elif isinstance(norm, NORMS) and last in ("weight", "bias"):
            role = "norm-scale" if last == "weight" else "norm-shift"
        else:
            role = "weight" if last.endswith("weight") and parameter.ndim >= 2 else "bias"
        found.append((name, parameter, role))
    kept = set(module.state_dict())
    for name, buffer in module.named_buffers():
        if name in kept and buffer.is_floating_point():
            norm, last = owner(name)
            roles = {"running_mean": "running-mean", "running_var": "running-variance"}
            role = roles.get(last, "constant") if isinstance(norm, _BatchNorm) else "constant"
            found.append((name, buffer, role))
    return found


def to_host(tensor: torch.Tensor) -> np.ndarray:
    """A flat array on the CPU."""
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy().reshape(-1)


def device_of(module: nn.Module) -> torch.device:
    """Where a module lives."""
    devices = {value.device for _, value, _ in named_values(module)}
    if len(devices) > 1:
        raise ModelError(
            f"the module is spread over {', '.join(sorted(map(str, devices)))}",
            "move it to one device first: module.to(device)",
        )
    return devices.pop() if devices else torch.device("cpu")


def _check(module: nn.Module) -> None:
    if module.training:
        raise ModelError(
            "the module is in training mode",
            "call module.eval() first: what is measured and smoothed is the network that answers",
        )
    half = next((n for n, v, _ in named_values(module) if v.dtype != torch.float32), None)
    if half is not None:
        raise ModelError(
            f"{half} is not of type float32",
            "call module.float(); for passes in lower precision say autocast",
        )


def answer(output: Any) -> torch.Tensor:
    """The logits of whatever a module answers with."""
    logits = getattr(output, "logits", output)
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
        got = f"a tensor of shape {tuple(logits.shape)}" if isinstance(logits, torch.Tensor) else type(logits)
        raise ModelError(f"the module answers with {got}", "it must give (images, classes)")
    return logits


def wrap(
    module: nn.Module,
    shape: Shape,
    *,
    classes: list[str] | None = None,
    batch_size: int | None = None,
    channels_last: bool = False,
    autocast: torch.dtype | str | None = None,
    name: str | None = None,
    info: dict[str, Any] | None = None,
) -> TorchModel:
    """A module with what it does not say itself.

    Parameters
    ----------
    shape
        Height, width and channels of an image. Pixels are from 0 to 1: normalisation belongs
        into the module.
    classes
        Names of the classes.
    batch_size
        Images a pass; a quarter of it where gradients are kept.
    channels_last
        Memory format of images and weights.
    autocast
        Type of passes in lower precision, such as ``torch.bfloat16``; records say so.
    """
    _check(module)
    if isinstance(autocast, str):
        autocast = getattr(torch, autocast)
    height, width, channels = shape
    device = device_of(module)
    try:
        with torch.inference_mode():
            logits = answer(module(torch.zeros(2, channels, height, width, device=device)))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the module cannot take images of {channels}x{height}x{width}: {error}",
            "give the shape of one image, height, width and channels",
        ) from error
    found = named_values(module)
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    structure = hashlib.sha256(repr(module).encode()).hexdigest()[:12]
    network = f"{kind}/{structure}"
    options = {"batch_size": batch_size, "channels_last": channels_last, "autocast": autocast}
    core = _core.Model.foreign(
        name or f"torch:{kind}",
        network,
        (height, width, channels),
        int(logits.shape[1]),
        list(classes or (info or {}).get("classes") or []),
        [(n, list(v.shape), role) for n, v, role in found],
        [to_host(value) for _, value, _ in found],
        json.dumps(info or {}),
    )
    return TorchModel(core, module, network, options)


def set_values(module: nn.Module, values: list[np.ndarray]) -> None:
    """Gives a module other values, in the order of :func:`named_values`."""
    with torch.no_grad():
        for (_, tensor, _), value in zip(named_values(module), values, strict=True):
            tensor.copy_(torch.from_numpy(np.array(value)).view(tensor.shape))


def load(path: str | os.PathLike[str] | bytes, module: nn.Module) -> nn.Module:
    """A copy of a module with the weights of a run folder or model file that was made from it, or
    of the bytes of such a file."""
    model = read(path)
    found, wanted = model._core.values(), named_values(module)
    names = [(name, list(shape)) for name, shape, _ in found]
    if names != [(name, list(value.shape)) for name, value, _ in wanted]:
        raise ModelError(
            f"{model.name} holds the weights of another network",
            "give the module that the run was made from",
        )
    made = copy.deepcopy(module)
    set_values(made, [values for _, _, values in found])
    return made.eval()
