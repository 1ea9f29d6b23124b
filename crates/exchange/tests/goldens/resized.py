"""Writes small networks that resize, and operators of the newest sets, as ONNX with what
they compute, for `import_onnx.rs`.

Run from this folder: python resized.py (needs torch, onnx, onnxscript). See
`onnx_models.py` for what is written; what no PyTorch module makes is computed by ONNX's
reference implementation.
"""

import json
import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional as F

from tokens import Vit, flat, write

warnings.simplefilter("ignore")
torch.manual_seed(23)
rng = np.random.default_rng(23)


class Pyramid(nn.Module):
    """An image in several sizes, by several ways, joined again."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1)
        self.down = nn.Conv2d(6, 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = F.relu(self.conv(x))
        y = self.down(x)
        x = x + F.interpolate(y, scale_factor=2, mode="nearest")
        x = x * F.interpolate(y, size=(8, 8), mode="bilinear", align_corners=True)
        x = x + F.interpolate(y, size=(8, 8), mode="bilinear")
        x = x + F.interpolate(y, size=(8, 8), mode="bicubic")
        x = F.interpolate(x, size=(5, 3), mode="nearest") * torch.arange(15.0).view(5, 3)
        return self.head(x.mean((2, 3)))


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def floats(*shape):
    return rng.normal(size=shape).astype(np.float32)


def save(name, opset, nodes, constants, image, output):
    """Nodes from `image` to `logits`, and what the reference implementation makes of them."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        name,
        [value("image", TensorProto.FLOAT, list(image))],
        [value("logits", TensorProto.FLOAT, output)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"onnx/{name}.onnx")
    pixels = rng.random(image).astype(np.float32)
    logits = ReferenceEvaluator(model).run(None, {"image": pixels})[0]
    nhwc = torch.tensor(pixels.transpose(0, 2, 3, 1))
    data = {"images": flat(nhwc), "logits": flat(torch.tensor(logits))}
    json.dump(data, open(f"onnx/{name}.json", "w"))


def ways_of_resizing():
    """Every way, each weighed by a map of its own so that places matter."""
    ways = [
        (dict(mode="nearest"), (10, 14)),
        (dict(mode="nearest", nearest_mode="round_prefer_ceil"), (3, 9)),
        (dict(mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="asymmetric"), (7, 3)),
        (dict(mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"), (10, 14)),
        (dict(mode="linear"), (9, 4)),
        (dict(mode="linear", coordinate_transformation_mode="align_corners"), (9, 1)),
        (dict(mode="linear", coordinate_transformation_mode="pytorch_half_pixel"), (1, 11)),
        (dict(mode="linear", coordinate_transformation_mode="half_pixel_symmetric"), (8, 10)),
        (dict(mode="cubic", cubic_coeff_a=-0.5), (9, 13)),
        (dict(mode="cubic", exclude_outside=1), (8, 10)),
    ]
    nodes, constants, parts = [], [], []
    for i, (attributes, size) in enumerate(ways):
        constants.append(constant(f"size{i}", np.array([1, 2, *size], dtype=np.int64)))
        constants.append(constant(f"map{i}", floats(*size)))
        nodes += [
            helper.make_node("Resize", ["image", "", "", f"size{i}"], [f"r{i}"], **attributes),
            helper.make_node("Mul", [f"r{i}", f"map{i}"], [f"m{i}"]),
            helper.make_node("GlobalAveragePool", [f"m{i}"], [f"p{i}"]),
        ]
        parts.append(f"p{i}")
    nodes.append(helper.make_node("Concat", parts, ["all"], axis=1))
    nodes.append(helper.make_node("Flatten", ["all"], ["logits"]))
    save("helper-resize", 19, nodes, constants, (1, 2, 5, 7), [1, 2 * len(ways)])


def attention():
    """Three dimensions, fewer heads of keys than of queries, a mask of truth values; then
    four dimensions that see only what comes before."""
    constants = [
        constant("wq", floats(3, 8)),
        constant("wk", floats(3, 4)),
        constant("wv", floats(3, 4)),
        constant("mask", np.logical_or(rng.random((6, 6)) < 0.6, np.eye(6) > 0)),
        constant("tokens", np.array([1, 6, 3], dtype=np.int64)),
        constant("heads", np.array([1, 6, 2, 4], dtype=np.int64)),
        constant("middle", np.array([1], dtype=np.int64)),
    ]
    node = helper.make_node
    nodes = [
        node("Transpose", ["image"], ["nhwc"], perm=[0, 2, 3, 1]),
        node("Reshape", ["nhwc", "tokens"], ["x"]),
        *(node("MatMul", ["x", f"w{part}"], [part]) for part in "qkv"),
        node("Attention", ["q", "k", "v", "mask"], ["a"], q_num_heads=4, kv_num_heads=2),
        node("Reshape", ["a", "heads"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3]),
        node("Attention", ["c", "c", "c"], ["d"], is_causal=1, scale=0.3),
        node("ReduceMean", ["d", "middle"], ["e"], keepdims=0),
        node("Flatten", ["e"], ["logits"]),
    ]
    save("helper-attention", 23, nodes, constants, (1, 3, 2, 3), [1, 24])


def group_norm():
    """The operator of that name."""
    constants = [
        constant("scale", floats(6)),
        constant("shift", floats(6)),
        constant("weight", floats(6, 2, 3, 3)),
    ]
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["c"]),
        helper.make_node("GroupNormalization", ["c", "scale", "shift"], ["n"], num_groups=2),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["logits"]),
    ]
    save("helper-groups", 21, nodes, constants, (1, 2, 5, 5), [1, 6])


def constants():
    """Positions that are computed while the network runs, and a vector seen as an image."""
    given = [
        constant("ones", np.ones((1, 5, 5), dtype=np.float32)),
        constant("axis", np.array(1, dtype=np.int64)),
        constant("places", np.array([[0, 1, 2], [0, 3, 3], [0, 2, 0]], dtype=np.int64)),
        constant("order", np.arange(2).reshape(1, 2, 1, 1)),
        constant("flat", np.array([2], dtype=np.int64)),
        constant("weight", floats(2, 3)),
        constant("two", np.array([1, -1], dtype=np.int64)),
    ]
    node = helper.make_node
    nodes = [
        node("CumSum", ["ones", "axis"], ["rows"], exclusive=1),
        node("Sin", ["rows"], ["sin"]),
        node("Cos", ["rows"], ["cos"]),
        node("Mul", ["sin", "cos"], ["wave"]),
        node("GatherND", ["wave", "places"], ["three"]),
        node("Add", ["image", "wave"], ["x"]),
        node("GlobalAveragePool", ["x"], ["p"]),
        node("Reshape", ["p", "flat"], ["v"]),
        node("Gather", ["v", "order"], ["w"]),
        node("Reshape", ["w", "two"], ["z"]),
        node("MatMul", ["z", "weight"], ["y"]),
        node("Add", ["y", "three"], ["logits"]),
    ]
    save("helper-constants", 20, nodes, given, (1, 2, 5, 5), [1, 3])


def activations():
    """Those that are made of others."""
    node = helper.make_node
    nodes = [
        node("Mul", ["image", "six"], ["wide"]),
        node("Sub", ["wide", "three"], ["x"]),
        node("Abs", ["x"], ["a0"]),
        node("Elu", ["x"], ["a1"], alpha=0.7),
        node("Selu", ["x"], ["a2"]),
        node("Celu", ["x"], ["a3"], alpha=1.5),
        node("Concat", ["a0", "a1", "a2", "a3"], ["all"], axis=1),
        node("Flatten", ["all"], ["logits"]),
    ]
    given = [constant("six", np.float32(6)), constant("three", np.float32(3))]
    save("helper-activations", 20, nodes, given, (1, 2, 4, 5), [1, 160])


if __name__ == "__main__":
    pyramid = [("script-11", False, 11), ("script-20", False, 20), ("dynamo", True, None)]
    write("pyramid", Pyramid(), pyramid)
    write("vit", Vit(), [("dynamo-23", True, 23)])
    ways_of_resizing()
    attention()
    group_norm()
    constants()
    activations()
