"""Models: files, bytes, and modules of PyTorch."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import Shape, as_floats, is_path, pixels
from ._data import Wanted
from ._errors import ModelError


class Model:
    """A classifier that the library's own kernels evaluate.

    Made by :func:`load`. ``shape`` is (height, width, channels); pixels are from 0 to 1.
    """

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self._about: dict[str, Any] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """Everything that its file says: hash, classes, provenance, calibration."""
        if self._about is None:
            self._about = json.loads(self._core.describe())
        return self._about

    @property
    def name(self) -> str:
        """Its path, or what records call it."""
        return self._core.name

    @property
    def shape(self) -> Shape:
        """Height, width and channels of an image."""
        h, w, c = self.about["input"]
        return (h, w, c)

    @property
    def classes(self) -> list[str]:
        """Names of the classes; numbers where the file has no names."""
        return list(self.about["classes"])

    @property
    def sigma(self) -> float | None:
        """The noise level that it was made for."""
        return self.about["info"].get("sigma")

    @property
    def sha256(self) -> str:
        """Of its file, by which records name it."""
        return self.about["sha256"]

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What one pass may promise, if that was measured."""
        return self.about["info"].get("calibration")

    def logits(self, images: Any, *, threads: int | None = None) -> np.ndarray:
        """Logits of images, one row each."""
        flat, _ = pixels(images, self.shape)
        found = self._core.logits(as_floats(flat), threads)
        return found.reshape(-1, len(self.classes))

    __call__ = logits

    def state_dict(self) -> dict[str, np.ndarray]:
        """Its parameters, by name."""
        return {name: values.reshape(shape) for name, shape, values in self._core.values()}

    def save(self, path: str | os.PathLike[str], *, fold: bool = False) -> Path:
        """Writes a .safetensors or .onnx file; ``fold`` multiplies batch norms into the layers
        before them (ONNX only)."""
        self._core.save(os.fspath(path), fold)
        return Path(path)

    def wanted(self) -> Wanted:
        """What it says about its images."""
        names = self.classes if self.about["named"] else None
        return Wanted(self.shape, len(self.classes), names)

    def __repr__(self) -> str:
        about, info = self.about, self.about["info"]
        h, w, c = self.shape
        kind = info.get("architecture") or about.get("foreign") or "network"
        made = "".join(f", {k} {info[k]}" for k in ("method", "sigma") if info.get(k) is not None)
        return (
            f"<{type(self).__name__} {self.name}: {kind}, {h}x{w}x{c} to {len(self.classes)} "
            f"classes, {about['parameters']} parameters{made}>"
        )


def _weights(arch: str | None, normalise: str | None, input: str | None, classes: int | None) -> dict[str, Any]:
    said = {"arch": arch, "normalise": normalise, "input": input, "classes": classes}
    return {name: value for name, value in said.items() if value is not None}


def load(
    model: str | os.PathLike[str] | bytes,
    *,
    arch: str | None = None,
    normalise: str | None = None,
    input: str | None = None,
    classes: int | None = None,
) -> Model:
    """Reads a model: a file (.safetensors, .onnx, .pth), a run folder, or the bytes of a file.

    ``arch``, ``normalise``, ``input`` (such as ``"32x32x3"``) and ``classes`` say what a file of
    weights alone does not.
    """
    said = _weights(arch, normalise, input, classes)
    if is_path(model):
        return Model(_core.Model.read(os.fspath(model), said, None))  # type: ignore[arg-type]
    if isinstance(model, (bytes, bytearray, memoryview)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(model)
            return Model(_core.Model.read(os.fspath(path), said, "bytes"))
    raise ModelError(f"a model of type {type(model).__name__}", "give a path or the bytes of a file")


def is_module(model: Any) -> bool:
    """Whether it is a module of PyTorch; torch is not imported for it."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def resolve(model: Any, said: dict[str, Any]) -> Model | _core.Model:
    """Whatever was given as a model. A path is read when the work begins, since the data may
    say what the file does not."""
    if isinstance(model, Model):
        if said:
            raise ModelError(f"{next(iter(said))} has no effect: the model is given whole", "leave it out")
        return model
    if is_path(model):
        return _core.Model.file(os.fspath(model), said)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return load(bytes(model), **said)
    raise ModelError(
        f"a model of type {type(model).__name__}",
        "give a path, the bytes of a file, a Model or a torch.nn.Module",
    )
