"""Measured torque against what the description's own inertias make of the same motion."""

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

# What makes an effort many times larger or smaller than the torque of the robot's bodies, and what to
# declare then.

# Masses of a description are not off by this factor: gears, torque constants and units are.
GEARED = 5.0


def size_advice(factor: float, slides: bool = False) -> str:
    """What to declare where torque is so many times that of the bodies; "" where that may be the bodies' masses.

    slides: whether it is a force, as all joints slide.
    """
    if 1.0 / GEARED <= factor <= GEARED or factor <= 0:
        return ""
    load, unit = ("force", "N") if slides else ("torque", "N m")
    each = f"{float(f'{1.0 / factor:.2g}'):g}"
    declared = (
        f"for a current, counts or another unit declare effort.unit under [log] and drive_gain under [robot] (about "
        f"{each} {unit} at the joint for each unit of this one)"
    )
    if factor > 1.0:
        return declared
    return (
        f'for {load} of the motors, before gears of about {each} : 1, declare effort.side = "motor" '
        f"under [log] and gear_ratio under [robot]; {declared}"
    )


# Columns of two joints that are exchanged, as the description's own bodies show it.

# By this factor the product over joints of what is left of their torque's variance has to fall below that of every
# other reading.
DECISIVE = 6.0
# Of a joint's variance, below which less says nothing: masses of a description are off by some per cent at least.
LEAST_LEFT = 1e-3
# rad/s or m/s: below it friction changes its sign smoothly.
SIGN_WIDTH = 0.02


@dataclass(frozen=True)
class Exchange:
    """Two joints, by index, and which of their columns are exchanged, in words and by their names under [log]."""

    joints: tuple[int, int]
    what: str
    keys: str


def find_exchange(
    robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float, directions: Sequence[Float]
) -> Exchange | None:
    """The exchange with which the described bodies explain the torque decisively better than without; None = none.

    q, dq, ddq, tau: (S, n).    directions: of gravity, (3,) m/s^2 each, that an exchange has to be better than.
    """
    others = [_left(replace(robot, gravity=one), q, dq, ddq, tau) for one in directions]
    found = [(_left(robot, *motion, effort), one) for one, motion, effort in _exchanges(q, dq, ddq, tau)]
    if not found:
        return None
    left, best = min(found, key=lambda pair: pair[0])
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


def _left(robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float) -> float:
    """Sum over joints of the logarithm of the share that bodies and friction leave of the torque's variance."""
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


# A robot that stands another way than its description says: on a wall, hanging, or described upside down.

# Degrees from which on a mount is meant: masses that are off by half turn the direction by up to some 15. Less is a
# lean, which is looked for in what a model leaves.
TURNED = 30.0
# Directions that are as near to an axis of the base are that axis: mounts are square.
SQUARE = 5.0
# Gravity's torque on a joint counts from this share of the largest, and of what inertia makes of the motion: by ratios
# a camera's gimbal counts as an arm does.
SHARE, OF_INERTIAL = 0.2, 0.02
# Of what inertia and friction leave, the share that gravity explains at least, in any direction. Of that the found
# direction leaves at most this share, and of what the declared one leaves with a factor of its own for each joint.
GRAVITY, LEFT = 0.5, 0.3
# Masses of a description are right to this factor.
MASSES = 2.0
# rad/s: below it friction changes its sign smoothly.
MOUNTING_SIGN_WIDTH = 0.02


@dataclass(frozen=True, eq=False)
class Mounting:
    """Gravity in the base frame, (3,) m/s^2, as torque shows it, and its angle to the declared one in degrees."""

    gravity: Float
    degrees: float


def hangs_turned(
    robot: RobotModel, gravity: Float, inertial: Float, dq: Float, tau: Float, opposed: Sequence[int]
) -> Mounting | None:
    """Gravity from the other side, where joints `opposed` to it resist their motion; None = their signs are turned.

    gravity, inertial, dq, tau: (S, n).    One joint alone may have its centre of mass on the other side.
    """
    if len(opposed) < 2:
        return None
    resist = sum(
        _with_the_motion(_others(inertial[:, j], dq[:, j]), gravity[:, j, None], tau[:, j], -np.ones(1))
        for j in opposed
    )
    return Mounting(-robot.gravity, 180.0) if resist > 0 else None


def find_mounting(
    robot: RobotModel, q: Float, dq: Float, inertial: Float, tau: Float, balanced: Bool | None = None
) -> Mounting | None:
    """The direction of gravity that measured torque (S, n) shows with the description's masses; None = as declared.

    q: (S, nb) of the tree.    dq, inertial: (S, n) velocity, and torque of the described bodies without gravity.
    Torques of the wrong sign look like gravity from the other side: then inertia and friction are turned as well.
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
    heavy = weighs(swing, inertial)
    if balanced is not None:
        heavy &= ~balanced
    columns, rest, others = [], [], []
    for j in np.flatnonzero(heavy):
        other = _others(inertial[:, j], dq[:, j])
        Q, _ = np.linalg.qr(other)
        X, y = (values - Q @ (Q.T @ values) for values in (along[:, j], tau[:, j]))
        # Joints count alike, be they at the foot or at the hand.
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
    # Nothing that gravity could do explains more than a direction of its own for each joint.
    free = sum(float(((y - X @ np.linalg.lstsq(X, y, rcond=1e-6)[0]) ** 2).sum()) for X, y in pairs)
    left = sum(float(((y - X @ direction) ** 2).sum()) for X, y in pairs) - free
    declared = sum(_left_by(X @ robot.gravity / size, y) for X, y in pairs) - free
    if degrees < TURNED or whole - free < GRAVITY * whole or left > LEFT * min(whole - free, declared):
        return None
    if sum(_with_the_motion(*one, direction) for one in others) <= 0:
        return None
    return Mounting(square(direction / length) * size, degrees)


def _others(inertial: Float, dq: Float) -> Float:
    """What a joint's torque (S,) holds besides gravity's: inertia, viscous and dry friction, an offset, (S, 4)."""
    return np.column_stack([inertial, dq, np.tanh(dq / MOUNTING_SIGN_WIDTH), np.ones(len(dq))])


def weighs(swing: Float, inertial: Float) -> Bool:
    """Joints (n,) whose gravity torque, of standard deviation `swing` (n,), counts beside their inertial one (S, n)."""
    return np.asarray((swing > SHARE * swing.max(initial=0.0)) & (swing > OF_INERTIAL * inertial.std(axis=0)))


def _left_by(x: Float, y: Float) -> float:
    """What a column leaves of y with a factor that is not negative."""
    factor = max(float(x @ y), 0.0) / max(float(x @ x), 1e-300)
    return float(((y - factor * x) ** 2).sum())


def _with_the_motion(other: Float, along: Float, tau: Float, direction: Float) -> float:
    """Squared torque of inertia and friction, negative where they drive a joint's motion in place of resisting it."""
    coefficients = np.linalg.lstsq(other, tau - along @ direction, rcond=1e-9)[0]
    inertia, friction = other[:, 0] * coefficients[0], other[:, 1:3] @ coefficients[1:3]
    return float(np.sign(coefficients[0]) * inertia.var() + np.sign(friction @ other[:, 1]) * friction.var())


def square(direction: Float) -> Float:
    """A unit vector (3,), or the axis of the base that is within SQUARE degrees of it."""
    k = int(np.argmax(np.abs(direction)))
    if np.degrees(np.arccos(min(abs(float(direction[k])), 1.0))) > SQUARE:
        return direction
    return np.asarray(np.sign(direction[k]) * np.eye(3)[k])


LEAST_STATES, MOST_STATES = 50, 400  # the latter of a chunk
COMPARE_STEP = 0.02  # s between rows
SPAN = 7  # rows, 0.12 s: motion of robots is far slower
SAME_TURN = 2.0  # rad from row to row
# Of the greatest gravity torque, what a joint's has to be to speak for or against gravity in the log.
LIGHT = 0.005


@dataclass(frozen=True, eq=False)
class States:
    """Some moments of a log with their motion from parabolas, each (S, n)."""

    q: Float
    dq: Float
    ddq: Float
    tau: Float


def states_of(t: Float, q: Float, tau: Float) -> States:
    """A few states of a chunk, from a parabola through SPAN rows of about 20 ms for each of them.

    Differences of three rows would be noise where positions are coarse: an encoder of 14 bits makes 1 rad/s^2 of them.
    Effort is taken from a parabola as well, so that fast motion is flattened in both alike.
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
        # Rows that lie close in time and on the same turn.
        near = (steps > 0).all(axis=1) & (steps.max(axis=1) < 3.0 * COMPARE_STEP) & (jumps < SAME_TURN)
    index = np.flatnonzero(near & np.isfinite(rows).all(axis=(1, 2)))
    index = index[:: max(1, len(index) // MOST_STATES)]
    since = rows[index, 0] - rows[index, 0, half : half + 1]
    powers = np.stack([np.ones_like(since), since, 0.5 * since**2], axis=2)
    found = np.linalg.pinv(powers) @ rows[index, 1:].transpose(0, 2, 1)
    return States(found[:, 0, :n], found[:, 1, :n], found[:, 2, :n], found[:, 0, n:])


def check_against_prior(
    robot: RobotModel, states: States, diagnostics: Diagnostics, balanced: Bool | None = None
) -> None:
    """Compares measured torque with the torque that the description's own inertias predict.

    Of every joint that gravity loads, the torque is fitted as a g + b h + c dq + d sign(dq) + e, with gravity torque g
    and inertial torque h; a should be near 1.
    balanced: (n,) joints that are left out, since springs carry their gravity; None = none.
    Claims: gravity points another way, it is missing from all torque, a sign is flipped, joints are exchanged, or the
    size is off by a factor of more than 30.
    """
    tau = states.tau
    if len(tau) < LEAST_STATES:
        return
    q, dq, ddq = (np.ascontiguousarray(x) for x in robot.tree_motion(states.q, states.dq, states.ddq))
    g = gravity_torque(robot.tree, robot.inertia_prior, q) @ robot.projection
    h = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) @ robot.projection - g
    mounting = find_mounting(robot, q, states.dq, h, tau, balanced)
    if mounting is not None:
        # What follows rests on gravity's direction.
        if not _claim_exchange(robot, states, diagnostics, mounting.gravity):
            _claim_mounting(diagnostics, mounting)
        return
    swing = g.std(axis=0)
    heavy = np.flatnonzero(weighs(swing, h)).tolist()
    heavy = [j for j in heavy if balanced is None or not balanced[j]]
    if not heavy:
        return

    def fit(j: int) -> _PriorFit:
        return _prior_fit(np.stack([g[:, j], h[:, j]]), states.dq[:, j], tau)

    fits = {j: fit(j) for j in heavy}
    # A motor-side torque is small as well, but follows gravity closely, and is small in its inertial part, too.
    if all(
        abs(one.slope[j]) + 3 * one.deviation[j] < 0.2 and (one.certainty[j] < 0.5 or one.without_gravity(j))
        for j, one in fits.items()
    ):
        if _claim_exchange(robot, states, diagnostics):
            return
        light = [j for j in np.flatnonzero(swing > LIGHT * swing.max()).tolist() if j not in heavy]
        _report_without_gravity(robot.joint_names, fits, {j: fit(j) for j in light}, diagnostics)
    opposed = [j for j, one in fits.items() if one.opposes_gravity(j)]
    hung = hangs_turned(robot, g, h, states.dq, tau, opposed) if len(opposed) == len(fits) else None
    if hung is not None:
        _claim_mounting(diagnostics, hung)
        return
    if len(opposed) == len(fits):
        others = np.flatnonzero(swing > LIGHT * swing.max()).tolist()
        every = fits | {j: fit(j) for j in others if j not in fits and (balanced is None or not balanced[j])}
        if _claim_turned(robot.joint_names, every, diagnostics):
            return
    _claim_by_joint(robot, fits, diagnostics)


def _report_without_gravity(
    names: Sequence[str],
    heavy: Mapping[int, _PriorFit],
    light: Mapping[int, _PriorFit],
    diagnostics: Diagnostics,
) -> None:
    # Fits of joints that gravity loads, and of those that it loads a little.
    share = max(abs(fit.slope[j]) for j, fit in heavy.items())
    found = f"torque without gravity on {', '.join(names[j] for j in heavy)} ({100 * share:.2g} % of the expected)"
    carrying = [names[j] for j, fit in light.items() if fit.carries_gravity(j)]
    if not carrying and len(heavy) + sum(fit.lacks_gravity(j) for j, fit in light.items()) > 1:
        diagnostics.claim(
            "gravity-compensated",
            found=found,
            expected="the whole joint torque",
            do="log the measured torque, not the one that is left after gravity compensation",
        )
        return
    # Compensation takes gravity from all joints, a spring from its own.
    seen = f"; {', '.join(carrying)} show theirs" if carrying else ""
    diagnostics.warn(
        "gravity-compensated",
        f"{found}{seen}: a spring or counterbalance carries it, which is a term of the model (gas_spring, "
        "torsion_spring, spring), or it was taken off the logged torque",
    )


def all_turned(diagnostics: Diagnostics) -> bool:
    """Whether every effort was found to be of the other sign, accepted or not; one joint's is claimed of that joint."""
    return any(one.code == "torque-sign" and one.place.joint is None for one in diagnostics)


def _claim_turned(names: Sequence[str], fits: Mapping[int, _PriorFit], diagnostics: Diagnostics) -> bool:
    """Claims that every effort is of the other sign, where several joints say so and none carries its gravity."""
    turned = [j for j, one in fits.items() if one.opposes_gravity(j)]
    if len(turned) < 2 or any(one.carries_gravity(j) for j, one in fits.items()):
        return False
    sizes = ", ".join(f"'{names[j]}' ({fits[j].slope[j]:.3g} times the expected)" for j in turned)
    diagnostics.claim(
        "torque-sign",
        found=f"torque opposed to gravity on {sizes}, and on no joint torque that carries it",
        expected="torque of the drives; that on a sensor may be of the other sign",
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
                found=f"its gravity torque in the effort column of '{names[best]}' "
                f"(it explains {100 * fit.explained[best]:.3g} % of that, {100 * fit.explained[j]:.3g} % of its own)",
                expected="columns mapped to their joints",
                place=place,
            )
        elif fit.opposes_gravity(j):
            diagnostics.claim(
                "torque-sign",
                found=f"torque opposed to gravity ({fit.slope[j]:.3g} times the expected)",
                expected="torque that carries it",
                do="set effort.sign of this joint under [log]",
                place=place,
            )
        elif fit.certainty[j] > 0.7 and not 1 / 30 < fit.slope[j] < 30:
            _claim_size(diagnostics, float(fit.slope[j]), float(abs(robot.drive.gear_ratio[j])), place)


def _claim_exchange(
    robot: RobotModel, states: States, diagnostics: Diagnostics, turned: Float | None = None
) -> bool:
    """Claims an exchange of two joints that explains more than no gravity or a `turned` one; whether there is one."""
    directions = [robot.gravity, np.zeros(3), *([] if turned is None else [turned])]
    found = find_exchange(robot, states.q, states.dq, states.ddq, states.tau, directions)
    if found is None:
        return False
    first, second = (f"'{robot.joint_names[j]}'" for j in found.joints)
    diagnostics.claim(
        "joint-order",
        found=f"{found.what} of {first} and {second} that are exchanged: so read, the described bodies explain far "
        "more of the torque than as declared, without gravity or with gravity from elsewhere",
        expected="columns mapped to their joints",
        do=f"exchange their columns under {found.keys} in [log]",
        place=Place(joint=robot.joint_names[found.joints[0]]),
    )
    return True


def _claim_mounting(diagnostics: Diagnostics, mounting: Mounting) -> None:
    direction = [f"{g:.4g}" for g in mounting.gravity.round(6) + 0.0]  # no -0
    diagnostics.claim(
        "tilted-base",
        found=f"torque of a robot that is mounted another way: gravity {mounting.degrees:.0f} degrees off the "
        "declared direction",
        expected="gravity along the declared direction",
        do=f"declare how it stands, in the base frame: gravity = [{', '.join(direction)}] under [robot] in the "
        f"experiment file, or --gravity={','.join(direction)}",
    )


def _claim_size(diagnostics: Diagnostics, slope: float, ratio: float, place: Place) -> None:
    # A torque that is off by the gear ratio, to a factor of two, has been taken for that of the other side.
    found = f"torque {slope:.3g} times the gravity torque of the description"
    for power, advice in (
        (1, 'it was measured at the link: declare effort.side = "link" under [log]'),
        (-1, 'it was measured at the motor: declare effort.side = "motor" under [log]'),
        (2, "the ratio is given twice or upside down: gear_ratio is motor turns per joint turn"),
        (-2, "the ratio is given upside down: gear_ratio is motor turns per joint turn"),
    ):
        if ratio > 5 and 0.5 < slope / ratio**power < 2.0:
            text = f"{found}, which is the gear ratio {ratio:.4g}" + ("" if abs(power) == 1 else " squared")
            text += " upside down" if power < 0 else ""
            diagnostics.claim(
                "gear-ratio-side", found=text, expected="a ratio near 1", do=advice, place=place
            )
            return
    diagnostics.claim(
        "unit-suspicion",
        found=found,
        expected="a ratio near 1",
        do=size_advice(slope),
        place=place,
    )


@dataclass(frozen=True, eq=False)
class _PriorFit:
    """Fit of every effort column by one joint's gravity torque; each (n,).

    slope, deviation: the coefficient and its standard deviation.    explained: share of the column's variance that the
    whole fit explains.    certainty: share that gravity explains of what the rest of the fit leaves.
    inertial, inertial_deviation: the coefficient of the joint's inertial torque and its standard deviation.
    """

    slope: Float
    deviation: Float
    explained: Float
    certainty: Float
    inertial: Float
    inertial_deviation: Float

    def opposes_gravity(self, j: int) -> bool:
        """Whether a column follows the joint's gravity the other way round, which explains most of it."""
        return bool(self.slope[j] < 0 and self.certainty[j] > 0.7)

    def carries_gravity(self, j: int) -> bool:
        """Whether a column holds more than half of the joint's gravity beyond chance, which explains much of it."""
        return bool(self.slope[j] - 3 * self.deviation[j] > 0.5 and self.certainty[j] > 0.3)

    def lacks_gravity(self, j: int) -> bool:
        """Whether a column holds less than half of the joint's gravity beyond chance."""
        return bool(abs(self.slope[j]) + 3 * self.deviation[j] < 0.5)

    def without_gravity(self, j: int) -> bool:
        """Whether a column holds the inertial torque, and no more than a fifth of it of gravity, if any."""
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
    """A column (T,) and torque (T, n) less what others explain, and the slope (n,) of torque by the column."""
    Q, _ = np.linalg.qr(others)
    x, y = column - Q @ (Q.T @ column), tau - Q @ (Q.T @ tau)
    with np.errstate(divide="ignore", invalid="ignore"):  # nan where the others explain the column whole
        return x, y, x @ y / (x @ x)
