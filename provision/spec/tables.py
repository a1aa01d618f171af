"""The base class of every model that reads a file, and readable validation errors."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.plugin import _loader as plugins

from provision.core.text import nearest

# None is looked for: it could change how a spec is read, and each distribution beside this one would
# be asked. A variable says the same, but programs that `run` starts would get it.
plugins._plugins = {}  # noqa: SLF001
_DATE = "has to be a date, such as 2026-11-01"
_TABLE = "has to be a table"
_TEXTS = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is empty",
}
# What has to be, by pydantic's type of the error; what is follows.
_KINDS = {
    "string_type": "has to be text",
    "tuple_type": "has to be a list",
    "list_type": "has to be a list",
    "model_type": _TABLE,
    "dict_type": _TABLE,
    "float_type": "has to be a number",
    "int_type": "has to be a whole number",
    "bool_type": "has to be true or false",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "literal_error": "has to be {expected}",
    "string_pattern_mismatch": "has to match {pattern}",
    "greater_than": "has to be greater than {gt:g}",
}
# Errors without the value: its validator has named it, or it is the whole file.
_SENTENCES = {"value_error", "json_invalid"}


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
    """Return one text per error: the keys, what is wrong, what is allowed, and what ``origin`` adds."""
    if not isinstance(error, ValidationError):  # what kept the file from validation
        return [str(error)]
    entries = error.errors(include_url=False)
    containers = set()
    for entry in entries:
        for end in range(len(entry["loc"])):
            containers.add(entry["loc"][:end])
    faults = []
    for entry in entries:
        # pydantic also reports a container with invalid items as too short.
        if entry["type"] != "too_short" or entry["loc"] not in containers:
            faults.append(_fault(entry, model) + origin(entry["loc"]))
    return faults


def _fault(entry: Any, model: type[BaseModel]) -> str:  # noqa: ANN401 - pydantic's error dictionary
    place = ""
    for part in entry["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    message = entry["msg"].removeprefix("Value error, ").splitlines()[0]
    if entry["type"] == "extra_forbidden":
        message = "unknown key" + _suggestion(entry["loc"], model)
    elif entry["type"] in _TEXTS:
        message = _TEXTS[entry["type"]]
    elif entry["type"] in _KINDS:
        message = _KINDS[entry["type"]].format(**entry.get("ctx", {}))
        message += _instead(entry["type"], entry["input"])
    elif entry["type"] not in _SENTENCES:
        message = f"{message} (is {entry['input']!r})"
    return f"{place.lstrip('.') or 'the whole file'}: {message}"


def _instead(kind: str, value: object) -> str:
    """Return how a value of another type is written, or else what it is."""
    if kind == "string_type" and isinstance(value, int | float):
        # 3.1 may be what is left of 3.10.
        if isinstance(value, float) and len(str(value).partition(".")[2]) < 2:
            return ": put it in quotes"
        return f': write "{value}"'
    if kind in {"tuple_type", "list_type"} and isinstance(value, str):
        return f': write ["{value}"]'
    return f" (is {value!r})"


def _suggestion(place: tuple[int | str, ...], whole: type[BaseModel]) -> str:
    """Return the key that is meant, with its table where that is another one."""
    places = dict.fromkeys(_keys(whole), " above the tables")
    for name, field in whole.model_fields.items():
        for table in _models_in(field.annotation):
            places |= dict.fromkeys(_keys(table), f" of [{name}]")
    model = whole
    for part in place[:-1]:
        if inner := model.model_fields.get(str(part)):
            model = next(_models_in(inner.annotation), model)
    places |= dict.fromkeys(_keys(model), "")
    if close := nearest(str(place[-1]), places):
        return f", did you mean `{close}`{places[close]}?"
    return f"; allowed are {', '.join(_keys(model))}"


def _keys(model: type[BaseModel]) -> list[str]:
    fields = model.model_fields
    return [field.title or field.alias or name for name, field in fields.items()]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any type form
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
