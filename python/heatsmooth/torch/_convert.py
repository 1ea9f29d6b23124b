"""Modules for the library's own kernels, through ONNX."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import torch
from torch import nn

from .._arrays import Shape
from .._errors import DataError, HeatsmoothError, ModelError
from .._models import Model, load
from ._module import answer, device_of, wrap
from ._network import Engine

#: Logits that differ by less, in units of the largest, are those of the same function.
CLOSE = 1e-3


def to_native(module: nn.Module, shape: Shape) -> Model:
    """The module as a model of the library's own kernels, by way of ONNX. It is refused if it has
    an operator that they do not have; a module itself runs anywhere."""
    if module.training:
        raise ModelError("the module is in training mode", "call module.eval() first")
    height, width, channels = shape
    image = torch.zeros(1, channels, height, width)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # As it is: otherwise batch norms are multiplied into the layers before them, and the
            # model could no longer be trained like the module.
            as_it_is = torch.onnx.TrainingMode.PRESERVE
            network = copy.deepcopy(module).cpu()
            torch.onnx.export(network, (image,), file, dynamo=False, training=as_it_is)
    except Exception as error:  # the exporter raises whatever its parts raise
        raise ModelError(f"torch cannot export the module: {error}", "use the module itself") from error
    return load(file.getvalue())


def shape_of_image(x: Any) -> Shape:
    """Height, width and channels of one image of torch."""
    if getattr(x, "ndim", 0) != 3:
        raise DataError("x is not one image", "give a tensor of shape (channels, height, width)")
    channels, height, width = (int(size) for size in x.shape)
    return (height, width, channels)


def for_voting(module: nn.Module, shape: Shape, x: Any, native: bool | None) -> tuple[Model, Engine | None]:
    """The model that votes: of our kernels, where they give the same logits, else the module."""
    wrapped = wrap(module, shape)
    if native is False or (native is None and device_of(module).type != "cpu"):
        return wrapped, Engine([wrapped])
    try:
        model = to_native(module, shape)
        generator = torch.Generator().manual_seed(0)
        image = torch.as_tensor(x).detach().cpu().float()
        tries = (image + 0.1 * torch.randn((8, *image.shape), generator=generator)).clamp(0.0, 1.0)
        with torch.inference_mode():
            wanted = answer(module(tries.to(device_of(module)))).cpu()
        found = torch.from_numpy(model.logits(tries))
        if bool((found - wanted).abs().max() > CLOSE * wanted.abs().max().clamp(min=1.0)):
            raise ModelError("the exported module gives other logits", "use native=False")
    except HeatsmoothError:
        if native:
            raise
        return wrapped, Engine([wrapped])
    return model, None
