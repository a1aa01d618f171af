"""Docker Compose starts docker/compose.yaml: a service, and one that waits until it is healthy."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.process import run

if TYPE_CHECKING:
    from provision.image.docker import BuiltImage
    from provision.image.request import ImageRequest

pytestmark = pytest.mark.docker

FILE = Path(__file__).parents[2] / "docker/compose.yaml"


def test_a_service_starts_after_the_checks_of_another_have_passed(
    tiny: tuple[ImageRequest, BuiltImage],
) -> None:
    project = f"provision-test-{uuid.uuid4().hex[:8]}"
    argv = ["docker-compose", "--file", str(FILE), "--project-name", project]
    env = dict(os.environ, PROVISION_IMAGE=tiny[1].tag)

    def moment(service: str, template: str) -> dt.datetime:
        argv = ["docker", "inspect", "--format", template, f"{project}_{service}_1"]
        return dt.datetime.fromisoformat(run(argv).require("it is there").stdout[:19])

    try:
        up = run([*argv, "up", "--exit-code-from", "client"], env=env)
        found = run([*argv, "logs", "--no-color"], env=env).stdout
        healthy = moment("model", "{{(index .State.Health.Log 0).End}}")
        started = moment("client", "{{.State.StartedAt}}")
    finally:
        run([*argv, "down", "--volumes"], env=env)
    assert up.returncode == 0, up.stdout + up.stderr
    lines = [line for line in found.splitlines() if line.startswith("client")]
    assert [line.partition("| ")[2] for line in lines] == ["200"]
    assert healthy <= started
