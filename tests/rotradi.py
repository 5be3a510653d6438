"""The benchmark of Chavez-Olivares et al. 2012: a direct-drive arm of three joints under held torque."""

from __future__ import annotations

import numpy as np

from dynid.kernel import equations_of_motion
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.signals.samples import Samples
from dynid.terms import Coulomb, RigidBody, Viscous

STEP, SUBSTEPS, SECONDS, LENGTH, GRAVITY, COUNTS = 2.5e-3, 4, 10.0, 0.45, 9.81, 1_024_000
TERMS = RigidBody() + Viscous() + Coulomb()
# Their filtered-dynamic set, Table 3.
THETA = np.array(
    [4.839356, -2.575465, 0.022786, 0.129456, -0.176323, 0.203473, 0.070929, 0.040085, 0.005589, 1.251908, 0.115441,
     2.946636, 0.108159, 55.627596, -0.272837, 6.641267, 8.185720, 0.914984, 6.292514, 0.406734, 0.793576]
)  # fmt: skip


def arm() -> RobotModel:
    """First joint vertical, the others horizontal; the links hang at zero."""
    T = np.tile(np.eye(4), (3, 1, 1))
    T[1, :3, :3] = [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    T[2, 0, 3] = LENGTH
    names = ("base", "shoulder", "elbow")
    return RobotModel(
        name="rotradi",
        body_names=names,
        tree_joint_names=names,
        joint_names=names,
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


def parameters() -> np.ndarray:
    """Bodies (one choice with the published combinations), viscous and Coulomb friction, (36,)."""
    t = np.concatenate([[np.nan], THETA])
    m3, L = 5.0, LENGTH
    # m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz
    one = [0.0] * 9 + [t[1] - m3 * L * L]
    h2 = t[14] / GRAVITY - m3 * L
    two = [
        0.0,
        h2,
        t[15] / GRAVITY,
        0.0,
        t[2] + m3 * L * L,
        -t[3],
        0.0,
        -t[10],
        t[11],
        t[12] - t[13] - m3 * L * L,
    ]
    three = [m3, t[6], t[7], 0.0, t[5], -t[4], 0.0, -t[8], t[9], t[13]]
    return np.concatenate([one, two, three, t[[16, 18, 20]], t[[17, 19, 21]]])


def torque(t: float, phase: np.ndarray) -> np.ndarray:
    """Equations 30 to 32."""
    c, s, pi = np.cos, np.sin, np.pi
    return np.array(
        [
            34 * c(1.26 * pi * t + phase[0]) * c(0.9 * pi * t) + 15 * c(2.306 * pi * t + phase[1]),
            -28 * np.exp(-1.8 * t)
            + 30 * c(1.2 * pi * t) * c(pi * t)
            + 10 * s(3.12 * pi * t + phase[2])
            + 7.5 * s(5.8 * pi * t + phase[3])
            + 15 * s(2.4 * pi * t + phase[4]),
            -2 * c(1.2 * pi * t) * c(pi * t) - 1.65 * s(2.58 * pi * t + phase[5]),
        ]
    )


def measured(seed: int = 0) -> Samples:
    """A run from rest: encoder counts, velocities from them by central differences, torque held a step."""
    robot, theta = arm(), parameters()
    bodies, viscous, coulomb = theta[:30].reshape(3, 10), theta[30:33], theta[33:]
    rng = np.random.default_rng(seed)
    low, high = np.array([-5, -35, -50, 40, 5, -30]), np.array([45, 35, 0, 100, 35, 30])
    phase = np.deg2rad(rng.uniform(low, high))
    count = round(SECONDS / STEP) + 2
    h = STEP / SUBSTEPS
    q, v = np.zeros(3), np.zeros(3)
    path, tau = np.zeros((count, 3)), np.zeros((count, 3))
    for k in range(count):
        path[k], tau[k] = q, torque(k * STEP, phase)
        for _ in range(SUBSTEPS):
            q, v = _half_implicit(robot, bodies, viscous, coulomb, q, v, tau[k], h)
    q = np.round(path * COUNTS / (2 * np.pi)) * 2 * np.pi / COUNTS
    dq = np.gradient(q, STEP, axis=0)
    ddq = np.gradient(dq, STEP, axis=0)
    return Samples.from_motion(q[:-1], dq[:-1], ddq[:-1], tau[:-1], 1 / STEP)


def _half_implicit(
    robot: RobotModel,
    bodies: np.ndarray,
    viscous: np.ndarray,
    coulomb: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    h: float,
) -> tuple[np.ndarray, np.ndarray]:
    # Midpoint rule; dry friction by impulses that stop a joint, none larger than h fc.
    M, bias = equations_of_motion(robot.tree, bodies, (q + 0.5 * h * v)[None], v[None])
    A = M[0] + 0.5 * h * np.diag(viscous)
    inverse = np.linalg.inv(A)
    start = inverse @ (M[0] @ v + h * (tau - bias[0]) - 0.5 * h * viscous * v)
    impulse = -h * coulomb * np.sign(start)
    after = start + inverse @ impulse
    if (after * start <= 0).any():
        for _ in range(15):
            for j in range(3):
                speed = start[j] + inverse[j] @ impulse
                impulse[j] = min(max(impulse[j] - speed / inverse[j, j], -h * coulomb[j]), h * coulomb[j])
        after = start + inverse @ impulse
    return q + 0.5 * h * (v + after), after
