"""Trains or smooths on the workers of Ray Train, which starts torch.distributed on them.

    pip install "ray[train]"
    python deploy/ray/train.py --workers 2 smooth --model runs/base --data cifar10 --out runs/v sigma=0.25

Without a cluster, Ray is started on this machine; `--address auto` joins one, whose machines must
have the data at the same path. When a worker is lost all are started again, up to `--retries`
times, and go on from the last checkpoint: the run folder must be one that every machine sees.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch"))
import smooth  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--cpus", type=int, default=1, help="cores, and threads, of a process")
    parser.add_argument("--address", help="the cluster; none: this machine")
    parser.add_argument("--retries", type=int, default=3, help="how often a lost worker is made good")
    smooth.arguments(parser)
    options = parser.parse_intermixed_args()
    # Workers run elsewhere.
    for name in ("data", "out", "model"):
        path = getattr(options, name)
        if path is not None and Path(path).exists() or name == "out":
            setattr(options, name, os.path.abspath(path))
    options.settings.append(f"threads={options.cpus}")
    local = {} if options.address else {"include_dashboard": False}
    found = [os.path.dirname(os.path.abspath(smooth.__file__)), os.environ.get("PYTHONPATH", "")]
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, found))}}
    ray.init(address=options.address, runtime_env=environment, **local)

    def worker(options: argparse.Namespace) -> None:
        import ray.train
        import smooth

        said = smooth.work(options)
        if ray.train.get_context().get_world_rank() == 0:
            print(said)

    trainer = TorchTrainer(
        lambda config: worker(config["options"]),
        train_loop_config={"options": options},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(
            num_workers=options.workers, resources_per_worker={"CPU": options.cpus}
        ),
        run_config=RunConfig(
            storage_path=f"{options.out}.ray", failure_config=FailureConfig(max_failures=options.retries)
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
