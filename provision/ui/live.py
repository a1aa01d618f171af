"""What each thread does now, in a terminal: a line that is drawn again and again."""

from datetime import timedelta
from textwrap import shorten
from threading import get_ident
from typing import Any

from rich.console import Console
from rich.progress import Progress, Task, TaskID
from rich.text import Text

from provision.core.interruption import is_interrupted
from provision.core.progress import Look
from provision.core.text import harmless, size
from provision.report.model import Check
from provision.ui.console import Console as Shown
from provision.ui.console import columns_of, show
from provision.ui.smoke import check_line

_LONG = 1.0  # seconds; what took longer is shown with its time


class Steps(Progress):
    """The steps of all threads. rich draws ten times a second what they tell of themselves."""

    def __init__(self, console: Shown) -> None:
        self._shown = console
        self._of_thread: dict[int, TaskID] = {}
        # What is printed meanwhile, on either stream, is put above.
        super().__init__(
            console=Console(stderr=True, force_terminal=True), transient=True
        )

    def begin(self, text: str, look: Look) -> None:
        """Show a step of this thread; an empty text ends the last one."""
        # rich draws under this lock. With another one, each could wait for the other.
        with self.live._lock:  # noqa: SLF001
            self._end(get_ident())
            if text:
                fields = dict[str, Any](look=look, now="", files={})
                self._of_thread[get_ident()] = self.add_task(text, total=None, **fields)
                self.live.start()

    def close(self) -> None:
        """End every step: what follows is printed below them."""
        with self.live._lock:  # noqa: SLF001
            for thread in tuple(self._of_thread):
                self._end(thread)

    def get_renderables(self) -> list[Text]:
        """Return each step in a line, or in two where it does not fit."""
        lines = []
        style = "dim" if self._shown.err.color_system else ""
        for task in self.tasks:
            self._look(task)
            lines.append(Text(_drawn(task, self.console.width - 1), style))
        return lines

    def _look(self, task: Task) -> None:
        progress = task.fields["look"]()
        ended = progress.pop("ended", ())
        if files := progress.get("files"):
            done, sizes = zip(*files.values(), strict=True)
            progress["completed"] = sum(done)
            progress["total"] = sum(sizes) if all(sizes) else 0
        self.update(task.id, **progress)
        for result in ended:
            self._tell(Check.model_validate(result))

    def _tell(self, check: Check) -> None:
        """Print a check that did not pass as soon as it has ended; the others are counted."""
        if check.outcome != "passed":
            show(self._shown.err, *check_line(check, self.console.width))
            if columns_of(self._shown.out):
                self._shown.told.add(check.id)

    def _end(self, thread: int) -> None:
        if (number := self._of_thread.pop(thread, None)) is None:
            return
        task = self._tasks[number]
        self._look(task)  # at what was shown last
        self.remove_task(number)
        if not self.tasks:
            self.live.stop()
        if is_interrupted():  # what stopped is no news
            return
        took = max(task.elapsed or 0.0, 0.01)
        line = f"· {task.description}"
        if took > _LONG:
            line += "  "
            if task.fields["files"]:
                line += f"{size(task.completed)}, {size(task.completed / took)}/s, "
            line += f"{took:.1f} s"
        show(self._shown.err, line, "dim")


def _drawn(task: Task, width: int) -> str:
    text = f"· {harmless(task.description)}"
    state = harmless(_state(task))
    if len(state) >= width - 8:
        state = state.rpartition("  ")[0] or state
    if task.total and (length := min(20, width - len(state) - 6)) > 3:
        done = int(length * task.completed / task.total)
        state = f"{'#' * done}{'-' * (length - done)} {state}"
    if len(text) + len(state) + 2 <= width:
        return f"{text}  {state}"
    return f"{shorten(text, width, placeholder=' …')}\n    {shorten(state, width - 4)}"


def _state(task: Task) -> str:
    """Return how far a step is, the most important first; no rate before it is known."""
    total = task.total
    clock = _clock(task.elapsed)
    if not task.fields["files"]:
        count = f"{task.completed:.0f} of {total:.0f} " if total else ""
        return f"{count}{task.fields['now']}  {clock}".strip()
    state = size(task.completed)
    if total:
        state += f" of {size(total)}"
    if not task.speed:
        return f"{state}, {clock}"
    state += f", {size(task.speed)}/s"
    if total:
        state += f", {_clock(task.time_remaining)} left"
    return state


def _clock(seconds: float | None) -> str:
    """A time as `1:05` or `1:00:05`."""
    whole = str(timedelta(seconds=int(seconds or 0)))
    return whole.removeprefix("0:").removeprefix("0")
