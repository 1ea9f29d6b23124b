"""Runs the shards of a measurement on the workers of a Ray cluster, and merges them.

    pip install ray
    python deploy/ray/certify.py --shards 64 -- \
        certify --model runs/v --data cifar10 --n 100000 --out logs/v.tsv

Without a cluster, Ray is started on this machine; `--address auto` joins one, whose machines
must share the folder of the logs. A shard whose worker is lost is started again, elsewhere, and
goes on with the rows that are there. Whatever the binary finds wrong ends the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import ray
from ray.exceptions import RayTaskError

#: How often a lost shard is started again.
RETRIES = 20


def shard_log(out: Path, index: int, count: int) -> Path:
    """As the binary names it."""
    return out.with_name(f"{out.stem}.shard-{index:0{len(str(count))}}-of-{count}{out.suffix}")


def run(words: list[str], folder: str) -> None:
    """One shard, in a process that ends with the worker."""
    child = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    _, said = child.communicate()
    if child.returncode == 2:
        # Bad input: another try would find the same.
        raise ValueError(said.strip())
    if child.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {child.returncode}: {said.strip()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, required=True, help="number of shards")
    parser.add_argument("--cpus", type=int, default=1, help="cores, and threads, of a shard")
    parser.add_argument("--address", help="the cluster; none: this machine")
    parser.add_argument("--workers", type=int, help="cores of this machine that Ray may use")
    parser.add_argument("--binary", default=os.environ.get("HEATSMOOTH", "heatsmooth"))
    parser.add_argument("words", nargs=argparse.REMAINDER, help="-- and the command, with --out F.tsv")
    options = parser.parse_args()
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if "--out" not in words[:-1]:
        parser.error("the command needs --out F.tsv")
    at = words.index("--out") + 1
    out = Path(words[at])
    parts = [shard_log(out, index, options.shards) for index in range(1, options.shards + 1)]

    local = {} if options.address else {"num_cpus": options.workers, "include_dashboard": False}
    ray.init(address=options.address, log_to_driver=False, **local)
    # A task that fails because its worker is gone is tried again; one that raises is not.
    task = ray.remote(num_cpus=options.cpus, max_retries=RETRIES, retry_exceptions=[RuntimeError])(run)
    waiting = {}
    for index, part in enumerate(parts, 1):
        own = [*words[:at], str(part), *words[at + 1 :]]
        own += ["--shard", f"{index}/{options.shards}", "--threads", str(options.cpus), "--quiet"]
        waiting[task.remote([options.binary, *own], os.getcwd())] = index
    done = 0
    while waiting:
        ready, _ = ray.wait(list(waiting))
        try:
            ray.get(ready)
        except RayTaskError as error:
            print(f"shard {waiting[ready[0]]}/{options.shards}: {error.cause}", file=sys.stderr)
            return 2
        done += 1
        del waiting[ready[0]]
        print(f"{done}/{options.shards} shards", file=sys.stderr)
    return subprocess.call([options.binary, "merge", *map(str, parts), "--out", str(out)])


if __name__ == "__main__":
    sys.exit(main())
