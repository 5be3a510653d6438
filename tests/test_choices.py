"""Entries of a recipe that name a kind with options."""

from __future__ import annotations

import pytest

from dynid.choices import named_kind
from dynid.errors import InputError

KINDS = {"torque": ("rate", "order"), "power": ()}


def test_a_name_is_an_entry_without_options() -> None:
    assert named_kind("power", "rows", KINDS, tuple) == ("power", (), {})
    entry = {"rows": "torque", "rate": 3.0}
    assert named_kind(entry, "rows", KINDS, tuple) == ("torque", ("rate", "order"), {"rate": 3.0})
    assert entry == {"rows": "torque", "rate": 3.0}


@pytest.mark.parametrize(
    ("entry", "identifier", "says"),
    [
        (
            "torqe",
            "unknown-rows",
            "found rows 'torqe'; expected one of torque, power; did you mean 'torque'?",
        ),
        ({}, "unknown-rows", "found rows ''; expected one of torque, power"),
        (
            {"rows": "torque", "rat": 1},
            "unknown-option",
            "option 'rat' of rows 'torque'; expected one of rate",
        ),
        ({"rows": "power", "rate": 1}, "unknown-option", "expected one of no option"),
    ],
)
def test_what_is_unknown_is_told(entry: object, identifier: str, says: str) -> None:
    with pytest.raises(InputError) as told:
        named_kind(entry, "rows", KINDS, tuple)  # type: ignore[arg-type]
    assert told.value.identifier == identifier
    assert says in str(told.value)
