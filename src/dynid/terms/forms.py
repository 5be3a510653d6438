"""Functions of terms besides their columns: each has a default, and a term's file registers its own where it differs.

    @energy_form.register(RotorInertia)
    def _(term, robot, samples, wanted): ...

A subclass has what is registered for its nearest base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms.exports import Columns, Extent, Kind, Part, Side, empty_panels, side_by_side

__all__ = ["exported_parts", "motion_slopes", "parameter_count", "seen_by", "torque_of", "without_memory"]


def held_term(term: Any) -> Any:
    """The term that a term holds in its field `of`; itself without one."""
    held = getattr(term, "of", term)
    return held if hasattr(held, "traits") else term


def seen_by(term: Columns, samples: Samples) -> Samples:
    """The samples as a term is given them: with the motion of its side."""
    return samples.motor if term.traits.side is Side.MOTOR else samples


@singledispatch
def parameter_count(term: Columns, robot: RobotModel) -> int:
    """How many parameters a term adds for a robot."""
    return len(term.columns(robot))


@singledispatch
def known_torque(term: Columns, robot: RobotModel, samples: Samples) -> Float | None:
    """Joint torque (T, n) that a term contributes without any unknown; None = none."""
    return None


@singledispatch
def torque_of(term: Columns, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """Y theta, (T, n), for values (p,) of a term's parameters; what is registered is a faster way."""
    panels = term.torque_regressor(robot, samples, theta != 0)
    total = np.zeros((len(samples), robot.n))
    for joint, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
        total[:, joint] = theta[columns] @ values
    return total


# Other equations: of motors, whose equations elastic joints add, and without acceleration.


@singledispatch
def motor_regressor(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """The part of `torque_regressor` that acts on the motors: all of it on the motor's side, nothing on the link's."""
    if term.traits.side is Side.MOTOR:
        return term.torque_regressor(robot, samples, wanted)
    return empty_panels(robot, samples)


@singledispatch
def momentum_form(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """(P, R) with Y theta = d(P theta)/dt + R theta; a term that reads no acceleration is all R."""
    return empty_panels(robot, samples), term.torque_regressor(robot, samples, wanted)


@singledispatch
def motor_momentum_form(
    term: Columns, robot: RobotModel, samples: Samples, wanted: Bool
) -> tuple[Panels, Panels]:
    """The part of `momentum_form` that acts on the motors."""
    if term.traits.side is Side.MOTOR:
        return momentum_form(term, robot, samples, wanted)
    return empty_panels(robot, samples), motor_regressor(term, robot, samples, wanted)


@singledispatch
def energy_form(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """(h, W) with dq' Y theta = d(h theta)/dt + dq' W theta: stored energy, and torque that does work.

    h: (w, T), a line a wanted column.    W: as `torque_regressor`. A term that stores nothing is all W.
    """
    return np.zeros((int(wanted.sum()), len(samples))), term.torque_regressor(robot, samples, wanted)


@singledispatch
def motor_work(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """The part of the working torque W of `energy_form` that acts on the motors."""
    if term.traits.side is Side.MOTOR:
        return energy_form(term, robot, samples, wanted)[1]
    return motor_regressor(term, robot, samples, wanted)


@singledispatch
def known_momentum(term: Columns, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """`known_torque` as (P, R), (T, n) each, tau_known = dP/dt + R; None for no known torque."""
    known = known_torque(term, robot, samples)
    return None if known is None else (np.zeros_like(known), known)


@singledispatch
def known_energy(term: Columns, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """`known_torque` as (h, W): stored energy (T,) and torque that does work (T, n); None for no known torque."""
    known = known_torque(term, robot, samples)
    return None if known is None else (np.zeros(len(samples)), known)


@singledispatch
def filtered_regressor(
    term: Columns,
    robot: RobotModel,
    samples: Samples,
    wanted: Bool,
    further: Sequence[Float],
    parallel: ParallelFilter,
    joints: Bool | None = None,
) -> Panels:
    """`torque_regressor` and, after it, further lines (e, T) of each joint through the parallel filter.

    joints: (n,) that get columns, None = all.
    """
    parts = ((term.torque_regressor, samples, len(wanted)),)
    columns = side_by_side(robot, parts, samples, wanted, None, joints)
    panels = (np.concatenate(pair) for pair in zip(columns.values, further, strict=True))
    return Panels(columns.columns, tuple(parallel.apply(panel, samples)[0] for panel in panels))


@singledispatch
def motion_slopes(term: Columns, robot: RobotModel, samples: Samples) -> Float | None:
    """Derivatives (3, n, R, T) of all R lines of `torque_regressor`, joint after joint, by q, dq, ddq of joints.

    None: they are found by differences, which is as good, and slower.
    """
    return None


# What a log has to bring, and what it can determine.


@singledispatch
def channels_of(term: Columns) -> tuple[str, ...]:
    """Names of the extra log channels that a term reads: those of its field `channel_name` or `channel_names`."""
    if (held := held_term(term)) is not term:
        return channels_of(held)
    single = getattr(term, "channel_name", None)
    return tuple(dict.fromkeys(getattr(term, "channel_names", () if single is None else (single,))))


@singledispatch
def clock_of(term: Columns) -> tuple[float, float] | None:
    """First and last time, s, that a term is of; None = any."""
    return None


@singledispatch
def alive_columns(term: Columns, robot: RobotModel, moved: Bool) -> Bool:
    """Which parameters (p,) of a term a log can determine in which only some joints (n,) moved."""
    columns = term.columns(robot)
    return np.array([not c.moved_by or moved[list(c.moved_by)].any() for c in columns], dtype=np.bool_)


@singledispatch
def balanced_joints(term: Columns, robot: RobotModel) -> Bool:
    """Joints (n,) whose gravity a term may carry, so that bodies alone do not give their torque."""
    return np.zeros(robot.n, dtype=np.bool_)


# What is still to be found before a term is a model.


@singledispatch
def alternatives(term: Columns, joints: tuple[str, ...]) -> Mapping[str, Any]:
    """Models for these joints that are compared in a term's place, the plainest first; none for a term as it is."""
    return {}


@singledispatch
def needs_bodies(term: Columns) -> bool:
    """Whether a first fit without a term has to give the bodies that it reads."""
    return False


@singledispatch
def with_bodies(term: Columns, inertia: tuple[float, ...]) -> Any:
    """A term with the bodies of a first fit, ten numbers each."""
    return term


@singledispatch
def load_slope(term: Columns, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """By how much a term's torque grows with that of the bodies, (T, n), for parameters theta (p,)."""
    return np.zeros_like(samples.dq)


@singledispatch
def has_open_choice(term: Any) -> bool:
    """Whether a term's form, a shape or the bodies that it reads are still to be found."""
    held = held_term(term)
    shapes = getattr(held, "shapes", ())
    is_open = any(getattr(held, shape.name, None) is None for shape in shapes)
    return is_open or needs_bodies(held) or bool(alternatives(held, ()))


# What stands for a term elsewhere.


@singledispatch
def within_extent(term: Columns, robot: RobotModel, extent: Extent) -> Any:
    """The same effect, knowing how fast and far joints went in the log that it is fitted to.

    Friction that grows faster than the speed goes on in proportion to it beyond those speeds, and friction that
    varies with position stays as it is at their border, in predictions, plots and exported code alike.
    """
    return term


@singledispatch
def without_memory(term: Columns) -> Any:
    """What stands for a term, with the same parameters, where single samples are looked at; itself without a memory.

    Motions are designed with it: samples of a design lie farther apart than a memory reaches.
    """
    return term


@singledispatch
def exported_parts(term: Columns, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The pieces of an exported model that stand for a term with parameters theta (p,).

    None for an effect that other programs cannot hold, () for one that is not the robot's.
    """
    return () if term.traits.kind is Kind.LOG else None


# Those that give the equations of a term in another form; a term that holds another has them of it.
FORMS: Sequence[Any] = (motor_regressor, momentum_form, motor_momentum_form, energy_form, motor_work)
