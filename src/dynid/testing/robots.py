"""Robots that combine all effects: a covering array of robot features, for tests of laws.

A law that holds on plain arms may fail where two features meet: a payload behind a follower, known torque and two
encoders, a gyroscopic rotor behind a gear of negative ratio. `covering_cases` contains every pair of levels of
`LEVELS`; no number is 0 or 1 where it could be another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from math import prod

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot.drive import Drive
from dynid.robot.linkage import FourBar
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.signals.samples import Samples
from dynid.terms.channel import ChannelTorque
from dynid.terms.elastic import JointDamping, LinkOffset, LinkViscous, Stiffness, is_stiffness
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.payload import KnownPayload
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia, SpinningRotor
from dynid.terms.term import Term, Terms
from dynid.terms.transmission import MotorInertia, OnMotor
from dynid.testing.builders import random_inertia, random_tree, smooth_samples

LEVELS: Mapping[str, tuple[str, ...]] = {
    "bodies": ("5", "7", "9"),
    "tree": ("chain", "branches"),
    "joints": ("turning", "sliding", "continuous"),
    "gears": ("one", "large", "both signs"),
    "drive": ("apart", "coupled"),
    "linkage": ("none", "four-bar"),
    "followers": ("none", "followers"),
    "base": ("upright", "tilted"),
    "payload": ("none", "last body", "middle body"),
    "known": ("none", "at a joint", "at a motor"),
    "encoders": ("one", "two"),
}
Levels = Mapping[str, str]
LOAD = (2.0, 0.1, -0.05, 0.2, 0.08, 0.01, 0.09, -0.02, 0.015, 0.05)
BARS = FourBar(1.1, 0.25, 1.08, 0.3, 1.5)
CHANNEL = "known"
# rad/s (m/s): width of the sign of velocity, large enough for finite differences.
WIDTH = 0.5


@dataclass(frozen=True, eq=False)
class RobotCase:
    """A robot, a model of it and true parameters theta (p,); levels: its features, by the names of LEVELS."""

    name: str
    levels: Levels
    robot: RobotModel
    terms: Terms
    theta: Float

    def motion(self, count: int = 60, seed: int = 0, rate: float = 1000.0) -> Samples:
        """Smooth motion, exact in every derivative, with the channels that the model reads, without torque.

        With two encoders the motion of the motors differs by some hundredths of a radian.

        Parameters
        ----------
        count : int
            Number of samples.
        seed : int
            Seed.
        rate : float, Hz
            Sampling rate.

        """
        links = self._within(smooth_samples(self.robot, count, seed, rate, self.terms.channels()))
        if self.levels["encoders"] == "one":
            return links
        apart = self._within(smooth_samples(self.robot, count, seed + 1, rate))
        motors = (x + 0.05 * y for x, y in zip(_state(links), _state(apart), strict=True))
        theta, dtheta, ddtheta = motors
        return replace(links, theta=theta, dtheta=dtheta, ddtheta=ddtheta)

    def samples(self, count: int = 60, seed: int = 0, rate: float = 1000.0) -> Samples:
        """The same motion with the torque of the model; springs are stretched by their load.

        With two encoders the positions of the motors follow from the links' equations, so their velocities and
        accelerations are no longer the derivatives.

        Parameters
        ----------
        count : int
            Number of samples.
        seed : int
            Seed.
        rate : float, Hz
            Sampling rate.

        """
        moved = self.motion(count, seed, rate)
        if moved.theta is not None:
            at_links = replace(moved, theta=moved.q)
            carried = self.terms.torque(self.robot, at_links, self.theta) - self.motor_torque(at_links)
            springs = [is_stiffness(column) for column in self.terms.columns(self.robot)]
            K = self.theta[springs]
            moved = replace(moved, theta=moved.q + carried / K)
        return replace(moved, tau=self.terms.torque(self.robot, moved, self.theta))

    def motor_torque(self, samples: Samples) -> Float:
        """Part of the model's torque that acts on the motors, (T, n)."""
        p = len(self.theta)
        every = np.ones(p, dtype=np.bool_)
        lines = self.terms.motor_regressor(self.robot, samples, every).dense(p)
        return np.asarray(lines @ self.theta + self.terms.known_motor_torque(self.robot, samples))

    def _within(self, samples: Samples) -> Samples:
        # Linkages close in a part of the turn only.
        share = 0.35 if self.robot.drive.linkages else 1.0
        return replace(samples, q=share * samples.q, dq=share * samples.dq, ddq=share * samples.ddq)


@lru_cache(maxsize=1)
def covering_cases() -> tuple[RobotCase, ...]:
    """Robots with every pair of levels of LEVELS, always the same ones."""
    return tuple(robot_case(levels, seed) for seed, levels in enumerate(covering_array(LEVELS), 1))


def covering_array(levels: Mapping[str, Sequence[str]], seed: int = 0) -> tuple[Levels, ...]:
    """Choices of one level per factor that contain every pair of levels of two factors.

    Greedy: of many random choices, the next one is that with most missing pairs.
    """
    names = tuple(levels)
    missing = {((a, x), (b, y)) for a, b in combinations(names, 2) for x, y in product(levels[a], levels[b])}
    rng = np.random.default_rng(seed)
    tried = min(200, 4 * prod(len(choices) for choices in levels.values()))
    chosen = []
    while missing:
        best: tuple[int, Levels] = (0, {})
        for _ in range(tried):
            drawn = {name: choices[int(rng.integers(len(choices)))] for name, choices in levels.items()}
            count = len(missing & set(combinations(drawn.items(), 2)))
            best = max(best, (count, drawn), key=lambda counted: counted[0])
        missing -= set(combinations(best[1].items(), 2))
        if best[0]:
            chosen.append(best[1])
    return tuple(chosen)


def robot_case(levels: Levels, seed: int) -> RobotCase:
    """Robot, model and parameters of a choice of levels, with random numbers of a seed."""
    robot = _robot(levels, seed)
    effects = _effects(robot, levels)
    rng = np.random.default_rng([seed, 19])
    theta = [
        column.prior if np.isfinite(column.prior) else size[column.owner] * rng.uniform(0.3, 1.5)
        for term, size in effects
        for column in term.columns(robot)
    ]
    name = f"{seed}: " + ", ".join(x for x in levels.values() if x not in ("none", "one"))
    return RobotCase(name, levels, robot, Terms(tuple(term for term, _ in effects)), np.array(theta))


def _robot(levels: Levels, seed: int) -> RobotModel:
    n = int(levels["bodies"])
    rng = np.random.default_rng([seed, 18])
    tree = random_tree(seed, n, 0.0 if levels["tree"] == "chain" else 0.5)
    placement = np.repeat(np.eye(4)[None], n, axis=0)
    placement[:, :3, :3], placement[:, :3, 3] = tree.rotation, tree.translation
    P, offset = _followers(n) if levels["followers"] == "followers" else (np.eye(n), np.zeros(n))
    joints = tuple(f"joint{i + 1}" for i in range(n))
    independent = tuple(name for i, name in enumerate(joints) if P[i].max() == 1.0)
    m = len(independent)
    linked = levels["linkage"] == "four-bar"
    return RobotModel(
        name=f"case{seed}",
        body_names=tuple(f"body{i + 1}" for i in range(n)),
        tree_joint_names=joints,
        joint_names=independent,
        parent=tree.parent,
        joint_types=_kinds(n, levels["joints"]),
        T_parent_joint=placement,
        axis=tree.axis,
        inertia_prior=random_inertia(seed, n) + _ROTOR_ROOM,
        gravity=np.array([0.0, 0.0, -9.81] if levels["base"] == "upright" else [3.1, -2.3, -9.02]),
        limits=Limits(
            np.full(m, -0.55 if linked else -2.0),
            np.full(m, 0.55 if linked else 2.0),
            np.full(m, 9.0),
            np.full(m, 1e4),
        ),
        drive=_drive(levels, m, rng),
        projection=P,
        projection_offset=offset,
        friction_prior=rng.uniform(0.3, 1.5, (m, 2)),
    )


# kg m^2: makes links heavy enough to contain the rotors that they carry.
_ROTOR_ROOM = np.array([0, 0, 0, 0, 2.0, 0, 2.0, 0, 0, 2.0])


def _followers(n: int) -> tuple[Float, Float]:
    # The third link follows the first joint, the last one the second, with other ratios.
    follow = {2: (0, -0.7, 0.2), n - 1: (1, 0.6, -0.3)}
    leaders = [i for i in range(n) if i not in follow]
    P, offset = np.zeros((n, len(leaders))), np.zeros(n)
    P[leaders, np.arange(len(leaders))] = 1.0
    for body, (leader, ratio, shift) in follow.items():
        P[body, leaders.index(leader)], offset[body] = ratio, shift
    return P, offset


def _kinds(n: int, joints: str) -> tuple[JointType, ...]:
    # The second joint is revolute, since a linkage may move it.
    other = {
        "turning": JointType.REVOLUTE,
        "sliding": JointType.PRISMATIC,
        "continuous": JointType.CONTINUOUS,
    }[joints]
    return tuple(other if i % 3 != 1 else JointType.REVOLUTE for i in range(n))


def _drive(levels: Levels, m: int, rng: np.random.Generator) -> Drive:
    ratio = {
        "one": np.ones(m),
        "large": np.geomspace(160.0, 30.0, m),
        "both signs": np.geomspace(0.4, 120.0, m) * np.where(np.arange(m) % 2, -1.0, 1.0),
    }[levels["gears"]]
    N = np.diag(ratio)
    if levels["drive"] == "coupled":
        N += np.tril(rng.uniform(-0.5, 0.5, (m, m)), -1) * ratio[:, None]
    unknown = np.full(m, np.nan)
    bars = tuple(BARS if levels["linkage"] == "four-bar" and j == 1 else None for j in range(m))
    return Drive(N, rng.uniform(0.2, 0.6, m) / ratio**2, unknown, unknown, linkages=bars)


def _effects(robot: RobotModel, levels: Levels) -> list[tuple[Term, Float]]:
    # Terms with the size (n,) of their parameters if the robot has no prior.
    n, drive = robot.n, robot.drive
    unit_size, ratio = np.ones(n), np.abs(drive.gear_ratio)
    two = levels["encoders"] == "two"
    effects: list[tuple[Term, Float]] = [(RigidBody(), np.ones(robot.n_bodies))]
    if drive.coupled:
        effects += [
            (MotorInertia(), unit_size),
            (OnMotor(Viscous()), ratio**-2),
            (OnMotor(Coulomb(width=WIDTH)), 1 / ratio),
        ]
    else:
        effects += [
            (SpinningRotor() if two else RotorInertia(), unit_size),
            (Viscous(), unit_size),
            (Coulomb(width=WIDTH), unit_size),
        ]
    effects.append((Offset(), unit_size))
    if two:
        effects += [
            (Stiffness(), 2e4 * unit_size),
            (JointDamping(), unit_size),
            (LinkViscous(), unit_size),
            (LinkOffset(), unit_size),
        ]
    if levels["payload"] != "none":
        middle = robot.body_names[robot.n_bodies // 2]
        effects.append((KnownPayload(LOAD, "" if levels["payload"] == "last body" else middle), unit_size))
    if levels["known"] != "none":
        known = ChannelTorque(CHANNEL, robot.joint_names[n // 2], free=False)
        effects.append((known if levels["known"] == "at a joint" else OnMotor(known), unit_size))
    return effects


def _state(samples: Samples) -> tuple[Float, Float, Float]:
    return samples.q, samples.dq, samples.ddq
