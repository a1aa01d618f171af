"""An offloaded model with tied weights, given its device by number, run twice."""

# ruff: noqa: ANN001, ANN201, ANN204, T201

import sys

sys.path.insert(0, sys.argv[1])  # the Accelerate to try
import accelerate
import accelerate.hooks
import pretend  # noqa: F401 - makes the device
import torch

accelerate.hooks.is_xpu_available = lambda *_: (
    True
)  # the pretend device stands for an XPU


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8)
        self.block = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.block(self.embedding(tokens)))


print("accelerate", accelerate.__version__)
layers = {"embedding": "cpu", "block": 0, "head": "cpu"}
model = accelerate.dispatch_model(
    Tied().eval(), device_map=layers, main_device=0, force_hooks=True
)
for _ in range(2):
    model(torch.arange(5)[None])
print("done")
