"""Compare the measured torque with that of the prior (URDF) inertias, under rival readings of the log.

Each reading says how the log could differ from its declaration: another direction of gravity, torque without gravity,
flipped signs, swapped columns, another scale. All readings are fitted to the same states with the same model, in which
the prior inertias may be wrong by a factor and friction only resists the motion. The reading whose fit leaves the least
unexplained wins, and each assertion that it makes has a price. Only a winner is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass, listed
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.spatial.algebra import rotation_about

# A larger factor cannot come from wrong masses in the URDF, but from a gear ratio, torque constant or unit.
GEARED = 5.0
# A torque that is wrong by a larger factor stops the run: units and gear ratios change it by more than this.
UNIT = 30.0
# An assertion must divide the product over joints of the unexplained variance shares by this factor.
DECISIVE = 6.0
# The winning reading must explain most of the torque variance of the joint that gains most.
FITS = 0.5
# Lower bound of the unexplained share of a joint's torque variance. The prior masses are wrong by a few percent, so
# differences between smaller residuals mean nothing.
LEAST_LEFT = 1e-3
# rad/s or m/s. Width of the velocity range in which the sign of friction changes smoothly.
SIGN_WIDTH = 0.02
# Degrees. A larger angle is another mounting. Masses that are wrong by 50 % rotate the estimated direction by up to
# about 15 degrees. A smaller angle is a tilt, which dynid estimates from the residuals of a fit.
TURNED = 30.0
# First rotation of gravity away from the best base axis, degrees, and number of steps, each half the one before.
STEP, HALVED = 30.0, 4
# Minimum number of states to compare; approximate maximum number per chunk.
LEAST_STATES, MOST_STATES = 50, 400
COMPARE_STEP = 0.02  # s; time step between rows
SPAN = 7  # rows of a fitted parabola (0.12 s); robot motions are much slower
SAME_TURN = 2.0  # rad; a larger step between rows is a wrapped angle


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


def mountings(robot: RobotModel) -> Iterator[Float]:
    """Yield gravity (3,), m/s^2, along each base axis that differs from the declared direction."""
    size = float(np.linalg.norm(robot.gravity))
    if size == 0:
        return
    for axis in (*np.eye(3), *-np.eye(3)):
        if degrees_between(axis, robot.gravity) > TURNED:
            yield size * axis


def best_mounting(robot: RobotModel, gain: Callable[[Float], float]) -> Float | None:
    """Search for the direction of gravity with the largest gain.

    Mounts are usually square, so an oblique direction must be `DECISIVE` times better than the best base axis.

    Parameters
    ----------
    robot : RobotModel
        Robot with the declared gravity.
    gain : callable
        Maps gravity (3,) to its gain over the declared gravity: the sum over joints of the logarithm of the ratio of
        mean square errors.

    Returns
    -------
    ndarray, shape (3,), or None
        Gravity, m/s^2. None if no base axis gains, or if the result is within TURNED degrees of the declared gravity.

    """
    axis, axis_gain = None, 0.0
    for candidate in mountings(robot):
        value = gain(candidate)
        if value > axis_gain:
            axis, axis_gain = candidate, value
    if axis is None:
        return None
    gravity, best_gain, step = axis, axis_gain, STEP
    for _ in range(HALVED):
        turned = [
            rotation_about(about, np.deg2rad(a)) @ gravity for about in np.eye(3) for a in (step, -step)
        ]
        values = [gain(candidate) for candidate in turned]
        best = int(np.argmax(values))
        if values[best] > best_gain:
            gravity, best_gain = turned[best], values[best]
        step *= 0.5
    if best_gain - axis_gain < np.log(DECISIVE):
        return axis
    return None if degrees_between(gravity, robot.gravity) < TURNED else gravity


def degrees_between(a: Float, b: Float) -> float:
    """Angle between two vectors (3,), degrees."""
    cosine = float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


# Factors that the prior torque may be multiplied by: masses in a URDF are assumed to be right within a factor of 2.
MASSES, ANY = (0.5, 2.0), (0.0, np.inf)


@dataclass(frozen=True, eq=False)
class PriorTorque:
    """Torque that the prior inertias predict for a motion.

    Parameters
    ----------
    gravity : ndarray, shape (n_joints, n_states, 3)
        Gravity torque for 1 m/s^2 along each axis of the base.
    inertial : ndarray, shape (n_joints, n_states)
        Torque of accelerations and velocities.
    friction : ndarray, shape (n_joints, n_states, 2)
        Velocity and its smooth sign.

    """

    gravity: Float
    inertial: Float
    friction: Float

    @staticmethod
    def of(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> PriorTorque:
        """Predict the torque for positions, velocities and accelerations, each (n_states, n_joints), SI."""
        tree_q, tree_dq, tree_ddq = (np.ascontiguousarray(part) for part in robot.tree_motion(q, dq, ddq))
        prior, projection = robot.inertia_prior, robot.projection
        axes = [
            gravity_torque(replace(robot.tree, gravity=axis), prior, tree_q) @ projection
            for axis in np.eye(3)
        ]
        weightless = replace(robot.tree, gravity=np.zeros(3))
        return PriorTorque(
            np.stack(axes, axis=2).transpose(1, 0, 2),
            (inverse_dynamics(weightless, prior, tree_q, tree_dq, tree_ddq) @ projection).T,
            np.stack([dq, np.tanh(dq / SIGN_WIDTH)], axis=2).transpose(1, 0, 2),
        )

    def fit(self, gravity: Float, tau: Float, factors: tuple[float, float] = MASSES) -> tuple[Float, Float]:
        """Fit tau_i = m (inertial_j + gravity_j) + fv dq_j + fc sign(dq_j) + fo for each joint j and each column i.

        Parameters
        ----------
        gravity : ndarray, shape (3,), m/s^2
            Gravity in the base frame.
        tau : ndarray, shape (n_states, n_columns)
            Logged efforts.
        factors : tuple of float
            Least and greatest factor m. Friction has fv, fc >= 0.

        Returns
        -------
        unexplained : ndarray, shape (n_joints, n_columns)
            Share of the column's variance that the fit leaves, at least `LEAST_LEFT`; 1 for a constant column.
        factor : ndarray, shape (n_joints, n_columns)
            Fitted m.

        """
        rigid = self.inertial + self.gravity @ gravity
        columns = np.concatenate([rigid[:, :, None], self.friction], axis=2)
        columns = columns - columns.mean(axis=1, keepdims=True)
        target = tau - tau.mean(axis=0)
        size = np.maximum(np.linalg.norm(columns, axis=1), np.finfo(float).tiny)
        columns = columns / size[:, None]
        gram = columns.transpose(0, 2, 1) @ columns
        side = (columns.transpose(0, 2, 1) @ target).transpose(0, 2, 1)
        whole = (target**2).sum(axis=0)
        constant = whole <= (np.finfo(float).eps * np.abs(tau).max(axis=0, initial=0.0)) ** 2 * len(tau)
        low, high = (bound * size[:, :1] for bound in factors)
        gain, scaled = _largest_gain(gram[:, None], side, low, high)
        unexplained = np.where(constant, 1.0, 1.0 - gain / np.where(constant, 1.0, whole))
        return np.maximum(unexplained, LEAST_LEFT), scaled / size[:, :1]

    def unexplained(self, gravity: Float, tau: Float, factors: tuple[float, float] = MASSES) -> Float:
        """Unexplained shares (n_joints,) with each joint's own column of `tau`; see `fit`."""
        return np.diagonal(self.fit(gravity, tau, factors)[0])

    def mounting(self, robot: RobotModel, tau: Float, factors: tuple[float, float] = MASSES) -> Float | None:
        """Gravity (3,) of another mounting that explains the torque decisively better than the declared; or None."""

        def score(gravity: Float) -> float:
            return float(np.log(self.unexplained(gravity, tau, factors)).sum())

        # Torque with the opposite sign looks like gravity from above, but for inertia and friction.
        opposite = float(np.log(self.unexplained(robot.gravity, -tau, factors)).sum())
        rival = min(score(robot.gravity) - np.log(DECISIVE), opposite)
        gravity = best_mounting(robot, lambda candidate: rival - score(candidate))
        return gravity if gravity is not None and score(gravity) < rival else None


def _largest_gain(gram: Float, side: Float, low: Float, high: Float) -> tuple[Float, Float]:
    """Solve max 2 s'x - x'Gx subject to low <= x_0 <= high and x_1, x_2 >= 0.

    The optimum is the best feasible point among those with each bound either active or ignored.

    Parameters
    ----------
    gram : ndarray, shape (..., 3, 3)
        Matrix G of the columns, with unit diagonal.
    side : ndarray, shape (..., 3)
        Products s of the columns with the target.
    low, high : ndarray, broadcastable to (...)
        Bounds of x_0.

    Returns
    -------
    gain, first : ndarray, shape (...)
        Optimum, and x_0 there.

    """
    shape = side.shape[:-1]
    gram = np.broadcast_to(gram, (*shape, 3, 3)) + 1e-10 * np.eye(3)
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    best, first = np.full(shape, -np.inf), np.zeros(shape)
    for fixed, viscous, dry in product((None, low, high), (True, False), (True, False)):
        if fixed is not None and not np.isfinite(fixed).all():
            continue
        free = [k for k, is_free in enumerate((fixed is None, viscous, dry)) if is_free]
        x = np.zeros((*shape, 3))
        if fixed is not None:
            x[..., 0] = fixed
        if free:
            known = side - (gram @ x[..., None])[..., 0]
            x[..., free] = np.linalg.solve(gram[..., free, :][..., free], known[..., free, None])[..., 0]
        inside = (x[..., 0] >= low) & (x[..., 0] <= high) & (x[..., 1:] >= 0).all(axis=-1)
        gain = 2.0 * (side * x).sum(axis=-1) - (x * (gram @ x[..., None])[..., 0]).sum(axis=-1)
        better = inside & (gain > best)
        best, first = np.where(better, gain, best), np.where(better, x[..., 0], first)
    return best, first


@dataclass(frozen=True, eq=False)
class _Reading:
    """A reading of the log, its unexplained shares (n_joints,), number of assertions, changed joints and report."""

    unexplained: Float
    assertions: int
    joints: tuple[int, ...]
    report: Callable[[Diagnostics], None]

    def score(self, judged: Bool) -> float:
        """Sum over the judged joints of the logarithm of the unexplained share, and the price of the assertions."""
        return float(np.log(self.unexplained[judged]).sum() + self.assertions * np.log(DECISIVE))


def check_against_prior(
    robot: RobotModel, states: States, diagnostics: Diagnostics, balanced: Bool | None = None
) -> None:
    """Report the reading of the log under which the prior (URDF) inertias explain the torque best.

    The claims are tilted-base, gravity-compensated, torque-sign, joint-order, gear-ratio-side and unit-suspicion.

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
    if len(states.tau) < LEAST_STATES:
        return
    judged = np.ones(robot.n, dtype=np.bool_) if balanced is None else ~balanced
    prior = PriorTorque.of(robot, states.q, states.dq, states.ddq)
    declared = prior.unexplained(robot.gravity, states.tau)
    readings = list(_readings(robot, states, prior, declared, judged))
    as_declared = _Reading(declared, 0, (), lambda _: None)
    best = min([as_declared, *readings], key=lambda reading: reading.score(judged))
    gain = np.where(judged, np.log(declared / best.unexplained), -np.inf)
    if best.unexplained[int(np.argmax(gain))] <= FITS:
        best.report(diagnostics)


def _readings(
    robot: RobotModel, states: States, prior: PriorTorque, declared: Float, judged: Bool
) -> Iterator[_Reading]:
    tau, every, none = states.tau, tuple(range(robot.n)), np.zeros(3)
    weightless = prior.unexplained(none, tau)
    opposite = prior.unexplained(robot.gravity, -tau)
    if robot.n > 1:
        lacking = [j for j in np.flatnonzero(judged).tolist() if weightless[j] < declared[j]]
        yield _Reading(weightless, 1, every, partial(_claim_compensation, robot, lacking))
        yield _Reading(opposite, 1, every, partial(_claim_flipped_signs, robot))
    gravity = prior.mounting(robot, tau)
    if gravity is not None:
        yield _Reading(prior.unexplained(gravity, tau), 1, every, partial(_claim_mounting, robot, gravity))
    yield _joint_by_joint(robot, prior, tau, declared, weightless, opposite)
    yield from _exchanges(robot, states, prior, declared)


def _joint_by_joint(
    robot: RobotModel, prior: PriorTorque, tau: Float, declared: Float, weightless: Float, opposite: Float
) -> _Reading:
    """The best reading of each joint by itself: as declared, with the opposite sign, without gravity, other scale."""
    shares, factors = prior.fit(robot.gravity, tau, ANY)
    rivals = np.stack([declared, opposite, weightless, np.diagonal(shares)])
    chosen = np.argmin(np.log(rivals) + np.log(DECISIVE) * np.array([0, 1, 1, 1])[:, None], axis=0)
    unexplained = rivals[chosen, np.arange(robot.n)]
    flipped, light, scaled = (
        [j for j in np.flatnonzero(chosen == k).tolist() if unexplained[j] <= FITS] for k in (1, 2, 3)
    )

    def report(diagnostics: Diagnostics) -> None:
        for j in flipped:
            diagnostics.claim(
                "torque-sign",
                found="torque of opposite sign to that of the prior (URDF) and of friction",
                expected="torque that moves the links against friction",
                do="set effort.sign of this joint under [log]",
                place=Place(joint=robot.joint_names[j]),
            )
        if light:
            diagnostics.warn(
                "gravity-compensated",
                f"torque without gravity on {listed([robot.joint_names[j] for j in light])}, but not on the others: "
                "add a term for a spring or counterbalance (gas_spring, torsion_spring, spring), or log the torque "
                "without subtracting gravity",
            )
        for j in scaled:
            if not 1.0 / UNIT < factors[j, j] < UNIT:
                _claim_size(robot, j, float(factors[j, j]), diagnostics)

    return _Reading(unexplained, int((chosen > 0).sum()), tuple(np.flatnonzero(chosen > 0).tolist()), report)


def _exchanges(robot: RobotModel, states: States, prior: PriorTorque, declared: Float) -> Iterator[_Reading]:
    """Readings with permuted efforts, or with positions or all columns of two joints swapped."""
    poor = declared > FITS
    every = prior.fit(robot.gravity, states.tau)[0]
    if (every.argmin(axis=1)[poor] != np.flatnonzero(poor)).any():
        # Optional at run time: only logs with poorly explained joints need it.
        from scipy.optimize import linear_sum_assignment

        columns = linear_sum_assignment(np.log(every))[1]
        moved = np.flatnonzero(columns != np.arange(robot.n)).tolist()
        if moved:
            shares = every[np.arange(robot.n), columns]
            yield _Reading(shares, len(moved) - 1, tuple(moved), partial(_claim_order, robot, columns, moved))
    for a, b in combinations(range(robot.n), 2):
        if not (poor[a] or poor[b]):
            continue
        order = np.arange(robot.n)
        order[[a, b]] = b, a
        swapped = PriorTorque.of(robot, states.q[:, order], states.dq[:, order], states.ddq[:, order])
        for tau, signals, keys in (
            (states.tau, "positions", "position and velocity"),
            (states.tau[:, order], "columns", "position, velocity and effort"),
        ):
            shares = swapped.unexplained(robot.gravity, tau)
            yield _Reading(shares, 1, (a, b), partial(_claim_exchange, robot, (a, b), signals, keys))


def all_turned(diagnostics: Diagnostics) -> bool:
    """Whether a finding (accepted or not) reports that the signs of all efforts are flipped."""
    return any(
        diagnostic.code == "torque-sign" and diagnostic.place.joint is None for diagnostic in diagnostics
    )


def _claim_compensation(robot: RobotModel, joints: Sequence[int], diagnostics: Diagnostics) -> None:
    diagnostics.claim(
        "gravity-compensated",
        found=f"torque without gravity on {listed([robot.joint_names[j] for j in joints])}",
        expected="the whole joint torque",
        do="log the measured torque without subtracting the gravity compensation",
    )


def _claim_flipped_signs(robot: RobotModel, diagnostics: Diagnostics) -> None:
    diagnostics.claim(
        "torque-sign",
        found="torque of opposite sign to that of the prior (URDF) and of friction on the joints together",
        expected="torque applied by the drives (a sensor may report its reaction)",
        do=f"set effort.sign = {{ {', '.join(f'{name} = -1' for name in robot.joint_names)} }} under [log]",
    )


def _claim_order(
    robot: RobotModel, columns: Sequence[int], moved: Sequence[int], diagnostics: Diagnostics
) -> None:
    names = robot.joint_names
    places = "; ".join(f"the torque of '{names[j]}' in the column of '{names[columns[j]]}'" for j in moved)
    diagnostics.claim(
        "joint-order",
        found=f"{places}: the prior (URDF) explains far more of the torque in this order",
        expected="columns mapped to their joints",
        do="change the order of these columns under effort in [log]",
        place=Place(joint=names[moved[0]]),
    )


def _claim_exchange(
    robot: RobotModel, joints: tuple[int, int], signals: str, keys: str, diagnostics: Diagnostics
) -> None:
    first, second = (f"'{robot.joint_names[j]}'" for j in joints)
    diagnostics.claim(
        "joint-order",
        found=f"swapped {signals} of {first} and {second}: the prior (URDF) explains far more of the torque "
        "with the swap than without",
        expected="columns mapped to their joints",
        do=f"swap their columns under {keys} in [log]",
        place=Place(joint=robot.joint_names[joints[0]]),
    )


def _claim_mounting(robot: RobotModel, gravity: Float, diagnostics: Diagnostics) -> None:
    direction = [f"{g:.4g}" for g in gravity.round(6) + 0.0]  # no -0
    diagnostics.claim(
        "tilted-base",
        found="torque of a robot with another mounting: gravity "
        f"{degrees_between(gravity, robot.gravity):.0f} degrees off the declared direction",
        expected="gravity along the declared direction",
        do=f"declare gravity in the base frame: gravity = [{', '.join(direction)}] under [robot] in the "
        f"experiment file, or --gravity={','.join(direction)}",
    )


def _claim_size(robot: RobotModel, joint: int, factor: float, diagnostics: Diagnostics) -> None:
    # A torque that is wrong by the gear ratio, within a factor of two, was declared on the wrong side of the gear.
    finding = f"torque {factor:.3g} times that of the prior (URDF)"
    ratio, place = float(abs(robot.drive.gear_ratio[joint])), Place(joint=robot.joint_names[joint])
    for power, advice in (
        (1, 'it was measured at the link: declare effort.side = "link" under [log]'),
        (-1, 'it was measured at the motor: declare effort.side = "motor" under [log]'),
        (2, "the ratio is applied twice or inverted: gear_ratio is motor turns per joint turn"),
        (-2, "the ratio is inverted: gear_ratio is motor turns per joint turn"),
    ):
        if ratio > GEARED and 0.5 < factor / ratio**power < 2.0:
            text = f"{finding}, close to {'the inverse of ' if power < 0 else ''}the gear ratio {ratio:.3g}"
            text += "" if abs(power) == 1 else " squared"
            diagnostics.claim(
                "gear-ratio-side", found=text, expected="a ratio near 1", do=advice, place=place
            )
            return
    diagnostics.claim(
        "unit-suspicion", found=finding, expected="a ratio near 1", do=size_advice(factor), place=place
    )
