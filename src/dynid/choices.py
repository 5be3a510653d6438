"""Entries of a recipe that name one of several kinds, with options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from dynid.errors import InputError

Kind = TypeVar("Kind")


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
        near = get_close_matches(name, kinds, n=1, cutoff=0.4)
        raise InputError(
            f"unknown-{key}",
            found=f"{key} '{name}'",
            expected="one of " + ", ".join(kinds),
            do=f"did you mean '{near[0]}'?" if near else "",
        )
    known = options_of(kinds[name])
    for option in options:
        if option not in known:
            raise InputError(
                "unknown-option",
                found=f"option '{option}' of {key} '{name}'",
                expected="one of " + (", ".join(known) or "no option"),
            )
    return name, kinds[name], options
