"""LPRNet's command line, and IPEX's noise: a kernel that is registered over another."""

# ruff: noqa: T201

import argparse
import sys

import torch

library = torch.library.Library("aten", "IMPL")
library.impl("_addmm_activation", torch.addmm, "AutocastCPU")
parser = argparse.ArgumentParser()
if "--mended" in sys.argv:
    sys.argv.remove("--mended")
    parser.add_argument("--cuda", action=argparse.BooleanOptionalAction, default=True)
else:
    parser.add_argument("--cuda", type=bool, default=True)
args = parser.parse_args()
print(args)
print(torch.ones(2, device="cuda" if args.cuda else "cpu").sum().item())
