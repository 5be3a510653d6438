"""The arms of Zollo et al. 2014: a planar arm with two elastic joints and a PUMA 560, in both notations.

The paper's parameters refer to standard DH frames at the far ends of the links; rotors belong to the links that carry
them. Both are turned into dynid's by one linear map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.arrays import Bool, Float
from dynid.excite.basis import BasisTrajectory, SplineBasis
from dynid.factor.base import BaseMap
from dynid.robot import load_example
from dynid.robot.drive import Drive
from dynid.robot.model import RobotModel
from dynid.rows import ElasticRows
from dynid.signals.samples import Samples
from dynid.simulate.motion import SimulatedMotion
from dynid.spatial.inertia import from_com, symmetric, transformed
from dynid.terms import Coulomb, RigidBody, RotorInertia, SpinningRotor, Stiffness, Terms, Viscous

TERMS = RigidBody() + SpinningRotor() + Coulomb() + Viscous() + Stiffness()
SIMPLIFIED = RigidBody() + RotorInertia() + Coulomb() + Viscous() + Stiffness()
ROTORS, RATIO = np.array([21.18, 12.10]), 0.1
STIFFNESS = np.array([3000.0, 1800.0])
# Eq. 44: f1 to f6 by joint.
FRICTION = np.array([
    [0.1434, 0.3302, 0.2499, 0.0537, 0.2991, 16.624],
    [0.1391, 0.3576, 0.2451, 0.1073, 0.3389, 10.097],
])  # fmt: skip
GATE = 0.5  # rad/s, below which the paper leaves samples out
WIDTH = 0.01  # rad/s over which the simulated sign is smoothed

# Table 1: the 14 parameters as combinations, real and estimated values as printed.
TABLE_1: tuple[tuple[str, dict[tuple[str, int], float], float, float], ...] = (
    ("K1", {("K", 0): 1}, 3000.0, 3000.79),
    ("K2", {("K", 1): 1}, 1800.0, 1799.79),
    ("m1 - 4 Izz1 + 4 Izz2", {("m", 0): 1, ("Izz", 0): -4, ("Izz", 1): 4}, -30.8333, -30.8352),
    ("m2 - 4 Izz2", {("m", 1): 1, ("Izz", 1): -4}, 6.5667, 6.5670),
    ("cx1 + 2 Izz1", {("cx", 0): 1, ("Izz", 0): 2}, 22.6333, 22.6345),
    ("cy1", {("cy", 0): 1}, 0.0, -1.04e-5),
    ("cx2 + 2 Izz2", {("cx", 1): 1, ("Izz", 1): 2}, -0.7833, -0.7835),
    ("cy2", {("cy", 1): 1}, 0.0, 3.18e-6),
    ("Y1", {("Y", 0): 1}, 21.18, 21.1446),
    ("Y2", {("Y", 1): 1}, 12.10, 12.1036),
    ("fs1", {("fs", 0): 1}, 0.3302, 0.1016),
    ("fs2", {("fs", 1): 1}, 0.3576, 0.1249),
    ("fv1", {("fv", 0): 1}, 0.1434, 0.1288),
    ("fv2", {("fv", 1): 1}, 0.1391, 0.1389),
)
# Table 2: signal-to-noise ratio and normalised mean error.
TABLE_2 = {20: 3.84e3, 70: 44.50, 80: 4.73, 100: 0.157, 200: 0.111}
_SYMBOLS = ("m", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot and its true parameters: bodies (n, 10) in joint frames, reflected rotors, friction, stiffness (n,)."""

    robot: RobotModel
    bodies: Float
    rotors: Float
    coulomb: Float
    viscous: Float
    stiffness: Float

    @property
    def theta(self) -> Float:
        """Parameters in the order of `TERMS` and `SIMPLIFIED`."""
        return np.concatenate([self.bodies.ravel(), self.rotors, self.coulomb, self.viscous, self.stiffness])


@dataclass(frozen=True, eq=False)
class Run:
    """A simulated motion and its exact samples."""

    motion: SimulatedMotion
    samples: Samples

    @property
    def keep(self) -> Bool:
        """Samples in which all motors are faster than the gate."""
        return np.asarray((np.abs(self.motion.dtheta) > GATE).all(axis=1))


def planar_body(m: float, c: Sequence[float], inertia: Sequence[float]) -> Float:
    """Ten parameters in the joint frame of a link of 0.5 m, from the paper's about its far end (xx yy zz xy xz yz)."""
    end = np.eye(4)
    end[0, 3] = 0.5
    xx, yy, zz, xy, xz, yz = inertia
    return transformed(np.array([m, *c, xx, xy, yy, xz, yz, zz]), end)


def planar(with_rotor: bool = True) -> Arm:
    """The planar arm of section 6; with_rotor: whether I_1 includes the rotor of motor 2, as it must."""
    unknown = np.full(2, np.nan)
    drive = Drive(np.diag([RATIO, RATIO]), ROTORS, unknown, unknown)
    zz = 0.4667 + 20 * 0.25**2 + (ROTORS[1] if with_rotor else 0.0)
    bodies = [
        planar_body(21.0, (-5.0, 0, 0), (0, 1.25, zz, 0, 0, 0)),
        planar_body(10.0, (-2.5, 0, 0), (0, 0.625, 0.2333 + 10 * 0.25**2, 0, 0, 0)),
    ]
    robot = replace(load_example("zollo_planar"), drive=drive)
    return Arm(robot, np.array(bodies), ROTORS * RATIO**2, FRICTION[:, 1], FRICTION[:, 0], STIFFNESS)


def puma() -> Arm:
    """A PUMA 560 with the bodies listed by Corke, rotors and motor-side friction of Table 6, joints of 2000 N m/rad."""
    robot = load_example("puma560")
    half = np.pi / 2
    frames = [
        (0, half, 0),
        (0.4318, 0, 0),
        (0.0203, -half, 0.15005),
        (0, half, 0.4318),
        (0, -half, 0),
        (0, 0, 0),
    ]
    mass = [0.1, 17.4, 4.8, 0.82, 0.34, 0.09]
    com = [
        (0, 0, 0), (-0.3638, 0.006, 0.2275), (-0.0203, -0.0141, 0.070), (0, 0.019, 0), (0, 0, 0), (0, 0, 0.032)
    ]  # fmt: skip
    own = [
        (0, 0.35, 0), (0.13, 0.524, 0.539), (0.066, 0.086, 0.0125), (1.8e-3, 1.3e-3, 1.8e-3), (3e-4, 4e-4, 3e-4),
        (1.5e-4, 1.5e-4, 4e-5),
    ]  # fmt: skip
    bodies = []
    for m, r, (xx, yy, zz), (a, alpha, d) in zip(mass, com, own, frames, strict=True):
        end = np.eye(4)
        s, c = np.sin(alpha), np.cos(alpha)
        end[:3, :3], end[:3, 3] = [[1, 0, 0], [0, c, -s], [0, s, c]], (a, 0, d)
        bodies.append(transformed(from_com(m, np.array(r), symmetric(np.array([xx, 0, yy, 0, 0, zz]))), end))
    ratio = np.abs(robot.drive.gear_ratio)
    coulomb = ratio * [0.395, 0.126, 0.132, 0.0112, 0.0093, 0.0039]
    viscous = ratio**2 * [1.4e-3, 8e-4, 1.4e-3, 7.12e-5, 8.26e-5, 3.67e-5]
    rotors = robot.drive.reflected_rotor_inertia
    return Arm(robot, np.array(bodies), rotors, coulomb, viscous, np.full(6, 2000.0))


@dataclass(frozen=True, eq=False)
class Stribeck:
    """Friction of eq. 43 as it dissipates: |dtheta| in the first exponent, -1 / (f6 |dtheta|) in the other."""

    f: Float

    @property
    def states(self) -> int:
        """None."""
        return 0

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        f1, f2, f3, f4, f5, f6 = self.f.T
        speed = np.abs(velocity) + 1e-9
        dry = f2 - f3 * np.exp(-speed / f4) - f5 * np.exp(-1.0 / (f6 * speed))
        return np.asarray(f1 * velocity + np.tanh(velocity / WIDTH) * dry)

    def rate(self, velocity: Float, state: Float) -> Float:
        """Empty."""
        return np.zeros_like(state)


def reference(n: int, duration: float, pieces: int, reach: float, seed: int) -> BasisTrajectory:
    """A random B-spline of fifth order that rests at both ends."""
    basis = SplineBasis(duration, pieces)
    X = np.zeros((basis.size, n))
    X[1:] = reach * np.random.default_rng(seed).uniform(-1.0, 1.0, (basis.size - 1, n))
    return BasisTrajectory(basis, X)


def paper_map() -> tuple[Float, Float]:
    """Table 1's combinations of dynid's 28 parameters, (14, 28), and their real values."""
    symbols = [(name, link) for link in range(2) for name in _SYMBOLS]
    others = [(name, link) for name in ("Y", "fs", "fv", "K") for link in range(2)]
    place = {key: i for i, key in enumerate([*symbols, *others])}
    to_ours = np.zeros((28, 28))
    for (name, link), i in place.items():
        if name in _SYMBOLS:
            unit = np.eye(10)[_SYMBOLS.index(name)]
            to_ours[10 * link : 10 * link + 10, i] = planar_body(unit[0], unit[1:4], unit[4:])
        else:
            to_ours[i, i] = RATIO**2 if name == "Y" else 1.0
    table = np.zeros((14, 28))
    for row, (_, entries, _, _) in zip(table, TABLE_1, strict=True):
        for key, factor in entries.items():
            row[place[key]] = factor
    return np.asarray(table @ np.linalg.inv(to_ours)), np.array([real for _, _, real, _ in TABLE_1])


def samples_of(motion: SimulatedMotion) -> Samples:
    """Exact states of links and motors."""
    plain = Samples.from_motion(motion.q, motion.dq, motion.ddq, motion.tau)
    return replace(plain, theta=motion.theta, dtheta=motion.dtheta, ddtheta=motion.ddtheta)


def equations(robot: RobotModel, terms: Terms, samples: Samples) -> tuple[Float, Float]:
    """Link and motor equations, (T, 2n, p), and their left sides, (T, 2n): zero and the motors' torque."""
    p, n = len(terms.columns(robot)), robot.n
    found = ElasticRows(form="link").equations(robot, terms, samples, np.ones(p, dtype=np.bool_))
    W, y = np.zeros((2 * n, len(samples), p)), np.zeros((2 * n, len(samples)))
    for g, (columns, panel) in enumerate(zip(found.columns, found.panels, strict=True)):
        # The rows' groups are the motors, then the links.
        row = (g + n) % (2 * n)
        W[row][:, columns], y[row] = panel[:-1].T, panel[-1]
    return W.transpose(1, 0, 2), y.T


def least_squares(base: BaseMap, W: Float, y: Float, keep: Bool) -> Float:
    """Base parameters (b,) from the kept samples, columns scaled to unit length."""
    A, b = W[keep][:, :, base.independent].reshape(-1, base.rank), y[keep].reshape(-1)
    size = np.linalg.norm(A, axis=0)
    return np.asarray(np.linalg.lstsq(A / size, b, rcond=None)[0] / size)


def relative_errors(found: Float, real: Float) -> Float:
    """(found - real) / real, 0 where the real value is 0."""
    kept = np.abs(real) > 1e-9 * np.abs(real).max()
    return np.asarray(np.where(kept, (found - real) / np.where(kept, real, 1.0), 0.0))
