"""Measured torque against what the description's own inertias make of the same motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.log.effort_size import size_advice
from dynid.log.exchanged import find_exchange
from dynid.log.mounting import Mounting, find_mounting, hangs_turned, weighs
from dynid.robot.model import RobotModel

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
    return any(one.identifier == "torque-sign" and one.place.joint is None for one in diagnostics)


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
