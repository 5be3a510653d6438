"""Changes within a log: another robot, tool or load from some time on, a moving base, friction drift from warming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.numerics import student_quantile
from dynid.base.records import dataclass, listed
from dynid.diagnosis.load_times import find_load_times
from dynid.diagnosis.proof import (
    CHANCE,
    LEAST_TORQUE,
    HeldOut,
    Reading,
    chance_of_gain,
    decisive,
    gain_by_joint,
    gain_of,
)
from dynid.diagnosis.proof import PROOF_LEAST_SHARE as LEAST_SHARE
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.diagnosis.wording import MATTERS
from dynid.kernel import gravity_torque
from dynid.terms.residual_tests import ALARM, moves_throughout
from dynid.terms.torque_delay import find_long_lag

# Base acceleration, for example of an arm on a vehicle, a platform or a swaying stand.

# Least number of joints whose errors the other joints predict: the error of a single joint may be correlated with a
# neighbour's error through a shared drive.
LEAST_JOINTS = 2
# Iterations of expectation-maximisation. They give the rms acceleration to a few percent.
ROUNDS = 30
# Least share of noise in a joint's squared error, so that no variance becomes zero.
LEAST_NOISE = 1e-3
FIRST_MOMENT = slice(1, 4)


@dataclass(frozen=True, eq=False)
class BaseMotion:
    """Acceleration of the base.

    Attributes
    ----------
    rms : ndarray, shape (3,)
        rms acceleration along the base axes, m/s^2.
    by_joint : ndarray, shape (n,)
        Share of each joint's squared error that the simultaneous errors of the other joints predict.
    joints : tuple of int
        Joints that prove the acceleration.

    """

    rms: Float
    by_joint: Float
    joints: tuple[int, ...]


def check_base(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Warn if the base accelerates."""
    motion = find_base_motion(analysis)
    if motion is None:
        return
    names = analysis.robot.joint_names
    shares = [f"{100 * motion.by_joint[j]:.2g} % for '{names[j]}'" for j in motion.joints]
    x, y, z = motion.rms
    diagnostics.warn(
        "moving-base",
        f"the base accelerates, by about {x:.2g}, {y:.2g} and {z:.2g} m/s^2 (rms along its x, y and z): the "
        f"simultaneous errors of the other joints predict this share of the mean square error: {listed(shares)}; keep "
        "the base still while recording, or exclude the times at which it moves (window under [data])",
    )


def find_base_motion(analysis: ResidualAnalysis) -> BaseMotion | None:
    """Find an acceleration of the base that predicts each joint's error from the errors of the other joints.

    A base acceleration a(t) acts like gravity g - a(t): e = A(q) a(t) + noise, with A(q) = -dg(q)/dg of the identified
    links, (n, 3). The estimate of a(t) from the other joints predicts a joint's error at the same time; errors of
    parameters or friction do not. Rivals are forces and a changing weight at each outermost link, and late torque.

    Returns
    -------
    BaseMotion or None
        None if there is no proof of an acceleration.

    """
    if not analysis.enough or analysis.bodies is None:
        return None
    A = _per_acceleration(analysis, analysis.bodies)
    before, after, rms = _predicted_by_others(analysis, A)
    by_joint = gain_by_joint(before, after)
    proven = tuple(j for j in analysis.joints if by_joint[j] >= LEAST_SHARE)
    # Weight each joint by the inverse of its remaining error, so that the joints sensitive to the base decide.
    left = after.sum(axis=1)
    weight = np.where(left > 0, 1.0 / np.where(left > 0, left, 1.0), 0.0)
    if (
        len(proven) < LEAST_JOINTS
        or max(analysis.relevance(j, float(by_joint[j])) for j in proven) < MATTERS
        or chance_of_gain(weight @ before, weight @ after) > CHANCE
    ):
        return None
    for rival in _rivals(analysis):
        _, imitated, _ = _predicted_by_others(analysis, rival)
        if imitated.sum() <= after.sum():
            return None
    return None if find_long_lag(analysis) else BaseMotion(rms, by_joint, proven)


def _per_acceleration(analysis: ResidualAnalysis, bodies: Float) -> Float:
    """Torque (N, n, 3) of links (nb, 10) per unit acceleration of the base along each axis."""
    robot, motion = analysis.robot, analysis.motion
    q, _, _ = robot.tree_motion(motion.q, motion.dq, motion.ddq)
    return np.stack(
        [
            gravity_torque(replace(robot, gravity=-axis).tree, bodies, q) @ robot.projection
            for axis in np.eye(3)
        ],
        axis=2,
    )


def _rivals(analysis: ResidualAnalysis) -> list[Float]:
    """Torque (N, n, k) of rivals: late torque, wrong accelerations, force and changing weight at outermost links."""
    robot, bodies, motion = analysis.robot, np.asarray(analysis.bodies), analysis.motion
    still = replace(motion, dq=np.zeros_like(motion.dq), ddq=np.zeros_like(motion.dq))
    wanted = analysis.estimate.base.mask
    at_rest, _ = regressor(robot, analysis.terms, still, wanted)
    mass = np.empty((len(motion), robot.n, robot.n))
    for j in range(robot.n):
        turned = replace(still, ddq=still.ddq + np.eye(robot.n)[j])
        columns, _ = regressor(robot, analysis.terms, turned, wanted)
        mass[:, :, j] = ((columns - at_rest) @ analysis.estimate.value).T
    rivals = [analysis.slope[:, :, None], mass]
    up = -robot.gravity / max(float(np.linalg.norm(robot.gravity)), 1e-300)
    for body in sorted(set(range(robot.n_bodies)) - set(robot.parent.tolist())):
        unit = np.zeros_like(bodies)
        unit[body, 0] = 1.0
        if bodies[body, 0] > 0:
            unit[body, FIRST_MOMENT] = bodies[body, FIRST_MOMENT] / bodies[body, 0]
        force = _per_acceleration(analysis, unit)
        rivals += [force, force @ up[:, None]]
    return rivals


def _predicted_by_others(analysis: ResidualAnalysis, A: Float) -> tuple[Float, Float, Float]:
    """Predict the error of each joint from the other joints by leave-one-out regression.

    The model is e_t = A_t a_t + noise with a ~ N(0, S) and noise ~ N(0, diag s^2); S and s follow from
    expectation-maximisation. With P_t = (1 + S A_t' s^-2 A_t)^-1 S and h_j = A_j P A_j' / s_j^2, the residual of the
    prediction without joint j is (e_j - A_j P A' s^-2 e) / (1 - h_j).

    Source: Dempster, Laird and Rubin 1977; Allen 1974 (PRESS).

    Returns
    -------
    before, after : ndarray, shape (n, M)
        Squared error per joint and block, before and after the prediction.
    rms : ndarray, shape (k,)
        rms of a(t).

    """
    counted: Bool = np.asarray(~analysis.reverses)
    counted[:, [j for j in range(analysis.robot.n) if j not in analysis.joints]] = False
    e = np.where(counted, analysis.error_left, 0.0)
    number = np.maximum(counted.sum(axis=0), 1)
    total = np.sqrt((e**2).sum(axis=0) / number)
    weight = np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0)
    # Scale errors to unit rms and columns to unit size, so that S is close to the identity.
    e, A = e * weight, A * (counted * weight)[:, :, None]
    size = np.sqrt((A**2).sum(axis=1).mean(axis=0))
    A = A / np.where(size > 0, size, np.inf)
    S, noise = np.eye(len(size)), np.full(len(weight), 0.5)
    for _ in range(ROUNDS):
        P, a, left, spread = _posterior(A, e, noise, S)
        S = (a.T @ a + P.sum(axis=0)) / len(e)
        noise = np.maximum((left**2 + spread).sum(axis=0) / number, LEAST_NOISE)
    _, _, left, spread = _posterior(A, e, noise, S)
    alone = left / np.maximum(1.0 - spread / noise, LEAST_NOISE)
    count = int(analysis.block.max()) + 1
    before, after = (
        np.array([np.bincount(analysis.block, column**2, minlength=count) for column in error.T])
        for error in (e, alone)
    )
    return before, after, np.sqrt(np.diag(S)) / np.where(size > 0, size, np.inf)


def _posterior(A: Float, e: Float, noise: Float, S: Float) -> tuple[Float, Float, Float, Float]:
    """Posterior covariance P (N, k, k) and mean (N, k) of a(t), residuals (N, n), and diagonal of A P A' (N, n)."""
    scaled = (A / noise[:, None]).transpose(0, 2, 1)
    # S can be singular, so avoid its inverse.
    P = np.linalg.solve(np.eye(len(S)) + S @ (scaled @ A), np.broadcast_to(S, (len(e), *S.shape)))
    a = (P @ (scaled @ e[:, :, None]))[:, :, 0]
    left = np.asarray(e - (A @ a[:, :, None])[:, :, 0])
    return np.asarray(P), np.asarray(a), left, np.asarray(((A @ P) * A).sum(axis=2))


# Usual relative change of friction within a log: drives that start at room temperature lose about this in a minute.
USUAL_CHANGE = 0.12
# Friction below this share of a joint's torque is too small to show a drift.
LEAST_FRICTION = 0.01
# Largest linear change relative to the mean: above 2, friction would have to drive the joint at one end of the log.
MOST_CHANGE = 2.0
# Weights of the equations from the other part of the log, for parameters that the present part does not determine.
OTHER_PART = (0.01, 0.1)
# Least number of folds on either side of a change, so that each part can be held out in turn.
LEAST_FOLDS = 2
# Separate parameters can also compensate for modelling errors: a change of the robot must gain this many times as much
# as separate parameters for half of a joint's positions or speeds.
BEYOND_PLACE = 2.0
# If friction drift alone achieves this share of the gain, it is the simpler explanation.
AS_WELL = 0.8
# A trajectory counts as entirely in one state if the other state takes at most this share of it.
PART_OF_TRAJECTORY = 0.1
# Times of changes are accurate to about half a fold, which is this share of the log.
NEAR_BEGIN = 1.0 / 16.0
# Most intervals with load that a message lists.
NAMED_TIMES = 4


@dataclass(frozen=True, eq=False)
class FrictionDrift:
    """Change of friction over a log, common to all joints.

    Attributes
    ----------
    part : str
        "viscous friction" or "dry friction".
    change, std : float
        Change from the beginning to the end of the log, relative to the mean, and its standard deviation.

    """

    part: str
    change: float
    std: float


@dataclass(frozen=True, eq=False)
class Change:
    """Change of the robot within a log.

    Attributes
    ----------
    seconds : float
        Time of the change since the start, s; nan for a gradual change.
    gain : float
        Relative reduction of the held-out mean square error, with equal joint weights.
    by_joint : ndarray, shape (n,)
        Relative reduction per joint.

    """

    seconds: float
    gain: float
    by_joint: Float


def check_changes(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Claim changed-within-log if the robot or its load changes; warn of a moving base and of friction drift."""
    if not analysis.enough:
        return
    load, change = find_load_times(analysis), find_change(analysis)
    if load is not None:
        name = analysis.robot.body_names[load.body]
        more = ""
        if change is not None and load.gain < AS_WELL * change.gain:
            more = (
                f"; separate parameters {_since(analysis, change)} lower it by {100 * change.gain:.3g} %: friction or "
                "gains changed, too"
            )
        when = _times(analysis, load.held)
        do = (
            "identify the times with and without the load separately (train = [...] under [data], with window or "
            "trajectories), log a signal that shows the load (a gripper output) as a column, or, if its inertia is "
            "known, declare a term known_payload for its trajectories"
        )
        if load.switch is not None:
            column, (with_load, empty) = load.switch.column, load.when
            when = f"while column '{column}' is {with_load:g} (without it: {empty:g})"
            values = "" if (with_load, empty) == (1.0, 0.0) else f", held = {with_load:g}, empty = {empty:g}"
            do = (
                "estimate it with the robot: to the mapping (`dynid init` writes it for --config) add [log.extra] "
                f'load = {{ column = "{column}", unit = "1" }} and [model] automatic = true, terms = ["rigid_body", '
                f'{{ term = "held_load", channel_name = "load", body = "{name}"{values} }}]'
            )
        diagnostics.claim(
            "changed-within-log",
            found=f"a load of {load.mass:.2g} +- {2.0 * load.std:.1g} kg on link '{name}' for "
            f"{100 * load.held.mean():.2g} % of the time, {when}; it lowers the held-out mean square error by "
            f"{100 * load.gain:.3g} %, more than constant torques at these times{more}",
            expected="one robot with one load throughout",
            do=do,
        )
        return
    if change is not None:
        worst = int(np.nanargmax(change.by_joint))
        diagnostics.claim(
            "changed-within-log",
            found=f"the robot changes {_since(analysis, change)}: separate parameters lower the held-out mean square "
            f"error by {100 * change.gain:.3g} % ({100 * change.by_joint[worst]:.3g} % for "
            f"'{analysis.robot.joint_names[worst]}'); neither friction drift nor modelling errors in part of "
            "the positions and speeds explain as much",
            expected="one robot with one load throughout",
            do="identify the parts separately (window or trajectories under [data]); usual causes are a tool or load "
            "that was picked up, a replaced drive, or logs of two robots in one",
        )
        return
    check_base(analysis, diagnostics)
    drift = find_friction_drift(analysis)
    if drift is not None:
        way = "falls" if drift.change < 0 else "grows"
        diagnostics.warn(
            "friction-drift",
            f"{drift.part} {way} by {100 * abs(drift.change):.2g} +- {200 * drift.std:.1g} % over the log on all "
            "joints together: the drives warm up; warm them up before recording, or log their temperature and add "
            "temperature_viscous, or identify cold and warm drives separately",
        )


def _since(analysis: ResidualAnalysis, change: Change) -> str:
    """Describe the time of a change, by the name of the trajectory if one begins about then."""
    if not np.isfinite(change.seconds):
        return "gradually during the log"
    r, t = analysis.residuals, analysis.elapsed
    trajectory = r.trajectory[analysis.index]
    begins = np.flatnonzero(np.diff(trajectory)) + 1
    near = begins[np.abs(t[begins] - change.seconds) < NEAR_BEGIN * np.ptp(t)]
    if len(near):
        return f"from trajectory '{r.trajectories[trajectory[near[0]]]}' on"
    return f"from about {change.seconds:.3g} s after the start on"


def _times(analysis: ResidualAnalysis, with_load: Bool) -> str:
    """Describe when the load is present (N,): names of trajectories, or the first intervals on the log's clock."""
    r, index = analysis.residuals, analysis.index
    trajectory, t = r.trajectory[index], r.t[index]
    shares = {int(k): float(with_load[trajectory == k].mean()) for k in np.unique(trajectory)}
    if len(shares) > 1 and all(abs(share - round(share)) < PART_OF_TRAJECTORY for share in shares.values()):
        names = [f"'{r.trajectories[k]}'" for k, share in shares.items() if share > 0.5]
        return f"in trajectory {listed(names)}"
    changes = np.flatnonzero((with_load[1:] != with_load[:-1]) | (trajectory[1:] != trajectory[:-1])) + 1
    runs = [run for run in np.split(np.arange(len(with_load)), changes) if with_load[run[0]]]
    several = len(shares) > 1
    times = [
        f"{t[run[0]]:.2f} to {t[run[-1]]:.2f} s"
        + (f" of '{r.trajectories[trajectory[run[0]]]}'" if several else "")
        for run in runs[:NAMED_TIMES]
    ]
    more = f" and {len(runs) - NAMED_TIMES} more intervals" if len(runs) > NAMED_TIMES else ""
    return f"from about {', '.join(times)}{more}"


def find_friction_drift(analysis: ResidualAnalysis) -> FrictionDrift | None:
    """Find a change of viscous or dry friction that exceeds the usual change over the log; None otherwise.

    The features are linear in time and proportional to the fitted friction, separately for the viscous and the dry
    part. All joints are tested together because the effect on a single joint is small. Joints that move in only one
    part of the log are ignored. The lower limit of the change, two standard deviations below it, must exceed
    USUAL_CHANGE.
    """
    t = analysis.elapsed
    if not np.ptp(t) > 0:
        return None
    trend = (t - t.mean()) / np.ptp(t)
    parts = _friction(analysis)
    names = [name for name, torque in parts.items() if torque.any()]
    if not names:
        return None
    test = analysis.test_features(np.stack([trend * parts[name] for name in names], axis=2))
    if test is None:
        return None
    # Student's quantile for the number of blocks, with Bonferroni correction for the two parts.
    sure = float(student_quantile(int(analysis.block.max()), 1.0 - 0.5 * ALARM / len(names)))
    drifts = [
        FrictionDrift(name, float(size), float(std))
        for name, size, std in zip(names, test.coefficient, test.std, strict=True)
        if abs(size) > sure * std and abs(size) - 2.0 * std > USUAL_CHANGE
    ]
    if any(abs(drift.change) - 2.0 * drift.std > MOST_CHANGE for drift in drifts):
        return None  # another effect follows time and the direction of motion, and biases the other part
    return max(drifts, key=lambda drift: abs(drift.change) / drift.std, default=None)


def _friction(analysis: ResidualAnalysis) -> dict[str, Float]:
    """Torque (n, N) of the fitted friction, split into viscous and dry parts."""
    robot, motion = analysis.robot, analysis.motion
    mask = analysis.estimate.base.mask
    Y, _ = regressor(robot, analysis.terms, motion, mask)
    theta = np.where(analysis.terms.friction_columns(robot)[mask], analysis.estimate.value, 0.0)
    viscous, dry = np.zeros((2, robot.n, len(analysis.index)))
    for j in _throughout(analysis):
        forms = np.column_stack([motion.dq[:, j], np.sign(motion.dq[:, j])])
        size, *_ = np.linalg.lstsq(forms, Y[j] @ theta, rcond=1e-9)
        for torque, form, factor in zip((viscous, dry), forms.T, size, strict=True):
            part_torque = factor * form
            if factor > 0 and part_torque.std() > LEAST_FRICTION * analysis.torque_rms[j]:
                torque[j] = part_torque
    return {"viscous friction": viscous, "dry friction": dry}


def _throughout(analysis: ResidualAnalysis) -> list[int]:
    # Joints that move throughout the log. The state of other joints at other times is not known.
    t, dq = analysis.elapsed, analysis.motion.dq
    return [j for j in analysis.joints if moves_throughout(t, dq[:, j])]


def find_change(analysis: ResidualAnalysis) -> Change | None:
    """Find a change of the robot that predicts held-out blocks decisively better; None otherwise.

    The candidates are: separate parameters before and after a time, where the other part of the log counts with a
    smaller weight in training; separate offsets, friction and torque scale of each joint before and after a time; and
    a linear drift of these. Rivals are friction drift, which is reported separately, and separate parameters for half
    of the positions or speeds of a joint, which also gain if the model is incomplete. Joints that move in only one part
    of the log are ignored, because their state at other times is not known.
    """
    plain = Reading(analysis.robot, analysis.gated)
    fit, seen = HeldOut.of(analysis, plain), _throughout(analysis)
    if fit is None or max((analysis.relevance(j, 1.0) for j in seen), default=0.0) < LEAST_TORQUE:
        return None
    heard = np.isin(np.arange(analysis.robot.n), seen)[:, None]
    t = analysis.elapsed
    trend = (t - t.mean()) / max(float(np.ptp(t)), 1e-12)
    before, count = fit.error(), len(fit.parts)
    # A fold is one run of the log; if the joints move one after the other, a fold consists of several shorter runs.
    runs = fit.fold if (np.diff(fit.fold) >= 0).all() else np.arange(len(t)) * count // len(t)
    tried = [
        (float(t[np.flatnonzero(runs == cut)[0]]), error)
        for cut in range(LEAST_FOLDS, count - LEAST_FOLDS + 1)
        for error in _from(analysis, plain, fit, before, runs >= cut)
    ]
    tried.append((np.nan, _following(analysis, plain, before, trend, friction=False)))
    seconds, after = min(tried, key=lambda candidate: float((heard * candidate[1]).sum()))
    whole, before, after = before, heard * before, heard * after
    gains = decisive(analysis, before, after, len(tried))
    if gains is None:
        return None
    gain, by_joint = gains
    # Friction may drift, or jump at the border between logs of a cold and a warm robot.
    courses = [trend] if np.isnan(seconds) else [trend, np.where(t >= seconds, 0.5, -0.5)]
    if any(
        gain_of(before, heard * _following(analysis, plain, whole, course, friction=True)) > AS_WELL * gain
        for course in courses
    ):
        return None
    if any(
        BEYOND_PLACE * gain_of(before, heard * _apart(analysis, plain, whole, half)) > gain
        for half in _halves(analysis)
    ):
        return None
    return Change(seconds, gain, by_joint)


def _from(
    analysis: ResidualAnalysis, plain: Reading, fit: HeldOut, before: Float, later: Bool
) -> Iterator[Float]:
    """Yield held-out squared errors (n, M) with separate parameters for the later samples (N,).

    Errors with separate parameters for whole folds are included if the change lies between folds.
    """
    part = np.array([later[fit.fold == k].mean() for k in range(len(fit.parts))])
    for other in OTHER_PART if np.isin(part, (0.0, 1.0)).all() else ():
        yield fit.error(part=part.astype(np.int64), other=other)
    yield _following(analysis, plain, before, np.where(later, 0.5, -0.5), friction=False)


def _following(
    analysis: ResidualAnalysis, plain: Reading, before: Float, course: Float, friction: bool
) -> Float:
    """Held-out squared error (n, M) with friction proportional to a time course (N,), for the joints that gain.

    If `friction` is False, the offset and the torque scale of each joint follow the course, too.
    """
    n, N, motion = analysis.robot.n, len(analysis.index), analysis.motion
    predicted = analysis.residuals.predicted[analysis.index]
    each = 2 if friction else 4
    features = np.zeros((n, N, each * n))
    for j in range(n):
        forms = (np.sign(motion.dq[:, j]), motion.dq[:, j], np.ones(N), predicted[:, j])
        features[j, :, each * j : each * (j + 1)] = course[:, None] * np.column_stack(forms[:each])
    fit = HeldOut.of(analysis, plain, features)
    return before if fit is None else fit.joined(before, n)


def _halves(analysis: ResidualAnalysis) -> list[Bool]:
    """Samples (N,) in the upper half of each joint's positions, and of its speeds."""
    motion = analysis.motion
    return [
        values[:, j] > np.median(values[:, j])
        for values in (motion.q, np.abs(motion.dq))
        for j in analysis.joints
    ]


def _apart(analysis: ResidualAnalysis, plain: Reading, before: Float, half: Bool) -> Float:
    """Held-out squared error (n, M) with separate parameters for half (N,) of the samples."""
    Y, _ = analysis.plain_columns
    fit = HeldOut.of(analysis, plain, Y * half[None, :, None])
    return before if fit is None else fit.error()
