"""Entries of an experiment that name a kind with options."""

from __future__ import annotations

import pytest

from dynid.base.errors import InputError
from dynid.base.named_options import named_kind, option_value
from dynid.rows import MomentumRows
from dynid.terms import Coulomb, SpinningRotor

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
def test_what_is_unknown_is_reported(entry: object, identifier: str, says: str) -> None:
    with pytest.raises(InputError) as reported:
        named_kind(entry, "rows", KINDS, tuple)  # type: ignore[arg-type]  # wrong on purpose
    assert reported.value.identifier == identifier
    assert says in str(reported.value)


def test_options_are_of_the_kind_of_their_field() -> None:
    """Lists are tuples, whole numbers are numbers; nothing else is turned into anything."""
    assert option_value(Coulomb, "coulomb", "width", 1) == 1.0
    assert option_value(Coulomb, "coulomb", "joints", ["a", "b"]) == ("a", "b")
    assert option_value(SpinningRotor, "spinning_rotor", "axes", [[0, 0, 1]]) == ((0.0, 0.0, 1.0),)
    for kind, option, value, says in (
        (Coulomb, "width", "0.1", "width = '0.1' of 'x'; expected a finite number"),
        (Coulomb, "joints", "a", "joints = 'a' of 'x'; expected a list of texts"),
        (Coulomb, "joints", [1], "expected a list of texts"),
        (MomentumRows, "hold", "cubic", "expected 'linear' or 'zero'"),
    ):
        with pytest.raises(InputError) as reported:
            option_value(kind, "x", option, value)
        assert reported.value.identifier == "wrong-value"
        assert says in str(reported.value)
