"""Robots as they are, simulated by pinocchio with what real ones have and dynid's model lacks.

A link follows a random motion; pinocchio gives the torque at the link; the joint's spring bends under it; the motor
turns ahead by the deflection and feels its rotor, friction, ripple and cables. Encoders sit at the motors. Nothing here
is computed by dynid but the random motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Literal

import numpy as np
import pinocchio as pin

from dynid.base.arrays import Float
from dynid.robot import load_robot
from dynid.robot.model import Limits, RobotModel
from dynid.trajectories.trajectory import FourierTrajectory

# Robots to develop with, and others to report: file in example-robot-data, rate of the log in Hz, top speed in rad/s.
# Of those to develop with two come again at another rate and speed.
DEVELOPED = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", 125.0, 2.0),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", 250.0, 2.0),
    "so101": ("so_arm_description/urdf/so101.urdf", 100.0, 2.5),
    "finger": ("finger_edu_description/robots/finger_edu.urdf", 1000.0, 4.0),
    "ur5 at 500 Hz": ("ur_description/urdf/ur5_robot.urdf", 500.0, 1.2),
    "slow xarm7": ("xarm_description/urdf/xarm7.urdf", 100.0, 0.8),
}
REPORTED = {
    "ur10": ("ur_description/urdf/ur10_robot.urdf", 500.0, 1.5),
    "ur3": ("ur_description/urdf/ur3_robot.urdf", 125.0, 2.5),
    "talos_left_arm": ("talos_data/robots/talos_left_arm.urdf", 200.0, 1.8),
    "z1": ("z1_description/urdf/z1.urdf", 250.0, 2.5),
    "kinova": ("kinova_description/robots/kinova.urdf", 100.0, 0.8),
}
# Of all of these and further ones, what no threshold is developed on: `strangers.py`.
STRANGERS = {
    **DEVELOPED,
    **REPORTED,
    "a1": ("a1_description/urdf/a1.urdf", 250.0, 4.0),
    "go2": ("go2_description/urdf/go2.urdf", 100.0, 4.0),
    "solo12": ("solo_description/robots/solo12.urdf", 125.0, 4.0),
    "ur5_gripper": ("ur_description/urdf/ur5_gripper.urdf", 100.0, 1.0),
}
SECONDS, HARMONICS, FUNDAMENTAL = 24.0, 5, 0.1  # s, -, Hz
FINE = 4  # steps of the plant a sample
REACH = 1.5  # rad about the middle of a joint's range
STANDS, SETTLES = 1e-6, 0.05  # rad/s below which a joint stands; s in which friction settles there
LEAST_SCALE = 0.02  # of the strongest joint: drives of light joints are not much smaller


@dataclass(frozen=True)
class Unmodelled:
    """What a plant has beyond dynid's default model: sizes by effect, empty = none.

    flexibility: rad of deflection at the joint's largest torque.    hysteresis: rad over which friction builds up.
    cable: share of the joint's torque.    ripple: the same.    gear_friction: share of Coulomb friction that turns with
    the gear.    warming: share of viscous friction lost over the log.    current: share of torque lost at the peak.
    stale: share of samples that repeat the one before.    encoder: counts a turn.    torque_step: share of the peak.
    lean: rad.    loaded: share of the link's torque that the gear's teeth lose to friction.
    at_rest: share of Coulomb friction up to which a joint that stands is held, anew and to either side in each stand.
    """

    flexibility: float = 0.0
    hysteresis: float = 0.0
    cable: float = 0.0
    ripple: float = 0.0
    gear_friction: float = 0.0
    warming: float = 0.0
    current: float = 0.0
    stale: float = 0.0
    encoder: float = 2.0**17
    torque_step: float = 0.0
    lean: float = 0.0
    loaded: float = 0.0
    at_rest: float = 0.0

    @staticmethod
    def random(rng: np.random.Generator) -> Unmodelled:
        """Each effect in two logs of five, as large as on real arms."""
        ranges = {
            "flexibility": (1e-3, 5e-3),
            "hysteresis": (1e-3, 5e-3),
            "cable": (0.005, 0.02),
            "ripple": (0.005, 0.02),
            "gear_friction": (0.05, 0.2),
            "warming": (0.05, 0.15),
            "current": (0.005, 0.03),
            "stale": (0.02, 0.1),
            "torque_step": (0.002, 0.005),
            "lean": (np.deg2rad(0.1), np.deg2rad(0.4)),
        }
        found = {name: float(rng.uniform(*ends)) for name, ends in ranges.items()}
        kept = {name: value for name, value in found.items() if rng.random() < 0.4}
        return Unmodelled(**kept, encoder=float(2.0 ** rng.integers(14, 20)))

    @property
    def names(self) -> frozenset[str]:
        """The effects that are there."""
        return frozenset(name for name, value in vars(self).items() if value and name != "encoder")


@dataclass(frozen=True, eq=False)
class Plant:
    """A robot as it is.    described: what its URDF says of it, masses exact.

    scale: (n,) N m, torque that is usual for each joint.    rotor, viscous, coulomb: (n,).
    """

    described: RobotModel
    model: pin.Model
    rate: float
    scale: Float
    rotor: Float
    viscous: Float
    coulomb: Float
    speed: float


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves of all joints from pose to pose along a polynomial of degree five, with pauses.

    starts, seconds: (K,) s.    poses: (K + 1, n).
    """

    starts: Float
    seconds: Float
    poses: Float

    @staticmethod
    def random(robot: RobotModel, seconds: float, rng: np.random.Generator, standing: float = 0.0) -> Moves:
        """Between poses within the limits, at 40 to 100 % of the top speed, with pauses of up to 2 s.

        standing: chance that a joint keeps its place while others move.
        """
        lower, upper, top = robot.limits.lower, robot.limits.upper, robot.limits.velocity
        poses, starts, lasting, now = [0.5 * (lower + upper)], [], [], 0.0
        while now < seconds:
            poses.append(lower + (upper - lower) * rng.uniform(0.05, 0.95, robot.n))
            if standing:
                keeps = rng.random(robot.n) < standing
                keeps[rng.integers(robot.n)] = False
                poses[-1] = np.where(keeps, poses[-2], poses[-1])
            # The polynomial's top speed is 15 / 8 of the mean one.
            needed = float((1.875 * np.abs(poses[-1] - poses[-2]) / top).max()) / rng.uniform(0.4, 1.0)
            starts.append(now)
            lasting.append(max(needed, 0.5))
            now += lasting[-1] + float(rng.choice([0.0, 0.1, 0.5, 2.0]))
        return Moves(np.array(starts), np.array(lasting), np.array(poses))

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """q, dq, ddq (T, n)."""
        x = np.clip((t[:, None] - self.starts) / self.seconds, 0.0, 1.0)
        way = np.diff(self.poses, axis=0)
        q = self.poses[0] + (x**3 * (10.0 - 15.0 * x + 6.0 * x**2)) @ way
        dq = (30.0 * x**2 * (1.0 - x) ** 2 / self.seconds) @ way
        return q, dq, (60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / self.seconds**2) @ way


@dataclass(frozen=True, eq=False)
class Recorded:
    """A log: t (T,), q, dq, tau (T, n), and what was in the plant."""

    t: Float
    q: Float
    dq: Float
    tau: Float
    effects: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True)
class Stop:
    """Joints that slow down from `start` on for `slowing` seconds and stand until `end`, s.

    Half a second later they are back at their pace.

    brake: what the motors give, N m by `Plant.scale`, or "last", the value that they gave last; None = servos hold.
    catches: whether the brakes take the motion itself, and not the standing joints.
    """

    joints: tuple[int, ...]
    start: float
    end: float
    slowing: float = 0.2
    brake: float | Literal["last"] | None = None
    catches: bool = False


@cache
def _root() -> Path:
    known = files("example-robot-data") or []
    path = next(p for p in known if str(p).endswith("ur_description/urdf/ur5_robot.urdf"))
    return Path(str(path.locate())).resolve().parents[2]


def urdf_of(name: str) -> Path:
    """The published description of a robot."""
    return _root() / STRANGERS[name][0]


def plant(name: str, rng: np.random.Generator) -> Plant:
    """A robot by its name, with friction and rotors drawn."""
    _, rate, speed = STRANGERS[name]
    described = load_robot(urdf_of(name))
    model = pin.buildModelFromUrdf(str(urdf_of(name)))
    data, n = model.createData(), described.n
    bounded = _within(described, speed)
    angles = rng.uniform(bounded.limits.lower, bounded.limits.upper, (200, n))
    poses = [_configuration(model, q) for q in angles]
    gravity = np.stack([pin.computeGeneralizedGravity(model, data, q) for q in poses])
    inertia = np.mean([np.diag(pin.crba(model, data, q)) for q in poses], axis=0)
    scale = np.maximum(np.abs(gravity).max(axis=0), 2.0 * speed * inertia)
    scale = np.maximum(scale, LEAST_SCALE * scale.max())
    return Plant(
        described=bounded,
        model=model,
        rate=rate,
        scale=scale,
        rotor=np.maximum(inertia, 0.1 * scale / speed) * rng.uniform(0.2, 0.8, n),
        viscous=scale * rng.uniform(0.05, 0.15, n) / speed,
        coulomb=scale * rng.uniform(0.05, 0.2, n),
        speed=speed,
    )


def record(
    one: Plant,
    rng: np.random.Generator,
    lacks: Unmodelled,
    seconds: float = SECONDS,
    load: float = 0.0,
    machine: np.random.Generator | None = None,
    stops: Sequence[Stop] = (),
    moves: bool = False,
    standing: float = 0.0,
) -> Recorded:
    """A random motion of a plant, measured.    load: kg, fixed to the last link 0.1 m from its joint.

    machine: draws gears and cables, which are the same in two logs where it has the same seed; None = `rng`.
    stops: times at which joints are stopped, and stand.    moves: from pose to pose, in place of a Fourier series.
    standing: chance that a joint keeps its place in such a move.
    """
    machine = rng if machine is None else machine
    robot, n = one.described, one.described.n
    motion: Moves | FourierTrajectory = (
        Moves.random(robot, seconds, rng, standing)
        if moves
        else FourierTrajectory.random(robot, seconds, HARMONICS, int(rng.integers(2**31)), FUNDAMENTAL)
    )
    t = np.arange(0.0, seconds, 1.0 / (FINE * one.rate))
    q, dq, ddq = _stopped(motion, t, stops) if stops else motion.motion(t)
    link = _link_torque(_changed(one.model, lacks.lean, load, rng), q, dq, ddq)
    peak = np.abs(link).max(axis=0)
    theta = q + lacks.flexibility * link / peak
    dtheta = np.gradient(theta, t, axis=0)
    tau = link + one.rotor * np.gradient(dtheta, t, axis=0)
    tau += _friction(one, lacks, t, theta, dtheta, machine, rng)
    tau += lacks.loaded * np.abs(link) * np.tanh(dtheta / (5e-3 * one.speed))
    tau += 0.01 * one.scale * rng.uniform(-1.0, 1.0, n)  # offsets
    if lacks.ripple:
        tau += (
            lacks.ripple
            * one.scale
            * np.sin(machine.integers(30, 90, n) * theta + machine.uniform(0, 6.28, n))
        )
    if lacks.cable:
        tau += (
            lacks.cable * one.scale * (0.5 * theta + 0.5 * np.sin(2.0 * theta + machine.uniform(0, 6.28, n)))
        )
    if lacks.current:
        tau -= lacks.current * tau * np.abs(tau) / np.abs(tau).max(axis=0)
    made = _measured(one, lacks, rng, t[::FINE], theta[::FINE], dtheta[::FINE], tau[::FINE])
    return _braked(one, made, stops) if stops else made


def on_moving_base(one: Plant, log: Recorded, acceleration: Float) -> Recorded:
    """A log as recorded on a base that moves without turning.    acceleration: (T, 3) in its axes, m/s^2."""
    model, tau = one.model.copy(), log.tau.copy()
    data, still = model.createData(), np.zeros(model.nv)
    for i, a in enumerate(acceleration):
        model.gravity.linear = -a
        tau[i] += pin.rnea(model, data, _configuration(model, log.q[i]), still, still)
    return replace(log, tau=tau)


def _stopped(
    motion: Moves | FourierTrajectory, t: Float, stops: Sequence[Stop]
) -> tuple[Float, Float, Float]:
    # Each joint follows its motion in a time of its own.
    q = motion.motion(t)[0]
    for j in range(q.shape[1]):
        pace = np.ones(len(t))
        for one in stops:
            if j in one.joints:
                slower = 1.0 - _eased((t - one.start) / one.slowing)
                pace *= np.maximum(slower, _eased((t - one.end) / 0.5))
        own = np.concatenate([[0.0], np.cumsum(0.5 * (pace[1:] + pace[:-1]) * np.diff(t))])
        q[:, j] = motion.motion(own)[0][:, j]
    dq = np.gradient(q, t, axis=0)
    return q, dq, np.gradient(dq, t, axis=0)


def _eased(x: Float) -> Float:
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def _braked(one: Plant, made: Recorded, stops: Sequence[Stop]) -> Recorded:
    tau = np.array(made.tau)
    for stop in stops:
        since = stop.start if stop.catches else stop.start + stop.slowing
        inside = np.flatnonzero((made.t >= since) & (made.t < stop.end))
        for j in stop.joints if stop.brake is not None else ():
            if stop.brake == "last":
                tau[inside, j] = tau[inside[0], j]
            else:
                random = np.random.default_rng([j, len(inside)])
                noise = 0.005 * one.scale[j] * random.normal(size=len(inside))
                tau[inside, j] = float(stop.brake) * one.scale[j] + noise
    return replace(made, tau=tau)


def _measured(
    one: Plant, lacks: Unmodelled, rng: np.random.Generator, t: Float, q: Float, dq: Float, tau: Float
) -> Recorded:
    peak, step = np.abs(tau).max(axis=0), 2.0 * np.pi / lacks.encoder
    seen_tau = tau + 0.005 * peak * rng.normal(size=tau.shape)
    if lacks.torque_step:
        seen_tau = np.round(seen_tau / (lacks.torque_step * peak)) * (lacks.torque_step * peak)
    # A drive's velocity: differences of its encoder over 8 ms.
    noise = step / 8e-3 / np.sqrt(12.0)
    columns = [np.round(q / step) * step, dq + noise * rng.normal(size=dq.shape), seen_tau]
    if lacks.stale:
        held = np.arange(len(t))
        held[1:][rng.random(len(t) - 1) < lacks.stale] -= 1
        columns = [column[held] for column in columns]
    return Recorded(t, columns[0], columns[1], columns[2], lacks.names)


def _friction(
    one: Plant,
    lacks: Unmodelled,
    t: Float,
    theta: Float,
    dtheta: Float,
    machine: np.random.Generator,
    rng: np.random.Generator,
) -> Float:
    # machine: draws the gears.    rng: what friction holds in each stand, of which two logs have different numbers.
    n = theta.shape[1]
    if lacks.hysteresis:
        # One Maxwell slip element a joint: friction builds up over a way, then slips.
        sign, z = np.empty_like(theta), np.zeros(n)
        steps = np.diff(theta, axis=0, prepend=theta[:1]) / lacks.hysteresis
        for i, step in enumerate(steps):
            z = np.clip(z + step, -1.0, 1.0)
            sign[i] = z
    else:
        sign = np.tanh(dtheta / (5e-3 * one.speed))
    if lacks.at_rest:
        sign = _held(sign, dtheta, t, lacks.at_rest, rng)
    coulomb = one.coulomb * (1.0 + 0.15 * np.exp(-((dtheta / (0.05 * one.speed)) ** 2)))
    if lacks.gear_friction:
        coulomb = coulomb * (
            1.0
            + lacks.gear_friction * np.cos(machine.integers(20, 60, n) * theta + machine.uniform(0, 6.28, n))
        )
    warm = 1.0 - lacks.warming * (1.0 - np.exp(-t / (0.5 * t[-1])))[:, None]
    return coulomb * sign + warm * one.viscous * dtheta


def _held(sign: Float, dtheta: Float, t: Float, most: float, rng: np.random.Generator) -> Float:
    # Friction at rest settles on a value of its own, and goes on from there with the next motion.
    sign = np.array(sign)
    for j in range(sign.shape[1]):
        edges = np.flatnonzero(np.diff(np.abs(dtheta[:, j]) < STANDS, prepend=False, append=False))
        for a, b in zip(edges[::2], edges[1::2] - 1, strict=True):
            if t[b] - t[a] >= 2.0 * SETTLES:
                share = _eased((t[a : b + 1] - t[a]) / SETTLES) * _eased((t[b] - t[a : b + 1]) / SETTLES)
                sign[a : b + 1, j] += share * (most * rng.uniform(-1.0, 1.0) - sign[a : b + 1, j])
    return sign


def _link_torque(model: pin.Model, q: Float, dq: Float, ddq: Float) -> Float:
    data, total = model.createData(), np.empty_like(q)
    for i in range(len(q)):
        total[i] = pin.rnea(model, data, _configuration(model, q[i]), dq[i], ddq[i])
    return total


def _configuration(model: pin.Model, q: Float) -> Float:
    if model.nq == model.nv:
        return q
    parts = [
        [np.cos(angle), np.sin(angle)] if joint.nq == 2 else [angle]
        for angle, joint in zip(q, list(model.joints)[1:], strict=True)
    ]
    return np.concatenate(parts)


def _changed(model: pin.Model, lean: float, load: float, rng: np.random.Generator) -> pin.Model:
    changed = model.copy()
    azimuth = rng.uniform(0.0, 2.0 * np.pi)
    if lean:
        g = np.linalg.norm(model.gravity.linear)
        changed.gravity.linear = g * np.array(
            [np.sin(lean) * np.cos(azimuth), np.sin(lean) * np.sin(azimuth), -np.cos(lean)]
        )
    if load:
        way = rng.normal(size=3)
        body = pin.Inertia(load, 0.1 * way / np.linalg.norm(way), 1e-3 * load * np.eye(3))
        changed.inertias[changed.njoints - 1] = changed.inertias[changed.njoints - 1] + body
    return changed


def _within(robot: RobotModel, speed: float) -> RobotModel:
    lower, upper = np.maximum(robot.limits.lower, -3.0), np.minimum(robot.limits.upper, 3.0)
    middle = 0.5 * (lower + upper)
    reach = np.minimum(0.5 * (upper - lower), REACH)
    full = np.full(robot.n, np.inf)
    return replace(robot, limits=Limits(middle - reach, middle + reach, np.full(robot.n, speed), full))
