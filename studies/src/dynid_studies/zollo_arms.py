"""The arms of Zollo et al. 2014: a planar arm with two elastic joints and a PUMA 560, in both notations.

The paper's parameters refer to standard DH frames at the far ends of the links; rotors belong to the links that carry
them. Both are turned into dynid's by one linear map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.base import Float
from dynid.robot import Drive, RobotModel, load_example
from dynid.spatial import from_com, symmetric, transformed
from dynid.terms import Coulomb, RigidBody, RotorInertia, SpinningRotor, Stiffness, Viscous
from dynid_studies.zollo_tables import TABLE_1

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

# A body's numbers, and all others, in the order of the paper and of `TERMS`.
_BODY = ("m", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
_OTHERS = ("Y", "fs", "fv", "K")


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot and its true parameters: bodies (n, 10) in joint frames, reflected rotors, friction, stiffness (n,).

    ends: (n, 4, 4) the paper's frames in dynid's joint frames.
    reflected: by symbol, (n,) what a printed rotor, Coulomb or viscous friction counts at the joint.
    """

    robot: RobotModel
    bodies: Float
    rotors: Float
    coulomb: Float
    viscous: Float
    stiffness: Float
    ends: Float
    reflected: dict[str, Float]

    @property
    def theta(self) -> Float:
        """Parameters in the order of `TERMS` and `SIMPLIFIED`."""
        return np.concatenate([self.bodies.ravel(), self.rotors, self.coulomb, self.viscous, self.stiffness])

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """The paper's 14 n parameters in its order pi_1, pi_2, ...: symbol and link, from 0."""
        links = range(self.robot.n)
        blocks = (("K",), ("m",), _BODY[1:4], _BODY[4:], ("Y",), ("fs",), ("fv",))
        return tuple((symbol, link) for block in blocks for link in links for symbol in block)

    @property
    def to_dynid(self) -> Float:
        """The linear map from the paper's parameters to `theta`, (14 n, 14 n)."""
        n, units = self.robot.n, np.eye(10)
        matrix = np.zeros((14 * n, 14 * n))
        for column, (symbol, link) in zip(matrix.T, self.names, strict=True):
            if symbol in _BODY:
                unit = units[_BODY.index(symbol)]
                column[10 * link : 10 * link + 10] = moved(unit[0], unit[1:4], unit[4:], self.ends[link])
            else:
                place = 10 * n + n * _OTHERS.index(symbol) + link
                column[place] = self.reflected[symbol][link] if symbol in self.reflected else 1.0
        return matrix

    def to_paper(self, theta: Float) -> Float:
        """Parameters as the paper counts them, (14 n,), from those in the order of `theta`."""
        return np.asarray(np.linalg.solve(self.to_dynid, theta))


def moved(m: float, c: Sequence[float], inertia: Sequence[float], end: Float) -> Float:
    """Ten parameters in the joint frame, from the paper's (xx yy zz xy xz yz) about its frame `end`."""
    xx, yy, zz, xy, xz, yz = inertia
    return transformed(np.array([m, *c, xx, xy, yy, xz, yz, zz]), end)


def denavit_hartenberg(a: float, alpha: float, d: float) -> Float:
    """The far frame of a link in its joint frame, both by the standard convention, (4, 4)."""
    end = np.eye(4)
    s, c = np.sin(alpha), np.cos(alpha)
    end[:3, :3], end[:3, 3] = [[1, 0, 0], [0, c, -s], [0, s, c]], (a, 0, d)
    return end


def planar(with_rotor: bool = True) -> Arm:
    """The planar arm of section 6; with_rotor: whether I_1 includes the rotor of motor 2, as it must."""
    unknown = np.full(2, np.nan)
    drive = Drive(np.diag([RATIO, RATIO]), ROTORS, unknown, unknown)
    # Link inertias are printed rounded, 0.4667 and 0.2333; Table 1 was made with 7 / 15 and 7 / 30.
    zz = 7 / 15 + 20 * 0.25**2 + (ROTORS[1] if with_rotor else 0.0)
    end = denavit_hartenberg(0.5, 0.0, 0.0)
    bodies = [
        moved(21.0, (-5.0, 0, 0), (0, 1.25, zz, 0, 0, 0), end),
        moved(10.0, (-2.5, 0, 0), (0, 0.625, 7 / 30 + 10 * 0.25**2, 0, 0, 0), end),
    ]
    return Arm(
        robot=replace(load_example("zollo_planar"), drive=drive),
        bodies=np.array(bodies),
        rotors=ROTORS * RATIO**2,
        coulomb=FRICTION[:, 1],
        viscous=FRICTION[:, 0],
        stiffness=STIFFNESS,
        ends=np.stack([end, end]),
        reflected={"Y": np.full(2, RATIO**2)},
    )


def puma() -> Arm:
    """A PUMA 560 with the bodies listed by Corke, rotors and motor-side friction of Table 6, joints of 2000 N m/rad.

    Each link includes the spin inertia of the rotor that it carries, as full coupling needs it and Table 5 has it.
    """
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
    diagonals = [
        (0, 0.35, 0), (0.13, 0.524, 0.539), (0.066, 0.086, 0.0125), (1.8e-3, 1.3e-3, 1.8e-3), (3e-4, 4e-4, 3e-4),
        (1.5e-4, 1.5e-4, 4e-5),
    ]  # fmt: skip
    ends = np.stack([denavit_hartenberg(*frame) for frame in frames])
    carried = [*robot.drive.rotor_inertia[1:], 0.0]
    bodies = []
    for m, r, diagonal, rotor, end in zip(mass, com, diagonals, carried, ends, strict=True):
        xx, yy, zz = diagonal
        body = from_com(m, np.array(r), symmetric(np.array([xx, 0, yy, 0, 0, zz])))
        bodies.append(transformed(body, end) + moved(0.0, (0, 0, 0), (0, 0, rotor, 0, 0, 0), end))
    ratio = np.abs(robot.drive.gear_ratio)
    return Arm(
        robot=robot,
        bodies=np.array(bodies),
        rotors=robot.drive.reflected_rotor_inertia,
        coulomb=ratio * [0.395, 0.126, 0.132, 0.0112, 0.0093, 0.0039],
        viscous=ratio**2 * [1.4e-3, 8e-4, 1.4e-3, 7.12e-5, 8.26e-5, 3.67e-5],
        stiffness=np.full(6, 2000.0),
        ends=ends,
        reflected={"Y": ratio**2, "fs": ratio, "fv": ratio**2},
    )


def paper_map() -> tuple[Float, Float]:
    """Table 1's combinations of dynid's 28 parameters, (14, 28), and their real values as printed."""
    arm = planar()
    place = {key: i for i, key in enumerate(arm.names)}
    table = np.zeros((14, 28))
    for row, (_, entries, _, _) in zip(table, TABLE_1, strict=True):
        for key, factor in entries.items():
            row[place[key]] = factor
    return np.asarray(table @ np.linalg.inv(arm.to_dynid)), np.array([real for _, _, real, _ in TABLE_1])


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
        return np.asarray(self.f[:, 0] * velocity + np.tanh(velocity / WIDTH) * self.level(velocity))

    def level(self, velocity: Float) -> Float:
        """The part that changes sign with the velocity, without its sign, (B, n)."""
        _, f2, f3, f4, f5, f6 = self.f.T
        speed = np.abs(velocity) + 1e-9
        return np.asarray(f2 - f3 * np.exp(-speed / f4) - f5 * np.exp(-1.0 / (f6 * speed)))

    def rate(self, velocity: Float, state: Float) -> Float:
        """Empty."""
        return np.zeros_like(state)
