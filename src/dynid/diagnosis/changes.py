"""What changes within a log: a robot, tool or load from some time on, a base that moves, friction that warms up."""

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

# A base that accelerates: of an arm on a vehicle, a platform, a swaying stand.

# Joints whose errors have to follow from those of the others: that of one alone may follow a neighbour's by the way the
# two are driven.
LEAST_JOINTS = 2
# Expectation and maximisation in turns: sizes are then known to a few per cent, which is more than a report needs.
ROUNDS = 30
# Of a joint's error no acceleration explains this share, at least, so that no variance becomes zero.
LEAST_NOISE = 1e-3
FIRST_MOMENT = slice(1, 4)


@dataclass(frozen=True, eq=False)
class BaseMotion:
    """A base that accelerates.    rms: (3,) of its acceleration in the base's axes, m/s^2.

    by_joint: (n,) share of each joint's squared error that the other joints' errors at the same time predict.
    joints: that prove it.
    """

    rms: Float
    by_joint: Float
    joints: tuple[int, ...]


def check_base(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Warns of a base that accelerates."""
    found = find_base_motion(analysis)
    if found is None:
        return
    names = analysis.robot.joint_names
    shares = [f"{100 * found.by_joint[j]:.2g} % of that of '{names[j]}'" for j in found.joints]
    x, y, z = found.rms
    diagnostics.warn(
        "moving-base",
        f"the base accelerates, by about {x:.2g}, {y:.2g} and {z:.2g} m/s^2 (r.m.s. along its x, y and z): what the "
        f"other joints' errors tell of it predicts {listed(shares)} (mean square error, at the same moments); hold the "
        "base still while recording, or leave out the times at which it moves (window under [data])",
    )


def find_base_motion(analysis: ResidualAnalysis) -> BaseMotion | None:
    """The acceleration of the base that predicts each joint's errors from those of the others; None without one.

    A base that accelerates by a(t) is felt as gravity g - a(t): e = A(q) a(t) + noise, with A(q) = -dg(q)/dg of the
    identified bodies, (n, 3). What the other joints say of a(t) predicts a joint's error at the same time, which no
    error of a parameter or of friction does. Rivals are forces and a changing weight at each outermost body, and torque
    that is late.
    """
    if not analysis.enough or analysis.bodies is None:
        return None
    A = _per_acceleration(analysis, analysis.bodies)
    before, after, rms = _predicted_by_others(analysis, A)
    by_joint = gain_by_joint(before, after)
    proven = tuple(j for j in analysis.joints if by_joint[j] >= LEAST_SHARE)
    # Each joint by what is left of it, so that those which feel the base decide.
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
    """Torque (N, n, 3) of bodies (nb, 10) per acceleration of the base along each of its axes."""
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
    """Errors (N, n, k) of times, of accelerations, and of a force and a changing weight at each outermost body."""
    robot, bodies, motion = analysis.robot, np.asarray(analysis.bodies), analysis.motion
    still = replace(motion, dq=np.zeros_like(motion.dq), ddq=np.zeros_like(motion.dq))
    wanted = analysis.estimate.base.mask
    at_rest, _ = regressor(robot, analysis.terms, still, wanted)
    mass = np.empty((len(motion), robot.n, robot.n))
    for j in range(robot.n):
        turned = replace(still, ddq=still.ddq + np.eye(robot.n)[j])
        columns, _ = regressor(robot, analysis.terms, turned, wanted)
        mass[:, :, j] = ((columns - at_rest) @ analysis.estimate.value).T
    found = [analysis.slope[:, :, None], mass]
    up = -robot.gravity / max(float(np.linalg.norm(robot.gravity)), 1e-300)
    for body in sorted(set(range(robot.n_bodies)) - set(robot.parent.tolist())):
        unit = np.zeros_like(bodies)
        unit[body, 0] = 1.0
        if bodies[body, 0] > 0:
            unit[body, FIRST_MOMENT] = bodies[body, FIRST_MOMENT] / bodies[body, 0]
        force = _per_acceleration(analysis, unit)
        found += [force, force @ up[:, None]]
    return found


def _predicted_by_others(analysis: ResidualAnalysis, A: Float) -> tuple[Float, Float, Float]:
    """Squared errors (n, M) by joint and block before and after prediction by the other joints, and rms (k,) of a(t).

    e_t = A_t a_t + noise, a ~ N(0, S), noise ~ N(0, diag s^2), S and s by expectation-maximisation. With
    P_t = (1 + S A_t' s^-2 A_t)^-1 S and h_j = A_j P A_j' / s_j^2 the prediction without joint j leaves
    (e_j - A_j P A' s^-2 e) / (1 - h_j).    Source: Dempster, Laird and Rubin 1977; Allen 1974 (PRESS).
    """
    counted: Bool = np.asarray(~analysis.reverses)
    counted[:, [j for j in range(analysis.robot.n) if j not in analysis.joints]] = False
    e = np.where(counted, analysis.error_left, 0.0)
    number = np.maximum(counted.sum(axis=0), 1)
    total = np.sqrt((e**2).sum(axis=0) / number)
    weight = np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0)
    # Errors in units of their own size, columns in units in which they would explain it: S is about one then.
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
    """Covariance P (N, k, k) and mean (N, k) of a(t), given the errors, what it leaves of them (N, n), and A P A'."""
    scaled = (A / noise[:, None]).transpose(0, 2, 1)
    # S may be singular: no inverse of it.
    P = np.linalg.solve(np.eye(len(S)) + S @ (scaled @ A), np.broadcast_to(S, (len(e), *S.shape)))
    a = (P @ (scaled @ e[:, :, None]))[:, :, 0]
    left = np.asarray(e - (A @ a[:, :, None])[:, :, 0])
    return np.asarray(P), np.asarray(a), left, np.asarray(((A @ P) * A).sum(axis=2))


# Share by which friction may change within a log: drives that start at room temperature lose about that in a minute.
USUAL_CHANGE = 0.12
# Of a joint's torque; friction that takes less has no size that could change.
LEAST_FRICTION = 0.01
# Times its mean: friction that changed by more along a straight line would push at one end of the log.
MOST_CHANGE = 2.0
# Weights of the other part's equations, which fill in what a part is silent on.
OTHER_PART = (0.01, 0.1)
# Folds on either side of a time at which the robot may have changed, so that each part is held out in turns.
LEAST_FOLDS = 2
# Parameters of their own may follow what the model lacks: a change of the robot gains so many times as much as those of
# either half of a joint's positions or speeds.
BEYOND_PLACE = 2.0
# A drift of friction alone that gains this share of it is the simpler cause.
AS_WELL = 0.8
# A trajectory without more than this share of the other state is of one state.
PART_OF_TRAJECTORY = 0.1
# Of the log: times are found to about half of a fold.
NEAR_BEGIN = 1.0 / 16.0
# Times of a load that are named.
NAMED_TIMES = 4


@dataclass(frozen=True, eq=False)
class FrictionDrift:
    """Change of friction over a log, relative to its mean, all joints alike.    change, std: of one part of it.

    part: "viscous friction" or "dry friction".
    """

    part: str
    change: float
    std: float


@dataclass(frozen=True, eq=False)
class Change:
    """A robot that does not stay the same.    seconds: since the start, nan = it changes all the time.

    gain: share of the held-out mean square error that the change takes away, joints weighted alike.    by_joint: (n,).
    """

    seconds: float
    gain: float
    by_joint: Float


def check_changes(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Doubts that a log is of one robot throughout; reports a base that moves and friction that drifts.

    Claims: changed-within-log.
    """
    if not analysis.enough:
        return
    load, change = find_load_times(analysis), find_change(analysis)
    if load is not None:
        name = analysis.robot.body_names[load.body]
        more = ""
        if change is not None and load.gain < AS_WELL * change.gain:
            more = (
                f"; parameters of its own {_since(analysis, change)} take {100 * change.gain:.3g} %: friction or gains "
                "changed with it"
            )
        when = _times(analysis, load.held)
        do = (
            "identify with and without the load apart (train = [...] under [data], with window or trajectories), log "
            "what says when it is held (a gripper's output) as a column of its own, or declare it, where its inertia "
            "is known, by a term known_payload for its trajectories"
        )
        if load.switch is not None:
            column, (held, empty) = load.switch.column, load.when
            when = f"while column '{column}' is {held:g} (without it: {empty:g})"
            values = "" if (held, empty) == (1.0, 0.0) else f", held = {held:g}, empty = {empty:g}"
            do = (
                "estimate it beside the robot: to the mapping (`dynid init` writes one for --config) add [log.extra] "
                f'load = {{ column = "{column}", unit = "1" }} and [model] automatic = true, terms = ["rigid_body", '
                f'{{ term = "held_load", channel_name = "load", body = "{name}"{values} }}]'
            )
        diagnostics.claim(
            "changed-within-log",
            found=f"a load of {load.mass:.2g} +- {2.0 * load.std:.1g} kg on body '{name}' that is held "
            f"{100 * load.held.mean():.2g} % of the time, {when}; it takes "
            f"{100 * load.gain:.3g} % off the held-out mean square error, and constant torques at such times do not do "
            f"as well{more}",
            expected="one robot with one load throughout",
            do=do,
        )
        return
    if change is not None:
        worst = int(np.nanargmax(change.by_joint))
        diagnostics.claim(
            "changed-within-log",
            found=f"a robot that is another one {_since(analysis, change)}, which takes {100 * change.gain:.3g} % off "
            f"the held-out mean square error ({100 * change.by_joint[worst]:.3g} % of "
            f"'{analysis.robot.joint_names[worst]}'); neither friction that drifts nor what the model lacks in part of "
            "the positions and speeds does as well",
            expected="one robot with one load throughout",
            do="identify the parts by themselves (window or trajectories under [data]): a tool or a load that was "
            "taken up, a drive that was exchanged, two robots' logs in one",
        )
        return
    check_base(analysis, diagnostics)
    drift = find_friction_drift(analysis)
    if drift is not None:
        way = "falls" if drift.change < 0 else "grows"
        diagnostics.warn(
            "friction-drift",
            f"{drift.part} that {way} by {100 * abs(drift.change):.2g} +- {200 * drift.std:.1g} % over the log on all "
            "joints together: the drives warm up; warm them up before, log their temperature and add "
            "temperature_viscous, or identify warm and cold apart",
        )


def _since(analysis: ResidualAnalysis, change: Change) -> str:
    """Since when, in words: a trajectory that begins about then by its name."""
    if not np.isfinite(change.seconds):
        return "in the course of the log"
    r, t = analysis.residuals, analysis.elapsed
    trajectory = r.trajectory[analysis.index]
    begins = np.flatnonzero(np.diff(trajectory)) + 1
    near = begins[np.abs(t[begins] - change.seconds) < NEAR_BEGIN * np.ptp(t)]
    if len(near):
        return f"from trajectory '{r.trajectories[trajectory[near[0]]]}' on"
    return f"from about {change.seconds:.3g} s after the start on"


def _times(analysis: ResidualAnalysis, held: Bool) -> str:
    """When a load is held (N,), in words: trajectories by their names, or the first times on the log's clock."""
    r, index = analysis.residuals, analysis.index
    trajectory, t = r.trajectory[index], r.t[index]
    shares = {int(k): float(held[trajectory == k].mean()) for k in np.unique(trajectory)}
    if len(shares) > 1 and all(abs(share - round(share)) < PART_OF_TRAJECTORY for share in shares.values()):
        names = [f"'{r.trajectories[k]}'" for k, share in shares.items() if share > 0.5]
        return f"in trajectory {listed(names)}"
    changes = np.flatnonzero((held[1:] != held[:-1]) | (trajectory[1:] != trajectory[:-1])) + 1
    runs = [run for run in np.split(np.arange(len(held)), changes) if held[run[0]]]
    several = len(shares) > 1
    times = [
        f"{t[run[0]]:.2f} to {t[run[-1]]:.2f} s"
        + (f" of '{r.trajectories[trajectory[run[0]]]}'" if several else "")
        for run in runs[:NAMED_TIMES]
    ]
    more = f" and {len(runs) - NAMED_TIMES} times more" if len(runs) > NAMED_TIMES else ""
    return f"about from {', '.join(times)}{more}"


def find_friction_drift(analysis: ResidualAnalysis) -> FrictionDrift | None:
    """Viscous or dry friction that changes by more than is usual over the log, 95 % interval included; None otherwise.

    A straight line in time times the fitted friction of every joint, viscous and dry part apart, is tested on what the
    model leaves of the residuals. All joints together show what each by itself hardly shows; those that move in one
    part of the log alone show nothing.
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
    # Student's quantile of so many blocks, both parts counted.
    sure = float(student_quantile(int(analysis.block.max()), 1.0 - 0.5 * ALARM / len(names)))
    found = [
        FrictionDrift(name, float(size), float(std))
        for name, size, std in zip(names, test.coefficient, test.std, strict=True)
        if abs(size) > sure * std and abs(size) - 2.0 * std > USUAL_CHANGE
    ]
    if any(abs(one.change) - 2.0 * one.std > MOST_CHANGE for one in found):
        return None  # something else follows time and the direction of motion, and spoils what the other part shows
    return max(found, key=lambda one: abs(one.change) / one.std, default=None)


def _friction(analysis: ResidualAnalysis) -> dict[str, Float]:
    """The fitted friction's torque (n, N), its part that grows with speed and its dry part."""
    robot, motion = analysis.robot, analysis.motion
    mask = analysis.estimate.base.mask
    Y, _ = regressor(robot, analysis.terms, motion, mask)
    theta = np.where(analysis.terms.friction_columns(robot)[mask], analysis.estimate.value, 0.0)
    viscous, dry = np.zeros((2, robot.n, len(analysis.index)))
    for j in _throughout(analysis):
        forms = np.column_stack([motion.dq[:, j], np.sign(motion.dq[:, j])])
        size, *_ = np.linalg.lstsq(forms, Y[j] @ theta, rcond=1e-9)
        for torque, form, factor in zip((viscous, dry), forms.T, size, strict=True):
            own = factor * form
            if factor > 0 and own.std() > LEAST_FRICTION * analysis.torque_rms[j]:
                torque[j] = own
    return {"viscous friction": viscous, "dry friction": dry}


def _throughout(analysis: ResidualAnalysis) -> list[int]:
    # Of others it cannot be said what they were like before or after.
    t, dq = analysis.elapsed, analysis.motion.dq
    return [j for j in analysis.joints if moves_throughout(t, dq[:, j])]


def find_change(analysis: ResidualAnalysis) -> Change | None:
    """The change of the robot that predicts held-out blocks decisively better; None without one.

    From some time on it has parameters of its own, each fold being predicted by those of its own part of the log with
    the others at a smaller weight; or offsets, friction and sizes of torque of its own, joint by joint; or these drift.
    Rivals are friction that drifts, which is reported as such, and parameters of their own for one half of the
    positions or speeds of a joint, by which a model that lacks something gains as well. Joints that move in one part of
    the log alone have no say: nothing is known of what they were like at other times.
    """
    plain = Reading(analysis.robot, analysis.gated)
    fit, seen = HeldOut.of(analysis, plain), _throughout(analysis)
    if fit is None or max((analysis.relevance(j, 1.0) for j in seen), default=0.0) < LEAST_TORQUE:
        return None
    heard = np.isin(np.arange(analysis.robot.n), seen)[:, None]
    t = analysis.elapsed
    trend = (t - t.mean()) / max(float(np.ptp(t)), 1e-12)
    before, count = fit.error(), len(fit.parts)
    # Folds are runs of the log in order of time, or several shorter runs each where joints move one after the other.
    runs = fit.fold if (np.diff(fit.fold) >= 0).all() else np.arange(len(t)) * count // len(t)
    tried = [
        (float(t[np.flatnonzero(runs == cut)[0]]), error)
        for cut in range(LEAST_FOLDS, count - LEAST_FOLDS + 1)
        for error in _from(analysis, plain, fit, before, runs >= cut)
    ]
    tried.append((np.nan, _following(analysis, plain, before, trend, friction=False)))
    seconds, after = min(tried, key=lambda one: float((heard * one[1]).sum()))
    whole, before, after = before, heard * before, heard * after
    found = decisive(analysis, before, after, len(tried))
    if found is None:
        return None
    gain, by_joint = found
    # Logs of a cold and a warm robot: friction is another one from their border on.
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
    """Held-out squared errors (n, M) with another robot in later samples, (N,); by whole folds where these are runs."""
    part = np.array([later[fit.fold == k].mean() for k in range(len(fit.parts))])
    for other in OTHER_PART if np.isin(part, (0.0, 1.0)).all() else ():
        yield fit.error(part=part.astype(np.int64), other=other)
    yield _following(analysis, plain, before, np.where(later, 0.5, -0.5), friction=False)


def _following(
    analysis: ResidualAnalysis, plain: Reading, before: Float, course: Float, friction: bool
) -> Float:
    """Held-out squared error (n, M) with dry and viscous friction that follows a course (N,) in time.

    Joint by joint, where it gains.    friction: whether it alone does, not offsets and sizes of torque as well.
    """
    n, N, motion = analysis.robot.n, len(analysis.index), analysis.motion
    predicted = analysis.residuals.predicted[analysis.index]
    each = 2 if friction else 4
    found = np.zeros((n, N, each * n))
    for j in range(n):
        forms = (np.sign(motion.dq[:, j]), motion.dq[:, j], np.ones(N), predicted[:, j])
        found[j, :, each * j : each * (j + 1)] = course[:, None] * np.column_stack(forms[:each])
    fit = HeldOut.of(analysis, plain, found)
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
    """Held-out squared error (n, M) with parameters of their own for a half (N,) of the samples."""
    Y, _ = analysis.plain_columns
    fit = HeldOut.of(analysis, plain, Y * half[None, :, None])
    return before if fit is None else fit.error()
