"""The class of Cohen et al., name for name."""

from __future__ import annotations

from typing import Any

from . import _core
from ._arrays import Shape, as_floats, pixels
from ._errors import HeatsmoothError
from ._models import Model, is_module, load


class Smooth:
    """A smoothed classifier g(x) = argmax_c P(f(x + noise) = c).

    The class ``Smooth`` of Cohen, Rosenfeld and Kolter's ``core.py``: their scripts run with only
    the import changed. ``base_classifier`` is a ``torch.nn.Module``, a :class:`Model` or a path.

    A module on the CPU that the library's own kernels can express is evaluated by them, after
    its logits have been compared; ``native=False`` keeps it in torch, ``native=True`` refuses
    one that cannot be expressed. The noise is a function of ``seed`` and of how many images
    came before, and exact for pixels of 8 bits unless ``noise`` says ``"float"``.
    """

    #: What certify and predict answer with where they abstain.
    ABSTAIN = -1

    def __init__(
        self,
        base_classifier: Any,
        num_classes: int,
        sigma: float,
        *,
        seed: int = 0,
        native: bool | None = None,
        noise: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.base_classifier = base_classifier
        self.num_classes = num_classes
        self.sigma = sigma
        self.seed, self.native, self.noise, self.threads = seed, native, noise, threads
        self._images = 0
        self._network: _core.Classifier | None = None
        self._shape: Shape | None = None
        #: The model that votes, once the first image has told its shape.
        self.model: Model | None = None

    def certify(self, x: Any, n0: int, n: int, alpha: float, batch_size: int) -> tuple[int, float]:
        """The class of g at x and the L2 radius in which it stays, with probability 1 - alpha; or
        ``ABSTAIN`` and 0. ``n0`` noisy copies choose the class, ``n`` estimate its probability."""
        network, flat = self._ready(x)
        number = self._next()
        found, radius = network.certify(
            flat, number, self.sigma, int(n0), int(n), float(alpha), int(batch_size), self.noise
        )
        return (self.ABSTAIN, 0.0) if found is None else (found, radius)

    def predict(self, x: Any, n: int, alpha: float, batch_size: int) -> int:
        """The class of g at x, wrong with probability at most alpha; or ``ABSTAIN``."""
        network, flat = self._ready(x)
        number = self._next()
        found = network.predict(flat, number, self.sigma, int(n), float(alpha), int(batch_size), self.noise)
        return self.ABSTAIN if found is None else found

    def _next(self) -> int:
        self._images += 1
        return self._images - 1

    def _ready(self, x: Any) -> tuple[_core.Classifier, Any]:
        if self._network is None:
            self._prepare(x)
        assert self._network is not None
        return self._network, as_floats(pixels(x, self._shape, "x")[0])

    def _prepare(self, x: Any) -> None:
        engine = None
        if is_module(self.base_classifier):
            from . import torch as hs_torch

            # As Cohen's class does: what votes is the network that answers.
            self.base_classifier.eval()
            shape = hs_torch.shape_of_image(x)
            model, engine = hs_torch.for_voting(self.base_classifier, shape, x, self.native)
        elif isinstance(self.base_classifier, Model):
            model = self.base_classifier
            if hasattr(model, "module"):
                from . import torch as hs_torch

                engine = hs_torch.Engine([model])  # type: ignore[list-item]
        else:
            model = load(self.base_classifier)
        if len(model.classes) != self.num_classes:
            raise HeatsmoothError(
                f"the classifier has {len(model.classes)} classes, not {self.num_classes}",
                "give the number of its logits",
            )
        place = {"seed": self.seed, "threads": self.threads, "progress": None, "engine": engine, "ranks": None}
        self._network = _core.Classifier(model._core, place)
        self.model, self._shape = model, model.shape
