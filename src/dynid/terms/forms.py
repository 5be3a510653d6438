"""Functions of terms with a default, which a term's file replaces by registering its own.

    @energy_form.register(RotorInertia)
    def _(term, robot, samples, wanted): ...

Subclasses inherit what is registered for their base. Common parameters: `samples` is the motion (of the motors for a
term on their side, see `seen_by`), `wanted` a mask (p,) of the term's parameters, `theta` their values (p,). T is the
number of samples, n the number of joints, w the number of wanted parameters.
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


def inner_term(term: Any) -> Any:
    """The term in the field `of` of a wrapper such as `OnMotor`; the term itself if it is no wrapper."""
    inner = getattr(term, "of", term)
    return inner if hasattr(inner, "traits") else term


def seen_by(term: Columns, samples: Samples) -> Samples:
    """Samples with the motion of the term's side of the transmission."""
    return samples.motor if term.traits.side is Side.MOTOR else samples


@singledispatch
def parameter_count(term: Columns, robot: RobotModel) -> int:
    """Number of parameters of a term for a robot."""
    return len(term.columns(robot))


@singledispatch
def known_torque(term: Columns, robot: RobotModel, samples: Samples) -> Float | None:
    """Torque (T, n) of a term without unknown parameters; None = none."""
    return None


@singledispatch
def torque_of(term: Columns, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """Torque Y theta of a term.

    Parameters
    ----------
    term : Term
        The term.
    robot : RobotModel
        The robot.
    samples : Samples
        Motion of the term's side.
    theta : ndarray, shape (p,)
        Values of its parameters.

    Returns
    -------
    ndarray, shape (T, n)

    """
    panels = term.torque_regressor(robot, samples, theta != 0)
    total = np.zeros((len(samples), robot.n))
    for joint, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
        total[:, joint] = theta[columns] @ values
    return total


# Other equations: those of the motors (elastic joints), and equations without acceleration.


@singledispatch
def motor_regressor(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """The part of `torque_regressor` that acts on the motors: all of it for terms on their side, else nothing."""
    if term.traits.side is Side.MOTOR:
        return term.torque_regressor(robot, samples, wanted)
    return empty_panels(robot, samples)


@singledispatch
def momentum_form(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P and R with Y theta = d(P theta)/dt + R theta; R is all of Y for terms that read no acceleration."""
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
    """Stored energy h and other torque W with dq' Y theta = d(h theta)/dt + dq' W theta.

    `samples`: motion of the term's side; `wanted` (p,): parameters that get columns. Results: `h` (w, T): energy per
    unit of each wanted parameter; `W`: in the form of `torque_regressor`; all of Y for terms that store no energy.
    """
    return np.zeros((int(wanted.sum()), len(samples))), term.torque_regressor(robot, samples, wanted)


@singledispatch
def motor_work(term: Columns, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """The part of W of `energy_form` that acts on the motors."""
    if term.traits.side is Side.MOTOR:
        return energy_form(term, robot, samples, wanted)[1]
    return motor_regressor(term, robot, samples, wanted)


@singledispatch
def known_momentum(term: Columns, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """`known_torque` as P and R, (T, n) each, with tau = dP/dt + R; None = no known torque."""
    known = known_torque(term, robot, samples)
    return None if known is None else (np.zeros_like(known), known)


@singledispatch
def known_energy(term: Columns, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """`known_torque` as stored energy (T,) and other torque (T, n); None = no known torque."""
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
    """Filter `torque_regressor` and further lines of each joint.

    `samples`: motion of the term's side; `wanted` (p,): parameters that get columns; `further` (e, T): lines for each
    joint, after those of the term; `joints` (n,): joints that get columns; None = all.
    """
    parts = ((term.torque_regressor, samples, len(wanted)),)
    columns = side_by_side(robot, parts, samples, wanted, None, joints)
    panels = (np.concatenate(pair) for pair in zip(columns.values, further, strict=True))
    return Panels(columns.columns, tuple(parallel.apply(panel, samples)[0] for panel in panels))


@singledispatch
def motion_slopes(term: Columns, robot: RobotModel, samples: Samples) -> Float | None:
    """Derivatives of the columns of torque with respect to position, velocity and acceleration.

    `samples`: motion of the term's side. Result: with respect to q, dq, ddq of each joint, of all R lines of the
    regressor, joint after joint. None = the caller computes finite differences, which is slower, (3, n, R, T).
    """
    return None


# Requirements on a log, and the parameters that it can determine.


@singledispatch
def channels_of(term: Columns) -> tuple[str, ...]:
    """Names of the extra log channels that a term reads: by default its field `channel_name` or `channel_names`."""
    if (inner := inner_term(term)) is not term:
        return channels_of(inner)
    single = getattr(term, "channel_name", None)
    return tuple(dict.fromkeys(getattr(term, "channel_names", () if single is None else (single,))))


@singledispatch
def clock_of(term: Columns) -> tuple[float, float] | None:
    """First and last time, s, for which a term is valid; None = any time."""
    return None


@singledispatch
def alive_columns(term: Columns, robot: RobotModel, moved: Bool) -> Bool:
    """Mask (p,) of a term's parameters that a log in which only `moved` joints (n,) moved can determine."""
    columns = term.columns(robot)
    return np.array([not c.moved_by or moved[list(c.moved_by)].any() for c in columns], dtype=np.bool_)


@singledispatch
def balanced_joints(term: Columns, robot: RobotModel) -> Bool:
    """Mask (n,) of joints whose gravity torque may be carried by the term instead of the rigid links."""
    return np.zeros(robot.n, dtype=np.bool_)


# Choices and estimates that a term needs before the linear fit.


@singledispatch
def alternatives(term: Columns, joints: tuple[str, ...]) -> Mapping[str, Any]:
    """Models for these joints that are compared in place of the term, the simplest first; {} = nothing to compare."""
    return {}


@singledispatch
def needs_bodies(term: Columns) -> bool:
    """Whether a term needs the links that a first fit without it estimates."""
    return False


@singledispatch
def with_bodies(term: Columns, inertia: tuple[float, ...]) -> Any:
    """The term with the links of a first fit, ten numbers per link."""
    return term


@singledispatch
def load_slope(term: Columns, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """Derivative (T, n) of a term's torque with respect to the torque of the rigid links, for parameters theta (p,)."""
    return np.zeros_like(samples.dq)


@singledispatch
def has_open_choice(term: Any) -> bool:
    """Whether the form of a term, its shapes or the links that it needs are still to be estimated."""
    inner = inner_term(term)
    shapes = getattr(inner, "shapes", ())
    is_open = any(getattr(inner, shape.name, None) is None for shape in shapes)
    return is_open or needs_bodies(inner) or bool(alternatives(inner, ()))


# Substitutes of a term for other uses.


@singledispatch
def within_extent(term: Columns, robot: RobotModel, extent: Extent) -> Any:
    """The term bounded to the range of motion of the log that it is fitted to.

    Beyond this range, friction that grows faster than velocity continues in proportion to velocity, and friction that
    varies with position keeps the value at the border of the range: in predictions, plots and exported code.
    """
    return term


@singledispatch
def without_memory(term: Columns) -> Any:
    """A term with the same parameters that evaluates each sample by itself; the term itself if it reads no past.

    The design of motions uses it, because its samples are farther apart than a memory reaches.
    """
    return term


@singledispatch
def exported_parts(term: Columns, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Parts of an exported model for a term.

    Parameters
    ----------
    term : Term
        The term.
    robot : RobotModel
        The robot.
    theta : ndarray, shape (p,)
        Values of its parameters.

    Returns
    -------
    tuple of Part, or None
        None = exported files cannot express the effect; () = the effect is not part of the robot.

    """
    return () if term.traits.kind is Kind.LOG else None


# The functions that express the equations of a term in another form; wrappers register them for all of these.
FORMS: Sequence[Any] = (motor_regressor, momentum_form, motor_momentum_form, energy_form, motor_work)
