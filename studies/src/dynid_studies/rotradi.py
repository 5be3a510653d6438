"""The arm of Chavez-Olivares et al. 2012: three direct drives, 21 parameters, torque trajectories, and its equations.

The equations are the paper's closed forms, so they check the general ones; where the paper errs, both forms stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynid.base import Float
from dynid.robot import Drive, JointType, Limits, RobotModel
from dynid.signals import Samples
from dynid.simulation import ForwardModel, stick_slip
from dynid.terms import Coulomb, RigidBody, Viscous

STEP, SECONDS, LENGTH, GRAVITY, COUNTS, POLE = 2.5e-3, 10.0, 0.45, 9.81, 1_024_000, 9.11
TERMS = RigidBody() + Viscous() + Coulomb()
NAMES = tuple("θ" + "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(i)) for i in range(1, 22))
JOINTS = ("base", "shoulder", "elbow")
SCHEMES = ("dynamic", "filtered dynamic", "energy", "power", "filtered power")
# Table 3, by scheme.
TABLE_3 = np.array([
    [0.479009, 4.839356, 7.009950, 2.888327, 6.898808],
    [-0.461404, -2.575465, -6.661319, -3.415853, -5.760731],
    [0.344644, 0.022786, 1.148168, -0.330842, 0.907252],
    [0.299623, 0.129456, 0.311715, 0.086156, 0.307757],
    [1.082750, -0.176323, 1.670970, 1.341880, 0.950775],
    [-0.410681, 0.203473, 0.217950, -0.021440, 0.229051],
    [-0.335658, 0.070929, 0.120283, 0.084380, 0.089418],
    [-0.028669, 0.040085, 0.139611, -0.032441, 0.138681],
    [0.277173, 0.005589, 0.252541, 0.313766, 0.179179],
    [0.722382, 1.251908, 1.135231, 0.251029, 1.241647],
    [0.110651, 0.115441, -0.992245, -1.027069, -0.517621],
    [1.224468, 2.946636, 3.095483, 0.283465, 3.039795],
    [-0.093521, 0.108159, 0.129069, -0.031523, 0.116468],
    [9.464194, 55.627596, 58.612386, 8.539072, 56.402487],
    [-0.583702, -0.272837, -0.723836, 4.162913, -0.769716],
    [7.453121, 6.641267, 4.561149, 2.281325, 5.274038],
    [6.357999, 8.185720, 10.774579, 14.299126, 9.883181],
    [4.094850, 0.914984, 0.863654, -0.146318, 1.187124],
    [6.671452, 6.292514, 3.045569, 4.220494, 3.745695],
    [0.063043, 0.406734, 0.499775, 3.760149, 0.301726],
    [-0.211661, 0.793576, 1.554679, -10.315979, 1.831335],
])  # fmt: skip
# Table 4: dynamic, energy, power, filtered power against filtered dynamic, %.
TABLE_4 = np.array([
    [-90.10, 44.85, -40.32, 42.56],
    [-82.08, 158.65, 32.63, 123.68],
    [1412.52, 4938.91, -1551.95, 3881.61],
    [131.45, 140.79, -33.45, 137.73],
    [-714.07, -1047.68, -861.04, -639.22],
    [-301.84, 7.11, -110.54, 12.57],
    [-573.23, 69.58, 18.96, 26.07],
    [-171.52, 248.29, -180.93, 245.97],
    [4859.29, 4418.58, 5514.04, 3105.94],
    [-42.30, -9.32, -79.95, -0.82],
    [-4.15, -959.52, -989.69, -548.39],
    [-58.45, 5.05, -90.38, 3.16],
    [-186.47, 19.33, -129.15, 7.68],
    [-82.99, 5.37, -84.65, 1.39],
    [113.94, 165.30, -1625.79, 182.12],
    [12.22, -31.32, -65.65, -20.59],
    [-22.33, 31.63, 74.68, 20.74],
    [347.53, -5.61, -115.99, 29.74],
    [6.02, -51.60, -32.93, -40.47],
    [-84.50, 22.87, 824.47, -25.82],
    [-126.67, 95.91, -1399.94, 130.77],
])  # fmt: skip
# Table 1: motor, greatest torque N m.
TABLE_1 = (("DM-1050", 50.0), ("DM-1150A", 150.0), ("DM-1015B", 15.0))
# Their best set, which the simulated arm has.
THETA = TABLE_3[:, 1]

Torque = Callable[[Float], Float]


def arm() -> RobotModel:
    """First joint vertical, the others horizontal; the links hang at zero."""
    T = np.tile(np.eye(4), (3, 1, 1))
    T[1, :3, :3] = [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    T[2, 0, 3] = LENGTH
    return RobotModel(
        name="rotradi",
        body_names=JOINTS,
        tree_joint_names=JOINTS,
        joint_names=JOINTS,
        parent=np.arange(3) - 1,
        joint_types=(JointType.CONTINUOUS,) * 3,
        T_parent_joint=T,
        axis=np.tile([0.0, 0.0, 1.0], (3, 1)),
        inertia_prior=np.full((3, 10), np.nan),
        gravity=np.array([0.0, 0.0, -GRAVITY]),
        limits=Limits.none(3),
        drive=Drive.direct(3),
        projection=np.eye(3),
        projection_offset=np.zeros(3),
        friction_prior=np.full((3, 2), np.nan),
    )


def full(theta: Float) -> Float:
    """One set of all 36 parameters (bodies, viscous, Coulomb) with the 21 combinations of (26), theta_12 corrected."""
    t = np.concatenate([[np.nan], theta])
    m3, L = 5.0, LENGTH  # any mass does: only combinations count
    # m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz
    first = [0.0] * 9 + [t[1] - m3 * L * L]
    h2, h3 = t[14] / GRAVITY - m3 * L, t[15] / GRAVITY
    second = [0.0, h2, h3, 0.0, t[2] + m3 * L * L, -t[3], 0.0, -t[10], t[11], t[12] - t[13] - m3 * L * L]
    third = [m3, t[6], t[7], 0.0, t[5], -t[4], 0.0, -t[8], t[9], t[13]]
    return np.concatenate([first, second, third, t[[16, 18, 20]], t[[17, 19, 21]]])


def lift() -> Float:
    """Matrix (36, 21) from the 21 combinations to full parameters, up to what has no effect."""
    return np.stack([full(column) - full(np.zeros(21)) for column in np.eye(21)], axis=1)


def phases(seed: int) -> Float:
    """The six random phases of (30) to (32), rad."""
    low, high = np.array([-5, -35, -50, 40, 5, -30]), np.array([45, 35, 0, 100, 35, 30])
    return np.deg2rad(np.random.default_rng(seed).uniform(low, high))


def exciting(phase: Float) -> Torque:
    """Equations (30) to (32): t (T,) -> (T, 3) N m."""
    c, s, pi = np.cos, np.sin, np.pi

    def law(t: Float) -> Float:
        base = 34 * c(1.26 * pi * t + phase[0]) * c(0.9 * pi * t) + 15 * c(2.306 * pi * t + phase[1])
        shoulder = (
            -28 * np.exp(-1.8 * t) + 30 * c(1.2 * pi * t) * c(pi * t) + 10 * s(3.12 * pi * t + phase[2])
        )
        shoulder += 7.5 * s(5.8 * pi * t + phase[3]) + 15 * s(2.4 * pi * t + phase[4])
        elbow = -2 * c(1.2 * pi * t) * c(pi * t) - 1.65 * s(2.58 * pi * t + phase[5])
        return np.stack([base, shoulder, elbow], axis=1)

    return law


def unseen(t: Float) -> Float:
    """Equations (40) to (42): t (T,) -> (T, 3) N m."""
    c, s, pi = np.cos, np.sin, np.pi
    base = 30 * s(2.4 * pi * t) - 6 * c(0.4 * pi * t)
    return np.stack([base, -29 * c(2.1 * pi * t), 3 * c(1.8 * pi * t)], axis=1)


def truth(law: Torque, theta: Float = THETA, seconds: float = SECONDS) -> Samples:
    """The arm's motion from rest, torque held from sample to sample: exact positions and velocities, no noise."""
    t = STEP * np.arange(round(seconds / STEP) + 2, dtype=np.float64)
    tau = law(t)
    run = stick_slip(ForwardModel(arm(), TERMS, full(theta)), np.zeros(3), np.zeros(3), tau, 1 / STEP, "zero")
    return Samples.from_motion(run.q, run.dq, np.zeros_like(run.q), tau, 1 / STEP)


def measured(run: Samples, backward: bool = False, counts: float = COUNTS) -> Samples:
    """What encoders make of a motion: counts, velocity and acceleration by differences, backward or central."""
    q = np.round(run.q * counts / (2 * np.pi)) * 2 * np.pi / counts
    if backward:
        dq = np.diff(q, axis=0, prepend=q[:1]) / STEP
        ddq = np.diff(dq, axis=0, prepend=dq[:1]) / STEP
    else:
        dq = np.gradient(q, STEP, axis=0)
        dq[0] = 0.0  # the arm starts from rest
        ddq = np.gradient(dq, STEP, axis=0)
    return replace(run, q=q, dq=dq, ddq=ddq)
