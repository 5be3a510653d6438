"""Entries of an experiment that name a kind with options."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING

import pytest
from pydantic import PydanticSchemaGenerationError, TypeAdapter

from dynid.base import InputError, constrained, dataclass, fields_of, kind_from_spec, option_value
from dynid.base.options import converted
from dynid.estimate import CATALOGUE as ESTIMATORS
from dynid.rows import CATALOGUE as ROWS
from dynid.rows import MomentumRows
from dynid.terms import CATALOGUE as TERMS
from dynid.terms import Coulomb, SpinningRotor


@dataclass(frozen=True)
class Power:
    """Without options."""


@dataclass(frozen=True)
class Torque:
    """With options."""

    rate: float = 1.0
    order: int = 2


KINDS = {"torque": Torque, "power": Power}


def test_a_name_is_an_entry_without_options() -> None:
    assert kind_from_spec("power", "rows", KINDS) == Power()
    entry = {"rows": "torque", "rate": 3.0}
    assert kind_from_spec(entry, "rows", KINDS) == Torque(rate=3.0)
    assert entry == {"rows": "torque", "rate": 3.0}


@pytest.mark.parametrize(
    ("entry", "identifier", "says"),
    [
        (
            "torqe",
            "unknown-rows",
            "found unknown rows 'torqe'; expected one of torque, power; did you mean 'torque'?",
        ),
        ({}, "unknown-rows", "found unknown rows ''; expected one of torque, power"),
        (
            {"rows": "torque", "rat": 1},
            "unknown-option",
            "option 'rat' of rows 'torque'; expected one of rate",
        ),
        ({"rows": "power", "rate": 1}, "unknown-option", "expected no options"),
    ],
)
def test_what_is_unknown_is_reported(entry: object, identifier: str, says: str) -> None:
    with pytest.raises(InputError) as reported:
        kind_from_spec(entry, "rows", KINDS)  # type: ignore[arg-type]  # wrong on purpose
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


EDGES: tuple[object, ...] = (
    *(0, 1, -1, 3, 0.0, 0.5, 1.0, -2.5, 1e308, math.inf, math.nan, 10**400, True, False, None),
    *(
        "",
        "a",
        "huber",
        "joint",
        "prior",
        "ü",
        "\ud800",
        [],
        [1],
        [0.5, 2],
        ["a", "b"],
        [[0, 0, 1]],
        [[0, 0]],
        [None],
    ),
    *((1, 2), {"a": 1}, [True], ["a", 1]),
)


def test_plain_values_are_taken_as_pydantic_takes_them() -> None:
    kinds = [kind for known in (TERMS, ROWS, ESTIMATORS) for kind in known.builtin.values()]
    count = 0
    for one in (one for kind in kinds for one in fields_of(kind).values()):
        try:
            adapter = TypeAdapter(constrained(one.hint, one.option))
        except PydanticSchemaGenerationError:  # a term, a lever: no plain value
            continue
        for value in EDGES:
            read = converted(one.hint, one.option, value)
            if read is not MISSING:
                count += 1
                assert repr(read) == repr(adapter.validate_json(json.dumps(value), strict=True)), (one, value)
    assert count > len(kinds)  # it is not that none was converted
