"""More numbered columns than joints: which of them are the joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.decision import Answers, Decision, Option, decided
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.names import Family
from dynid.layouts.orientations import POSE

_TWIST = 6  # velocities of a body that moves freely
_UNIT = 1e-3  # squares of a quaternion sum to one but for this


def without_spare(
    look: Excerpt, chosen: dict[str, Family], decisions: dict[str, Decision], answers: Answers
) -> dict[str, Family]:
    """The groups with a column a joint; `decisions` gets what was decided of each that had more."""
    kept: dict[str, Family] = {}
    for kind, one in chosen.items():
        which = _which(look, kind, one, answers)
        if which is None:
            kept[kind] = one
            continue
        same = decisions.get("log.position.which")
        if same is not None and which.question and _as_many(one, chosen["position"]):
            # What is not of a joint stands at the same end in all groups.
            which = replace(which, value=same.value, why=("as those of the positions",), question="")
        decisions[which.key] = which
        kept[kind] = _cut(one, which.value)
    return kept


def _which(look: Excerpt, kind: str, family: Family, answers: Answers) -> Decision | None:
    """More numbered columns than joints: fingers, a rail, another arm."""
    if not family.spare:
        return None
    n, m = len(family.joints), len(family.columns)
    key = f"log.{kind}.which"
    reason = f"{m} columns '{family.template}' for {n} joints"
    options = (Option("first", f"the first {n}"), Option("last", f"the last {n}"))
    values = look.table(family.columns)
    still = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
    for name, alive, dead in (
        ("first", slice(None, n), slice(n, None)),
        ("last", slice(-n, None), slice(None, -n)),
    ):
        if still[dead].all() and not still[alive].any():
            found = Decision(key, name, (f"{reason}; the others never change",), options=options)
            return decided(found, answers)
        if kind == "position" and _of_free_bodies(values[:, dead]) and not _of_free_bodies(values[:, alive]):
            why = f"{reason}; the others are places and orientations of bodies that move freely"
            return decided(Decision(key, name, (why,), options=options), answers)
    return decided(Decision(key, None, (reason,), "which of them are the joints?", options), answers)


def _as_many(one: Family, positions: Family) -> bool:
    """Whether a group has as many columns as the positions, or six for each seven of bodies that move freely."""
    more, there = len(one.columns) - len(one.joints), len(positions.columns) - len(positions.joints)
    return more == there or (there % POSE == 0 and more == there // POSE * _TWIST)


def _of_free_bodies(values: Float) -> bool:
    """Whether columns (T, m) are places with unit quaternions behind them, seven a body."""
    if not values.shape[1] or values.shape[1] % POSE:
        return False
    bodies = values.reshape(len(values), -1, POSE)
    return bool((np.abs((bodies[:, :, 3:] ** 2).sum(axis=2) - 1.0) < _UNIT).all())


def _cut(family: Family, which: str | None) -> Family:
    n = len(family.joints)
    if which == "last":
        return replace(family, columns=family.columns[-n:], first=family.first + len(family.columns) - n)
    return replace(family, columns=family.columns[:n])
