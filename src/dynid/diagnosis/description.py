"""Identified bodies against those of the description: a load that it does not know, torque of another size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from dynid.base.arrays import Bool, Float
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.tilt import identified_bodies
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.spatial.inertia import from_com, to_com
from dynid.terms.term import Of

# What is known of a described body: mass and inertia to 30 %, its centre to 30 % and 2 cm.
UNSURE, UNSURE_CENTRE = 0.3, 0.02
SHORTEST = 0.3
# Of the greatest, the described swing of gravity torque from which on a joint shows the bodies' scale.
HEAVY_SWING = 0.1


@dataclass(frozen=True)
class Load:
    """A load on a body that the description lacks.    mass, std: kg.    p_value: of no load at all.

    explained: share of the distance between description and estimate that it explains, 0 to 1.
    """

    body: str
    mass: float
    std: float
    p_value: float
    explained: float


def size_against_description(evidence: ResidualAnalysis) -> Float | None:
    """(n,) factor from the described bodies' torque to the identified bodies'; nan where the two do not look alike.

    None without a description of every body.
    """
    robot, bodies = evidence.robot, identified_bodies(evidence)
    if bodies is None or not np.isfinite(robot.inertia_prior).all():
        return None
    q, dq, ddq = robot.tree_motion(evidence.motion.q, evidence.motion.dq, evidence.motion.ddq)
    ours, described = (
        inverse_dynamics(robot.tree, body, q, dq, ddq) @ robot.projection
        for body in (bodies, robot.inertia_prior)
    )
    ours, described = ours - ours.mean(axis=0), described - described.mean(axis=0)
    product = (ours * described).sum(axis=0)
    squares = (ours**2).sum(axis=0), (described**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = product**2 / (squares[0] * squares[1])
        return np.where((alike > 0.5) & (product > 0), product / squares[1], np.nan)


@dataclass(frozen=True)
class CommonScale:
    """One factor between described and identified gravity torque.

    factor: of all joints together.    explained: share of their distance that it explains, 0 to 1.
    spread: greatest deviation of a joint's own factor from it, as a share.
    """

    factor: float
    explained: float
    spread: float


def common_scale(evidence: ResidualAnalysis) -> CommonScale | None:
    """The one factor that brings the described bodies' gravity torque closest to the identified ones'.

    Gravity torque alone is free of rotors. Joints count whose described gravity torque swings by a fifth of the
    greatest and that no spring may carry. None without two such joints, or without a description of every body.
    """
    robot, bodies = evidence.robot, identified_bodies(evidence)
    if bodies is None or not np.isfinite(robot.inertia_prior).all():
        return None
    q = robot.tree_motion(evidence.motion.q, evidence.motion.dq, evidence.motion.ddq)[0]
    ours, described = (
        gravity_torque(robot.tree, body, q) @ robot.projection for body in (bodies, robot.inertia_prior)
    )
    ours, described = ours - ours.mean(axis=0), described - described.mean(axis=0)
    swing = described.std(axis=0)
    heavy = (swing > HEAVY_SWING * swing.max(initial=0.0)) & ~evidence.terms.balances(robot)
    heavy &= np.isin(np.arange(robot.n), evidence.joints)
    if heavy.sum() < 2 or not swing.any():
        return None
    a, b = (torque[:, heavy] / swing[heavy] for torque in (ours, described))
    factor = float((a * b).sum() / (b * b).sum())
    own = (a * b).sum(axis=0) / (b * b).sum(axis=0)
    apart = float(((a - b) ** 2).sum())
    left = float(((a - factor * b) ** 2).sum())
    spread = float(np.abs(own / factor - 1.0).max())
    return CommonScale(factor, 1.0 - left / max(apart, 1e-300), spread)


def heaviness(evidence: ResidualAnalysis) -> float | None:
    """Least mass that gravity's torque takes, over the cube of the arm's length, kg/m^3; None without bodies or length.

    A torque g(q) on a joint takes a mass of g / (9.81 length) at the arm's end. Arms from 6 to 300 kg of payload lie
    between 2 and 12 kg/m^3, since what bears them grows with them.
    """
    robot, bodies = evidence.robot, identified_bodies(evidence)
    lengths = np.linalg.norm(robot.T_parent_joint[1:, :3, 3], axis=1)
    slides = sum(float(np.ptp(evidence.motion.q[:, j])) for j in range(robot.n) if robot.prismatic[j])
    length, g = float(lengths.sum()) + slides, float(np.linalg.norm(robot.gravity))
    if bodies is None or length < SHORTEST or g == 0:
        return None
    q = robot.tree_motion(evidence.motion.q, evidence.motion.dq, evidence.motion.ddq)[0]
    torque = gravity_torque(robot.tree, bodies, q) @ robot.projection
    # A slide carries the mass itself, without a lever.
    arms = np.where(robot.prismatic, 1.0, length)
    return float((np.abs(torque).max(axis=0) / (g * arms)).max() / length**3)


def find_load(evidence: ResidualAnalysis) -> Load | None:
    """The load on one of the outermost bodies that brings description and estimate closest together.

    With d = beta - B pi0 the distance in base parameters, C = cov(beta) + B S B' what is to be expected of it (S: how
    well a description is known), a load pi on a body with columns J of B is the least-squares solution of J pi = d in
    the metric of C; its gain is tested against chi-square with ten degrees of freedom.
    None without a description of every body or without rigid bodies.
    """
    robot, estimate = evidence.robot, evidence.estimate
    rigid = _rigid_columns(evidence)
    if rigid is None or not np.isfinite(robot.inertia_prior).all() or (robot.inertia_prior[:, 0] <= 0).any():
        return None
    B = estimate.base.B
    # Base parameters that rotors or friction share say nothing of bodies alone.
    pure = ~np.any(B[:, ~rigid], axis=1)
    if not pure.any():
        return None
    B = B[:, rigid][pure]
    distance = estimate.value[pure] - B @ robot.inertia_prior.ravel()
    spread = np.zeros((B.shape[1], B.shape[1]))
    for i, body in enumerate(robot.inertia_prior):
        spread[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = _unsure(body)
    C = estimate.covariance[np.ix_(pure, pure)] + B @ spread @ B.T
    scale = np.sqrt(np.diag(C))
    scale = np.where(scale > 0, scale, 1.0)
    C, d = C / np.outer(scale, scale), distance / scale
    # A little of its own for every direction, so that no exact agreement is asked of a description.
    C += 1e-6 * np.eye(len(C))
    found = [_load(evidence, C, d, B / scale[:, None], body) for body in _outermost(evidence)]
    return min(found, key=lambda one: one.p_value, default=None)


def _load(evidence: ResidualAnalysis, C: Float, d: Float, B: Float, body: int) -> Load:
    J = B[:, 10 * body : 10 * body + 10]
    heavy = max(float(evidence.robot.inertia_prior[:, 0].sum()), 1e-6)
    size = heavy * np.array([1.0, *(0.5,) * 3, *(0.25,) * 6])
    J = J * size
    weighted = np.linalg.solve(C, np.column_stack([J, d]))
    A = J.T @ weighted[:, :10] + np.eye(10)
    score = J.T @ weighted[:, 10]
    inverse = np.linalg.inv(A)
    load = inverse @ score
    gain = float(score @ load)
    return Load(
        evidence.robot.body_names[body],
        float(size[0] * load[0]),
        float(size[0] * np.sqrt(inverse[0, 0])),
        float(chdtrc(10, max(gain, 0.0))),
        gain / max(float(d @ weighted[:, 10]), 1e-300),
    )


def _unsure(body: Float) -> Float:
    # Covariance (10, 10) of a described body: its scale, its centre, its inertia.
    mass, com, inertia = to_com(body)
    parts = [UNSURE * body]
    for axis in range(3):
        moved = com.copy()
        moved[axis] += 1e-4
        slope = (from_com(mass, moved, inertia) - body) / 1e-4
        parts.append(slope * np.hypot(UNSURE * com[axis], UNSURE_CENTRE))
    own = UNSURE * float(np.trace(inertia)) / 3
    extra = np.diag([0.0] * 4 + [own**2] * 6)
    return np.asarray(sum((np.outer(part, part) for part in parts), start=extra))


def _rigid_columns(evidence: ResidualAnalysis) -> Bool | None:
    found = np.array([column.of is Of.BODY for column in evidence.estimate.columns])
    return found if np.count_nonzero(found) == 10 * evidence.robot.n_bodies else None


def _outermost(evidence: ResidualAnalysis) -> list[int]:
    parents = set(evidence.robot.parent.tolist())
    return [i for i in range(evidence.robot.n_bodies) if i not in parents]
