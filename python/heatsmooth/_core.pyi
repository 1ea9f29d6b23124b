"""The compiled module; see ``python/src``."""

from typing import Any

import numpy as np

__version__: str

class Part:
    def __init__(
        self,
        name: str,
        pixels: np.ndarray,
        shape: tuple[int, int, int],
        labels: list[int],
        classes: list[str],
        split: str | None,
    ) -> None: ...
    def __len__(self) -> int: ...

class Data:
    @staticmethod
    def named(name: str, root: Any) -> Data: ...
    @staticmethod
    def given(train: Part | None, test: Part | None) -> Data: ...
    def read(self, split: str, indices: list[int]) -> tuple[np.ndarray, list[int], tuple[int, int, int], list[str]]: ...
    def len(self, split: str) -> int: ...

class Model:
    @staticmethod
    def file(path: str, said: dict[str, Any]) -> Model: ...
    @staticmethod
    def read(path: str, said: dict[str, Any], name: str | None) -> Model: ...
    @staticmethod
    def foreign(
        name: str,
        network: str,
        input: tuple[int, int, int],
        classes: int,
        class_names: list[str],
        specs: list[tuple[str, list[int], str]],
        arrays: list[np.ndarray],
        info: str,
    ) -> Model: ...
    @property
    def name(self) -> str: ...
    def describe(self) -> str: ...
    def values(self) -> list[tuple[str, list[int], np.ndarray]]: ...
    def logits(self, images: np.ndarray, threads: int | None) -> np.ndarray: ...
    def to_bytes(self, format: str, fold: bool) -> bytes: ...
    def save(self, path: str, fold: bool) -> None: ...

class Classifier:
    def __init__(self, model: Model, place: dict[str, Any]) -> None: ...
    def certify(
        self,
        pixels: np.ndarray,
        number: int,
        sigma: float,
        n0: int,
        n: int,
        alpha: float,
        batch: int,
        noise: str | None,
    ) -> tuple[int | None, float]: ...
    def predict(
        self,
        pixels: np.ndarray,
        number: int,
        sigma: float,
        n: int,
        alpha: float,
        batch: int,
        noise: str | None,
    ) -> int | None: ...

class Table:
    def __init__(self, log: str) -> None: ...
    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def fields(what: str) -> list[dict[str, Any]]: ...
def presets(method: str) -> list[tuple[str, str]]: ...
def architectures() -> list[tuple[str, str]]: ...
def measure(
    what: str,
    model: Model,
    data: Data,
    reference: Model | None,
    out: str | None,
    said: dict[str, Any],
    place: dict[str, Any],
) -> tuple[str, str]: ...
def evaluate(model: Model, data: Data, said: dict[str, Any], place: dict[str, Any]) -> tuple[str, str]: ...
def predict(
    model: Model,
    paths: list[str] | None,
    images: np.ndarray | None,
    said: dict[str, Any],
    place: dict[str, Any],
) -> tuple[str, str]: ...
def train(
    method: str,
    model: Model | None,
    network: dict[str, Any],
    data: Data,
    out: str,
    preset: str | None,
    said: dict[str, Any],
    place: dict[str, Any],
) -> tuple[str, str]: ...
def smooth(
    model: Model,
    data: Data,
    out: str,
    preset: str | None,
    said: dict[str, Any],
    place: dict[str, Any],
) -> tuple[str, str]: ...
def report(paths: list[str], out: str, wanted: dict[str, Any]) -> tuple[str, list[str], list[str]]: ...
def figures(paths: list[str], wanted: dict[str, Any]) -> list[tuple[str, str]]: ...
def merge(shards: list[str], out: str) -> None: ...
def noisy_copies(
    pixels: np.ndarray,
    image: int,
    first_sample: int,
    count: int,
    sigma: float,
    seed: int,
    levels: int | None = None,
) -> tuple[np.ndarray, dict[str, Any]]: ...
