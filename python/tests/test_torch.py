"""PyTorch as a device: the same counts, gradients and steps as the library's own kernels."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from conftest import SIGMA, rows

import heatsmooth as hs

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import heatsmooth.torch as hst  # noqa: E402
from heatsmooth import _core  # noqa: E402

SHAPE = (8, 8, 1)


def network(seed: int = 0) -> nn.Module:
    """A small network with batch norms."""
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    for norm in (module[1], module[5]):
        nn.init.uniform_(norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        nn.init.uniform_(norm.weight, 0.5, 1.5)
    return module.eval()


@pytest.fixture(scope="module")
def trained(digits) -> nn.Module:
    """The same, good at digits under noise."""
    module = network().train()
    images, labels = (torch.from_numpy(part) for part in digits)
    images, labels = images.permute(0, 3, 1, 2).contiguous(), labels.long()
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(60):
        loss = nn.functional.cross_entropy(module(images + 0.1 * torch.randn_like(images)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return module.eval()


def eight_bits(digits) -> tuple[np.ndarray, np.ndarray]:
    images, labels = digits
    return np.rint(images * 255).astype(np.uint8), labels


@pytest.mark.parametrize("levels", [255, 16])
def test_the_same_integers_are_drawn(levels):
    pixels = np.rint(np.random.default_rng(0).random(37) * levels).astype(np.float32) / np.float32(levels)
    for sample, seed in [(0, 0), (1000, 2**40 + 7)]:
        ours, described = _core.noisy_copies(pixels, 3, sample, 200, 0.3, seed, levels)
        theirs = hst.noisy_copies(described, torch.device("cpu")).numpy().reshape(-1)
        assert np.array_equal(ours, theirs)


def test_the_lazy_bits_decide_alike():
    # Thresholds equal to the words that are drawn: the further 32 bits decide each of them.
    pixels = np.zeros(64, dtype=np.float32)
    _, described = _core.noisy_copies(pixels, 0, 0, 4, 0.3, 1, 255)
    from heatsmooth.torch import _noise

    images, samples = torch.zeros(4, dtype=torch.int64), torch.arange(4)
    word = _noise.words(images, samples, 64, 1, described["purpose"])
    further = _noise.words(images, samples, 64, 1, described["purpose"] | _noise.FURTHER)
    rest, column = word & ((1 << (32 - described["bits"])) - 1), word >> (32 - described["bits"])
    table = dict(described, thresholds=described["thresholds"].copy(), low=described["low"].copy())
    table["thresholds"][int(column[0, 0])] = int(rest[0, 0])
    own = int(described["integers"][int(column[0, 0])]) & 0xFFFF
    for low, wanted in [(0, False), (2**32 - 1, True)]:
        table["low"][int(column[0, 0])] = low
        found = int(_noise.integers(table, images, samples, 64)[0, 0]) & 0xFFFF
        assert (found == own) == (wanted and int(further[0, 0]) < low)


def test_gaussian_noise_agrees():
    pixels = np.random.default_rng(0).random(30).astype(np.float32)
    ours, described = _core.noisy_copies(pixels, 5, 10, 300, 0.25, 11)
    theirs = hst.noisy_copies(described, torch.device("cpu")).numpy().reshape(-1)
    assert np.abs(ours - theirs).max() < 2e-6


def test_certificates_count_alike(trained, digits, tmp_path):
    images, labels = eight_bits(digits)
    keywords = {"sigma": SIGMA, "n": 2000, "images": 10, "progress": False}
    native = hst.to_native(trained, SHAPE)
    ours = hs.certify(native, (images, labels), out=tmp_path / "native.tsv", **keywords)
    with pytest.warns(hs.HeatsmoothWarning, match="does not promise"):
        theirs = hs.certify(trained, (images, labels), out=tmp_path / "torch.tsv", **keywords)
    a, b = ours.to_dict(), theirs.to_dict()
    assert a["predict"] == b["predict"] and a["n_a"] == b["n_a"] and a["radius"] == b["radius"]
    assert "torch" in theirs.manifest["versions"]["isa"]
    # On a device that our kernels do not reach, torch draws the same noise itself.
    engine_load = hst.Engine.load

    def elsewhere(self, name, values):
        made = engine_load(self, name, values)
        made.on_host = False
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hst.Engine, "load", elsewhere)
        again = hs.certify(trained, (images, labels), out=tmp_path / "device.tsv", **keywords)
    assert again.to_dict()["n_a"] == b["n_a"]


def test_gradients_and_statistics_agree_with_autograd(digits):
    module = network()
    made = hst.Engine([hst.wrap(module, SHAPE)]).load(
        hst.wrap(module, SHAPE).network, [v for _, _, v in hst.wrap(module, SHAPE)._core.values()]
    )
    flat = digits[0][:16].reshape(-1)
    plain = copy.deepcopy(module).train()
    images = torch.from_numpy(digits[0][:16]).permute(0, 3, 1, 2).requires_grad_(True)
    wanted = plain(images)
    logits, tape = made.forward(flat, True)
    assert np.allclose(logits, wanted.detach().reshape(-1), atol=1e-5)
    weights = torch.randn_like(wanted)
    gradient = torch.autograd.grad(wanted, [images, *plain.parameters()], weights)
    for _ in range(2):  # a tape may be pulled back many times
        found = made.input_gradient(tape, weights.numpy().reshape(-1))
        assert np.allclose(found, gradient[0].permute(0, 2, 3, 1).reshape(-1), atol=1e-5)
    total = made.gradients()
    made.parameter_gradient(tape, weights.numpy().reshape(-1), total)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(total, gradient[1:], strict=True))
    # A pass leaves the running statistics alone; they move once, when asked.
    assert torch.equal(made.module[1].running_mean, module[1].running_mean)
    made.update_running_statistics(tape)
    for place in (1, 5):
        assert torch.allclose(made.module[place].running_mean, plain[place].running_mean, atol=1e-6)
        assert torch.allclose(made.module[place].running_var, plain[place].running_var, atol=1e-6)


@pytest.mark.parametrize(
    "by",
    [
        {"by": "heat", "kappa": 2, "timesteps": 2},
        {"by": "average", "weight_decay": 1e-3, "relus": "kept", "norms": "batch"},
    ],
)
def test_steps_agree_with_the_librarys_own(by, digits, tmp_path):
    images, _ = eight_bits(digits)
    module = network()
    native = hst.to_native(module, SHAPE)
    keywords = {"sigma": SIGMA, "epochs": 1, "batch_size": 64, "lr": 0.01, "progress": False, **by}
    ours = hs.smooth(native, images[:256], out=tmp_path / "native", **keywords)
    theirs = hs.smooth(module, images[:256], out=tmp_path / "torch", **keywords)
    with torch.inference_mode():
        found = theirs.module(torch.from_numpy(images).permute(0, 3, 1, 2) / 255.0)
    difference = np.abs(ours.model(images) - found.numpy()).max()
    assert difference < 1e-4, difference
    before = np.abs(native(images) - found.numpy()).max()
    assert before > 10 * difference, "nothing was learned"


def test_attacks_agree(trained, digits, tmp_path):
    images, labels = eight_bits(digits)
    keywords = {"steps": 10, "images": 20, "progress": False}
    native = hst.to_native(trained, SHAPE)
    for name in ("pgd", "ddn"):
        ours = hs.attack(name, native, (images, labels), out=tmp_path / f"{name}-a.tsv", **keywords).to_dict()
        theirs = hs.attack(name, trained, (images, labels), out=tmp_path / f"{name}-b.tsv", **keywords).to_dict()
        assert ours["success"] == theirs["success"]
        pairs = [(a, b) for a, b in zip(ours["l2"], theirs["l2"], strict=True) if a is not None]
        assert pairs and max(abs(a - b) for a, b in pairs) < 1e-4


def test_a_module_is_smoothed_measured_and_resumed(trained, digits, tmp_path):
    images, labels = eight_bits(digits)
    data = {"train": (images[:200], labels[:200]), "test": (images[200:], labels[200:])}
    before = copy.deepcopy(trained.state_dict())
    keywords = {"sigma": SIGMA, "by": "average", "epochs": 2, "out": tmp_path / "v", "progress": False}

    class Impatient:
        def begin(self, what, total, done): ...
        def progress(self, done, note):
            raise KeyboardInterrupt

        def end(self): ...
        def note(self, text): ...
        def warning(self, text): ...

    with pytest.raises(KeyboardInterrupt):
        hs.smooth(trained, data, **dict(keywords, progress=Impatient()))
    v = hs.smooth(trained, data, **keywords)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), trained.state_dict().values(), strict=True))
    whole = hs.smooth(trained, data, **dict(keywords, out=tmp_path / "whole"))
    pairs = zip(v.module.state_dict().values(), whole.module.state_dict().values(), strict=True)
    assert all(torch.allclose(a.float(), b.float(), atol=1e-6) for a, b in pairs)
    assert v.model.sigma == SIGMA and v.model.about["info"]["method"] == "average"
    other = hst.load(tmp_path / "v", trained)
    assert torch.equal(other[0].weight, v.module[0].weight)
    assert hs.evaluate(v.model, data, progress=False, split="test").summary[0]["one_pass"]["sigma"] == SIGMA
    fidelity = hs.fidelity(
        v.module, data, reference=trained, sigma=SIGMA, samples=8, images=4, out=tmp_path / "f.tsv", progress=False
    )
    assert fidelity.images == 4
    with pytest.raises(hs.HeatsmoothError, match="give the network itself"):
        hs.certify(v.file, data, out=tmp_path / "x.tsv", n=100, progress=False)
    mine = copy.deepcopy(trained)
    hs.smooth(mine, data, **dict(keywords, out=tmp_path / "whole", in_place=True))
    assert torch.equal(mine[0].weight, whole.module[0].weight)


def test_data_of_torch(trained, digits, tmp_path):
    images, labels = eight_bits(digits)
    tensors = torch.from_numpy(images[:12]).permute(0, 3, 1, 2) / 255.0
    dataset = torch.utils.data.TensorDataset(tensors, torch.from_numpy(labels[:12]))
    loader = torch.utils.data.DataLoader(dataset, batch_size=5)
    keywords = {"sigma": SIGMA, "n": 100, "progress": False}
    logs = []
    for name, data in [
        ("arrays", (images[:12], labels[:12])), ("dataset", dataset), ("loader", loader),
        ("tensors", (tensors, torch.from_numpy(labels[:12]))),
    ]:  # fmt: skip
        found = hs.certify(trained, data, out=tmp_path / f"{name}.tsv", **keywords)
        logs.append(rows(found.log))
    assert all(log == logs[0] for log in logs)
    spent = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tensors[:0]), batch_size=5)
    with pytest.raises(hs.DataError, match="gave no images"):
        hs.certify(trained, spent, out=tmp_path / "no.tsv", **keywords)


def test_bad_modules_are_refused(trained, digits, tmp_path):
    images, labels = eight_bits(digits)

    def certify(module, **more):
        return hs.certify(
            module, (images, labels), sigma=SIGMA, n=100, images=2, out=tmp_path / "log.tsv", progress=False, **more
        )

    with pytest.raises(hs.ModelError, match="training mode"):
        certify(copy.deepcopy(trained).train())
    with pytest.raises(hs.ModelError, match="float32"):
        certify(copy.deepcopy(trained).half())
    with pytest.raises(hs.ModelError, match="cannot take images"):
        certify(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 10)).eval())
    with pytest.raises(hs.ModelError, match="must give"):
        certify(nn.Conv2d(1, 4, 3).eval())

    class Moody(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = trained, 0

        def forward(self, x):
            if len(x) > 2:
                raise RuntimeError("out of patience")
            return self.inner(x)

    with pytest.raises(RuntimeError, match="out of patience"):
        certify(Moody().eval())


def test_smooth_is_cohens_class(trained, digits):
    images, labels = eight_bits(digits)
    x = torch.from_numpy(images[0]).permute(2, 0, 1) / 255.0
    for native in (None, False):
        smoothed = hs.Smooth(trained, 10, SIGMA, native=native)
        label, radius = smoothed.certify(x, 100, 1000, 0.001, 400)
        assert label == labels[0] and 0.1 < radius < 1.0
        assert smoothed.predict(x, 200, 0.001, 100) == labels[0]
        assert isinstance(smoothed.model, hst.TorchModel) == (native is False)
    # Scripts written for Cohen's class give the module as they loaded it.
    smoothed = hs.Smooth(copy.deepcopy(trained).train(), 10, SIGMA)
    assert smoothed.certify(x, 100, 1000, 0.001, 400)[0] == labels[0]
    assert not smoothed.base_classifier.training
    assert hs.Smooth.ABSTAIN == -1
    # Noise that drowns every picture: nothing is certified.
    assert hs.Smooth(trained, 10, 20.0, noise="float").certify(x, 50, 100, 1e-6, 50) == (-1, 0.0)
    with pytest.raises(hs.HeatsmoothError, match="classes"):
        hs.Smooth(trained, 7, SIGMA).certify(x, 10, 100, 0.001, 10)
