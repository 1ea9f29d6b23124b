"""Images in arrays of any library, as the flat NHWC arrays of the core."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from ._errors import DataError

Shape = tuple[int, int, int]

#: What the number of channels may be where nothing else tells it from a height or width.
CHANNELS = (1, 3, 4)


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(value: Any) -> np.ndarray:
    """An array of NumPy; from the CPU's memory without a copy."""
    if is_torch(value):
        return value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def is_path(value: Any) -> bool:
    """A name, a path, or a folder."""
    return isinstance(value, (str, os.PathLike))


def _layout(shape: tuple[int, ...], wanted: Shape | None, torch: bool) -> str:
    """Whether the last three axes are HWC or CHW."""
    if wanted is not None:
        h, w, c = wanted
        hwc, chw = shape == (h, w, c), shape == (c, h, w)
        if hwc and chw:
            return "CHW" if torch else "HWC"
        if hwc or chw:
            return "HWC" if hwc else "CHW"
        raise DataError(
            f"images of shape {shape}, but the model takes {c}x{h}x{w} (channels first) or {h}x{w}x{c} (channels last)",
            "resize the images, or use the model for them",
        )
    last, first = shape[2] in CHANNELS, shape[0] in CHANNELS
    if last and not first:
        return "HWC"
    if first and not last:
        return "CHW"
    if first and last:
        return "CHW" if torch else "HWC"
    raise DataError(
        f"images of shape {shape}: which axis holds the channels?",
        "give arrays of shape (images, height, width, channels) or "
        "(images, channels, height, width) with 1, 3 or 4 channels",
    )


def _check_floats(values: np.ndarray, what: str) -> None:
    if not np.isfinite(values).all():
        raise DataError(f"{what} hold NaN or infinite pixels", "repair the images first")
    low, high = float(values.min()), float(values.max())
    if low >= 0.0 and high <= 1.0:
        return
    if low >= 0.0 and 1.5 < high <= 255.0:
        raise DataError(
            f"{what} hold pixels from {low:g} to {high:g}, expected 0 to 1",
            "divide them by 255, or give them as uint8",
        )
    raise DataError(
        f"{what} hold pixels from {low:g} to {high:g}, expected 0 to 1",
        "leave normalisation out of the data: it belongs into the model, so that sigma and radii "
        "are in units of pixels",
    )


def pixels(value: Any, wanted: Shape | None = None, what: str = "the images") -> tuple[np.ndarray, Shape]:
    """Images as one flat array, NHWC: uint8 wherever they are of 8 bits, else float32; and
    their shape (height, width, channels)."""
    torch = is_torch(value)
    array = to_numpy(value)
    if array.dtype == object or array.dtype.kind not in "uif":
        raise DataError(f"{what} are of type {array.dtype}", "give uint8 or floats from 0 to 1")
    if array.ndim == 3:
        grey = wanted is not None and wanted[2] == 1 and array.shape[1:] == wanted[:2]
        single = wanted is not None and array.shape in (wanted, (wanted[2], *wanted[:2]))
        if single and not grey:
            array = array[None]
        elif grey or wanted is None:
            array = array[..., None]
    if array.ndim != 4:
        raise DataError(
            f"{what} have {array.ndim} axes, expected 4",
            "give (images, height, width, channels) or (images, channels, height, width)",
        )
    if len(array) == 0:
        raise DataError(f"{what} are none", "give at least one; an iterator can be used only once")
    if _layout(array.shape[1:], wanted, torch) == "CHW":
        array = array.transpose(0, 2, 3, 1)
    shape = (int(array.shape[1]), int(array.shape[2]), int(array.shape[3]))
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array).reshape(-1), shape
    if array.dtype.kind != "f":
        raise DataError(
            f"{what} are of type {array.dtype}",
            "give uint8 (0 to 255) or floats from 0 to 1",
        )
    _check_floats(array, what)
    values = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    return on_grid(values), shape


def on_grid(values: np.ndarray) -> np.ndarray:
    """The bytes of floats that are whole 255ths, such as those of torchvision's ToTensor:
    exact noise is for them. Other floats as they are."""
    levels = np.rint(values * np.float32(255.0)).astype(np.float32)
    if np.array_equal(levels / np.float32(255.0), values):
        return levels.astype(np.uint8)
    return values


def as_floats(flat: np.ndarray) -> np.ndarray:
    """Flat pixels as float32 from 0 to 1."""
    if flat.dtype == np.uint8:
        return flat.astype(np.float32) / np.float32(255.0)
    return flat
