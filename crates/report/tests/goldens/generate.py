"""Small logs and what a report must make of them, by an independent program.

    python3 generate.py        (needs numpy; writes logs/ and expected.json here)

The logs follow the schemas by hand; the expected tables follow the definitions of
certified accuracy, ACR, high-probability accuracy, attack conventions and L-bound
means, and Newcombe's (1998) method 10 for paired differences, written down again
without looking at the Rust code.
"""

import json
import math
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SIGMA, ALPHA, RHO, N = 0.25, 0.001, 0.001, 40
MODELS = {"heat": ("HeatSmoothing", 0.45), "gaussian": ("RandomizedSmoothing", 0.30)}
Z = 1.959963984540054  # scipy.stats.norm.ppf(0.975)
rng = np.random.default_rng(7)
labels = rng.integers(0, 10, N)
difficulty = rng.normal(size=N)


def text(value):
    return "" if value is None or math.isnan(value) else repr(float(value))


def clock(seconds):
    return f"0:00:{seconds:09.6f}"


def write(method, name, kind, procedure, header, rows, guarantee, configuration, sigma=SIGMA):
    folder = HERE / "logs" / method
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(header)] + ["\t".join(map(str, row)) for row in rows]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    manifest = {
        "format": "heatsmooth-log", "version": 1, "kind": kind, "procedure": procedure,
        "method": method, "model": {"sha256": method * 4},
        "data": {"name": "digits", "split": "test", "sha256": "ab" * 32},
        "selection": {"start": 0, "end": N, "step": 1}, "sigma": sigma, "seed": 0,
        "guarantee": guarantee, "configuration": configuration,
        "versions": {"program": "0.1.0", "isa": "avx2", "threads": 2},
    }
    if kind == "fidelity":
        manifest["reference"] = {"sha256": "f" * 16}
    (folder / f"{name}.json").write_text(json.dumps(manifest, indent=1) + "\n")


def median(values):
    return float(np.median(values)) if len(values) else None


def mean(values):
    return float(np.mean(values)) if len(values) else None


data = {}
for method, (_, centre) in MODELS.items():
    z = centre / SIGMA + difficulty + 0.6 * rng.normal(size=N)
    radius = np.where(np.abs(z) < 0.2, 0.0, SIGMA * np.minimum(np.abs(z), 3.2))
    abstain = radius == 0
    right = (z > 0) & ~abstain
    predict = np.where(abstain, -1, np.where(right, labels, (labels + 1) % 10))
    p = np.array([0.5 * math.erfc(-r / SIGMA / math.sqrt(2)) for r in radius])
    seconds = np.round(0.05 + 0.01 * rng.random(N), 6)
    samples = rng.integers(200, 10000, N)
    write(method, "certify", "certify", "cohen",
          "idx label predict radius correct time n_a n p_lower p_correct_l_bound samples".split(),
          [(i, labels[i], predict[i], text(radius[i]), int(right[i]), clock(seconds[i]),
            int(10000 * p[i]), 10000, text(p[i]), "", samples[i]) for i in range(N)],
          {"kind": "sound-smoothed", "alpha": ALPHA}, {"n": 10000, "n0": 100})

    clean = rng.random(N) < 0.9
    attacks = {}
    for attack, scale in (("pgd", 1.3), ("ddn", 1.0)):
        success = ~clean | (rng.random(N) < 0.85)
        l2 = np.where(clean, scale * (0.2 + 0.4 * np.abs(z)), 0.0)
        attacks[attack] = (clean, success, l2)
        write(method, attack, "attack", attack,
              "idx label clean_predict adv_predict success l2 linf steps time".split(),
              [(i, labels[i], labels[i] if clean[i] else (labels[i] + 2) % 10,
                (labels[i] + 2) % 10 if success[i] else labels[i], int(success[i]),
                text(l2[i]) if success[i] else "", text(l2[i] / 9) if success[i] else "", 20, "")
               for i in range(N)],
              {"kind": "empirical"}, {"steps": 20, "eps": 4.0}, sigma=None)

    gap = np.tanh(np.abs(z) / 2) * np.where(clean, 1, -1)
    bound = SIGMA * math.sqrt(math.pi / 2) * gap
    classify = np.round(0.0004 + 0.0001 * rng.random(N), 6)
    write(method, "lbound", "lbound", "lbound",
          "idx label predict correct radius p_label p_other time".split(),
          [(i, labels[i], labels[i] if clean[i] else (labels[i] + 2) % 10, int(clean[i]),
            text(bound[i]), text(0.5 + gap[i] / 2), text(0.5 - gap[i] / 2), clock(classify[i]))
           for i in range(N)],
          {"kind": "approximate-if-average"}, {})
    data[method] = dict(radius=radius, right=right, abstain=abstain, seconds=seconds, samples=samples,
                        clean=clean, attacks=attacks, bound=bound, classify=classify)

v, f = 0.6 + 0.3 * rng.random(N), 1.5 + rng.random(N)
agree = rng.random(N) < 0.8
curve = {0.1: v + 0.2, 0.2: v - 0.1, 0.4: v + 0.4}
write("heat", "fidelity", "fidelity", "fidelity",
      "idx label v_distance f_distance standard_error agree".split() + [f"v_distance@{s}" for s in curve],
      [[i, labels[i], text(v[i]), text(f[i]), text(0.02), int(agree[i])] + [text(c[i]) for c in curve.values()]
       for i in range(N)],
      {"kind": "empirical"}, {})

# What the report must say.
top = max(d["radius"][d["right"]].max() for d in data.values())
step = next(s for s in (0.1, 0.2, 0.25, 0.5) if s >= top / 6)
radii = [round(step * i, 9) for i in range(int(top / step) + 1)]


def certified(d, r):
    return float(np.mean(d["right"] & ~d["abstain"] & (d["radius"] >= r)))


def high_probability(accuracy):
    log = math.log(1 / RHO)
    return max(0.0, accuracy - ALPHA - math.sqrt(ALPHA * (1 - ALPHA) * log / N) - log / (3 * N))


def wilson(x):
    p = x / N
    centre = (x + Z * Z / 2) / (N + Z * Z)
    half = Z / (N + Z * Z) * math.sqrt(x * (N - x) / N + Z * Z / 4)
    return p, centre - half, centre + half


def newcombe(first, second):
    a, b = int(np.sum(first & second)), int(np.sum(first & ~second))
    c, d = int(np.sum(~first & second)), int(np.sum(~first & ~second))
    (p1, l1, u1), (p2, l2, u2) = wilson(a + b), wilson(a + c)
    product = (a + b) * (c + d) * (a + c) * (b + d)
    if product == 0:
        phi = 0.0
    else:
        cross = a * d - b * c
        cross = cross - N / 2 if cross > N / 2 else (0 if cross >= 0 else cross)
        phi = cross / math.sqrt(product)
    low = math.sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    high = math.sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    return [p1 - p2, p1 - p2 - low, p1 - p2 + high]


tables = {key: [] for key in ("certified", "high-probability", "difference", "adversarial",
                              "adversarial-paper", "certified-paper", "timing", "fidelity")}
for method, (name, _) in MODELS.items():
    d = data[method]
    accuracies = [certified(d, r) for r in radii]
    kept = 1 - float(np.mean(d["abstain"]))
    rest = [float(np.mean(np.where(d["right"], d["radius"], 0))), float(np.mean(d["abstain"])),
            float(np.mean(d["clean"])), "10000", N]
    tables["certified"].append([name] + accuracies + rest)
    tables["certified-paper"].append([name] + [a / kept for a in accuracies] + rest)
    tables["high-probability"].append([name] + [high_probability(a) for a in accuracies])
    positive, clipped = d["bound"][d["bound"] > 0], np.maximum(d["bound"], 0)
    # An attack that changes the class within the bound refutes it.
    hit = np.zeros(N, bool)
    for clean, success, l2 in d["attacks"].values():
        hit |= clean & success & (d["bound"] > 0) & (l2 < d["bound"])
    refuted = float(np.sum(hit) / len(positive))
    row = [name, median(positive), mean(positive), refuted, median(clipped), mean(clipped)]
    paper = list(row)
    for attack in ("pgd", "ddn"):
        clean, success, l2 = d["attacks"][attack]
        share = float(np.sum(clean & success) / np.sum(clean))
        row += [median(l2[clean & success]), mean(l2[clean & success]), share]
        failed = 4.0 if attack == "pgd" else 0.0
        distance = np.where(~clean, 0.0, np.where(success, l2, failed))
        paper += [median(distance), mean(distance), share]
    tables["adversarial"].append(row + [float(np.mean(~d["clean"]))])
    tables["adversarial-paper"].append(paper + [float(np.mean(~d["clean"]))])
    tables["timing"].append([name, mean(d["classify"]), mean(d["seconds"]), mean(d["samples"]), "avx2, 2 threads"])
a, b = data["heat"], data["gaussian"]
row = ["HeatSmoothing − RandomizedSmoothing"]
for r in radii:
    row += newcombe(a["right"] & (a["radius"] >= r), b["right"] & (b["radius"] >= r))
difference = np.where(a["right"], a["radius"], 0) - np.where(b["right"], b["radius"], 0)
half = Z * np.std(difference, ddof=1) / math.sqrt(N)
tables["difference"].append(row + [float(np.mean(difference)), float(np.mean(difference) - half),
                                   float(np.mean(difference) + half), N])
tables["fidelity"].append(["HeatSmoothing", mean(v), mean(f), mean(v) / mean(f),
                            None, None, 0.02, mean(agree), None,
                           0.2, N])
probe = [0.0, step, 2 * step, 3 * step]
figures = {
    "certified": {MODELS[m][0]: [[r, 100 * certified(data[m], r)] for r in probe] for m in MODELS},
    "attack-pgd": {MODELS[m][0]: {"at_zero": 100 * float(np.mean(~data[m]["clean"])),
                                  "at_end": 100 * float(np.mean(data[m]["attacks"]["pgd"][1]))} for m in MODELS},
    "fidelity-sigma": {"HeatSmoothing": [[0.1, mean(curve[0.1])], [0.2, mean(curve[0.2])], [0.25, mean(v)],
                                         [0.4, mean(curve[0.4])]]},
    "samples": {MODELS[m][0]: {"most": int(max(d["samples"].max() for d in data.values()))} for m in MODELS},
}
(HERE / "expected.json").write_text(json.dumps({"radii": radii, "tables": tables, "figures": figures}, indent=1) + "\n")
