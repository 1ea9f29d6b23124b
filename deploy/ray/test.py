"""Work on two workers of Ray, one of which is killed, ends as if nothing had happened.

    HEATSMOOTH=target/release/heatsmooth python deploy/ray/test.py certify
    HEATSMOOTH=target/release/heatsmooth python deploy/ray/test.py train

`certify`: of 64 shards every row is there, once. `train` (needs torch and the package
`heatsmooth`): a smoothing gives the bytes of one process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BINARY = str(Path(os.environ.get("HEATSMOOTH", "heatsmooth")).resolve())
HERE = Path(__file__).resolve().parent
CERTIFY = "certify --model base --data digits --sigma 0.25 --n 2000 --images 0..192".split()
#: As the binary has it, and as deploy/ray/train.py has it: enough epochs to be killed in.
SMOOTH = {"by": "heat", "sigma": 0.25, "epochs": 40, "lr": 0.01}


def workers_of(driver: int, task: str) -> list[int]:
    """Processes of Ray, below the driver, that run a task of this name at this moment."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[1])

    def below(process: int) -> bool:
        while process in parents and process != driver:
            process = parents[process]
        return process == driver

    return [pid for pid, name in names.items() if name.startswith("ray::") and task in name and below(pid)]


def rows(log: Path) -> list[str]:
    """Rows without the columns of times."""
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    kept = [place for place, name in enumerate(lines[0]) if "time" not in name]
    return ["\t".join(line[place] for place in kept) for line in lines]


def kill_one(driver: subprocess.Popen, task: str, begun: Callable[[], bool]) -> None:
    """Kills one worker once the work has begun, and waits for the driver's end."""
    killed = 0
    while killed == 0 and driver.poll() is None:
        time.sleep(0.2)
        if begun():
            for pid in workers_of(driver.pid, task)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert driver.wait() == 0, "the driver failed"
    assert killed == 1, "no worker could be killed"


def go(folder: Path, *words: str) -> None:
    subprocess.run([BINARY, *words, "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def certify(folder: Path) -> None:
    go(folder, *"train baseline --data digits --arch mlp --epochs 1 --out base".split())
    go(folder, *CERTIFY, "--out", "whole.tsv")
    words = [sys.executable, str(HERE / "certify.py"), "--shards", "64", "--workers", "2", "--binary", BINARY, "--"]
    driver = subprocess.Popen([*words, *CERTIFY, "--out", "parts/v.tsv"], cwd=folder)
    kill_one(driver, "run", lambda: len(list((folder / "parts").glob("*.tsv"))) >= 5)
    assert rows(folder / "parts/v.tsv") == rows(folder / "whole.tsv"), "rows differ"
    print("64 shards on 2 workers, one killed: the rows of one run")


def train(folder: Path) -> None:
    go(folder, *"train baseline --data digits --arch smallcnn --epochs 1 --out base".split())
    options = [word for name, value in SMOOTH.items() for word in (f"--{name}", str(value))]
    go(folder, *"smooth --model base --data digits --out whole".split(), *options)
    words = [sys.executable, str(HERE / "train.py"), "--workers", "2", "smooth", "--model", "base", "--data", "digits"]
    words += ["--out", "killed", "checkpoint_seconds=0", *(f"{name}={value}" for name, value in SMOOTH.items())]
    driver = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    kill_one(driver, "TrainWorker", lambda: (folder / "killed/checkpoint.safetensors").exists())
    one, two = ((folder / run / "model.safetensors").read_bytes() for run in ("whole", "killed"))
    assert one == two, "other bytes than one process"
    print("a smoothing on 2 workers of Ray Train, one killed: the bytes of one process")


def main() -> None:
    tasks = {"certify": certify, "train": train}
    if sys.argv[1:] not in ([name] for name in tasks):
        sys.exit(str(__doc__))
    with tempfile.TemporaryDirectory() as name:
        tasks[sys.argv[1]](Path(name))


if __name__ == "__main__":
    main()
