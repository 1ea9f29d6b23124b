"""Writes small ONNX models and what they compute, for `import_onnx.rs`.

Run from this folder: python onnx_models.py (needs torch, onnx, onnxscript,
onnxruntime; with --keras instead: tensorflow, tf2onnx, onnxruntime). For each
model: NAME.onnx and NAME.json with images (NHWC), logits and, where PyTorch
made the model, a cotangent and the input gradient.
"""

import json
import sys

import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(8)


def flat(array):
    return [float(v) for v in np.asarray(array, dtype=np.float64).ravel()]


def expect(name, images_nhwc, logits, **more):
    data = {"images": flat(images_nhwc), "logits": flat(logits)}
    data |= {key: flat(value) for key, value in more.items()}
    json.dump(data, open(f"onnx/{name}.json", "w"))


def run(name, images, nhwc=False):
    """Expectation from ONNX Runtime; softmax at the end is undone by the caller."""
    import onnxruntime

    session = onnxruntime.InferenceSession(f"onnx/{name}.onnx")
    feed = {session.get_inputs()[0].name: images.astype(np.float32)}
    logits = session.run(None, feed)[0]
    expect(name, images if nhwc or images.ndim < 4 else images.transpose(0, 2, 3, 1), logits)


def pytorch_models():
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(8)

    class Squeeze(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.down, self.up = nn.Conv2d(c, 2, 1), nn.Conv2d(2, c, 1)

        def forward(self, x):
            return x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))

    class Operators(nn.Module):
        """Most operators once."""

        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(2, 4, 3, padding=(0, 1), stride=(1, 2), bias=False)
            self.bn1 = nn.BatchNorm2d(4)
            self.conv2 = nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2)
            self.depthwise = nn.Conv2d(8, 8, (3, 1), groups=8, padding=(1, 0), bias=False)
            self.bn2 = nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)
            self.se = Squeeze(8)
            self.prelu = nn.PReLU(8)
            self.bn3 = nn.BatchNorm2d(12)
            self.conv3 = nn.Conv2d(12, 6, 1)
            self.fc1 = nn.Linear(6 * 4 * 2, 5, bias=False)
            self.bn4 = nn.BatchNorm1d(5)
            self.fc2 = nn.Linear(5, 4)

        def forward(self, x):
            return F.log_softmax(self.logits(x), 1)

        def logits(self, x):
            x = (x - 0.4) / torch.tensor([0.2, 0.3]).reshape(1, 2, 1, 1)
            x = F.silu(self.bn1(self.conv1(F.pad(x, (0, 1, 2, 1)))))
            y = F.leaky_relu(self.conv2(x), 0.1)
            y = F.hardswish(self.bn2(self.depthwise(y)))
            y = self.prelu(self.se(y) - 0.1 * y)
            x = torch.cat([F.gelu(x), F.hardtanh(y, -0.5, 0.75)], 1)
            x = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
            x = F.gelu(self.bn3(x), approximate="tanh") + F.adaptive_avg_pool2d(x, 1)
            x = F.avg_pool2d(F.relu6(self.conv3(x)), 2, 2, padding=1, ceil_mode=True)
            x = F.dropout(x, 0.5, self.training)
            x = torch.tanh(self.bn4(self.fc1(x.view(x.size(0), -1))))
            return self.fc2(x) * F.hardsigmoid(self.fc2(x))

    class OptionA(nn.Module):
        """A residual block with subsampled, zero-padded shortcut."""

        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)
            self.conv2, self.bn2 = nn.Conv2d(4, 7, 3, 1, 1, bias=False), nn.BatchNorm2d(7)
            self.linear = nn.Linear(7, 3)

        def forward(self, x):
            return self.logits(x)

        def logits(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            x = F.relu(y + F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)))
            x = F.avg_pool2d(x, x.size()[3])
            return self.linear(x.view(x.size(0), -1))

    class Normalised(OptionA):
        """Means and deviations repeated for every pixel, as Cohen et al. do it."""

        def __init__(self):
            super().__init__()
            self.means, self.sds = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.25])

        def logits(self, x):
            b, _, h, w = x.shape
            means = self.means.repeat((b, h, w, 1)).permute(0, 3, 1, 2)
            sds = self.sds.repeat((b, h, w, 1)).permute(0, 3, 1, 2)
            return super().logits((x - means) / sds)

    def randomise(net):
        for module in net.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.weight.data.uniform_(0.5, 1.5)
                module.running_var.uniform_(0.5, 1.5)
                module.bias.data.uniform_(-0.5, 0.5)
                module.running_mean.uniform_(-0.5, 0.5)
        return net.eval()

    def save(name, net, shape, **options):
        images = torch.rand(2, *shape, requires_grad=True)
        # The logits are what goes into the softmax.
        y = net.logits(images)
        cotangent = torch.randn_like(y)
        (gradient,) = torch.autograd.grad(y, images, cotangent)
        nhwc = [t.detach().permute(0, 2, 3, 1) for t in (images, gradient)]
        expect(name, nhwc[0], y.detach(), cotangent=cotangent.detach(), gradient=nhwc[1])
        torch.onnx.export(net, (images.detach(),), f"onnx/{name}.onnx", **options)

    operators, option_a = randomise(Operators()), randomise(OptionA())
    old = {"dynamo": False, "input_names": ["x"]}
    dynamic = {"dynamic_axes": {"x": {0: "batch"}}}
    save("operators-script", operators, (2, 9, 8), opset_version=17, **old, **dynamic)
    save("operators-script-11", operators, (2, 9, 8), opset_version=11, **old)
    # Batch norms stay where nothing is folded.
    keep = {"do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE}
    save("option-a-script", option_a, (3, 6, 6), opset_version=14, **keep, **old, **dynamic)
    new = {"dynamo": True, "verbose": False, "external_data": False}
    dynamic = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=64)},)}
    save("operators-dynamo", operators, (2, 9, 8), **new, **dynamic)
    save("option-a-dynamo", option_a, (3, 6, 6), **new)
    save("option-a-external", option_a, (3, 6, 6), **new)
    model = onnx.load("onnx/option-a-external.onnx")
    onnx.save(
        model,
        "onnx/option-a-external.onnx",
        save_as_external_data=True,
        location="option-a-external.onnx.data",
        size_threshold=0,
    )
    normalised = randomise(Normalised())
    keep = {"training": torch.onnx.TrainingMode.PRESERVE, **old}
    dynamic = {"dynamic_axes": {"x": {0: "batch"}}}
    save("normalised-script", normalised, (3, 6, 6), **keep, **dynamic)
    save("normalised-script-11", normalised, (3, 6, 6), opset_version=11, **keep)


def helper_models():
    """By hand, as old tools write: opset 9, attributes where inputs are now."""

    def constant(name, values, dtype=np.float32):
        return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)

    def model(name, nodes, initializers, shape, opset, classes, batch="N"):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes,
            name,
            [value("x", TensorProto.FLOAT, [batch, *shape])],
            [value("y", TensorProto.FLOAT, [batch, classes])],
            initializers,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset > 20 else 7)
        onnx.checker.check_model(proto, full_check=True)
        onnx.save(proto, f"onnx/{name}.onnx")

    node = helper.make_node
    normal = lambda *shape: rng.standard_normal(shape)  # noqa: E731
    model(
        "helper-9",
        [
            node("Pad", ["x"], ["p"], mode="constant", pads=[0, 0, 1, 0, 0, 0, 0, 2]),
            node("Conv", ["p", "w"], ["c"], auto_pad="SAME_LOWER", strides=[2, 2]),
            node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], epsilon=0.01),
            node("Clip", ["n"], ["k"], min=0.0, max=1.5),
            node("Add", ["k", "offset"], ["o"]),
            node("Slice", ["o"], ["i"], starts=[0], ends=[100], axes=[2]),
            node("AveragePool", ["i"], ["a"], kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1),
            node("MaxPool", ["a"], ["q"], kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[2, 1]),
            node("Dropout", ["q"], ["d"], ratio=0.3),
            node("Shape", ["d"], ["shape"]),
            node("Gather", ["shape", "zero"], ["n0"], axis=0),
            node("Unsqueeze", ["n0"], ["n1"], axes=[0]),
            node("Constant", [], ["rest"], value=constant("rest", [-1], np.int64)),
            node("Concat", ["n1", "rest"], ["to"], axis=0),
            node("Reshape", ["d", "to"], ["f"]),
            node("Gemm", ["f", "g", "h"], ["y"], alpha=0.5, beta=2.0),
        ],
        [
            constant("w", normal(3, 1, 4, 3)),
            constant("s", [1.0, 0.5, 2.0]),
            constant("b", [0.1, 0.2, -0.3]),
            constant("m", [0.0, 0.5, -0.5]),
            constant("v", [1.0, 2.0, 0.5]),
            constant("offset", normal(3, 1, 1)),
            constant("zero", 0, np.int64),
            constant("g", normal(3 * 2 * 4, 2)),
            constant("h", [0.25]),
        ],
        (1, 5, 6),
        9,
        2,
    )
    run("helper-9", rng.random((2, 1, 5, 6)))
    model(
        "helper-18",
        [
            node("Conv", ["x", "w"], ["c"], kernel_shape=[2, 2]),
            node("Div", ["c", "root"], ["scaled"]),
            node("Erf", ["scaled"], ["e"]),
            node("Add", ["e", "one"], ["e1"]),
            node("Mul", ["half", "e1"], ["phi"]),
            node("Mul", ["phi", "c"], ["gelu"]),
            node("ReduceMax", ["gelu", "space"], ["top"], keepdims=0),
            node("ReduceMean", ["gelu", "space"], ["mean"], keepdims=0),
            node("ReduceSum", ["gelu", "space"], ["sum"], keepdims=1),
            node("Squeeze", ["sum", "space"], ["flat"]),
            node("Concat", ["top", "mean", "flat"], ["z"], axis=-1),
            node("Pow", ["z", "two"], ["square"]),
            node("Sub", ["two", "square"], ["t"]),
            node("Max", ["t", "low"], ["t1"]),
            node("MatMul", ["t1", "g"], ["u"]),
            node("Add", ["h", "u"], ["v"]),
            node("Softmax", ["v"], ["y"], axis=1),
        ],
        [
            constant("w", normal(2, 3, 2, 2) / 3),
            constant("root", 2**0.5),
            constant("one", 1.0),
            constant("half", 0.5),
            constant("two", 2.0),
            constant("low", -1.0),
            constant("space", [2, 3], np.int64),
            constant("g", normal(6, 4)),
            constant("h", normal(4)),
        ],
        (3, 4, 4),
        18,
        4,
        3,
    )
    # ONNX Runtime on the same nodes without the softmax.
    proto = onnx.load("onnx/helper-18.onnx")
    del proto.graph.node[-1]
    proto.graph.node[-1].output[0] = "y"
    onnx.save(proto, "onnx/plain.onnx")
    import onnxruntime

    images = rng.random((3, 3, 4, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession("onnx/plain.onnx")
    expect("helper-18", images.transpose(0, 2, 3, 1), session.run(None, {"x": images})[0])
    import os

    os.remove("onnx/plain.onnx")

    # What must be refused: it is another function for each image, or no norm.
    flat = node("Flatten", ["z"], ["y"])
    offsets = constant("b", [[[[0.0]]], [[[1.0]]]])
    model("refused-batch", [node("Add", ["x", "b"], ["z"]), flat], [offsets], (1, 1, 3), 17, 3, 2)
    steps = [
        node("ReduceL2", ["x"], ["l"], axes=[-1]),
        node("Clip", ["l", "b"], ["k"]),
        node("Div", ["x", "k"], ["z"]),
        flat,
    ]
    model("refused-length", steps, [constant("b", 0.5)], (1, 1, 3), 17, 3)

    # New since: Silu as an operator of its own.
    model(
        "helper-24",
        [
            node("Conv", ["x", "w"], ["c"], kernel_shape=[2, 2]),
            node("Swish", ["c"], ["s"]),
            node("Swish", ["s"], ["t"], alpha=1.75),
            node("GlobalAveragePool", ["t"], ["p"]),
            node("Flatten", ["p"], ["y"]),
        ],
        [constant("w", normal(3, 2, 2, 2))],
        (2, 4, 5),
        24,
        3,
    )
    images = rng.random((2, 2, 4, 5)).astype(np.float32)
    session = onnx.reference.ReferenceEvaluator("onnx/helper-24.onnx")
    expect("helper-24", images.transpose(0, 2, 3, 1), session.run(None, {"x": images})[0])


def keras_models():
    import tensorflow as tf
    import tf2onnx
    from tensorflow import keras

    keras.utils.set_random_seed(8)
    layers = keras.layers

    def randomise(net):
        for layer in net.layers:
            if isinstance(layer, layers.BatchNormalization):
                shape = layer.gamma.shape
                draw = [rng.uniform(*r, shape) for r in [(0.5, 1.5), (-0.5, 0.5)] * 2]
                layer.set_weights([draw[0], draw[1], draw[3], draw[2]])

    def save(name, net, opset):
        randomise(net)
        spec = (tf.TensorSpec((None, *net.input_shape[1:]), tf.float32, name="image"),)
        call = tf.function(lambda image: net(image, training=False))
        proto, _ = tf2onnx.convert.from_function(call, input_signature=spec, opset=opset)
        onnx.save(proto, f"onnx/{name}.onnx")
        images = rng.random((2, *net.input_shape[1:])).astype(np.float32)
        logits = keras.Model(net.input, net.layers[-1].input)(images)
        if net.layers[-1].name != "softmax":
            logits = net(images)
        expect(name, images, logits)

    x = inputs = keras.Input((9, 8, 3))
    x = layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.ReLU(max_value=6)(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same")(x)
    y = layers.Activation("hard_swish")(layers.BatchNormalization()(y))
    # tf2onnx cannot write the exact one.
    gelu = lambda x: keras.activations.gelu(x, approximate=True)  # noqa: E731
    y = layers.Conv2D(4, 1, activation=gelu)(y)
    x = layers.Add()([x, y])
    x = layers.Concatenate()([layers.AveragePooling2D(2, padding="same")(x), layers.MaxPooling2D(2, padding="same")(x)])
    x = layers.LeakyReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(3, name="dense")(x)
    save("keras-pooled", keras.Model(inputs, layers.Softmax(name="softmax")(x)), 13)

    x = inputs = keras.Input((5, 6, 3))
    x = layers.Rescaling(2.0, offset=-1.0)(x)
    x = layers.Conv2D(4, 3, activation="swish")(layers.ZeroPadding2D(1)(x))
    x = layers.MaxPooling2D(2)(x)
    x = layers.Dropout(0.5)(layers.Flatten()(x))
    x = layers.Dense(4, activation="tanh")(x)
    save("keras-flat", keras.Model(inputs, layers.Dense(3)(x)), 18)


if "--keras" in sys.argv:
    keras_models()
else:
    pytorch_models()
    helper_models()
