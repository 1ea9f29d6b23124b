"""Turn an image classifier into its own Gaussian average, certify it, attack it.

    import heatsmooth as hs

    v = hs.smooth("resnet20.onnx", "cifar10", sigma=0.1, out="runs/v")
    certified = hs.certify(v.base, "cifar10", sigma=0.1, out="base.tsv", images=range(500))
    print(certified)

``model`` is a path, the bytes of a file, a :class:`Model`, or a ``torch.nn.Module`` on any
device of torch; ``data`` a name, a folder, arrays, a ``Dataset`` or a ``DataLoader``. Logs and
run folders are those of the program ``heatsmooth``; everything resumes; same seed, same answer.
"""

from ._core import __version__
from ._data import Images, read
from ._errors import DataError, HeatsmoothError, HeatsmoothWarning, ModelError, SettingError
from ._functions import (
    architectures,
    attack,
    calibrate,
    certify,
    clever,
    evaluate,
    fidelity,
    lbound,
    merge,
    predict,
    presets,
    report,
    smooth,
    train,
)
from ._models import Model, load
from ._results import Evaluation, Fitted, Measured, Predictions, Report
from ._smooth import Smooth

__all__ = [
    "DataError",
    "Evaluation",
    "Fitted",
    "HeatsmoothError",
    "HeatsmoothWarning",
    "Images",
    "Measured",
    "Model",
    "ModelError",
    "Predictions",
    "Report",
    "SettingError",
    "Smooth",
    "__version__",
    "architectures",
    "attack",
    "calibrate",
    "certify",
    "clever",
    "evaluate",
    "fidelity",
    "lbound",
    "load",
    "merge",
    "predict",
    "presets",
    "read",
    "report",
    "smooth",
    "train",
]
