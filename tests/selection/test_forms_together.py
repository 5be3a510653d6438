"""Forms of friction of all joints together: what is negligible goes, what most joints have is offered to the others."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid.base import Float
from dynid.choose import choose_model
from dynid.choose.choose_model import FORMS_A_JOINT, _friction_beside_faults, _shared, _worthwhile
from dynid.choose.comparison import NEGLIGIBLE, Option
from dynid.terms import Dry, Role, Traits


def comparison(gains: dict[int, float], blocks: int) -> Any:
    """Errors of 1 in all blocks together with every form, more by its gain without a form; chance has no part."""

    def squares(models: Sequence[Sequence[tuple[str, int]]]) -> Float:
        missed = [1.0 + sum(gain for j, gain in gains.items() if ("form", j) not in one) for one in models]
        return np.outer(missed, np.full(blocks, 1.0 / blocks))

    return SimpleNamespace(wide=SimpleNamespace(replaced=lambda labels: ()), friction_squares=squares)


@pytest.mark.parametrize("blocks", [3, 10_000])
@pytest.mark.parametrize(
    ("gains", "kept"),
    [
        ({0: 0.3, 1: 0.4 * NEGLIGIBLE, 2: 0.08}, {0, 2}),
        ({0: 0.4 * NEGLIGIBLE}, set()),
        # What is negligible once is not when it is the fourth of its kind; the least go first.
        ({0: 0.4 * NEGLIGIBLE, 1: 0.45 * NEGLIGIBLE, 2: 0.5 * NEGLIGIBLE, 3: 2 * NEGLIGIBLE}, {2, 3}),
        ({}, set()),
    ],
)
def test_negligible_forms_go_the_least_first(gains: dict[int, float], kept: set[int], blocks: int) -> None:
    forms = {j: Option("form", (("form", j),)) for j in gains}
    assert set(_worthwhile(comparison(gains, blocks), (), forms)) == kept


def robot_of(gains: dict[tuple[str, int], float], joints: int) -> Any:
    """A comparison in which forms take their gains off errors of 1, each with two shapes, the second the better one."""

    def squares(models: Sequence[Sequence[tuple[str, int]]]) -> Float:
        missed = []
        for labels in models:
            own = {(name.split("@")[0], j): 1.0 if name.endswith("@1") else 0.9 for name, j in labels}
            missed.append([1.0 - sum(gains.get(place, 0.0) * share for place, share in own.items())])
        return np.array(missed)

    def proposal(label: tuple[str, int]) -> Any:
        return next(one for one in proposals if one.label == label[0].split("@")[0])

    shape = SimpleNamespace(traits=Traits(dry=Dry.STEP))
    proposals = [
        SimpleNamespace(
            label=name, role=Role.FRICTION, replaces=(name,), variants=(shape, shape), places=range(joints)
        )
        for name in ("memory", "load", "third", "fourth")
    ]
    wide = SimpleNamespace(
        replaced=lambda labels: (),
        proposals=proposals,
        members={(f"{one.label}@{k}", j) for one in proposals for k in (0, 1) for j in range(joints)},
        proposal=proposal,
        shape=lambda form, k, joint: np.zeros(1),
    )
    search = SimpleNamespace(moved=np.ones(joints, dtype=np.bool_))
    return SimpleNamespace(wide=wide, friction_squares=squares), search


def form(*names: str, joint: int) -> Option:
    return Option(" + ".join(names), tuple((f"{name}@1", joint) for name in names), len(names))


@pytest.mark.parametrize(("more", "offered"), [(1.5, True), (0.5, False), (-1.0, False)])
def test_what_most_joints_have_is_taken_where_it_gains_what_counts(more: float, offered: bool) -> None:
    comparison, search = robot_of({("memory", 3): more * NEGLIGIBLE, ("load", 3): 0.5}, 4)
    forms = {j: form("memory", joint=j) for j in range(3)} | {2: form("load", "memory", joint=2)}
    found = _shared(comparison, (), forms, search)
    assert {j: found[j] for j in range(3)} == forms
    # Whatever it would gain, the form of one joint in four is not offered.
    assert found.get(3) == (form("memory", joint=3) if offered else None)


@pytest.mark.parametrize("joints", [4, 5, 9])
def test_half_of_the_joints_are_not_most(joints: int) -> None:
    comparison, search = robot_of({("memory", j): 0.05 for j in range(joints)}, joints)
    few = {j: form("memory", joint=j) for j in range(joints // 2)}
    assert _shared(comparison, (), few, search) == few
    many = {j: form("memory", joint=j) for j in range(joints // 2 + 1)}
    assert _shared(comparison, (), many, search) == {j: form("memory", joint=j) for j in range(joints)}


def test_it_joins_the_forms_of_a_joint_up_to_their_number() -> None:
    comparison, search = robot_of({("memory", 3): 0.1, ("memory", 4): 0.1}, 6)
    forms = {j: form("memory", joint=j) for j in (0, 1, 2, 5)}
    full = form("load", "third", "fourth", joint=4)
    assert len(full.labels) == FORMS_A_JOINT
    found = _shared(comparison, (), {**forms, 3: form("load", joint=3), 4: full}, search)
    assert found[3].labels == form("load", "memory", joint=3).labels
    assert found[4] == full


@pytest.mark.parametrize("alone", [0.4, 1.2])
def test_friction_is_chosen_beside_a_delay_only_where_that_predicts_more(
    alone: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delay of all joints gains more at once than friction of one, and keeps out what it imitates.

    alone: error of the forms that are found without it, beside 1 of those found with it.
    """

    def by_joint(_: Any, base: Sequence[tuple[str, int]], __: Any) -> dict[int, Option]:
        joints = (1,) if ("delay", -1) in base else (0, 1)
        return {j: Option("form", (("form", j),)) for j in joints}

    def squares(models: Sequence[Sequence[tuple[str, int]]]) -> Float:
        return np.array([[1.0 if ("delay", -1) in one else alone] for one in models])

    monkeypatch.setattr(choose_model, "_friction_by_joint", by_joint)
    wide = SimpleNamespace(
        replaced=lambda labels: (),
        proposal=lambda label: SimpleNamespace(alike="lag" * (label[0] == "delay")),
    )
    two: Any = SimpleNamespace(wide=wide, friction_squares=squares)
    nothing: Any = SimpleNamespace()
    plain = (("viscous", 0), ("tilt", -1))
    base, forms = _friction_beside_faults(two, (*plain, ("delay", -1)), nothing)
    assert base == (plain if alone < 1.0 else (*plain, ("delay", -1)))
    assert set(forms) == ({0, 1} if alone < 1.0 else {1})
    # Without a delay there is nothing to choose between.
    assert _friction_beside_faults(two, plain, SimpleNamespace())[0] == plain  # type: ignore[arg-type]
