"""Training that goes on from a checkpoint, in the wrong or in the right order."""

# ruff: noqa: ANN001, ANN201, T201

import sys

import pretend  # noqa: F401 - makes the device
import torch


def training(state=None):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    if sys.argv[1] == "model-first":
        model.to("pretend")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if state:
        print("Resuming from checkpoint")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    model.to("pretend")
    model(torch.ones(3, 4).to("pretend")).sum().backward()
    if state or sys.argv[1] == "model-first":
        optimizer.step()
    return model, optimizer


torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model(torch.ones(3, 4)).sum().backward()
optimizer.step()
training({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
print("done")
