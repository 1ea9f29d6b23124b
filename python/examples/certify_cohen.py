"""Certify a classifier with Cohen's class: the loop of locuslab/smoothing's certify.py.

Their script runs with one line changed, ``from heatsmooth import Smooth``. This is the same loop
on any classifier and data set of torch or heatsmooth:

    python certify_cohen.py runs/gaussian digits 0.25 --N 1000 --max 20
"""

from __future__ import annotations

import argparse
import datetime
import time

from heatsmooth import Smooth, load, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base_classifier", help="a model file or run folder")
    parser.add_argument("dataset", help="a data set by name, or a folder")
    parser.add_argument("sigma", type=float)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--skip", type=int, default=1)
    parser.add_argument("--max", type=int, default=-1)
    parser.add_argument("--N0", type=int, default=100)
    parser.add_argument("--N", type=int, default=10_000)
    parser.add_argument("--alpha", type=float, default=0.001)
    arguments = parser.parse_args()

    model = load(arguments.base_classifier)
    data = read(arguments.dataset)
    smoothed = Smooth(model, len(model.classes), arguments.sigma)
    print("idx", "label", "predict", "radius", "correct", "time", sep="\t")
    for index in range(0, len(data), arguments.skip):
        if index == arguments.max:
            break
        x, label = data.array[index], data.labels[index]
        before = time.time()
        prediction, radius = smoothed.certify(x, arguments.N0, arguments.N, arguments.alpha, arguments.batch)
        elapsed = str(datetime.timedelta(seconds=time.time() - before))
        print(index, label, prediction, f"{radius:.3}", int(prediction == label), elapsed, sep="\t", flush=True)


if __name__ == "__main__":
    main()
