"""Entries of a recipe that name one of several kinds, with options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from dynid.base.errors import InputError

Kind = TypeVar("Kind")


def meant(name: str, known: Collection[str], cutoff: float = 0.4) -> str:
    """A question after the known name nearest to a wrong one, for the advice of an error; "" where none is near."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def option_value(kind: type[Any], name: str, option: str, value: Any) -> Any:
    """Value of an option as the field of that name is typed, lists as tuples.

    Raises InputError for a value of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    given = _tuples(value)
    try:
        return TypeAdapter(get_type_hints(kind)[option]).validate_python(given, strict=True)
    except ValidationError as error:
        expected = {one["msg"].removeprefix("Input should be ") for one in error.errors(include_url=False)}
        raise InputError(
            "wrong-value", found=f"{option} = {value!r} of '{name}'", expected=" or ".join(sorted(expected))
        ) from error


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


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
