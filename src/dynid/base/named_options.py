"""Entries of a recipe that name one of several kinds, with options."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from dynid.base.errors import InputError
from dynid.base.options import constrained, options_of

Kind = TypeVar("Kind")


def meant(name: str, known: Collection[str], cutoff: float = 0.4) -> str:
    """A question after the known name nearest to a wrong one, for the advice of an error; "" where none is near."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def option_value(kind: type[Any], name: str, option: str, value: Any) -> Any:
    """Value of an option of a dataclass as the field of that name is typed, lists as tuples where it wants tuples.

    Raises InputError for a value of another type or out of range.
    """
    from pydantic import TypeAdapter, ValidationError

    one = options_of(kind)[option]
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
            expected="one of " + ", ".join(kinds),
            do=meant(name, kinds),
        )
    known = options_of(kinds[name])
    for option in options:
        if option not in known:
            raise InputError(
                "unknown-option",
                found=f"option '{option}' of {key} '{name}'",
                expected="one of " + (", ".join(known) or "no option"),
                do=meant(option, known),
            )
    return name, kinds[name], options
