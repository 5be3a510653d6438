"""Arms with elastic joints written down a second time, in the frames and letters of Zollo et al. 2014.

Frame i is the standard DH frame at the far end of link i. All functions take complex numbers, so that their
derivatives come from complex steps, exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import cos, exp, sin, tanh

import numpy as np
from scipy.integrate import solve_ivp

from dynid.robot import Drive, RobotModel, load_robot
from dynid.rows import ElasticRows
from dynid.signals import Samples
from dynid.spatial import transformed
from dynid.terms import Coulomb, RigidBody, RotorInertia, SpinningRotor, Stiffness, Terms, Viscous
from tests.robot_files import ROBOTS

STEP = 1e-30


@dataclass(frozen=True)
class Arm:
    """DH rows (a, alpha, d), gravity, motor axes in frame i-1, gear ratios, and all 14n parameters.

    m, c, I: masses, first moments and inertias (xx, yy, zz, xy, xz, yz) in frame i about its origin, rotors included.
    """

    robot: RobotModel
    dh: np.ndarray
    z_m: np.ndarray
    m: np.ndarray
    c: np.ndarray
    I: np.ndarray
    Y: np.ndarray
    K: np.ndarray
    fs: np.ndarray
    fv: np.ndarray
    gravity: np.ndarray = field(default_factory=lambda: np.zeros(3))

    @property
    def n(self) -> int:
        return len(self.m)

    @property
    def k(self) -> np.ndarray:
        return self.robot.drive.gear_ratio

    def frames(self, q: np.ndarray) -> list[np.ndarray]:
        """Placements of frames 0..n."""
        T = [np.eye(4, dtype=q.dtype)]
        for (a, alpha, d), angle in zip(self.dh, q, strict=True):
            s, co, sa, ca = np.sin(angle), np.cos(angle), np.sin(alpha), np.cos(alpha)
            link = np.array(
                [[co, -s * ca, s * sa, a * co], [s, co * ca, -co * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]]
            )
            T.append(T[-1] @ link)
        return T

    def jacobians(self, q: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """J_P, J_O of frames 0..n, each (3, n), and their rotations."""
        T = self.frames(q)
        JP, JO = [], []
        for i in range(self.n + 1):
            P, O = np.zeros((3, self.n), q.dtype), np.zeros((3, self.n), q.dtype)
            for j in range(i):
                z = T[j][:3, 2]
                P[:, j], O[:, j] = np.cross(z, T[i][:3, 3] - T[j][:3, 3]), z
            JP.append(P)
            JO.append(O)
        return JP, JO, [t[:3, :3] for t in T]

    def kinetic(self, q: np.ndarray, v: np.ndarray) -> complex:
        """Kinetic energy for velocities v = (dq, dtheta), eq. 1."""
        dq, dtheta = v[: self.n], v[self.n :]
        JP, JO, R = self.jacobians(q)
        total = 0.0
        for i in range(1, self.n + 1):
            p, w, c = JP[i] @ dq, JO[i] @ dq, R[i] @ self.c[i - 1]
            spin = R[i].T @ w
            total += 0.5 * self.m[i - 1] * (p @ p) + p @ np.cross(w, c)
            total += 0.5 * spin @ symmetric(self.I[i - 1]) @ spin
            rate, Y, k = dtheta[i - 1], self.Y[i - 1], self.k[i - 1]
            total += (
                Y * k * rate * (self.z_m[i - 1] @ (R[i - 1].T @ (JO[i - 1] @ dq))) + 0.5 * Y * (k * rate) ** 2
            )
        return total

    def potential(self, q: np.ndarray, theta: np.ndarray) -> complex:
        """Gravitational and elastic energy; the latter with the 1/2 that eq. 1 lacks."""
        T = self.frames(q)
        heights = sum(
            self.gravity @ (self.m[i] * T[i + 1][:3, 3] + T[i + 1][:3, :3] @ self.c[i]) for i in range(self.n)
        )
        return -heights + 0.5 * self.K @ (q - theta) ** 2

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """B(q), (2n, 2n), by eqs 7 and 8."""
        n, (JP, JO, R) = self.n, self.jacobians(q)
        B = np.zeros((2 * n, 2 * n), q.dtype)
        for i in range(1, n + 1):
            P, O, arm = JP[i], JO[i], cross(R[i] @ self.c[i - 1])
            spin = R[i].T @ O
            B[:n, :n] += self.m[i - 1] * P.T @ P + O.T @ arm @ P - P.T @ arm @ O
            B[:n, :n] += spin.T @ symmetric(self.I[i - 1]) @ spin
            B[:n, n + i - 1] = self.Y[i - 1] * self.k[i - 1] * JO[i - 1].T @ (R[i - 1] @ self.z_m[i - 1])
            B[n + i - 1, :n] = B[:n, n + i - 1]
            B[n + i - 1, n + i - 1] = self.Y[i - 1] * self.k[i - 1] ** 2
        return B

    def momentum(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """B(q) v."""
        return self.mass_matrix(q) @ v

    def mass_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """H^(k) = dB/dq_k."""
        return [self.mass_matrix(q + 1j * STEP * e).imag / STEP for e in np.eye(self.n)]

    def coriolis(self, H: list[np.ndarray], v: np.ndarray, half: float = 0.5) -> np.ndarray:
        """C of eq. 4 from H = mass_slopes(q), with the factor 1/2 before the first sum that the print lacks."""
        rows = np.zeros((2 * self.n, 2 * self.n))
        rows[: self.n] = [v @ h for h in H]
        return half * sum(v[k] * h for k, h in enumerate(H)) - 0.5 * (rows - rows.T)

    def lagrangian_torque(self, q: np.ndarray, theta: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """d/dt dT/dv - dT/dq + dU/dq over (q, theta), without friction, (2n,)."""
        rate = self.momentum(q + 1j * STEP * v[: self.n], v + 1j * STEP * a).imag / STEP
        units = np.eye(self.n) * 1j * STEP
        zero = np.zeros(self.n)
        slope = np.array([(self.kinetic(q + e, v + 0j) - self.potential(q + e, theta)).imag for e in units])
        spring = np.array([self.potential(q + zero, theta + e).imag for e in units])
        return rate - np.concatenate([slope, -spring]) / STEP

    # The same arm for dynid.

    def carriers(self) -> tuple[tuple[float, float, float], ...]:
        """Motor axes in the joint frames of the carrying bodies."""
        T = [np.eye(4), *self.ends()]
        return tuple(tuple(T[i][:3, :3] @ self.z_m[i]) for i in range(self.n))

    def ends(self) -> list[np.ndarray]:
        """Placement of frame i in the joint frame of body i."""
        return [replace(self, dh=row[None], m=self.m[:1]).frames(np.zeros(1))[1] for row in self.dh]

    def terms(self, coupled: bool = True) -> Terms:
        """Dynid's terms for the 14n parameters."""
        rotor = SpinningRotor(self.carriers())
        return RigidBody() + (rotor if coupled else RotorInertia()) + Coulomb() + Viscous() + Stiffness()

    def theta(self) -> np.ndarray:
        """The parameters in the order of `terms`."""
        return np.concatenate([self.bodies().ravel(), self.Y * self.k**2, self.fs, self.fv, self.K])

    def bodies(self) -> np.ndarray:
        """(n, 10) in dynid's order and frames."""
        return np.array([transformed(self.own(i), T) for i, T in enumerate(self.ends())])

    def own(self, i: int) -> np.ndarray:
        """Ten parameters of body i in frame i, in dynid's order."""
        xx, yy, zz, xy, xz, yz = self.I[i]
        return np.array([self.m[i], *self.c[i], xx, xy, yy, xz, yz, zz])


def cross(a: np.ndarray) -> np.ndarray:
    """The matrix of the cross product with a."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]], dtype=a.dtype)


def symmetric(entries: np.ndarray) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = entries
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def planar() -> Arm:
    """The paper's planar arm; its I_1 includes the rotor of motor 2 as a whole: 0.4667 + 20 0.25^2 + 12.10."""
    unknown = np.full(2, np.nan)
    drive = Drive(np.diag([0.1, 0.1]), np.array([21.18, 12.10]), unknown, unknown)
    robot = replace(load_robot(ROBOTS / "zollo_planar.toml"), drive=drive)
    I = np.zeros((2, 6))
    I[0, 1:3], I[1, 1:3] = [1.25, 7 / 15 + 20 * 0.25**2 + 12.10], [0.625, 7 / 30 + 10 * 0.25**2]
    return Arm(
        robot=robot,
        dh=np.array([[0.5, 0, 0], [0.5, 0, 0]]),
        z_m=np.array([[0, 0, 1.0], [0, 0, 1.0]]),
        m=np.array([21.0, 10.0]),
        c=np.array([[-5.0, 0, 0], [-2.5, 0, 0]]),
        I=I,
        Y=np.array([21.18, 12.10]),
        K=np.array([3000.0, 1800.0]),
        fs=np.array([0.3302, 0.3576]),
        fv=np.array([0.1434, 0.1391]),
        gravity=np.array([0, -9.81, 0]),
    )


def puma(seed: int = 0) -> Arm:
    """A PUMA 560 with joints of 2000 N m/rad; bodies as listed by Corke, rotors of the paper's table 6."""
    robot = load_robot(ROBOTS / "puma560.toml")
    q = np.pi / 2
    mass = np.array([0.1, 17.4, 4.8, 0.82, 0.34, 0.09])
    com = np.array(
        [
            [0, 0, 0],
            [-0.3638, 0.006, 0.2275],
            [-0.0203, -0.0141, 0.070],
            [0, 0.019, 0],
            [0, 0, 0],
            [0, 0, 0.032],
        ]
    )
    about_com = np.array(
        [
            [0, 0.35, 0, 0, 0, 0], [0.13, 0.524, 0.539, 0, 0, 0], [0.066, 0.086, 0.0125, 0, 0, 0],
            [1.8e-3, 1.3e-3, 1.8e-3, 0, 0, 0], [3e-4, 4e-4, 3e-4, 0, 0, 0], [1.5e-4, 1.5e-4, 4e-5, 0, 0, 0],
        ]
    )  # fmt: skip
    inertia = []
    for m, r, entries in zip(mass, com, about_com, strict=True):
        J = symmetric(entries) + m * (r @ r * np.eye(3) - np.outer(r, r))
        inertia.append([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])
    z_m = np.random.default_rng(seed).normal(size=(6, 3))
    return Arm(
        robot=robot,
        dh=np.array(
            [[0, q, 0], [0.4318, 0, 0], [0.0203, -q, 0.15005], [0, q, 0.4318], [0, -q, 0], [0, 0, 0]]
        ),
        z_m=z_m / np.linalg.norm(z_m, axis=1, keepdims=True),
        m=mass,
        c=mass[:, None] * com,
        I=np.array(inertia),
        Y=np.array([2e-4, 2e-4, 2e-4, 3.3e-5, 3.3e-5, 3.3e-5]),
        K=np.full(6, 2000.0),
        fs=np.array([0.395, 0.126, 0.132, 0.0112, 0.0093, 0.0039]),
        fv=np.array([1.4e-3, 8e-4, 1.4e-3, 7.12e-5, 8.26e-5, 3.67e-5]),
        gravity=np.array([0, 0, -9.81]),
    )


def random_parameters(arm: Arm, seed: int) -> Arm:
    """The same arm with any numbers for parameters and motor axes."""
    rng = np.random.default_rng(seed)
    n = arm.n
    z_m = rng.normal(size=(n, 3))
    return replace(
        arm, z_m=z_m / np.linalg.norm(z_m, axis=1, keepdims=True), m=rng.normal(size=n), c=rng.normal(size=(n, 3)),
        I=rng.normal(size=(n, 6)), Y=rng.normal(size=n), K=rng.normal(size=n),
    )  # fmt: skip


def elastic_samples(q: np.ndarray, theta: np.ndarray, rates: np.ndarray, pushes: np.ndarray) -> Samples:
    """Samples of (q, theta), velocities (T, 2n) and accelerations (T, 2n)."""
    n = q.shape[1]
    plain = Samples.from_motion(q, rates[:, :n], pushes[:, :n])
    return replace(plain, theta=theta, dtheta=rates[:, n:], ddtheta=pushes[:, n:])


@dataclass(frozen=True)
class Motion:
    """A simulated motion of the planar arm, sampled at 1 kHz; every array (T, 2)."""

    t: np.ndarray
    q: np.ndarray
    theta: np.ndarray
    rates: np.ndarray
    pushes: np.ndarray
    u: np.ndarray


def simulate_planar(
    arm: Arm, friction: Callable[[int, float, float], float], seconds: float = 8.9, speed: float = 1.0
) -> Motion:
    """The planar arm under PD control with gravity compensation (De Luca et al. 2005), its motor axes parallel.

    friction: joint, motor velocity and position -> torque.    speed: of the reference, which starts at rest.
    """
    b1, b2 = arm.bodies()
    c0, J1, J2 = 0.5 * b2[1], b1[9] + 0.25 * b2[0], b2[9]
    near, far = 9.81 * (b1[1] + 0.5 * b2[0]), 9.81 * b2[1]
    K1, K2 = arm.K.tolist()
    B1, B2 = (arm.Y * arm.k**2).tolist()
    Yk = float(arm.Y[1] * arm.k[1])
    waves = (((2.1, 0.9, 0.3), (3.9, 0.35, 1.0)), ((2.7, 1.0, 1.5), (4.3, 0.4, 0.2)))

    def hold(q1: float, q2: float) -> tuple[float, float]:
        tip = far * cos(q1 + q2)
        return near * cos(q1) + tip, tip

    def reference(t: float, j: int) -> tuple[float, float]:
        x = min(t / 1.5, 1.0)
        rise, slope = x**3 * (10 - 15 * x + 6 * x * x), 20.0 * x * x * (1 - x) ** 2
        swing = sum(a * sin(speed * w * t + p) for w, a, p in waves[j])
        rate = sum(a * speed * w * cos(speed * w * t + p) for w, a, p in waves[j])
        return rise * swing, rise * rate + slope * swing

    def drive(t: float, theta: Sequence[float], v: Sequence[float]) -> tuple[float, float]:
        (d1, r1), (d2, r2) = reference(t, 0), reference(t, 1)
        g1, g2 = hold(d1, d2)
        bend1, bend2 = g1 / K1, g2 / K2
        g1, g2 = hold(theta[0] - bend1, theta[1] - bend2)
        u1 = 600.0 * (d1 + bend1 - theta[0]) + 60.0 * (r1 - v[0]) + g1
        return u1, 200.0 * (d2 + bend2 - theta[1]) + 15.0 * (r2 - v[1]) + g2

    def accelerations(t: float, y: Sequence[float]) -> tuple[float, float, float, float]:
        q1, q2, th1, th2, v1, v2, w1, w2 = y
        s1, s2 = K1 * (th1 - q1), K2 * (th2 - q2)
        u1, u2 = drive(t, (th1, th2), (w1, w2))
        left1, left2 = u1 - friction(0, w1, th1) - s1, u2 - friction(1, w2, th2) - s2
        g1, g2 = hold(q1, q2)
        c, s = c0 * cos(q2), c0 * sin(q2)
        # The second motor sits on link 1: its acceleration acts there by Y k, and that of link 1 on it.
        r1 = s1 - g1 + s * (2 * v1 * v2 + v2 * v2) - Yk / B2 * left2
        r2 = s2 - g2 - s * v1 * v1
        m11, m12, m22 = J1 + J2 + 2 * c - arm.Y[1], J2 + c, J2
        det = m11 * m22 - m12 * m12
        a1, a2 = (m22 * r1 - m12 * r2) / det, (m11 * r2 - m12 * r1) / det
        return a1, a2, left1 / B1, (left2 - Yk * a1) / B2

    def rate(t: float, y: np.ndarray) -> list[float]:
        values = y.tolist()
        return [*values[4:], *accelerations(t, values)]

    g1, g2 = hold(0.0, 0.0)
    t = np.arange(0.0, seconds, 1e-3)
    start = [0.0, 0.0, g1 / K1, g2 / K2, 0.0, 0.0, 0.0, 0.0]
    y = solve_ivp(rate, (0.0, t[-1]), start, "DOP853", t, rtol=1e-8, atol=1e-9).y.T
    rows = list(zip(t.tolist(), y.tolist(), strict=True))
    pushes = np.array([accelerations(ti, yi) for ti, yi in rows])
    u = np.array([drive(ti, yi[2:4], yi[6:]) for ti, yi in rows])
    return Motion(t, y[:, :2], y[:, 2:4], y[:, 4:], pushes, u)


def coulomb(arm: Arm) -> Callable[[int, float, float], float]:
    """The arm's friction, its sign smoothed over 0.01 rad/s."""
    fv, fs = arm.fv.tolist(), arm.fs.tolist()
    return lambda j, v, x: fv[j] * v + fs[j] * tanh(v / 0.01)


def states(arm: Arm, count: int = 8, seed: int = 0) -> Samples:
    """Random states of links and motors."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-3, 3, (count, arm.n))
    rates, pushes = rng.normal(0, 2, (count, 2 * arm.n)), rng.normal(0, 4, (count, 2 * arm.n))
    return elastic_samples(q, q + rng.normal(0, 0.1, q.shape), rates, pushes)


def matrix(arm: Arm, samples: Samples, coupled: bool = True) -> np.ndarray:
    """Link and motor equations, (T, 2n, p)."""
    terms = arm.terms(coupled)
    p, n = len(terms.columns(arm.robot)), arm.n
    found = ElasticRows(form="link").equations(arm.robot, terms, samples, np.ones(p, dtype=np.bool_))
    W = np.zeros((2 * n, len(samples), p))
    for g, (columns, panel) in enumerate(zip(found.columns, found.panels, strict=True)):
        W[g][:, columns] = panel[:-1].T
    return np.concatenate([W[n:], W[:n]]).transpose(1, 0, 2)


def obeying(arm: Arm, samples: Samples) -> Samples:
    """The same states, their springs stretched so that the link equations hold."""
    links = (matrix(arm, replace(samples, theta=samples.q)) @ arm.theta())[:, : arm.n]
    return replace(samples, theta=samples.q + links / arm.K)


# Friction of eq. 43, f1 to f6 by joint, in the reading that dissipates.
STRIBECK = (
    (0.1434, 0.3302, 0.2499, 0.0537, 0.2991, 16.624),
    (0.1391, 0.3576, 0.2451, 0.1073, 0.3389, 10.097),
)


def stribeck(joint: int, v: float, x: float) -> float:
    """Friction of a joint at a motor velocity, its sign smoothed over 0.01 rad/s."""
    f1, f2, f3, f4, f5, f6 = STRIBECK[joint]
    speed = abs(v) + 1e-9
    return f1 * v + tanh(v / 0.01) * (f2 - f3 * exp(-speed / f4) - f5 * exp(-1 / (f6 * speed)))


@cache
def recorded(rough: bool = False) -> Motion:
    """The planar arm's motion with its Coulomb friction, or (rough) with that of eq. 43."""
    arm = planar()
    return simulate_planar(arm, stribeck if rough else coulomb(arm))
