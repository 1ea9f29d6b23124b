"""Data sets: names, folders, arrays, and what PyTorch has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import Shape, is_path, is_torch, on_grid, pixels, to_numpy
from ._errors import DataError


@dataclass
class Images:
    """Images and their classes, read into memory.

    ``pixels`` is flat, NHWC: uint8, or float32 from 0 to 1. Functions make one of whatever
    they are given; making one oneself saves reading a loader twice.
    """

    pixels: np.ndarray
    shape: Shape
    labels: np.ndarray | None
    classes: list[str] | None = None
    name: str = "arrays"

    def __len__(self) -> int:
        h, w, c = self.shape
        return len(self.pixels) // (h * w * c)

    @property
    def array(self) -> np.ndarray:
        """The images as (images, height, width, channels)."""
        return self.pixels.reshape(-1, *self.shape)

    def part(self, count: int, names: list[str] | None, split: str | None) -> _core.Part:
        """For the core: labels count the model's classes."""
        labels = self.labels
        if labels is None:
            labels = np.zeros(len(self), dtype=np.uint32)
        if len(labels) != len(self):
            raise DataError(f"{len(self)} images, but {len(labels)} labels", "give one label for each image")
        if labels.dtype.kind not in "ui" or (len(labels) and int(labels.min()) < 0):
            raise DataError(f"labels of type {labels.dtype}", "give whole numbers from 0, one for each image")
        if len(labels) and int(labels.max()) >= count:
            raise DataError(
                f"label {int(labels.max())}, but there are {count} classes",
                "labels count the model's classes from 0",
            )
        classes = self.classes or names or [str(k) for k in range(count)]
        return _core.Part(self.name, self.pixels, self.shape, [int(k) for k in labels], list(classes), split)


def _labels(value: Any) -> np.ndarray:
    array = to_numpy(value)
    if array.dtype.kind == "f" and np.array_equal(array, np.rint(array)):
        array = array.astype(np.int64)
    return array.reshape(-1)


def _is_dataset(value: Any) -> bool:
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not hasattr(value, "shape")


def _is_loader(value: Any) -> bool:
    return hasattr(value, "__iter__") and hasattr(value, "dataset")


def _split_item(item: Any) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        image = next((item[k] for k in ("image", "img", "pixel_values", "x") if k in item), None)
        label = next((item[k] for k in ("label", "labels", "y") if k in item), None)
        if image is None:
            raise DataError(f"items with {', '.join(map(str, item))}", "give items (image, label)")
        return image, label
    if isinstance(item, (tuple, list)) and len(item) >= 2:
        return item[0], item[1]
    return item, None


def _gather(items: Any, batched: bool, wanted: Shape | None, name: str) -> Images:
    """Reads items or batches into memory."""
    flat: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    shape: Shape | None = wanted
    missing = False
    try:
        for item in items:
            image, label = _split_item(item)
            array = to_numpy(image)
            torch = is_torch(image)
            if not batched:
                array = array[None] if array.ndim > 2 else array[None, ..., None]
            if torch and array.ndim == 4 and shape is None:
                array, torch = array.transpose(0, 2, 3, 1), False
                shape = (int(array.shape[1]), int(array.shape[2]), int(array.shape[3]))
            here, shape = pixels(array, shape, f"the images of {name}")
            flat.append(here)
            if label is None:
                missing = True
            else:
                labels.append(_labels(np.asarray(label) if np.isscalar(label) else label))
    except (StopIteration, RuntimeError, ValueError, TypeError, OSError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name} cannot be read: {error}", "is it open, and does it give images?") from error
    if not flat or shape is None:
        raise DataError(f"{name} gave no images", "an iterator or a closed loader gives none")
    if all(part.dtype == np.uint8 for part in flat):
        joined = np.concatenate(flat)
    else:
        joined = np.concatenate([p.astype(np.float32) / np.float32(255.0) if p.dtype == np.uint8 else p for p in flat])
    return Images(joined, shape, None if missing else np.concatenate(labels), None, name)


def gather(data: Any, wanted: Shape | None = None, classes: list[str] | None = None) -> Images:
    """Reads arrays, a Dataset or a DataLoader into memory."""
    if isinstance(data, Images):
        return data
    if _is_loader(data):
        name = type(data.dataset).__name__
        found = _gather(data, True, wanted, name)
    elif isinstance(data, (tuple, list)) and len(data) == 2 and not np.isscalar(data[0]):
        images, labels = data
        flat, shape = pixels(images, wanted)
        found = Images(flat, shape, None if labels is None else _labels(labels))
    elif hasattr(data, "shape"):
        flat, shape = pixels(data, wanted)
        found = Images(flat, shape, None)
    elif _is_dataset(data):
        name = type(data).__name__
        found = _gather((data[i] for i in range(len(data))), False, wanted, name)
        names = getattr(data, "classes", None)
        if isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names):
            found.classes = list(names)
    else:
        raise DataError(
            f"data of type {type(data).__name__}",
            "give a name, a folder, arrays (images, labels), a Dataset or a DataLoader",
        )
    if classes is not None:
        found.classes = list(classes)
    return found


@dataclass
class Wanted:
    """What a model says about its images."""

    shape: Shape | None = None
    count: int | None = None
    names: list[str] | None = None


def resolve(data: Any, wanted: Wanted, *, labels: bool, root: Any = None) -> _core.Data:
    """Whatever was given as data, for the core."""
    if is_path(data):
        return _core.Data.named(os.fspath(data), root)
    if root is not None:
        raise DataError("root has no effect on images that are given", "leave root out")
    if isinstance(data, Mapping):
        unknown = set(data) - {"train", "test"}
        if unknown or not data:
            raise DataError(f"parts {', '.join(map(repr, data))}", 'the parts are "train" and "test"')
        parts = {split: gather(data[split], wanted.shape) for split in data}
    else:
        parts = {None: gather(data, wanted.shape)}
    if labels and any(images.labels is None for images in parts.values()):
        raise DataError("images without labels", "give (images, labels)")
    counts = [1]
    for images in parts.values():
        if images.classes:
            counts.append(len(images.classes))
        elif images.labels is not None and len(images.labels):
            counts.append(int(images.labels.max()) + 1)
    count = wanted.count or max(counts)
    names = wanted.names
    for images in parts.values():
        # Positions, unless the model's names can be compared with the data's.
        if names is None and images.classes is not None and len(images.classes) != count:
            images.classes = None
    made = {split: images.part(count, names, split) for split, images in parts.items()}
    if None in made:
        return _core.Data.given(None, made[None])
    return _core.Data.given(made.get("train"), made.get("test"))


def read(
    data: str | os.PathLike[str],
    *,
    split: str = "test",
    images: range | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Images:
    """Some images of a data set, by its name or folder, in memory: all, or those of a range."""
    source = _core.Data.named(os.fspath(data), root)
    indices = range(source.len(split)) if images is None else images
    flat, labels, shape, classes = source.read(split, list(indices))
    return Images(on_grid(flat), shape, np.array(labels), classes, os.fspath(data))
