"""Small models on the embedded digits, trained once for all tests."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import heatsmooth as hs

ROOT = Path(__file__).resolve().parents[2]
SIGMA = 0.25


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> hs.Fitted:
    """A small network, good under noise."""
    out = tmp_path_factory.mktemp("runs") / "gaussian"
    return hs.train("gaussian", "digits", arch="mlp", sigma=SIGMA, epochs=3, out=out, progress=False)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """The test images of the digits, floats of 17 levels, and their labels."""
    found = hs.read("digits")
    return found.array, found.labels


@pytest.fixture(scope="session")
def binary() -> str:
    """The program: HEATSMOOTH_BIN, or the one that cargo built here."""
    import os

    candidates = [os.environ.get("HEATSMOOTH_BIN"), shutil.which("heatsmooth")]
    candidates += [str(ROOT / "target" / kind / "heatsmooth") for kind in ("release", "debug")]
    found = next((c for c in candidates if c and Path(c).exists()), None)
    if found is None:
        pytest.skip("the program heatsmooth is not built")
    return found


def run(binary: str, words: str, folder: Path) -> dict:
    """Runs the program; its summary."""
    done = subprocess.run(
        [binary, *words.split(), "--json", "--quiet"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(log: Path) -> list[list[str]]:
    """The cells of a log, without the times."""
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    keep = [at for at, name in enumerate(lines[0]) if name not in ("time", "classify_time", "seconds")]
    return [[line[at] for at in keep] for line in lines]
