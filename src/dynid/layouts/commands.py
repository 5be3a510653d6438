"""Commands that stand in for an effort that nobody measured, and what a log says of the drives' gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place
from dynid.base.scipy_functions import nnls
from dynid.base.units import factor
from dynid.layouts.channels import NONE
from dynid.layouts.decision import Answers, Decision, decided
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import EFFORTS
from dynid.layouts.names import Family
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.proposal import Group
from dynid.log.calibration import PERCENT
from dynid.robot.model import RobotModel

GAINS_OF_DRIVES = ("drive.kp", "drive.kd")
# What was asked for and what came of it have the same size in the same unit.
_SAME = 1.6
# Of a joint's own spread, by which it may be away from its command, since gravity holds hobby arms some degrees below
# it; and rows that show it.
_FOLLOWED, _LEAST_ROWS = 0.5, 50
# Of a commanded torque that kp (q_des - q) + kd (dq_des - dq) leaves at most where it is that law; the rest are limits,
# filters of the drives and the time between the two columns.
_LEFT = 0.1


def stand_in(
    robot: RobotModel,
    look: Excerpt,
    chosen: dict[str, Family],
    found: Sequence[Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Commands in place of an effort that nobody measured: they need the gains of the drives."""
    key = "log.effort.columns"
    found = [_as_positions(look, one, chosen["position"]) for one in found]
    wanted = _commands_of(chosen["position"], found)
    commands = {
        kind: family
        for kind, family in wanted.items()
        if (measured := chosen.get(kind.removeprefix("command_"))) is not None
        and _same_size(look, family, measured)
    }
    left = [family for kind, family in wanted.items() if kind not in commands]
    if any(np.nanstd(look.table(family.columns)) > 0 for family in left):
        return  # commands that cannot be distinguished from something else
    efforts = [one for one in found if one.meaning.quantity in EFFORTS]
    if "command_position" not in commands or any(
        one.meaning.role in ("", "measured", "spare") for one in efforts
    ):
        return
    if decisions[key].value not in (None, NONE):
        return
    why = "no effort was measured; what the drives were asked for stands in for it, with their gains"
    decisions[key] = Decision(key, NONE, (why,), options=decisions[key].options, likely=True)
    chosen |= commands
    if robot.drive.servo is not None:
        return
    for key, meaning in zip(GAINS_OF_DRIVES, ("stiffness kp, N m/rad", "damping kd, N m s/rad"), strict=True):
        question = f"{meaning}, of the drives' position controllers: one number, or one a joint with commas?"
        asked = Decision(key, None, ("the description does not know it",), question)
        decisions[key] = decided(asked, answers) if _numbers(answers.get(key, ""), robot.n) else asked


def _as_positions(look: Excerpt, one: Family, position: Family) -> Family:
    """Columns that are only said to be commanded, and that every joint's position follows: commanded positions.

    So are those of which names say that they are, though not of which joint, where the others name it.
    """
    said = one.meaning
    of_all = one.joints == position.joints and len(one.columns) == len(position.columns)
    unclear = not said.quantity or (said.quantity == "position" and one.named != position.named)
    if said.role != "commanded" or not of_all or not unclear:
        return one
    if not _followed(look.table(one.columns), look.table(position.columns)):
        return one
    meaning = replace(position.meaning, role="commanded", said_by=said.said_by or position.meaning.said_by)
    return replace(one, named=position.named, meaning=meaning)


def _followed(commanded: Float, measured: Float) -> bool:
    """Whether each joint that moves follows its own column (T, n), and none follows another's better."""
    sound = np.isfinite(commanded).all(axis=1) & np.isfinite(measured).all(axis=1)
    a, b = commanded[sound], measured[sound]
    if len(b) < _LEAST_ROWS:
        return False
    spread = b.std(axis=0)
    moved = np.flatnonzero(spread > 0)
    if not len(moved):
        return False
    # Mean squares of each command less each position, about one centre lest digits are lost.
    a, b = a - b.mean(axis=0), b - b.mean(axis=0)
    left = np.sqrt(
        np.maximum((a**2).mean(axis=0)[:, None] + (b**2).mean(axis=0) - 2.0 * a.T @ b / len(b), 0.0)
    )
    nearest = np.argmin(left, axis=0)
    own = left[moved, moved] < _FOLLOWED * spread[moved]
    return bool(own.all() and (nearest[moved] == moved).all())


def _same_size(look: Excerpt, one: Family, other: Family) -> bool:
    a, b = (np.nanstd(look.table(family.columns), axis=0) for family in (one, other))
    moved = (a > 0) & (b > 0)
    return bool(moved.any()) and 1 / _SAME < float(np.median(a[moved] / b[moved])) < _SAME


def _numbers(text: str, n: int) -> list[float]:
    """One number, or one a joint; [] where the text is neither."""
    try:
        values = [float(one) for one in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if len(values) in (1, n) and bool(np.isfinite(values).all()) else []


def _commands_of(position: Family, found: Sequence[Family]) -> dict[str, Family]:
    """What the drives were commanded, where it is beyond question: commanded positions, and velocities beside them."""
    commanded = {
        kind: [
            one
            for one in found
            if one.meaning.quantity == kind and one.meaning.role == "commanded" and one.joints == position.joints
            and one.named == position.named and len(one.columns) == len(position.columns)
        ]
        for kind in ("position", "velocity")
    }  # fmt: skip
    if len(commanded["position"]) != 1:
        return {}
    kept = {"command_position": commanded["position"][0]}
    return kept | ({"command_velocity": commanded["velocity"][0]} if len(commanded["velocity"]) == 1 else {})


def with_gains(
    look: Excerpt,
    found: Sequence[Family],
    chosen: Mapping[str, Family],
    groups: Mapping[str, Group],
    decisions: dict[str, Decision],
) -> None:
    """Gains of the drives, in place of questions, where a commanded torque beside commanded positions has them."""
    if not all(key in decisions and decisions[key].question for key in GAINS_OF_DRIVES):
        return
    columns = {kind: one.columns for kind, one in groups.items()}
    units = {key: one.value for key, one in decisions.items()}
    position, unit = columns.get("position", {}), units.get("log.position.unit")
    torques = [
        one
        for one in found
        if one.meaning.quantity in ("torque", "effort") and one.meaning.role == "commanded"
        and one.joints == tuple(position) and len(one.columns) == len(chosen["position"].columns)
    ]  # fmt: skip
    if len(torques) != 1 or unit in (None, UNKNOWN, PERCENT) or "," in str(unit):
        return
    order = [chosen["position"].columns.index(column) for column in position.values()]
    torque = look.table([torques[0].columns[k] for k in order])
    _, scale = factor(unit, ("angle", "length"), Place())
    read = {kind: look.table(tuple(names.values())) for kind, names in columns.items()}
    errors = [scale * (read["command_position"] - read["position"])]
    if "velocity" in read:
        _, scale = factor(
            units.get("log.velocity.unit") or "rad/s", ("angular velocity", "velocity"), Place()
        )
        errors.append(scale * (read.get("command_velocity", 0.0) - read["velocity"]))
    gains = _law(torque, errors)
    if gains is None:
        return
    law = "kp (q_des - q) + kd (dq_des - dq)" if len(errors) > 1 else "kp (q_des - q)"
    why = f"'{torques[0].template}' is {law} with these gains, but for a tenth at most"
    for key, values in zip(GAINS_OF_DRIVES, gains, strict=True):
        decisions[key] = replace(
            decisions[key], value=_numbered(values), why=(why,), question="", likely=True
        )


def _law(torque: Float, errors: Sequence[Float]) -> tuple[Float, Float] | None:
    """Gains by joint with which errors of position (and velocity) make the torque; None where they do not.

    A joint whose velocity error never changes takes the median kd of the others.
    """
    kp, kd = np.zeros(torque.shape[1]), np.zeros(torque.shape[1])
    for j in range(torque.shape[1]):
        X, y = np.column_stack([one[:, j] for one in errors]), torque[:, j]
        use = np.isfinite(X).all(axis=1) & np.isfinite(y)
        X, y = X[use], y[use]
        size = np.maximum(np.linalg.norm(X, axis=0), np.finfo(float).tiny)
        if len(y) <= X.shape[1]:
            return None
        gains, left = nnls(X / size, y)
        if not gains[0] > 0 or left > _LEFT * np.linalg.norm(y):
            return None
        kp[j] = gains[0] / size[0]
        if len(errors) > 1:
            kd[j] = gains[1] / size[1] if np.ptp(X[:, 1]) > 0 else np.nan
    seen = np.isfinite(kd)
    return kp, np.where(seen, kd, np.median(kd[seen]) if seen.any() else 0.0)


def _numbered(values: Float) -> str:
    return ", ".join(f"{x:.3g}" for x in values)
