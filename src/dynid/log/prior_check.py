"""Compare the measured torque with the torque that the prior (URDF) inertias predict for the same motion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.robot.model import RobotModel

# Advise on an effort that is many times larger or smaller than the predicted torque.

# A larger factor cannot come from wrong masses in the URDF, but from a gear ratio, torque constant or unit.
GEARED = 5.0


def size_advice(factor: float, slides: bool = False) -> str:
    """Advice for torque that is `factor` times the predicted torque; "" if wrong masses can explain the factor.

    Parameters
    ----------
    factor : float
        Ratio of measured to predicted torque.
    slides : bool
        Whether all joints are prismatic: the advice then refers to a force.

    """
    if 1.0 / GEARED <= factor <= GEARED or factor <= 0:
        return ""
    load, unit = ("force", "N") if slides else ("torque", "N m")
    each = f"{float(f'{1.0 / factor:.2g}'):g}"
    declared = (
        f"for a current, counts or another unit, set effort.unit under [log] and drive_gain under [robot] (about "
        f"{each} {unit} at the joint per logged unit)"
    )
    if factor > 1.0:
        return declared
    return (
        f'for a motor-side {load} with a gear ratio of about {each}, set effort.side = "motor" under [log] and '
        f"gear_ratio under [robot]; {declared}"
    )


# Detect swapped columns of two joints with the prior inertias.

# A swap counts if the product over joints of the unexplained variance shares is smaller by this factor than without
# the swap.
DECISIVE = 6.0
# Lower bound of the unexplained share of a joint's torque variance. The prior masses are wrong by a few percent, so
# differences between smaller residuals mean nothing.
LEAST_LEFT = 1e-3
# rad/s or m/s. Width of the velocity range in which the sign of friction changes smoothly.
SIGN_WIDTH = 0.02


@dataclass(frozen=True)
class Exchange:
    """Two joints with swapped signals.

    Parameters
    ----------
    joints : tuple of int
        Indices of the two joints.
    signals : str
        Swapped signals, in words.
    keys : str
        Keys of these signals under [log].

    """

    joints: tuple[int, int]
    signals: str
    keys: str


def find_exchange(
    robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float, directions: Sequence[Float]
) -> Exchange | None:
    """Find a pair of joints whose swap makes the prior inertias explain the torque much better.

    Parameters
    ----------
    robot : RobotModel
        Robot with prior inertias.
    q, dq, ddq, tau : ndarray, shape (n_states, n_joints)
        Motion and torque, SI.
    directions : sequence of ndarray, shape (3,), m/s^2
        Gravity vectors of the hypotheses without a swap. A swap must explain the torque better than each of them.

    Returns
    -------
    Exchange or None
        None if no swap is `DECISIVE` times better.

    """
    others = [_unexplained(replace(robot, gravity=gravity), q, dq, ddq, tau) for gravity in directions]
    candidates = [
        (_unexplained(robot, *motion, effort), exchange)
        for exchange, motion, effort in _exchanges(q, dq, ddq, tau)
    ]
    if not candidates:
        return None
    left, best = min(candidates, key=lambda pair: pair[0])
    return best if left < min(others) - np.log(DECISIVE) else None


def _exchanges(
    q: Float, dq: Float, ddq: Float, tau: Float
) -> Iterator[tuple[Exchange, tuple[Float, Float, Float], Float]]:
    n = q.shape[1]
    for a, b in combinations(range(n), 2):
        order = np.arange(n)
        order[[a, b]] = b, a
        moved = q[:, order], dq[:, order], ddq[:, order]
        yield Exchange((a, b), "efforts", "effort"), (q, dq, ddq), tau[:, order]
        yield Exchange((a, b), "positions", "position and velocity"), moved, tau
        yield Exchange((a, b), "columns", "position, velocity and effort"), moved, tau[:, order]


def _unexplained(robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float) -> float:
    """Sum over joints of the logarithm of the share of torque variance that the links and friction do not explain."""
    x, v, a = (np.ascontiguousarray(part) for part in robot.tree_motion(q, dq, ddq))
    bodies = inverse_dynamics(robot.tree, robot.inertia_prior, x, v, a) @ robot.projection
    total = 0.0
    for j in range(robot.n):
        friction, _ = np.linalg.qr(
            np.column_stack([dq[:, j], np.tanh(dq[:, j] / SIGN_WIDTH), np.ones(len(dq))])
        )
        b, y = (column - friction @ (friction.T @ column) for column in (bodies[:, j], tau[:, j]))
        along = max(float(b @ y), 0.0) ** 2 / max(float(b @ b), np.finfo(float).tiny)
        whole = max(float(((tau[:, j] - tau[:, j].mean()) ** 2).sum()), np.finfo(float).tiny)
        total += float(np.log(max((float(y @ y) - along) / whole, LEAST_LEFT)))
    return total


# Detect a robot that is mounted differently from its URDF: on a wall, hanging, or modelled upside down.

# Degrees. A larger angle is another mounting. Masses that are wrong by 50 % rotate the estimated direction by up to
# about 15 degrees. A smaller angle is a tilt, which dynid estimates from the residuals of a fit.
TURNED = 30.0
# Degrees. Mounts are usually square, so a direction this close to an axis of the base is set to the axis.
SQUARE = 5.0
# A joint is loaded by gravity if the deviation of its gravity torque exceeds this share of the largest one, and this
# share of its inertial torque. The limits are relative, so that they also fit small robots such as a camera gimbal.
SHARE, OF_INERTIAL = 0.2, 0.02
# A direction of gravity is found only if gravity explains at least the share GRAVITY of the torque that inertia and
# friction leave. Its residual must be at most the share LEFT of the part that gravity explains, and at most LEFT of the
# residual with the declared direction and a free factor per joint.
GRAVITY, LEFT = 0.5, 0.3
# The total mass in a URDF is assumed to be right within this factor.
MASSES = 2.0
# rad/s. Width of the velocity range in which the sign of friction changes smoothly.
MOUNTING_SIGN_WIDTH = 0.02


@dataclass(frozen=True, eq=False)
class Mounting:
    """Direction of gravity estimated from torque.

    Parameters
    ----------
    gravity : ndarray, shape (3,), m/s^2
        Gravity in the base frame.
    degrees : float
        Angle to the declared direction.

    """

    gravity: Float
    degrees: float


def reversed_mounting(
    robot: RobotModel, gravity: Float, inertial: Float, dq: Float, tau: Float, opposed: Sequence[int]
) -> Mounting | None:
    """Decide between reversed gravity and flipped effort signs if torque opposes the predicted gravity torque.

    Gravity is reversed if inertia and friction of the `opposed` joints have the right sign. A single opposed joint is
    no evidence of reversed gravity, because its centre of mass may be on the other side.

    Parameters
    ----------
    robot : RobotModel
        Robot with the declared gravity.
    gravity, inertial, dq, tau : ndarray, shape (n_states, n_joints)
        Gravity torque, inertial torque, velocity and measured torque, SI.
    opposed : sequence of int
        Joints whose torque is opposite to the gravity torque.

    Returns
    -------
    Mounting or None
        None if the signs are flipped, or for a single joint.

    """
    if len(opposed) < 2:
        return None
    resist = sum(
        _signed_resistance(
            _other_regressors(inertial[:, j], dq[:, j]), gravity[:, j, None], tau[:, j], -np.ones(1)
        )
        for j in opposed
    )
    return Mounting(-robot.gravity, 180.0) if resist > 0 else None


def find_mounting(
    robot: RobotModel, q: Float, dq: Float, inertial: Float, tau: Float, balanced: Bool | None = None
) -> Mounting | None:
    """Estimate the direction of gravity from the torque and the prior masses.

    Torque with a flipped sign resembles reversed gravity, but also reverses inertia and friction. Such torque gives
    None.

    Parameters
    ----------
    robot : RobotModel
        Robot with prior inertias and the declared gravity.
    q : ndarray, shape (n_states, n_links)
        Positions of all joints of the tree, rad or m.
    dq, inertial, tau : ndarray, shape (n_states, n_joints)
        Velocity, inertial torque of the prior, and measured torque, SI.
    balanced : ndarray of bool, shape (n_joints,), optional
        Joints to ignore because a spring carries their gravity load.

    Returns
    -------
    Mounting or None
        None if gravity is within `TURNED` of the declared direction, or if the data do not determine its direction.

    """
    size = float(np.linalg.norm(robot.gravity))
    if size == 0:
        return None
    along = np.stack(
        [
            gravity_torque(replace(robot.tree, gravity=size * axis), robot.inertia_prior, q)
            @ robot.projection
            for axis in np.eye(3)
        ],
        axis=2,
    )
    swing = np.linalg.norm(along.std(axis=0), axis=1)
    heavy = loaded_by_gravity(swing, inertial)
    if balanced is not None:
        heavy &= ~balanced
    columns, rest, others = [], [], []
    for j in np.flatnonzero(heavy):
        other = _other_regressors(inertial[:, j], dq[:, j])
        Q, _ = np.linalg.qr(other)
        X, y = (values - Q @ (Q.T @ values) for values in (along[:, j], tau[:, j]))
        # Scale the equations so that all joints have the same weight, from the base to the tool.
        columns.append(X / swing[j])
        rest.append(y / swing[j])
        others.append((other, along[:, j], tau[:, j]))
    if not columns:
        return None
    direction = np.linalg.lstsq(np.concatenate(columns), np.concatenate(rest), rcond=1e-6)[0]
    length = float(np.linalg.norm(direction))
    if not 1.0 / MASSES < length < MASSES:
        return None
    cosine = float(np.clip(direction @ robot.gravity / (length * size), -1.0, 1.0))
    degrees = float(np.degrees(np.arccos(cosine)))
    pairs = list(zip(columns, rest, strict=True))
    whole = sum(float((y**2).sum()) for _, y in pairs)
    # Smallest residual that gravity can leave: a separate direction for each joint.
    free = sum(float(((y - X @ np.linalg.lstsq(X, y, rcond=1e-6)[0]) ** 2).sum()) for X, y in pairs)
    left = sum(float(((y - X @ direction) ** 2).sum()) for X, y in pairs) - free
    declared = sum(_unexplained_by(X @ robot.gravity / size, y) for X, y in pairs) - free
    if degrees < TURNED or whole - free < GRAVITY * whole or left > LEFT * min(whole - free, declared):
        return None
    if sum(_signed_resistance(*signals, direction) for signals in others) <= 0:
        return None
    return Mounting(square(direction / length) * size, degrees)


def _other_regressors(inertial: Float, dq: Float) -> Float:
    """Regressors (S, 4) of a joint's torque except gravity: inertia, viscous friction, dry friction, offset."""
    return np.column_stack([inertial, dq, np.tanh(dq / MOUNTING_SIGN_WIDTH), np.ones(len(dq))])


def loaded_by_gravity(swing: Float, inertial: Float) -> Bool:
    """Mask (n,) of joints loaded by gravity.

    Parameters
    ----------
    swing : ndarray, shape (n_joints,)
        Standard deviation of the gravity torque of each joint.
    inertial : ndarray, shape (n_states, n_joints)
        Inertial torque.

    """
    return np.asarray((swing > SHARE * swing.max(initial=0.0)) & (swing > OF_INERTIAL * inertial.std(axis=0)))


def _unexplained_by(x: Float, y: Float) -> float:
    """Sum of squared residuals of y after a least-squares fit of x with a nonnegative factor."""
    factor = max(float(x @ y), 0.0) / max(float(x @ x), 1e-300)
    return float(((y - factor * x) ** 2).sum())


def _signed_resistance(other: Float, along: Float, tau: Float, direction: Float) -> float:
    """Signed variance of inertial and friction torque; negative if they drive the joint instead of resisting it."""
    coefficients = np.linalg.lstsq(other, tau - along @ direction, rcond=1e-9)[0]
    inertia, friction = other[:, 0] * coefficients[0], other[:, 1:3] @ coefficients[1:3]
    return float(np.sign(coefficients[0]) * inertia.var() + np.sign(friction @ other[:, 1]) * friction.var())


def square(direction: Float) -> Float:
    """Axis of the base within `SQUARE` degrees of a unit vector (3,); the vector itself if there is none."""
    k = int(np.argmax(np.abs(direction)))
    if np.degrees(np.arccos(min(abs(float(direction[k])), 1.0))) > SQUARE:
        return direction
    return np.asarray(np.sign(direction[k]) * np.eye(3)[k])


LEAST_STATES, MOST_STATES = (
    50,
    400,
)  # minimum number of states to compare; approximate maximum number per chunk
COMPARE_STEP = 0.02  # s; time step between rows
SPAN = 7  # rows of a fitted parabola (0.12 s); robot motions are much slower
SAME_TURN = 2.0  # rad; a larger step between rows is a wrapped angle
# A joint counts as evidence for or against gravity in the log if its gravity torque exceeds this share of the largest.
LIGHT = 0.005


@dataclass(frozen=True, eq=False)
class States:
    """Positions, velocities, accelerations and torques from fitted parabolas, each (n_states, n_joints) in SI units."""

    q: Float
    dq: Float
    ddq: Float
    tau: Float


def states_of(t: Float, q: Float, tau: Float) -> States:
    """Estimate states of a chunk from parabolas fitted to `SPAN` rows with a step of about 20 ms.

    Second differences of three rows would be too noisy for coarse encoders: 14 bits give 1 rad/s^2. A parabola is also
    fitted to the effort, so that fast motion is attenuated equally in motion and effort.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Time.
    q, tau : ndarray, shape (n_samples, n_joints)
        Positions and torque, SI.

    Returns
    -------
    States

    """
    n, half = q.shape[1], SPAN // 2
    if len(t) < SPAN:
        return States(q[:0], q[:0], q[:0], tau[:0])
    rows = np.lib.stride_tricks.sliding_window_view(
        np.concatenate([t[:, None], q, tau], axis=1), SPAN, axis=0
    )
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.diff(rows[:, 0], axis=1)
        jumps = np.abs(np.diff(rows[:, 1 : n + 1], axis=2)).max(axis=(1, 2), initial=0.0)
        # Use rows that are close in time and without a wrapped angle.
        near = (steps > 0).all(axis=1) & (steps.max(axis=1) < 3.0 * COMPARE_STEP) & (jumps < SAME_TURN)
    index = np.flatnonzero(near & np.isfinite(rows).all(axis=(1, 2)))
    index = index[:: max(1, len(index) // MOST_STATES)]
    since = rows[index, 0] - rows[index, 0, half : half + 1]
    powers = np.stack([np.ones_like(since), since, 0.5 * since**2], axis=2)
    coefficients = np.linalg.pinv(powers) @ rows[index, 1:].transpose(0, 2, 1)
    return States(
        coefficients[:, 0, :n], coefficients[:, 1, :n], coefficients[:, 2, :n], coefficients[:, 0, n:]
    )


def check_against_prior(
    robot: RobotModel, states: States, diagnostics: Diagnostics, balanced: Bool | None = None
) -> None:
    """Compare the measured torque with the torque that the prior (URDF) inertias predict, and report differences.

    The torque of each joint that gravity loads is fitted as a g + b h + c dq + d sign(dq) + e, with gravity torque g
    and inertial torque h; a should be near 1. Findings report another direction of gravity, torque without gravity,
    flipped signs, swapped joints, and torque that is wrong by a factor of more than 30.

    Parameters
    ----------
    robot : RobotModel
        Robot with prior inertias.
    states : States
        Measured states.
    diagnostics : Diagnostics
        Collects the findings.
    balanced : ndarray of bool, shape (n_joints,), optional
        Joints to ignore because a spring carries their gravity load.

    """
    tau = states.tau
    if len(tau) < LEAST_STATES:
        return
    q, dq, ddq = (np.ascontiguousarray(x) for x in robot.tree_motion(states.q, states.dq, states.ddq))
    g = gravity_torque(robot.tree, robot.inertia_prior, q) @ robot.projection
    h = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) @ robot.projection - g
    mounting = find_mounting(robot, q, states.dq, h, tau, balanced)
    if mounting is not None:
        # The checks below assume the declared direction of gravity.
        if not _claim_exchange(robot, states, diagnostics, mounting.gravity):
            _claim_mounting(diagnostics, mounting)
        return
    swing = g.std(axis=0)
    heavy = np.flatnonzero(loaded_by_gravity(swing, h)).tolist()
    heavy = [j for j in heavy if balanced is None or not balanced[j]]
    if not heavy:
        return

    def fit(j: int) -> _PriorFit:
        return _prior_fit(np.stack([g[:, j], h[:, j]]), states.dq[:, j], tau)

    fits = {j: fit(j) for j in heavy}
    # A motor-side torque also has a small slope, but it follows gravity closely, and its inertial part is small, too.
    if all(
        abs(joint_fit.slope[j]) + 3 * joint_fit.deviation[j] < 0.2
        and (joint_fit.certainty[j] < 0.5 or joint_fit.without_gravity(j))
        for j, joint_fit in fits.items()
    ):
        if _claim_exchange(robot, states, diagnostics):
            return
        light = [j for j in np.flatnonzero(swing > LIGHT * swing.max()).tolist() if j not in heavy]
        _report_without_gravity(robot.joint_names, fits, {j: fit(j) for j in light}, diagnostics)
    opposed = [j for j, joint_fit in fits.items() if joint_fit.opposes_gravity(j)]
    hung = reversed_mounting(robot, g, h, states.dq, tau, opposed) if len(opposed) == len(fits) else None
    if hung is not None:
        _claim_mounting(diagnostics, hung)
        return
    if len(opposed) == len(fits):
        others = np.flatnonzero(swing > LIGHT * swing.max()).tolist()
        every = fits | {j: fit(j) for j in others if j not in fits and (balanced is None or not balanced[j])}
        if _claim_flipped_signs(robot.joint_names, every, diagnostics):
            return
    _claim_by_joint(robot, fits, diagnostics)


def _report_without_gravity(
    names: Sequence[str],
    heavy: Mapping[int, _PriorFit],
    light: Mapping[int, _PriorFit],
    diagnostics: Diagnostics,
) -> None:
    # heavy and light are the fits of joints with a large and with a small gravity load.
    share = max(abs(fit.slope[j]) for j, fit in heavy.items())
    finding = f"torque without gravity on {', '.join(names[j] for j in heavy)} ({100 * share:.2g} % of the expected)"
    carrying = [names[j] for j, fit in light.items() if fit.carries_gravity(j)]
    if not carrying and len(heavy) + sum(fit.lacks_gravity(j) for j, fit in light.items()) > 1:
        diagnostics.claim(
            "gravity-compensated",
            found=finding,
            expected="the whole joint torque",
            do="log the measured torque without subtracting the gravity compensation",
        )
        return
    # Gravity compensation affects all joints; a spring affects a single joint.
    seen = f"; the torque of {', '.join(carrying)} includes gravity" if carrying else ""
    diagnostics.warn(
        "gravity-compensated",
        f"{finding}{seen}: add a term for a spring or counterbalance (gas_spring, torsion_spring, spring), or log the "
        "torque without subtracting gravity",
    )


def all_turned(diagnostics: Diagnostics) -> bool:
    """Whether a finding (accepted or not) reports that the signs of all efforts are flipped."""
    return any(
        diagnostic.code == "torque-sign" and diagnostic.place.joint is None for diagnostic in diagnostics
    )


def _claim_flipped_signs(
    names: Sequence[str], fits: Mapping[int, _PriorFit], diagnostics: Diagnostics
) -> bool:
    """Report that all efforts have the wrong sign if several joints show this and no joint contradicts it."""
    turned = [j for j, fit in fits.items() if fit.opposes_gravity(j)]
    if len(turned) < 2 or any(fit.carries_gravity(j) for j, fit in fits.items()):
        return False
    sizes = ", ".join(f"'{names[j]}' ({fits[j].slope[j]:.3g} times the expected)" for j in turned)
    diagnostics.claim(
        "torque-sign",
        found=f"torque of opposite sign to gravity on {sizes}, and of the right sign on no joint",
        expected="torque applied by the drives (a sensor may report its reaction)",
        do=f"set effort.sign = {{ {', '.join(f'{name} = -1' for name in names)} }} under [log]",
    )
    return True


def _claim_by_joint(robot: RobotModel, fits: Mapping[int, _PriorFit], diagnostics: Diagnostics) -> None:
    names = robot.joint_names
    for j, fit in fits.items():
        place = Place(joint=names[j])
        best = int(np.argmax(fit.explained))
        if best != j and fit.explained[best] > 0.9 and fit.explained[j] < 0.5 and fit.slope[best] > 0:
            diagnostics.claim(
                "joint-order",
                found=f"its gravity torque in the effort column of '{names[best]}' (explains "
                f"{100 * fit.explained[best]:.3g} % of this column and {100 * fit.explained[j]:.3g} % of its column)",
                expected="columns mapped to their joints",
                do="swap these columns under effort in [log]",
                place=place,
            )
        elif fit.opposes_gravity(j):
            diagnostics.claim(
                "torque-sign",
                found=f"torque of opposite sign to gravity ({fit.slope[j]:.3g} times the expected)",
                expected="torque that carries gravity",
                do="set effort.sign of this joint under [log]",
                place=place,
            )
        elif fit.certainty[j] > 0.7 and not 1 / 30 < fit.slope[j] < 30:
            _claim_size(diagnostics, float(fit.slope[j]), float(abs(robot.drive.gear_ratio[j])), place)


def _claim_exchange(
    robot: RobotModel, states: States, diagnostics: Diagnostics, turned: Float | None = None
) -> bool:
    """Report swapped joints if a swap explains the torque better than the declared, zero or `turned` gravity.

    Returns True if a swap is reported.
    """
    directions = [robot.gravity, np.zeros(3), *([] if turned is None else [turned])]
    exchange = find_exchange(robot, states.q, states.dq, states.ddq, states.tau, directions)
    if exchange is None:
        return False
    first, second = (f"'{robot.joint_names[j]}'" for j in exchange.joints)
    diagnostics.claim(
        "joint-order",
        found=f"swapped {exchange.signals} of {first} and {second}: the prior (URDF) explains far more of the torque "
        "with the swap than without",
        expected="columns mapped to their joints",
        do=f"swap their columns under {exchange.keys} in [log]",
        place=Place(joint=robot.joint_names[exchange.joints[0]]),
    )
    return True


def _claim_mounting(diagnostics: Diagnostics, mounting: Mounting) -> None:
    direction = [f"{g:.4g}" for g in mounting.gravity.round(6) + 0.0]  # no -0
    diagnostics.claim(
        "tilted-base",
        found=f"torque of a robot with another mounting: gravity {mounting.degrees:.0f} degrees off the "
        "declared direction",
        expected="gravity along the declared direction",
        do=f"declare gravity in the base frame: gravity = [{', '.join(direction)}] under [robot] in the "
        f"experiment file, or --gravity={','.join(direction)}",
    )


def _claim_size(diagnostics: Diagnostics, slope: float, ratio: float, place: Place) -> None:
    # A torque that is wrong by the gear ratio, within a factor of two, was declared on the wrong side of the gear.
    finding = f"torque {slope:.3g} times the gravity torque of the prior (URDF)"
    for power, advice in (
        (1, 'it was measured at the link: declare effort.side = "link" under [log]'),
        (-1, 'it was measured at the motor: declare effort.side = "motor" under [log]'),
        (2, "the ratio is applied twice or inverted: gear_ratio is motor turns per joint turn"),
        (-2, "the ratio is inverted: gear_ratio is motor turns per joint turn"),
    ):
        if ratio > 5 and 0.5 < slope / ratio**power < 2.0:
            text = f"{finding}, close to {'the inverse of ' if power < 0 else ''}the gear ratio {ratio:.3g}"
            text += "" if abs(power) == 1 else " squared"
            diagnostics.claim(
                "gear-ratio-side", found=text, expected="a ratio near 1", do=advice, place=place
            )
            return
    diagnostics.claim(
        "unit-suspicion",
        found=finding,
        expected="a ratio near 1",
        do=size_advice(slope),
        place=place,
    )


@dataclass(frozen=True, eq=False)
class _PriorFit:
    """Fit of the gravity torque of a joint to each effort column; all arrays have the shape (n_joints,).

    Parameters
    ----------
    slope, deviation : ndarray
        Coefficient of the gravity torque and its standard deviation.
    explained : ndarray
        Share of the column's variance that the fit explains.
    certainty : ndarray
        Share of the variance that gravity explains, after regression on the other regressors.
    inertial, inertial_deviation : ndarray
        Coefficient of the joint's inertial torque and its standard deviation.

    """

    slope: Float
    deviation: Float
    explained: Float
    certainty: Float
    inertial: Float
    inertial_deviation: Float

    def opposes_gravity(self, j: int) -> bool:
        """Whether the joint's gravity torque with the opposite sign explains most of column `j`."""
        return bool(self.slope[j] < 0 and self.certainty[j] > 0.7)

    def carries_gravity(self, j: int) -> bool:
        """Whether column `j` follows the joint's gravity torque with a slope significantly above 0.5."""
        return bool(self.slope[j] - 3 * self.deviation[j] > 0.5 and self.certainty[j] > 0.3)

    def lacks_gravity(self, j: int) -> bool:
        """Whether column `j` has a slope significantly below 0.5 with respect to the joint's gravity torque."""
        return bool(abs(self.slope[j]) + 3 * self.deviation[j] < 0.5)

    def without_gravity(self, j: int) -> bool:
        """Whether the gravity slope of column `j` is significantly below a fifth of its inertial slope."""
        inertial = self.inertial[j] - 3 * self.inertial_deviation[j]
        return bool(abs(self.slope[j]) + 3 * self.deviation[j] < 0.2 * inertial)


def _prior_fit(rigid: Float, dq: Float, tau: Float) -> _PriorFit:
    others = np.column_stack([dq, np.tanh(dq / 0.02), np.ones(len(dq))])
    x, y, slope = _partial(rigid[0], np.column_stack([rigid[1], others]), tau)
    h, _, inertial = _partial(rigid[1], np.column_stack([rigid[0], others]), tau)
    rest, without, total = ((v**2).sum(axis=0) for v in (y - np.outer(x, slope), y, tau - tau.mean(axis=0)))
    scatter = rest / max(len(x) - 5, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained, certainty = np.nan_to_num(1.0 - rest / total), np.nan_to_num(1.0 - rest / without)
        deviation, inertial_deviation = np.sqrt(scatter / (x @ x)), np.sqrt(scatter / (h @ h))
    return _PriorFit(slope, deviation, explained, certainty, inertial, inertial_deviation)


def _partial(column: Float, others: Float, tau: Float) -> tuple[Float, Float, Float]:
    """Residuals of `column` (T,) and torque (T, n) after regression on `others`, and the slopes (n,) between them."""
    Q, _ = np.linalg.qr(others)
    x, y = column - Q @ (Q.T @ column), tau - Q @ (Q.T @ tau)
    with np.errstate(divide="ignore", invalid="ignore"):  # nan if `others` explain the column completely
        return x, y, x @ y / (x @ x)
