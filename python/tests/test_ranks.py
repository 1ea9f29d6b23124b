"""Two processes of torch.distributed (gloo) train as one does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heatsmooth as hs

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch is built without torch.distributed", allow_module_level=True)

SETTINGS = {"epochs": 2, "batch_size": 95, "hold_out": 1152, "threads": 1, "progress": False}
SMOOTH = {"by": "heat", "sigma": 0.25, "lr": 0.01}


def module() -> torch.nn.Module:
    """A small network with batch norms."""
    from test_torch import network

    return network()


def work(folder: Path, ranks: object) -> None:
    """What each process does: a native network, and a module in both kinds of norms."""
    base = hs.train("gaussian", "digits", arch="smallcnn", sigma=0.25, out=folder / "base", ranks=ranks, **SETTINGS)
    hs.smooth(base.model, "digits", out=folder / "native", ranks=ranks, **SMOOTH, **SETTINGS)
    found = hs.smooth(module(), "digits", out=folder / "module", ranks=ranks, **SMOOTH, **SETTINGS)
    # Every rank has the answer, whether it sees the folder or not.
    assert len(found.module(torch.zeros(2, 1, 8, 8))) == 2
    hs.train("baseline", "digits", start=module(), out=folder / "own", ranks=ranks, rank_norms="per-rank", **SETTINGS)


def lose(folder: Path, rank: int) -> None:
    """Rank 1 is killed once there is a checkpoint; what rank 0 then says is printed."""
    import threading
    import time

    def watch() -> None:
        while not list((folder / "lost").glob("*checkpoint*")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    if rank == 1:
        threading.Thread(target=watch, daemon=True).start()
    settings = dict(SETTINGS, epochs=500)
    hs.train("baseline", "digits", arch="mlp", out=folder / "lost", ranks=True, checkpoint_seconds=0, **settings)


def launch(task: str, folder: Path, count: int) -> list[subprocess.CompletedProcess]:
    """Starts the processes as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(count):
        own = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1")
        environment.update({name: str(value) for name, value in own.items()})
        words = [sys.executable, __file__, task, str(folder)]
        started.append(
            subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    done = []
    for process in started:
        out, err = process.communicate(timeout=300)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return done


def values(folder: Path) -> dict[str, np.ndarray]:
    return hs.load(folder / "model.safetensors").state_dict()


def test_two_processes_train_as_one(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    work(alone, None)
    for process in launch("work", together, 2):
        assert process.returncode == 0, process.stderr
    for name in ("base", "native"):
        a, b = values(alone / name), values(together / name)
        assert all(np.array_equal(a[key], b[key]) for key in a), f"{name}: other bits"
    a, b = values(alone / "module"), values(together / "module")
    assert max(np.abs(a[key] - b[key]).max() for key in a) < 1e-3
    first = [_losses(run / "module") for run in (alone, together)]
    assert abs(first[0][0] - first[1][0]) < 1e-4 * first[0][0]
    # Norms of each rank's own images are another training.
    assert _losses(alone / "own")[0] != _losses(together / "own")[0]
    assert '"norms": "per-rank"' in (together / "own/run.json").read_text()
    assert '"count": 2' in (together / "native/run.json").read_text()


def _losses(folder: Path) -> list[float]:
    header, *rows = [line.split("\t") for line in (folder / "epochs.tsv").read_text().splitlines()]
    return [float(row[header.index("loss")]) for row in rows]


def test_a_killed_rank_ends_the_others_and_the_run_goes_on(tmp_path):
    first, second = launch("lose", tmp_path, 2)
    assert second.returncode == -signal.SIGKILL
    assert first.returncode == 1 and "training on several ranks failed" in first.stderr, first.stderr
    assert "goes on from the last checkpoint" in first.stderr
    settings = dict(SETTINGS, epochs=500)
    found = hs.train("baseline", "digits", arch="mlp", out=tmp_path / "lost", checkpoint_seconds=0, **settings)
    assert len(_losses(tmp_path / "lost")) == 500 and found.file.exists()


def test_ranks_need_a_group(tmp_path):
    with pytest.raises(hs.SettingError, match=r"torch.distributed, which is not started"):
        hs.train("baseline", "digits", arch="mlp", out=tmp_path / "run", ranks=True)


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    place = Path(sys.argv[2])
    if sys.argv[1] == "work":
        work(place, True)
    else:
        lose(place, torch.distributed.get_rank())
    torch.distributed.destroy_process_group()
