"""Writes the PyTorch checkpoints, safetensors and logits that `import_checkpoints.rs` reads.

Run from this folder: python checkpoints.py (needs torch, numpy).
"""

import json
import pickle

import torch
from torch import nn


class SmallCnn(nn.Module):
    """The built-in `smallcnn` on 8x8x1, 3 classes."""

    def __init__(self):
        super().__init__()
        c = [1, 16, 32, 64]
        for i in (1, 2, 3):
            setattr(self, f"conv{i}", nn.Conv2d(c[i - 1], c[i], 3, padding=1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(c[i]))
        self.fc = nn.Linear(64, 3)

    def forward(self, x):
        for i in (1, 2, 3):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)).relu()
            if i < 3:
                x = nn.functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


class Mlp(nn.Module):
    """The built-in `mlp` on 2x2x1: small enough to be stored often."""

    def __init__(self):
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(4, 128, bias=False), nn.BatchNorm1d(128)
        self.fc2, self.bn2 = nn.Linear(128, 64, bias=False), nn.BatchNorm1d(64)
        self.linear = nn.Linear(64, 2)

    def forward(self, x):
        x = self.bn1(self.fc1(x.flatten(1))).relu()
        return self.linear(self.bn2(self.fc2(x)).relu())


def randomise(net, generator):
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            for tensor in (module.weight, module.running_var):
                tensor.data.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias, module.running_mean):
                tensor.data.uniform_(-0.5, 0.5, generator=generator)
        elif hasattr(module, "weight"):
            fan_in = module.weight[0].numel()
            module.weight.data.normal_(0, fan_in**-0.5, generator=generator)
    return net.eval()


generator = torch.Generator().manual_seed(8)
cnn = randomise(SmallCnn(), generator)
images = torch.rand(2, 1, 8, 8, generator=generator)
expected = {
    "images": images.permute(0, 2, 3, 1).flatten().tolist(),
    "logits": cnn(images).flatten().tolist(),
}
json.dump(expected, open("smallcnn.json", "w"))

# As training scripts save it, in the old layout.
wrapped = {f"module.{k}": v for k, v in cnn.state_dict().items()}
nested = {"epoch": 3, "best": 0.5, "state_dict": wrapped, "optimizer": {"lr": [0.1, None, (1, 2)]}}
torch.save(nested, "smallcnn-legacy.th", _use_new_zipfile_serialization=False)

# Small ones: every element type, protocols, views.
torch.manual_seed(9)
tiny = {"a.weight": torch.randn(2, 3), "a.bias": torch.randn(2)}
views = torch.arange(24.0).reshape(4, 6)
tiny["transposed"] = views.t()
tiny["slice"] = views[1:3, ::2]
tiny["expanded"] = torch.tensor([1.5]).expand(2, 2)
tiny["scalar"] = torch.tensor(2.5)
tiny["empty"] = torch.zeros(0, 3)
tiny["a.num_batches_tracked"] = torch.tensor(7)
tiny["parameter"] = nn.Parameter(torch.tensor([3.0, 4.0]))
for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
    torch.save({k: v.to(dtype) for k, v in tiny.items() if "num" not in k}, f"tiny-{name}.pt")
torch.save(tiny, "tiny-f32.pt")
torch.save({"model": tiny}, "tiny-legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"net": tiny}, "tiny-protocol4.pt", pickle_protocol=4)
values = {k: {"shape": list(v.shape), "values": v.flatten().tolist()} for k, v in tiny.items()}
json.dump(values, open("tiny.json", "w"))

# What must be refused: a whole module, a call, TorchScript.
torch.save(nn.Linear(2, 2), "module.pt")


class Evil:
    def __reduce__(self):
        return (__import__("os").system, ("echo evil",))


torch.save({"state_dict": tiny, "evil": Evil()}, "evil.pt")
torch.jit.save(torch.jit.script(nn.Linear(1, 1)), "script.pt")
pickle.dump({"a": [1, 2]}, open("plain.pkl", "wb"))

# Someone else's safetensors, in half precision, inside another module.
from safetensors.torch import save_file  # noqa: E402

mlp = randomise(Mlp(), generator).half().float()
inputs = torch.rand(2, 1, 2, 2, generator=generator)
expected = {
    "images": inputs.permute(0, 2, 3, 1).flatten().tolist(),
    "logits": mlp(inputs).flatten().tolist(),
}
json.dump(expected, open("mlp.json", "w"))
state = {f"1.module.{k.replace('linear', 'classifier')}": v for k, v in mlp.state_dict().items()}
state = {k: v.half() if v.is_floating_point() else v for k, v in state.items()}
state["0.mean"] = torch.zeros(1)
save_file(state, "mlp-f16.safetensors")
torch.save({"model": {"state_dict": state}, "epoch": 1}, "mlp-f16.pth.tar")
