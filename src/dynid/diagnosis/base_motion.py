"""A base that accelerates: of an arm on a vehicle, a platform, a swaying stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.overview import listed
from dynid.base.records import dataclass
from dynid.diagnosis.proof import CHANCE, LEAST_SHARE, chance_of_gain, gain_by_joint
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.diagnosis.wording import MATTERS
from dynid.kernel import gravity_torque
from dynid.terms.torque_delay import find_long_lag

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
