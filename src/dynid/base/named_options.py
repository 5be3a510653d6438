"""Entries of an experiment that name one of several kinds, with options."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, is_dataclass
from difflib import get_close_matches
from typing import Any

from dynid.base.errors import InputError
from dynid.base.options import Described, constrained, options_of, taken
from dynid.base.registry import Kind, Registry


def meant(name: str, known: Collection[str], cutoff: float = 0.4) -> str:
    """A question after the known name nearest to a wrong one, for the advice of an error; "" where none is near."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def option_value(kind: type[Any], name: str, option: str, value: Any) -> Any:
    """Value of an option of a dataclass as the field of that name is typed, lists as tuples where it wants tuples.

    Raises InputError for a value of another type or out of range.
    """
    one = options_of(kind)[option]
    read = taken(one.hint, one.option, value)
    if read is not MISSING:
        return read
    # Loaded for what is wrong, and for values of other types: it takes as long as a small command.
    from pydantic import TypeAdapter, ValidationError

    # As JSON, in which types are strict and lists may be tuples all the same.
    plain = json.dumps(value, default=lambda date: {"date": str(date)})
    try:
        return TypeAdapter(constrained(one.hint, one.option)).validate_json(plain, strict=True)
    except ValidationError as error:
        written = str(value).lower() if isinstance(value, bool) else repr(value)
        raise InputError(
            "wrong-value", found=f"{option} = {written} of '{name}'", expected=one.words
        ) from error


def named_kind(
    entry: str | Mapping[str, Any],
    key: str,
    kinds: Mapping[str, Kind],
    options_of: Callable[[Kind], Collection[str]],
) -> tuple[str, Kind, dict[str, Any]]:
    """Name, kind and options of an entry `name` or `{key = name, option = value}`.

    Raises InputError for an unknown name or option.
    """
    options = {} if isinstance(entry, str) else {k: value for k, value in entry.items() if k != key}
    name = entry if isinstance(entry, str) else str(entry.get(key, ""))
    if name not in kinds:
        raise InputError(
            f"unknown-{key}",
            found=f"{key} '{name}'",
            expected="one of " + ", ".join(_names(kinds)),
            do=meant(name, _names(kinds))
            or "install the plug-in that brings it, or name its module under plugins",
        )
    kind = kinds[name]
    known = options_of(kind)
    for option in options:
        if option not in known:
            raise InputError(
                "unknown-option",
                found=f"option '{option}' of {key} '{name}'",
                expected="one of " + (", ".join(known) or "no option"),
                do=meant(option, known),
            )
    return name, kind, options


def _names(kinds: Mapping[str, Any]) -> Collection[str]:
    return kinds.names() if isinstance(kinds, Registry) else kinds


def fields_of(kind: Any) -> Mapping[str, Described]:
    """Options of a kind; none for one that is no dataclass."""
    return options_of(kind) if is_dataclass(kind) else {}


def kind_from_spec(
    entry: str | Mapping[str, Any],
    key: str,
    kinds: Mapping[str, Any],
    value: Callable[[Any, str, str, Any], Any] = option_value,
) -> Any:
    """The kind that an entry `name` or `{key = name, option = value}` describes.

    value: (kind, name, option, plain value) -> value of the option.
    Raises InputError for an unknown name, an unknown option, a missing one, or a value that it does not take.
    """
    name, kind, options = named_kind(entry, key, kinds, fields_of)
    missing = [option for option, one in fields_of(kind).items() if one.required and option not in options]
    if missing:
        raise InputError(
            "missing-option", found=f"{key} '{name}' without {', '.join(missing)}", expected="all of them"
        )
    return kind(**{option: value(kind, name, option, given) for option, given in options.items()})


def kind_to_spec(
    one: Any, key: str, name: str, plain: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """{key: name, option: value, ...} of a kind, from which `kind_from_spec` makes it again.

    What is None is left out: TOML cannot write it, and it is the default.
    """
    options = {option: plain(getattr(one, option)) for option in fields_of(type(one))}
    written = {option: list(v) if isinstance(v, tuple) else v for option, v in options.items()}
    return {key: name} | {option: v for option, v in written.items() if v is not None}
