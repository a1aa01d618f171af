"""Move a target's cut-off to today and lock it again; the spec stays unchanged if that fails."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from provision.commands.lock import lock
from provision.commands.upgrade import upgrade

if TYPE_CHECKING:
    from provision.commands.lock import LockResult
    from provision.core.project import Project
    from provision.resolver.resolver import Resolver
    from provision.spec.model import Target


def upgrade_lock(
    target: Target, project: Project, resolver: Resolver, package: str | None
) -> LockResult:
    """Lock a target with a newer cut-off, for one package or for all.

    Raises:
        ProvisionError: It cannot be resolved; the spec has its old cut-off again.
    """
    with upgrade(target, project, package, dt.datetime.now(dt.UTC).date()) as newer:
        (result,) = lock([newer], project, resolver)
        if result.error:
            raise result.error
    return result
