"""What functions answer with: figures that say what they guarantee, and rows."""

from __future__ import annotations

import html
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _core
from ._models import Model, load

#: What a report shows where nothing is said.
USUAL: dict[str, Any] = {"title": None, "radii": [], "denominator": "all", "attacks": "successes"}


class Rows:
    """Rows of a log. Anything that reads Arrow reads them: pandas, polars, pyarrow, DuckDB."""

    log: Path

    @cached_property
    def table(self) -> _core.Table:
        """The rows, column by column."""
        return _core.Table(str(self.log))

    def __len__(self) -> int:
        return len(self.table)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_dict(self) -> dict[str, list[Any]]:
        """Every column as a list; ``None`` where a cell is empty."""
        return self.table.to_dict()

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def to_polars(self) -> Any:
        """The rows as a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)


def _page(text: str, figures: list[tuple[str, str]]) -> str:
    drawn = "".join(f'<div style="max-width:44em">{svg}</div>' for _, svg in figures)
    return f"<pre>{html.escape(text)}</pre>{drawn}"


class Measured(Rows):
    """A log and what it comes to. ``str()`` gives the summary with its guarantee."""

    def __init__(self, answer: tuple[str, str]) -> None:
        self.summary: dict[str, Any] = json.loads(answer[0])
        self._text = answer[1].rstrip()
        self.log = Path(self.summary["log"])
        self.images: int = self.summary["images"]
        self.sigma: float | None = self.summary["sigma"]
        #: What the figures guarantee, and for which classifier.
        self.guarantee: str = self.summary["guarantee"]

    @property
    def manifest(self) -> dict[str, Any]:
        """What stands beside the log: configuration, seed, hashes, versions, guarantee."""
        return json.loads(self.log.with_suffix(".json").read_text())

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What one pass may promise, if that was measured here."""
        return self.manifest["configuration"].get("calibration")

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def figures(self) -> list[tuple[str, str]]:
        """The report's figures of this log: names and SVG."""
        return _core.figures([str(self.log)], USUAL)

    def _repr_html_(self) -> str:
        return _page(self._text, self.figures())


class Evaluation:
    """Clean and noisy accuracy, and one-pass radii. Empirical."""

    def __init__(self, answer: tuple[str, str]) -> None:
        self.summary: list[dict[str, Any]] = json.loads(answer[0])
        self._text = answer[1].rstrip()

    @property
    def accuracy(self) -> float:
        """Share of clean images that are right."""
        return self.summary[0]["top1"]

    @property
    def noisy_accuracy(self) -> float | None:
        """The same with one noisy copy of each image, if a noise level was given."""
        return self.summary[1]["top1"] if len(self.summary) > 1 else None

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _page(self._text, [])


class Predictions(list):
    """An answer for each picture: a dictionary with class, probability and radii."""

    def __init__(self, answer: tuple[str, str]) -> None:
        super().__init__(json.loads(answer[0]))
        #: What the radii guarantee, in words.
        self.guarantees: str = answer[1].rstrip()

    @property
    def classes(self) -> list[int]:
        """The class of each picture, by one pass."""
        return [found["class"] for found in self]

    def _repr_html_(self) -> str:
        columns = ("image", "name", "probability", "one_pass", "lbound", "calibrated")
        shown = [c for c in columns if any(found.get(c) is not None for found in self)]
        head = "".join(f"<th>{c}</th>" for c in shown)

        def cell(value: Any) -> str:
            text = f"{value:.4f}" if isinstance(value, float) else str(value)
            return f"<td>{html.escape(text)}</td>"

        rows = "".join(f"<tr>{''.join(cell(f.get(c)) for c in shown)}</tr>" for f in self)
        words = html.escape(self.guarantees)
        return f"<table><tr>{head}</tr>{rows}</table><pre>{words}</pre>"


class Fitted(Rows):
    """A finished run. Its rows are the epochs."""

    def __init__(self, answer: tuple[str, str], folder: Path) -> None:
        self.summary: dict[str, Any] = json.loads(answer[0])
        self._text = answer[1].rstrip()
        #: The run folder, and the model's file in it.
        self.folder, self.file = folder, Path(self.summary["model"])
        self.log = folder / "epochs.tsv"
        self._module: Any = None

    @cached_property
    def model(self) -> Model:
        """The model."""
        return load(self.file)

    @property
    def module(self) -> Any:
        """The model as the module of PyTorch that it was made from."""
        if self._module is None:
            raise AttributeError("the run was not made from a torch.nn.Module")
        return self._module

    @property
    def base(self) -> Path | None:
        """The model whose average was made: what is certified by sampling."""
        base = self.summary.get("base")
        return None if base is None else Path(base["model"])

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _page(self._text, _core.figures([str(self.folder)], USUAL))


class Report:
    """Tables, figures and the page, on disk."""

    def __init__(self, page: str, files: list[str], warnings: list[str]) -> None:
        self.page = Path(page)
        self.files = [Path(file) for file in files]
        self.warnings = warnings

    def open(self) -> None:
        """Opens the page in a browser."""
        import webbrowser

        webbrowser.open(self.page.resolve().as_uri())

    def __repr__(self) -> str:
        return f"{self.page}: {len(self.files)} files written"

    def _repr_html_(self) -> str:
        source = html.escape(self.page.read_text(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:40em;border:0"></iframe>'
