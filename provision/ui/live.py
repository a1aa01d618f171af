"""What is being done now: lines that a terminal draws again and again, elsewhere a line at times.

A thread does one step at a time; threads that help it inherit its step with its context.
"""

from __future__ import annotations

import sys
import threading
import time
from contextvars import ContextVar
from datetime import timedelta
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress, Task
from rich.text import Text

from provision.core.text import harmless, size

if TYPE_CHECKING:
    from provision.ui.console import Console as Shown

_NEWS = 10.0  # seconds between two lines about a step where there is no terminal
_LONG = 1.0  # seconds; what took longer is shown with its time
_NARROW = 60  # columns
_STEP: ContextVar[Task | None] = ContextVar("step", default=None)


class Steps(Progress):
    """The steps of all threads, as a console shows them."""

    def __init__(self, console: Shown) -> None:
        self._guard, self._print = threading.RLock(), console.err.print
        self._marks = "━─" if "utf" in (sys.stderr.encoding or "").lower() else "#-"
        # What is printed meanwhile, on either stream, is put above.
        super().__init__(console=Console(stderr=True), transient=True, disable=not console.alive)

    def begin(self, text: str) -> None:
        """Show a step of this thread; an empty text ends the last one."""
        with self._guard:
            self._end(_STEP.get())
            if text:
                new = self.add_task(text, total=None, files={}, told=time.monotonic(), now="")
                _STEP.set(next(task for task in self.tasks if task.id == new))
                self.start()
                if self.disable:
                    self._print(f"· {text}", "dim")

    def show(self, **how: Any) -> None:  # noqa: ANN401 - as Progress takes them
        """Show how far this thread's step is; see :class:`provision.core.progress.Progress`."""
        task = _STEP.get()
        with self._guard:
            if task is None or task.id not in self.task_ids:
                return
            if files := task.fields["files"] | how.get("files", {}):
                done, sizes = zip(*files.values(), strict=True)
                how |= {
                    "files": files,
                    "completed": sum(done),
                    "total": sum(sizes) if all(sizes) else 0,
                }
            self.update(task.id, **how)
            if self.disable and time.monotonic() - task.fields["told"] > _NEWS:
                task.fields["told"] = time.monotonic()
                self._print(f"  {_state(task)}", "dim")

    def close(self) -> None:
        """End every step: what follows is printed below them."""
        with self._guard:
            for task in self.tasks:
                self._end(task)

    def _end(self, task: Task | None) -> None:
        if task is None or task.id not in self.task_ids:
            return
        self.remove_task(task.id)
        if not self.tasks and not self.disable:
            self.stop()
        took = task.elapsed or 0.0
        state = f"{took:.1f} s" if took > _LONG else ""
        if state and task.fields["files"]:
            state = f"{size(task.completed)}, {size(task.completed / took)}/s, {state}"
        if not self.disable:
            self._print(f"· {task.description}  {state}".rstrip(), "dim")
        elif state:
            named = f"{task.description.strip()}: " if self.tasks else ""
            self._print(f"  {named}{state}", "dim")

    def get_renderables(self) -> list[Text]:
        """Return each step in a line, or in two where it does not fit."""
        return [Text(self._drawn(task, self.console.width - 1), "dim") for task in self.tasks]

    def _drawn(self, task: Task, width: int) -> str:
        text, state = f"· {harmless(task.description)}", harmless(_state(task, width))
        if task.total and (length := min(20, width - len(state) - 6)) > 3:
            done = int(length * task.completed / task.total)
            state = f"{self._marks[0] * done}{self._marks[1] * (length - done)} {state}"
        if len(text) + len(state) + 2 <= width:
            return f"{text}  {state}"
        return f"{shorten(text, width, placeholder=' …')}\n    {shorten(state, width - 4)}"


def _state(task: Task, width: int = 80) -> str:
    """Return how far a step is, the most important first; no rate before it is known."""
    clock, now = _clock(task.elapsed), task.fields["now"]
    if not task.fields["files"]:
        count = [f"{task.completed:.0f} of {task.total:.0f} {now}"] if task.total else [now]
        return " ".join([*count, *([] if now and width < _NARROW else [clock])]).strip()
    whole = f" of {size(task.total)}" if task.total else ""
    left = f", {_clock(task.time_remaining)} left" if whole and task.time_remaining else ""
    return (
        f"{size(task.completed)}{whole}, {f'{size(task.speed)}/s{left}' if task.speed else clock}"
    )


def _clock(seconds: float | None) -> str:
    return str(timedelta(seconds=int(seconds or 0))).removeprefix("0:").removeprefix("0")
