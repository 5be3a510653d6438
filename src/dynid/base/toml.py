"""TOML files: data with the line of each key, checked against a pydantic model."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from dynid.base.errors import DynidError, InputError, InputErrors, Place, RefusedError
from dynid.base.files import read_bytes
from dynid.base.options import Option, constrained, options_of, with_limits, words

# Data of TOML files, and the line of each key.

Key = str | int
Lines = dict[tuple[Key, ...], int]
# Bytes: far above any experiment or robot file.
MAX_TOML_BYTES = 4_000_000
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'|#[^\n]*|[A-Za-z0-9_+:\-]+|\s|.',
    re.DOTALL,
)


def read_toml(path: str | Path) -> tuple[dict[str, Any], Lines]:
    """Read a TOML file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    data : dict
    lines : dict
        Line of each key by its path; elements of arrays by index.

    Raises
    ------
    InputError
        With file and line, if the file is missing, not UTF-8 or not TOML.
    RefusedError
        If it is larger than 4 MB or nested too deeply.

    """
    place = Place(file=str(path))
    data = read_bytes(path, "a TOML file", MAX_TOML_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "encoding",
            found=f"byte {error.start}, which is not UTF-8",
            expected="UTF-8 text",
            place=Place(file=str(path), line=data.count(b"\n", 0, error.start) + 1),
        ) from error
    try:
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text, Path(path)) from error
    except RecursionError as error:
        raise RefusedError(
            "toml-depth", found="arrays or tables nested too deeply", expected="a few levels", place=place
        ) from error
    except ValueError as error:
        raise InputError("toml-syntax", found=str(error), expected="TOML", place=place) from error


def _syntax_error(error: tomllib.TOMLDecodeError, text: str, path: Path) -> InputError:
    where = re.search(r"line (\d+), column (\d+)", str(error))
    line, column = (int(where[1]), int(where[2])) if where else (text.rstrip("\n").count("\n") + 1, None)
    return InputError(
        "toml-syntax",
        found=re.sub(r"\s*\(at .*\)", "", str(error)),
        expected="TOML",
        place=Place(file=str(path), line=line, column=column),
    )


def key_lines(text: str) -> Lines:
    """Return the lines, from 1, of tables, keys and array elements of a valid TOML text.

    Keys inside inline tables are left out; for them `line_of` returns the line of the table.
    """
    lines: Lines = {}
    counts: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    for number, tokens in _statements(text):
        words = [token for token, _ in tokens]
        if words[0] == "[":
            double = len(words) > 1 and words[1] == "["
            table = _resolved(_parts(words), counts)
            if double:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines[table] = number
        elif "=" in words:
            split = words.index("=")
            key = table + _parts(words[:split])
            lines.setdefault(key, number)
            _element_lines(tokens[split + 1 :], key, lines)
    return lines


def _statements(text: str) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    # Tokens with their lines, one list per statement, without blanks and comments.
    number, depth = 1, 0
    statement: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word == "\n" and depth == 0 and statement:
            yield statement[0][1], statement
            statement = []
        if not word.isspace() and not word.startswith("#"):
            statement.append((word, number))
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        number += word.count("\n")
    if statement:
        yield statement[0][1], statement


def _element_lines(tokens: list[tuple[str, int]], key: tuple[Key, ...], lines: Lines) -> None:
    if not tokens or tokens[0][0] != "[":
        return
    depth, element, fresh = 0, -1, False
    for token, number in tokens:
        if depth == 1 and fresh and token not in ("]", ","):
            element, fresh = element + 1, False
            lines.setdefault((*key, element), number)
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth == 1 and token in ("[", ","):
            fresh = True


def line_of(path: Sequence[Key], lines: Lines) -> int | None:
    """Line of a key, or of the innermost table around it.

    Parameters
    ----------
    path : sequence of str or int
        Path of the key.
    lines : dict
        Lines from `read_toml`.

    Returns
    -------
    int or None
        None if no part of the path has a line.

    """
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def _parts(words: list[str]) -> tuple[Key, ...]:
    return tuple(word.strip("\"'") for word in words if word not in ("[", "]", "."))


def _resolved(name: tuple[Key, ...], counts: dict[tuple[Key, ...], int]) -> tuple[Key, ...]:
    path: tuple[Key, ...] = ()
    for part in name[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path])
    return (*path, name[-1])


# Checks of TOML files against a pydantic model: all errors together, each with file and line.
#
# Types are strict: no text for a number, no true for 1. A model is written field by field with `key`, or made from the
# options of a dataclass.

# Keys that a message lists; users look up longer lists.
_FEW = 10
_LONGEST = 80  # characters of a value that a message repeats


class Strict(BaseModel):
    """Base of all configuration models: no unknown keys, strict types, finite numbers, frozen values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=False)

    def made(self, kind: Callable[..., Made]) -> Made:
        """The dataclass from whose options the model, or a base of it, was made, with the values of this table."""
        return kind(**{name: getattr(self, name) for name in options_of(kind)})


@dataclass(frozen=True)
class Table:
    """In a type, `Annotated[Kind, Table(model_of(Kind, ...))]`: a table of a file that is read as that dataclass."""

    model: type[Strict]

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks the table against the model, then makes the dataclass."""
        checked = handler.generate_schema(self.model)
        return core_schema.no_info_after_validator_function(lambda table: table.made(kind), checked)


Made = TypeVar("Made")
Model = TypeVar("Model", bound=BaseModel)


def key(default: Any = ..., doc: str = "", *, unit: str = "", kind: str = "", **more: Any) -> Any:
    """Return a field of a model with its meaning.

    Parameters
    ----------
    default : object
        Default value; `...` = required.
    doc : str
        Its meaning in one sentence.
    unit : str
        Unit of its numbers.
    kind : str
        Words for its values.
    **more
        As for pydantic's Field.

    Returns
    -------
    pydantic.fields.FieldInfo

    """
    extra: dict[str, Any] = {name: text for name, text in (("unit", unit), ("kind", kind)) if text}
    if "default_factory" not in more:
        more["default"] = default
    return Field(description=doc or None, json_schema_extra=extra or None, **more)


def model_of(
    kind: Any, name: str, aliases: Mapping[str, str] | None = None, doc: str = "", base: type[Strict] = Strict
) -> type[Strict]:
    """Make a model from the options of a dataclass, with their types, ranges, defaults and meanings.

    Parameters
    ----------
    kind : type
        The dataclass.
    name : str
        Name of the model.
    aliases : mapping of str to str, optional
        Other names of options in files.
    doc : str
        Docstring of the model; "" = that of `base` if it has keys, else that of the dataclass.
    base : type
        Model whose keys come before the options.

    Returns
    -------
    type

    """
    made: dict[str, Any] = {}
    for field, described in options_of(kind).items():
        default: Any = ... if described.required else described.default
        alias = {"alias": aliases[field]} if aliases and field in aliases else {}
        made[field] = (constrained(described.hint, described.option), key_of(kind, field, default, **alias))
    doc = doc or str((base if base.model_fields else kind).__doc__)
    return create_model(name, __base__=base, __doc__=doc, **made)


def key_of(kind: Any, name: str, default: Any = None, **more: Any) -> Any:
    """A field of a model with the sentence, unit and words of an option of a dataclass.    more: as for `key`."""
    option = options_of(kind)[name].option
    return key(default, option.doc, unit=option.unit, kind=option.kind, **more)


def option_of(info: FieldInfo) -> Option:
    """Return meaning and range of a field of a model as an Option."""
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, Mapping) else {}
    described = Option(info.description or "", str(extra.get("unit", "")), kind=str(extra.get("kind", "")))
    return with_limits(described, info.metadata)


def words_of(info: FieldInfo) -> str:
    """Return the allowed values of a field of a model as text.

    Parameters
    ----------
    info : pydantic.fields.FieldInfo
        The field.

    Returns
    -------
    str

    """
    described = option_of(info)
    return described.kind or words(info.annotation, described)


def validate(model: type[Model], data: dict[str, Any], lines: Lines, file: str) -> Model:
    """Check the data of a TOML file against a model.

    Parameters
    ----------
    model : type
        The model.
    data, lines : dict
        Data and lines from `read_toml`.
    file : str
        Path of the file, for messages.

    Returns
    -------
    model

    Raises
    ------
    InputErrors
        With each wrong key and its line.

    """
    try:
        # Validated as JSON, where types are strict but lists are accepted as tuples. No key takes a date.
        return model.model_validate_json(
            json.dumps(data, default=lambda date: {"date": str(date)}), strict=True
        )
    except ValidationError as error:
        raise _input_errors(error, model, data, lines, file) from error


def _input_errors(
    error: ValidationError,
    model: type[BaseModel],
    data: dict[str, Any],
    lines: Lines,
    file: str,
) -> InputErrors:
    problems: list[DynidError] = []
    wrong: dict[tuple[Key, ...], tuple[int, list[str]]] = {}
    paths: list[tuple[Key, ...]] = []
    for item in error.errors(include_url=False):
        path = _path_in_file(item["loc"], data, item["type"] == "missing")
        # Keys without a line: line 1 of a file; no line if the data come from the command line.
        place = Place(file=file, line=line_of(path, lines) or (1 if Path(file).suffix else None))
        name = ".".join(str(part) for part in path)
        if item["type"] == "extra_forbidden":
            paths.append(path)
            do = _suggested_key(model, path) or "remove it"
            siblings = _sibling_keys(model, path)
            few = f"one of {', '.join(siblings)}" if 0 < len(siblings) <= _FEW else "a known key"
            problems.append(
                InputError("unknown-key", found=f"unknown key '{name}'", expected=few, do=do, place=place)
            )
        elif item["type"] == "missing" and isinstance(path[-1], str):
            paths.append(path)
            problems.append(
                InputError(
                    "missing-key",
                    found=f"no key '{name}'",
                    expected="this key, which is required",
                    place=place,
                )
            )
        else:
            if item["type"] == "missing":  # an element of a list that is too short
                path = path[:-1]
                name = ".".join(str(part) for part in path)
            # pydantic reports a value of a union once per alternative; these become one error.
            index, kinds = wrong.setdefault(path, (len(problems), []))
            kinds.append(_expected_values(model, path, item))
            value, expected = _short(_toml_text(item["input"])), " or ".join(dict.fromkeys(kinds))
            problems[index:] = [
                InputError("wrong-value", found=f"{name} = {value}", expected=expected, place=place),
                *problems[index + 1 :],
            ]
    return InputErrors(_deepest(problems, wrong, (*paths, *wrong)))


def _deepest(
    problems: list[DynidError],
    wrong: Mapping[tuple[Key, ...], tuple[int, list[str]]],
    paths: Sequence[tuple[Key, ...]],
) -> list[DynidError]:
    # Where a value of a union has an error inside, the errors for its other alternatives are redundant.
    outer = {
        index
        for path, (index, _) in wrong.items()
        if any(len(other) > len(path) and other[: len(path)] == path for other in paths)
    }
    return [error for i, error in enumerate(problems) if i not in outer]


def _expected_values(model: type[BaseModel], path: tuple[Key, ...], item: Any) -> str:
    # Custom checks have their own message; otherwise the field says what is expected.
    custom = item["type"] in ("value_error", "assertion_error")
    info = None if custom else _field_at(model, path)
    if info is not None:
        short = item["type"] == "too_short" and not option_of(info).kind
        return words_of(info) + (f", at least {item['ctx']['min_length']} of them" if short else "")
    return str(item["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


def _field_at(model: type[BaseModel], path: tuple[Key, ...]) -> FieldInfo | None:
    """Return the field of the last key on a path, ignoring indices and names that the user chooses."""
    models, field = [model], None
    for part in path:
        for candidate in models:
            named = {info.alias or name: info for name, info in candidate.model_fields.items()}
            if part in named:
                field = named[str(part)]
                models = models_in(field)
                break
    return field


def _path_in_file(loc: Sequence[Key], data: Any, missing: bool) -> tuple[Key, ...]:
    # pydantic adds the names of a union's alternatives to the path; drop what is not in the file.
    path: tuple[Key, ...] = ()
    for k, part in enumerate(loc):
        inside = (isinstance(data, Mapping) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
        if inside or (missing and k == len(loc) - 1):
            path = (*path, part)
    return path


def _toml_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _suggested_key(model: type[BaseModel], path: tuple[Key, ...]) -> str:
    """Return "did you mean ...?" for the key most similar to an unknown one, in the same table or another."""
    wrong = str(path[-1])
    near = get_close_matches(wrong, _sibling_keys(model, path), n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    if any(isinstance(part, int) for part in path):
        return ""  # keys of list items are not in the wrong table
    tables = _table_by_key(model)
    near = get_close_matches(wrong, tables, n=1, cutoff=0.5)
    if not near:
        return ""
    table = tables[near[0]]
    return f"did you mean '{near[0]}' under [{table}]?" if table else f"did you mean '{near[0]}' at the top?"


def _sibling_keys(model: type[BaseModel], path: tuple[Key, ...]) -> list[str]:
    """Keys of the table that contains the last key of a path."""
    info = _field_at(model, path[:-1])
    here = [model] if len(path) == 1 else models_in(info) if info is not None else []
    return [info.alias or name for table in here for name, info in table.model_fields.items()]


def _table_by_key(model: type[BaseModel]) -> dict[str, str]:
    # Table of each key; the first table for keys of the same name.
    tables: dict[str, str] = {}
    stack: list[tuple[type[BaseModel], str]] = [(model, "")]
    seen = {model}
    while stack:
        table_model, table = stack.pop(0)
        for name, info in table_model.model_fields.items():
            key = info.alias or name
            tables.setdefault(key, table)
            for inner in models_in(info):
                if inner not in seen:
                    seen.add(inner)
                    stack.append((inner, f"{table}.{key}" if table else key))
    return tables


def models_in(info: FieldInfo) -> list[type[BaseModel]]:
    """The models of the tables that a field takes."""
    return [model for part in (info.annotation, *info.metadata) for model in _models_in(part)]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, Table):
        return [annotation.model]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
