"""Native models: the same rows as the program, to the bit."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
from conftest import SIGMA, rows, run

import heatsmooth as hs

MEASURES = [
    ("certify", {"n": 200, "n0": 20, "images": range(0, 12)}, "--n 200 --n0 20 --images 0..12"),
    ("certify", {"n": 300, "anytime": True, "images": (0, 6)}, "--n 300 --anytime --images 0..6"),
    ("lbound", {"images": "0..20"}, "--images 0..20"),
    ("clever", {"batches": 3, "samples": 4, "images": 3}, "--batches 3 --samples 4 --images 0..3"),
    ("pgd", {"steps": 5, "images": 8}, "--steps 5 --images 0..8"),
    ("ddn", {"steps": 6, "images": 8, "samples": 2}, "--steps 6 --images 0..8 --samples 2"),
]


@pytest.mark.parametrize(("what", "keywords", "flags"), MEASURES)
def test_rows_are_those_of_the_program(what, keywords, flags, baseline, binary, tmp_path):
    ours = tmp_path / "python.tsv"
    keywords = dict(keywords, out=ours, seed=3, progress=False, sigma=SIGMA)
    if what == "clever":
        del keywords["sigma"]
    if what in ("pgd", "ddn"):
        if "samples" not in keywords:
            del keywords["sigma"]
        found = hs.attack(what, baseline.file, "digits", **keywords)
        command = f"attack {what}"
    else:
        found = getattr(hs, what)(baseline.file, "digits", **keywords)
        command = what
    sigma = f"--sigma {SIGMA}" if "sigma" in keywords else ""
    theirs = tmp_path / "program.tsv"
    summary = run(
        binary, f"{command} --model {baseline.file} --data digits {sigma} --seed 3 {flags} --out {theirs}", tmp_path
    )
    assert rows(ours) == rows(theirs)
    assert found.summary == dict(summary, log=str(ours))
    mine, other = (json.loads(path.with_suffix(".json").read_text()) for path in (ours, theirs))
    assert mine == other


def test_arrays_give_the_rows_of_the_data_set(baseline, digits, tmp_path):
    images, labels = digits
    by_name = hs.certify(baseline.file, "digits", n=100, out=tmp_path / "a.tsv", images=5, progress=False)
    # Digits have 17 levels, which are no 255ths: exact noise is not for these floats.
    given = hs.certify(
        baseline.model, (images, labels), n=100, out=tmp_path / "b.tsv", images=5, progress=False, sigma=SIGMA
    )
    assert by_name.to_dict()["label"] == given.to_dict()["label"]
    assert "exact" not in given.guarantee
    grid = np.rint(images * 255).astype(np.uint8)
    exact = hs.certify(baseline.file, (grid, labels), n=100, out=tmp_path / "c.tsv", images=5, progress=False)
    channels_first = hs.certify(
        baseline.file,
        (grid.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255), labels),
        n=100, out=tmp_path / "d.tsv", images=5, progress=False,
    )  # fmt: skip
    assert rows(exact.log) == rows(channels_first.log)
    assert exact.manifest["data"] == channels_first.manifest["data"]


def test_training_and_smoothing_write_the_same_models(baseline, binary, tmp_path):
    again = tmp_path / "again"
    run(binary, f"train gaussian --data digits --arch mlp --sigma {SIGMA} --epochs 3 --out {again}", tmp_path)
    assert (again / "model.safetensors").read_bytes() == baseline.file.read_bytes()
    v = hs.smooth(baseline.file, "digits", by="average", epochs=1, out=tmp_path / "v", progress=False)
    run(
        binary, f"smooth --model {baseline.file} --data digits --by average --epochs 1 --out {tmp_path / 'w'}", tmp_path
    )
    assert v.file.read_bytes() == (tmp_path / "w" / "model.safetensors").read_bytes()
    assert v.model.sigma == SIGMA and len(v) == 1
    fidelity = hs.fidelity(
        v.model, "digits", reference=baseline.file, samples=10, images=4, out=tmp_path / "f.tsv", progress=False
    )
    assert fidelity.guarantee == "empirical"
    calibrated = hs.calibrate(
        v.file, "digits", reference=baseline.file, n=200, miss=0.5, images=60, progress=False,
        out=tmp_path / "c.tsv",
    )  # fmt: skip
    assert hs.load(v.file).calibration == calibrated.calibration


def test_what_was_stopped_goes_on(baseline, tmp_path):
    class Impatient:
        def begin(self, what, total, done):
            self.done = done

        def progress(self, done, note):
            if done >= 3:
                raise KeyboardInterrupt

        def end(self): ...
        def note(self, text): ...
        def warning(self, text): ...

    out = tmp_path / "stopped.tsv"
    keywords = {"n": 20_000, "images": 150, "out": out, "sigma": SIGMA}
    with pytest.raises(KeyboardInterrupt):
        hs.certify(baseline.file, "digits", progress=Impatient(), **keywords)
    done = len(rows(out)) - 1
    assert 0 < done < 150
    hs.certify(baseline.file, "digits", progress=False, **keywords)
    whole = hs.certify(baseline.file, "digits", progress=False, **dict(keywords, out=tmp_path / "whole.tsv"))
    assert rows(out) == rows(whole.log)


def test_models_are_read_from_files_and_bytes(baseline, digits, tmp_path):
    model = hs.load(baseline.file)
    images, labels = digits
    logits = model(images[:50])
    assert logits.shape == (50, 10) and (logits.argmax(1) == labels[:50]).mean() > 0.7
    again = hs.load(baseline.file.read_bytes())
    assert again.sha256 == model.sha256 and np.array_equal(again(images[:50]), logits)
    onnx = hs.load(model.save(tmp_path / "model.onnx"))
    assert np.allclose(onnx(images[:50]), logits, atol=1e-4)
    assert "mlp" in repr(model) and model.state_dict().keys()
    answers = hs.predict(model, images[:3], sigma=SIGMA, samples=200, noise="float")
    assert answers.classes == list(logits[:3].argmax(1)) and "guarantee" in answers.guarantees
    found = hs.evaluate(model, (images, labels), sigma=SIGMA, progress=False)
    assert found.accuracy == (model(images).argmax(1) == labels).mean()


def test_tables_speak_arrow(baseline, tmp_path):
    found = hs.certify(baseline.file, "digits", n=100, images=4, out=tmp_path / "a.tsv", progress=False)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(found)
    assert table.num_rows == len(found) == 4
    assert str(table.schema.field("idx").type) == "int64" and str(table.schema.field("correct").type) == "bool"
    assert table.column("radius").to_pylist() == found.to_dict()["radius"]


def test_results_draw_themselves(baseline, tmp_path):
    found = hs.certify(baseline.file, "digits", n=100, images=4, out=tmp_path / "a.tsv", progress=False)
    assert "<svg" in found._repr_html_() and "guarantee" in found._repr_html_()
    assert "<svg" in baseline._repr_html_()
    report = hs.report(found, baseline, out=tmp_path / "report", open=False)
    assert report.page.exists() and "iframe" in report._repr_html_()


def test_keywords_are_the_librarys(baseline):
    signature = inspect.signature(hs.certify)
    assert signature.parameters["n"].default == 10_000 and "n0" in hs.certify.__doc__
    assert "lambda_" in inspect.signature(hs.smooth).parameters


BAD = [
    ({"data": (np.zeros((3, 9, 9, 1), np.uint8), np.zeros(3, int))}, hs.DataError, "the model takes"),
    ({"data": (np.full((3, 8, 8, 1), 200.0), np.zeros(3, int))}, hs.DataError, "divide them by 255"),
    ({"data": (np.full((3, 8, 8, 1), -1.5), np.zeros(3, int))}, hs.DataError, "normalisation"),
    ({"data": (np.full((3, 8, 8, 1), np.nan), np.zeros(3, int))}, hs.DataError, "NaN"),
    ({"data": (np.zeros((3, 8, 8, 1), np.int32), np.zeros(3, int))}, hs.DataError, "uint8"),
    ({"data": (np.zeros((3, 8, 8, 1), np.uint8), np.zeros(2, int))}, hs.DataError, "2 labels"),
    ({"data": (np.zeros((3, 8, 8, 1), np.uint8), np.full(3, 10))}, hs.DataError, "10 classes"),
    ({"data": (np.zeros((0, 8, 8, 1), np.uint8), np.zeros(0, int))}, hs.DataError, "none"),
    ({"data": (np.zeros((3, 8, 8, 1), np.uint8), None)}, hs.DataError, "labels"),
    ({"data": "nowhere"}, hs.HeatsmoothError, "nowhere"),
    ({"data": 3}, hs.DataError, "DataLoader"),
    ({"n": -1}, hs.SettingError, "whole number"),
    ({"sigma": float("nan")}, hs.SettingError, "finite"),
    ({"n_0": 3}, hs.SettingError, "unknown option"),
    ({"tolerance": 0.1}, hs.SettingError, "leave tolerance out"),
    ({"arch": "mlp"}, hs.SettingError, "arch has no effect"),
    ({"model": "missing.safetensors"}, hs.HeatsmoothError, "missing.safetensors"),
    ({"model": 3}, hs.ModelError, "torch.nn.Module"),
    ({"out": "log.txt"}, hs.SettingError, ".tsv"),
    ({"split": "trian"}, hs.SettingError, "train, test"),
]


@pytest.mark.parametrize(("change", "error", "words"), BAD)
def test_bad_input_is_refused_with_a_hint(change, error, words, baseline, tmp_path):
    keywords = {"model": baseline.file, "data": "digits", "out": tmp_path / "log.tsv", "sigma": SIGMA, "n": 100}
    keywords |= change
    with pytest.raises(error) as caught:
        hs.certify(keywords.pop("model"), keywords.pop("data"), progress=False, **keywords)
    assert words in str(caught.value)
    assert not (tmp_path / "log.tsv").exists()
