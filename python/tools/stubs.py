"""Writes ``heatsmooth/__init__.pyi``: every keyword of the library with its type.

``python tools/stubs.py`` writes it, ``python tools/stubs.py --check`` fails if it is not current.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import heatsmooth as hs

FILE = Path(__file__).parents[1] / "heatsmooth" / "__init__.pyi"

HEAD = '''"""Made by tools/stubs.py from the library's own parameters."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from ._data import Images as Images
from ._data import read as read
from ._errors import DataError as DataError
from ._errors import HeatsmoothError as HeatsmoothError
from ._errors import HeatsmoothWarning as HeatsmoothWarning
from ._errors import ModelError as ModelError
from ._errors import SettingError as SettingError
from ._models import Model as Model
from ._models import load as load
from ._progress import Progress
from ._results import Evaluation as Evaluation
from ._results import Fitted as Fitted
from ._results import Measured as Measured
from ._results import Predictions as Predictions
from ._results import Report as Report
from ._smooth import Smooth as Smooth

__version__: str

_Path = str | os.PathLike[str]
'''

#: What is said better than by the kind of a field.
TYPES = {
    "images": "range | slice | tuple[int, int] | int | str | None",
    "shard": "str | tuple[int, int] | None",
    "progress": "bool | Progress | None",
    "method": 'Literal["baseline", "gaussian", "smoothadv", "adversarial"] | str',
    "attack": 'Literal["pgd", "ddn"] | str',
}


def choices(what: tuple[str, ...]) -> dict[str, str]:
    """Types of the fields, by name."""
    kinds = {"number": "float", "whole": "int", "switch": "bool", "text": "str", "path": "_Path"}
    found = {}
    for one in what:
        for field in hs._core.fields(one):
            names = ", ".join(f'"{name}"' for name in field["choices"])
            kind = f"Literal[{names}]" if names else kinds[field["kind"]]
            found[field["name"]] = kind if field["default"] is not None else f"{kind} | None"
    return found


def written(name: str, what: tuple[str, ...]) -> str:
    """The stub of one function."""
    function = getattr(hs, name)
    types, lines, starred = choices(what), [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            lines.append("    *,")
        own = parameter.annotation
        kind = types.get(parameter.name) or (own if isinstance(own, str) else "Any")
        if not (name == "predict" and parameter.name == "images"):
            kind = TYPES.get(parameter.name, kind)
        kind = kind.replace("str | os.PathLike[str]", "_Path")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        if star:
            starred = True
        if parameter.default is parameter.empty:
            default = ""
        else:
            value = parameter.default
            if value is None and "None" not in kind and kind != "Any":
                kind = f"{kind} | None"
            shown = f'"{value}"' if isinstance(value, str) else repr(value)
            default = f" = {shown}"
        lines.append(f"    {star}{parameter.name}: {kind}{default},")
    answer = inspect.signature(function).return_annotation
    return "\n".join([f"def {name}(", *lines, f") -> {answer}: ..."])


FUNCTIONS = {
    "certify": ("certify", "images", "split", "weights"),
    "lbound": ("lbound", "images", "split", "weights"),
    "clever": ("clever", "images", "split", "weights"),
    "fidelity": ("fidelity", "images", "split", "weights"),
    "calibrate": ("calibrate", "images", "split", "weights"),
    "attack": ("pgd", "ddn", "images", "split", "weights"),
    "evaluate": ("evaluate", "split", "weights"),
    "predict": ("predict", "weights"),
    "smooth": ("smooth", "weights"),
    "train": ("train smoothadv",),
    "report": (),
    "merge": (),
    "presets": (),
    "architectures": (),
}


def stub() -> str:
    """The whole file."""
    body = "\n".join(written(name, what) for name, what in FUNCTIONS.items())
    return f"{HEAD}\n{body}\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if FILE.read_text() == stub() else "heatsmooth/__init__.pyi is old: run tools/stubs.py")
    FILE.write_text(stub())
