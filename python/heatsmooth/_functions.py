"""The functions: the library's parameters as keywords, with its defaults."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import _core
from ._arrays import as_floats, is_path, pixels
from ._data import Wanted
from ._data import resolve as resolve_data
from ._errors import HeatsmoothWarning, ModelError, SettingError
from ._models import Model, is_module, load
from ._models import resolve as resolve_model
from ._progress import chosen, in_notebook
from ._results import USUAL, Evaluation, Fitted, Measured, Predictions, Report

#: Keywords that say what a file of weights does not.
WEIGHTS = ("arch", "normalise", "input", "classes")
#: What a certificate of a module lacks.
BATCHES = (
    "torch does not promise that an image has the same logits in every batch: these certificates are proven for "
    "the function that it computed here; heatsmooth.torch.to_native gives a model for which they hold to the bit"
)


def parameters(what: str) -> list[inspect.Parameter]:
    """The keywords of what can be set."""
    found = []
    for field in _core.fields(what):
        default = None if field["default"] is None else json.loads(field["default"])
        kinds = {"number": float, "whole": int, "switch": bool, "path": os.PathLike}
        annotation = kinds.get(field["kind"], str)
        found.append(
            inspect.Parameter(field["name"], inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return found


def _help(what: Iterable[str]) -> str:
    lines = []
    for one in what:
        for field in _core.fields(one):
            default = field["default"]
            known = default is None or "[default:" in field["help"] or field["kind"] == "switch"
            shown = "" if known else f" [default: {json.loads(default)}]"
            lines.append(f"{field['name']}\n    {field['help']}{shown}")
    return "\n".join(dict.fromkeys(lines))


def keywords(*what: str) -> Callable[[Any], Any]:
    """Gives a function the keywords, defaults and help of what the library can be told."""

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in own}
        for parameter in (p for one in what for p in parameters(one)):
            if parameter.name not in names:
                own.append(parameter)
                names.add(parameter.name)
        function.__signature__ = signature.replace(parameters=own)
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = f"{text}\n\nKeywords\n--------\n{_help(what)}\n"
        return function

    return decorate


class Work:
    """Model, data and place of one piece of work."""

    def __init__(
        self,
        model: Any,
        data: Any,
        settings: dict[str, Any],
        *,
        reference: Any = None,
        labels: bool = True,
        root: Any = None,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = None,
        ranks: Any = None,
    ) -> None:
        weights = {k: settings.pop(k) for k in WEIGHTS if settings.get(k) is not None}
        self.wrapped: list[Any] = []
        shape = None
        if any(is_module(m) or _is_wrapped(m) for m in (model, reference)):
            shape = _shape_of(model, reference, data, weights.pop("input", None), root)
        self.model = self._one(model, weights, shape)
        self.reference = None
        if reference is not None:
            self.reference = self._one(reference, {}, shape)
        self.data = resolve_data(data, self._wanted(data), labels=labels, root=root)
        self.ranks = _ranks(ranks)
        self.place = _place(seed, threads, progress, self._engine(), self.ranks)

    def _one(self, model: Any, weights: dict[str, Any], shape: Any) -> Any:
        if is_module(model):
            from . import torch as hs_torch

            model = hs_torch.wrap(model, shape)
        if _is_wrapped(model):
            self.wrapped.append(model)
        return resolve_model(model, weights)

    def _engine(self) -> Any:
        if not self.wrapped:
            return None
        from . import torch as hs_torch

        return hs_torch.Engine(self.wrapped, self.ranks)

    def _wanted(self, data: Any) -> Wanted:
        if is_path(data):
            return Wanted()
        model = self.model
        return model.wanted() if isinstance(model, Model) else Model(model).wanted()

    @property
    def core(self) -> _core.Model:
        return _core_of(self.model)

    @property
    def core_reference(self) -> _core.Model | None:
        return None if self.reference is None else _core_of(self.reference)


def _ranks(group: Any) -> Any:
    """The processes that train together."""
    if group is None or group is False:
        return None
    from . import torch as hs_torch

    return group if isinstance(group, hs_torch.Ranks) else hs_torch.Ranks(group)


def _place(seed: int, threads: int | None, progress: Any, engine: Any, ranks: Any) -> dict[str, Any]:
    """Where and how work is done. Of several ranks only the first one shows progress."""
    if ranks is not None:
        threads = ranks.threads if threads is None else threads
        progress = progress if ranks.rank == 0 else False
    return {"seed": seed, "threads": threads, "progress": chosen(progress), "engine": engine, "ranks": ranks}


def _core_of(model: Any) -> _core.Model:
    return model._core if isinstance(model, Model) else model


def _is_wrapped(model: Any) -> bool:
    return isinstance(model, Model) and getattr(model, "module", None) is not None


def _shape_of(model: Any, reference: Any, data: Any, said: str | None, root: Any) -> Any:
    """The shape of the images, for modules, which do not say it themselves."""
    for one in (model, reference):
        if isinstance(one, Model):
            return one.shape
    if said is not None:
        parts = said.lower().split("x")
        if len(parts) != 3 or not all(part.isdigit() for part in parts):
            raise SettingError(f"input is `{said}`", "give height, width and channels, such as 32x32x3")
        return tuple(int(part) for part in parts)
    if is_path(data):
        *_, shape, _ = resolve_data(data, Wanted(), labels=False, root=root).read("test", [0])
        return shape
    from ._data import gather

    first = next(iter(data.values())) if isinstance(data, dict) else data
    return gather(first).shape


def _images(value: Any) -> Any:
    """``images=range(0, 500)`` or ``(0, 500)`` as the library writes it."""
    if isinstance(value, range):
        if value.step != 1:
            raise SettingError("images is a range with steps", "use skip=K for every K-th image")
        return f"{value.start}..{value.stop}"
    if isinstance(value, slice):
        return f"{value.start or 0}..{'' if value.stop is None else value.stop}"
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return f"{value[0]}..{value[1]}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"0..{value}"
    return value


def _settings(said: dict[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in said.items() if value is not None}
    if "images" in said:
        said["images"] = _images(said["images"])
    if isinstance(said.get("shard"), (tuple, list)):
        said["shard"] = "/".join(str(part) for part in said["shard"])
    return said


def _measure(
    what: str,
    model: Any,
    data: Any,
    out: Any,
    said: dict[str, Any],
    *,
    reference: Any = None,
    root: Any = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
) -> Measured:
    said = _settings(said)
    work = Work(model, data, said, reference=reference, root=root, seed=seed, threads=threads, progress=progress)
    if what == "certify" and work.wrapped:
        warnings.warn(BATCHES, HeatsmoothWarning, stacklevel=3)
    out = None if out is None else os.fspath(out)
    answer = _core.measure(what, work.core, work.data, work.core_reference, out, said, work.place)
    return Measured(answer)


@keywords("certify", "images", "split", "weights")
def certify(
    model: Any,
    data: Any,
    *,
    out: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """Certified radii of the smoothed classifier (Cohen et al.), one row an image.

    ``model`` is a path, a :class:`Model` or a ``torch.nn.Module``; ``data`` a name, a folder,
    ``(images, labels)``, a ``Dataset`` or a ``DataLoader``; ``out`` the log, a ``.tsv`` file.
    Called again, it goes on where it stopped and ends with the same rows. ``images`` may be
    ``range(0, 500)``.
    """
    return _measure("certify", model, data, out, settings, root=root, seed=seed, threads=threads, progress=progress)


@keywords("lbound", "images", "split", "weights")
def lbound(
    model: Any,
    data: Any,
    *,
    out: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) for each image.

    Approximate for a deterministic model: it holds if the model is exactly a Gaussian average.
    """
    return _measure("lbound", model, data, out, settings, root=root, seed=seed, threads=threads, progress=progress)


@keywords("clever", "images", "split", "weights")
def clever(
    model: Any,
    data: Any,
    *,
    out: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """CLEVER: an estimate, not a bound, of the distance to another class (Weng et al.)."""
    return _measure("clever", model, data, out, settings, root=root, seed=seed, threads=threads, progress=progress)


@keywords("fidelity", "images", "split", "weights")
def fidelity(
    model: Any,
    data: Any,
    *,
    reference: Any,
    out: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """How close v(x) is to the Monte-Carlo average of the reference f at x. Empirical."""
    return _measure(
        "fidelity", model, data, out, settings,
        reference=reference, root=root, seed=seed, threads=threads, progress=progress,
    )  # fmt: skip


@keywords("calibrate", "images", "split", "weights")
def calibrate(
    model: Any,
    data: Any,
    *,
    reference: Any,
    out: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """The one-pass radius that may be promised, kept in the model's file.

    For inputs drawn like these images; an attacked input is not such an input. A model that is
    in memory has no file: ``.calibration`` of the answer has it, and the log's description.
    """
    return _measure(
        "calibrate", model, data, out, settings,
        reference=reference, root=root, seed=seed, threads=threads, progress=progress,
    )  # fmt: skip


def attack(
    attack: str,
    model: Any,
    data: Any,
    *,
    out: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Measured:
    """Attacks a model: the smallest perturbation found for each image. Empirical.

    ``attack`` is ``"pgd"`` (projected gradient descent with a fixed L2 budget) or ``"ddn"``
    (decoupled direction and norm: small L2 norms).
    """
    return _measure(attack, model, data, out, settings, root=root, seed=seed, threads=threads, progress=progress)


keywords("pgd", "ddn", "images", "split", "weights")(attack)


@keywords("evaluate", "split", "weights")
def evaluate(
    model: Any,
    data: Any,
    *,
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Evaluation:
    """Clean and noisy accuracy of a model, top-1 and top-5; one-pass radii of a deterministic one."""
    said = _settings(settings)
    work = Work(model, data, said, root=root, seed=seed, threads=threads, progress=progress)
    return Evaluation(_core.evaluate(work.core, work.data, said, work.place))


@keywords("predict", "weights")
def predict(
    model: Any,
    images: Any,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    **settings: Any,
) -> Predictions:
    """Class, probability and one-pass radius of pictures: paths of files, or arrays.

    With ``samples`` noisy copies vote, too: PREDICT of Cohen et al., the smoothed classifier's class.
    """
    said = _settings(settings)
    if is_path(images):
        images = [images]
    paths = None
    if isinstance(images, (list, tuple)) and all(is_path(image) for image in images):
        paths, arrays = [os.fspath(image) for image in images], None
    else:
        arrays = images
    dummy = "digits" if arrays is None else (arrays, None)
    if is_module(model) and arrays is None:
        raise ModelError("a module and image files", "wrap the module: heatsmooth.torch.wrap(module, shape)")
    work = Work(model, dummy, said, labels=False, seed=seed, threads=threads, progress=progress)
    flat = None
    if arrays is not None:
        wanted = work.model if isinstance(work.model, Model) else Model(work.model)
        flat = as_floats(pixels(arrays, wanted.shape)[0])
    return Predictions(_core.predict(work.core, paths, flat, said, work.place))


@keywords("smooth", "weights")
def smooth(
    model: Any,
    data: Any,
    *,
    out: str | os.PathLike[str],
    preset: str | None = None,
    in_place: bool = False,
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    ranks: Any = None,
    **settings: Any,
) -> Fitted:
    """Turns a model into its own Gaussian average; labels are never used.

    ``out`` is the run folder; called again, it goes on where it stopped. Of a
    ``torch.nn.Module`` the answer's ``.module`` is a smoothed copy; with ``in_place`` the
    module itself gets the new weights, too. ``ranks`` are processes that share the work: a
    group of ``torch.distributed``, or ``True`` for all of them; each calls this function with
    the same arguments, and only the first one writes.
    """
    said = _settings(settings)
    if in_place and not is_module(model):
        raise SettingError("in_place has no effect: the model is not a module", "leave it out")
    work = Work(model, data, said, labels=False, root=root, seed=seed, threads=threads, progress=progress, ranks=ranks)
    answer = _core.smooth(work.core, work.data, os.fspath(out), preset, said, work.place)
    return _fitted(answer, out, work, model if in_place else None)


def train(
    method: str,
    data: Any,
    *,
    out: str | os.PathLike[str],
    arch: str | None = None,
    start: Any = None,
    normalise: str | None = None,
    input: str | None = None,
    preset: str | None = None,
    root: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = None,
    ranks: Any = None,
    **settings: Any,
) -> Fitted:
    """Trains a model: ``baseline``, ``gaussian``, ``smoothadv`` or ``adversarial``.

    A new network of a built-in architecture (``arch``), or from a model (``start``): a path, a
    :class:`Model` or a ``torch.nn.Module``. ``out`` is the run folder; called again, it goes on
    where it stopped. ``ranks`` are processes that share the work, as in :func:`smooth`.
    """
    said = _settings(settings)
    if start is None:
        network = {"arch": arch, "normalise": normalise, "input": input}
        network = {name: value for name, value in network.items() if value is not None}
        together = _ranks(ranks)
        place = _place(seed, threads, progress, None, together)
        source = resolve_data(data, Wanted(), labels=True, root=root)
        answer = _core.train(method, None, network, source, os.fspath(out), preset, said, place)
        fitted = Fitted(answer, Path(out))
        _share(fitted, together)
        return fitted
    said.update({k: v for k, v in {"arch": arch, "normalise": normalise, "input": input}.items() if v})
    work = Work(start, data, said, root=root, seed=seed, threads=threads, progress=progress, ranks=ranks)
    answer = _core.train(method, work.core, {}, work.data, os.fspath(out), preset, said, work.place)
    return _fitted(answer, out, work, None)


keywords("train smoothadv")(train)


def _share(fitted: Fitted, ranks: Any) -> bytes | None:
    """Gives the model to ranks that may not see the run folder; its bytes, if there are ranks."""
    if ranks is None:
        return None
    content = ranks.broadcast(fitted.file.read_bytes() if ranks.rank == 0 else b"")
    fitted.model = load(content)
    return content


def _fitted(answer: tuple[str, str], out: Any, work: Work, into: Any) -> Fitted:
    fitted = Fitted(answer, Path(out))
    content = _share(fitted, work.ranks)
    if work.wrapped:
        from . import torch as hs_torch

        wrapped = work.wrapped[0]
        fitted._module = hs_torch.load(content or fitted.file, wrapped.module)
        fitted.model = hs_torch.wrap(fitted._module, wrapped.shape, info=fitted.model.about["info"], **wrapped.options)
        if into is not None:
            into.load_state_dict(fitted._module.state_dict())
    return fitted


def report(
    *paths: str | os.PathLike[str] | Measured | Fitted,
    out: str | os.PathLike[str],
    title: str | None = None,
    radii: Iterable[float] = (),
    denominator: str = "all",
    attacks: str = "successes",
    open: bool | None = None,
) -> Report:
    """Tables (Markdown, LaTeX, CSV), figures (SVG, PNG) and one self-contained page.

    ``paths`` are logs, run folders, folders that hold some, or answers of the functions here.
    ``denominator`` is ``all`` images or the paper's ``non-abstained`` ones; ``attacks``
    averages ``successes`` or follows the ``paper``. The page is opened in a browser, unless
    a notebook shows it or ``open`` is false.
    """

    def place(path: Any) -> str:
        if isinstance(path, Fitted):
            path = path.folder
        elif isinstance(path, Measured):
            path = path.log
        return os.fspath(path)

    wanted = dict(USUAL, title=title, radii=list(radii), denominator=denominator, attacks=attacks)
    page, files, found = _core.report([place(path) for path in paths], os.fspath(out), wanted)
    for warning in found[:10]:
        warnings.warn(warning, HeatsmoothWarning, stacklevel=2)
    made = Report(page, files, found)
    if open or (open is None and not in_notebook() and _has_display()):
        made.open()
    return made


def _has_display() -> bool:
    import sys

    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def merge(*shards: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Joins the logs of all shards of one run."""
    _core.merge([os.fspath(shard) for shard in shards], os.fspath(out))
    return Path(out)


def presets(method: str = "heat") -> dict[str, str]:
    """The shipped settings of a method: names and what they say."""
    return dict(_core.presets(method))


def architectures() -> dict[str, str]:
    """The built-in networks, by name."""
    return dict(_core.architectures())
