"""`explain` of wheel variants: which one is locked, and the line that takes each of the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from provision.commands.explain import explain
from tests.commands.test_variants import locked, project

if TYPE_CHECKING:
    from provision.core.project import Project

__all__ = ["project"]  # a fixture


@pytest.mark.machine
def test_explain_names_the_variant_and_the_others_each_of_which_can_be_taken(
    project: Project,
) -> None:
    locked(project, ["torch", "kernels"])
    (torch,) = explain(project, "torch", [])
    assert torch.variant == ""
    assert torch.variants == ("cu13", "null")
    assert torch.newer is not None
    (held,) = torch.newer
    assert held.version == "3.0"
    assert held.held_by == ("it has no wheel without a variant, but cu12",)
    takes = torch.changes[-2]
    line = re.findall(r"write `(.+)` into \[pip.variants\]", takes.do)[0]
    assert takes.effect == "takes the variant cu13"
    files = locked(project, ["torch"], line)
    assert files["torch"] == "torch-2.0-py3-none-any-cu13.whl"
    (torch,) = explain(project, "torch", ["thing"])
    assert torch.variant == "cu13"
    assert torch.variants == ("null",)
    (runtime,) = explain(project, "nvidia-runtime", [])
    assert {limit.by for limit in runtime.limits} == {"torch 2.0"}
    assert torch.newer is not None
    assert torch.newer[0].held_by == ("it has no variant cu13, but cu12",)
