"""PyTorch as a device: a ``torch.nn.Module`` on any device of torch.

Every function of :mod:`heatsmooth` takes a module as it is; :func:`wrap` says more about it.
torch is imported here and nowhere else.
"""

from ._convert import for_voting, shape_of_image, to_native
from ._module import TorchModel, load, wrap
from ._network import Engine, Network
from ._noise import noisy_copies
from ._ranks import Ranks

__all__ = [
    "Engine",
    "Network",
    "Ranks",
    "TorchModel",
    "for_voting",
    "load",
    "noisy_copies",
    "shape_of_image",
    "to_native",
    "wrap",
]
