"""64 shards on two workers, one of which is killed: every row is there, once.

    HEATSMOOTH=target/release/heatsmooth python deploy/ray/test.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BINARY = str(Path(os.environ.get("HEATSMOOTH", "heatsmooth")).resolve())
SCRIPT = Path(__file__).with_name("certify.py").resolve()
CERTIFY = "certify --model base --data digits --sigma 0.25 --n 2000 --images 0..192".split()


def workers_of(driver: int) -> list[int]:
    """Processes of Ray, below the driver, that run tasks at this moment."""
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

    return [pid for pid, name in names.items() if name.startswith("ray::run") and below(pid)]


def rows(log: Path) -> list[str]:
    """Rows without the columns of times."""
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    kept = [place for place, name in enumerate(lines[0]) if "time" not in name]
    return ["\t".join(line[place] for place in kept) for line in lines]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def go(*words: str) -> None:
            subprocess.run([BINARY, *words, "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        go(*"train baseline --data digits --arch mlp --epochs 1 --out base".split())
        go(*CERTIFY, "--out", "whole.tsv")
        words = [sys.executable, str(SCRIPT), "--shards", "64", "--workers", "2", "--binary", BINARY, "--"]
        driver = subprocess.Popen([*words, *CERTIFY, "--out", "parts/v.tsv"], cwd=folder)
        killed = 0
        while killed == 0 and driver.poll() is None:
            time.sleep(0.2)
            if len(list((folder / "parts").glob("*.tsv"))) >= 5:
                for pid in workers_of(driver.pid)[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        assert driver.wait() == 0, "the driver failed"
        assert killed == 1, "no worker could be killed"
        assert rows(folder / "parts/v.tsv") == rows(folder / "whole.tsv"), "rows differ"
        print("64 shards on 2 workers, one killed: the rows of one run")


if __name__ == "__main__":
    main()
