"""TOML files checked against a pydantic model: every error at once, each with its file and line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from dynid.errors import DynidError, InputError, InputErrors, Place

Key = str | int
_TABLE = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_ARRAY = re.compile(r"^\s*\[\[\s*([^\[\]]+?)\s*\]\]\s*(#.*)?$")
_ENTRY = re.compile(r"""^\s*((?:[A-Za-z0-9_\-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_\-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_\-]+|"[^"]*"|'[^']*'""")


class Strict(BaseModel):
    """Base of all configuration models: unknown keys are errors, values are frozen, numbers finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path) -> tuple[dict[str, Any], dict[tuple[Key, ...], int]]:
    """Reads a TOML file: its data, and the line of every key (by path, array elements by number).

    Raises InputError with file and line if it is missing, not UTF-8 or not TOML.
    """
    place = Place(file=str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError("file-missing", found="no such file", expected="a TOML file", place=place) from error
    except IsADirectoryError as error:
        raise InputError("file-missing", found="a folder", expected="a TOML file", place=place) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "encoding", found=f"byte {error.start} is not UTF-8", expected="UTF-8 text", place=place
        ) from error
    try:
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(where[1]), int(where[2])) if where else (len(text.splitlines()), None)
        raise InputError(
            "toml-syntax",
            found=re.sub(r"\s*\(at .*\)", "", str(error)),
            expected="TOML",
            place=Place(file=str(path), line=line, column=column),
        ) from error


def key_lines(text: str) -> dict[tuple[Key, ...], int]:
    """Line numbers of tables and keys of a TOML text, counted from 1; keys inside inline tables are left out."""
    lines: dict[tuple[Key, ...], int] = {}
    counts: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _ARRAY.match(line):
            name = _resolved(_parts(match[1]), counts)
            counts[name] = counts.get(name, -1) + 1
            table = (*name, counts[name])
            lines[table] = number
        elif match := _TABLE.match(line):
            table = _resolved(_parts(match[1]), counts)
            lines[table] = number
        elif match := _ENTRY.match(line):
            lines.setdefault(table + _parts(match[1]), number)
    return lines


def line_of(path: Sequence[Key], lines: dict[tuple[Key, ...], int]) -> int | None:
    """Line of a key, or of the nearest key above it."""
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def validate(
    model: type[Model], data: dict[str, Any], lines: dict[tuple[Key, ...], int], file: str, prefix: tuple[Key, ...] = ()
) -> Model:
    """Checks data against a model; raises InputErrors that names every wrong key with its line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _input_errors(error, model, lines, file, prefix) from error


def _input_errors(
    error: ValidationError, model: type[BaseModel], lines: dict[tuple[Key, ...], int], file: str, prefix: tuple[Key, ...]
) -> InputErrors:
    found: list[DynidError] = []
    for item in error.errors(include_url=False):
        path = prefix + tuple(part for part in item["loc"] if not _is_union_tag(part))
        place = Place(file=file, line=line_of(path, lines))
        name = ".".join(str(part) for part in path)
        if item["type"] == "extra_forbidden":
            near = get_close_matches(str(path[-1]), _all_fields(model), n=1, cutoff=0.5)
            found.append(
                InputError(
                    "unknown-key",
                    found=f"unknown key '{name}'",
                    expected="a known key",
                    do=f"did you mean '{near[0]}'?" if near else "remove it",
                    place=place,
                )
            )
        elif item["type"] == "missing":
            found.append(InputError("missing-key", found=f"no key '{name}'", expected="it is required", place=place))
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            found.append(
                InputError("wrong-value", found=f"{name} = {item['input']!r}", expected=message, place=place)
            )
    return InputErrors(found)


def _is_union_tag(part: Key) -> bool:
    return isinstance(part, str) and ("[" in part or part in {"float", "str", "int", "bool", "dict", "list"})


def _all_fields(model: type[BaseModel]) -> list[str]:
    names: list[str] = []
    stack, seen = [model], {model}
    while stack:
        for name, info in stack.pop().model_fields.items():
            names.append(info.alias or name)
            for inner in _models_in(info.annotation):
                if inner not in seen:
                    seen.add(inner)
                    stack.append(inner)
    return names


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _parts(text: str) -> tuple[Key, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(text))


def _resolved(name: tuple[Key, ...], counts: dict[tuple[Key, ...], int]) -> tuple[Key, ...]:
    path: tuple[Key, ...] = ()
    for part in name[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path])
    return (*path, name[-1])
