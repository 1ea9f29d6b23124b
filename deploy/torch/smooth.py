"""Trains or smooths on the processes of torchrun, or of Ray Train.

    torchrun --nproc-per-node 2 deploy/torch/smooth.py smooth --model runs/base --data cifar10 \
        --out runs/v sigma=0.25
    torchrun --nproc-per-node 2 deploy/torch/smooth.py train --method gaussian --arch resnet20-cifar \
        --data cifar10 --out runs/base sigma=0.25

`NAME=VALUE` are keywords of `heatsmooth.smooth` and `heatsmooth.train`. On several machines torchrun
is told `--nnodes`, `--node-rank` and `--rdzv-endpoint`; only rank 0 writes. `work` is what
`deploy/ray/train.py` starts on the workers of Ray.
"""

from __future__ import annotations

import argparse
import json

import heatsmooth as hs


def value(text: str) -> object:
    """A number or a switch as Python has it; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["smooth", "train"])
    parser.add_argument("--data", required=True, help="a name or a folder, at the same path everywhere")
    parser.add_argument("--out", required=True, help="the run folder, which rank 0 writes")
    parser.add_argument("--model", help="smooth: a model's file or run folder")
    parser.add_argument("--method", default="baseline", help="train: the method")
    parser.add_argument("--arch", help="train: the architecture")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")


def work(options: argparse.Namespace) -> str:
    """What every process does, once torch.distributed is started."""
    settings = {name: value(text) for name, _, text in (one.partition("=") for one in options.settings)}
    settings.update(data=options.data, out=options.out, ranks=True)
    if options.what == "smooth":
        if options.model is None:
            raise SystemExit("smooth needs --model")
        return str(hs.smooth(options.model, **settings))
    return str(hs.train(options.method, arch=options.arch, **settings))


def main() -> None:
    # Imported here: workers of Ray import this file without it.
    import torch.distributed as dist

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    options = parser.parse_intermixed_args()
    dist.init_process_group("gloo")
    said = work(options)
    if dist.get_rank() == 0:
        print(said)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
