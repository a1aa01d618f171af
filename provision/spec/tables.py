"""The base class of every model that reads a file, and readable validation errors."""

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from provision.core.text import nearest

_TEXTS = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is empty",
}


class Table(BaseModel):
    """A table of a file that a person or a tool wrote: frozen, unknown keys refused."""

    # extra: a misspelt key would be ignored without a word. strict: "3" is not the number 3.
    # defer_build: building the validators of all models would slow down every verb.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, defer_build=True
    )


def faults_of(
    error: Exception,
    model: type[BaseModel],
    origin: Callable[[tuple[int | str, ...]], str] = lambda _: "",
) -> list[str]:
    """Return one line per fault: place, what is wrong, what is allowed, and the file of origin."""
    if not isinstance(
        error, ValidationError
    ):  # what kept the file from being validated
        return [str(error)]
    entries = error.errors(include_url=False)
    # pydantic also reports a container with invalid items as too short, which is a consequence.
    containers = {
        entry["loc"][:end] for entry in entries for end in range(len(entry["loc"]))
    }
    causes = (
        e for e in entries if e["type"] != "too_short" or e["loc"] not in containers
    )
    return [_fault(entry, model) + origin(entry["loc"]) for entry in causes]


def _fault(entry: Any, model: type[BaseModel]) -> str:  # noqa: ANN401 - pydantic's error dictionary
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in entry["loc"]
    )
    message = entry["msg"].removeprefix("Value error, ").splitlines()[0]
    if entry["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        message = "unknown key" + _suggestion(entry["loc"], model)
    elif entry["type"] in _TEXTS:
        message = _TEXTS[entry["type"]]
    elif entry["type"] != "value_error":
        message = f"{message.replace('an object', 'a table')} (is {entry['input']!r})"
    return f"{place.lstrip('.') or 'the whole file'}: {message}"


def _suggestion(place: tuple[int | str, ...], whole: type[BaseModel]) -> str:
    model: type[Any] = whole
    known = dict.fromkeys(_keys(whole), " above the tables")
    for name, field in whole.model_fields.items():
        for table in _models_in(field.annotation):
            known |= dict.fromkeys(_keys(table), f" of [{name}]")
    for part in place[:-1]:
        if inner := getattr(model, "model_fields", {}).get(str(part)):
            model = next(_models_in(inner.annotation), model)
    own = _keys(model)
    close = nearest(str(place[-1]), known := known | dict.fromkeys(own, ""))
    return (
        f", did you mean `{close}`{known[close]}?"
        if close
        else f"; allowed are {', '.join(own)}"
    )


def _keys(model: type[Any]) -> list[str]:
    fields = getattr(model, "model_fields", {}).items()
    return [f.title or f.alias or name for name, f in fields] or [*model.__match_args__]


def _models_in(annotation: Any) -> Iterator[type[Any]]:  # noqa: ANN401 - any type form
    if isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or is_dataclass(annotation)
    ):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
