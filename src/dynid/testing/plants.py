"""Logs of published robots, simulated by pinocchio with effects that the default model lacks.

A link follows a random motion; pinocchio gives the torque at the link; the joint's spring bends under it; the motor
turns ahead by the deflection and feels its rotor, friction, ripple and cables. Encoders sit at the motors. Only the
random motion is computed by dynid. Needs the packages `pin` and `example-robot-data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot import load_robot
from dynid.robot.model import Limits, RobotModel
from dynid.trajectories.trajectory import FourierTrajectory

if TYPE_CHECKING:
    import pinocchio as pin

__all__ = [
    "DEVELOPED",
    "REPORTED",
    "SECONDS",
    "STRANGERS",
    "Moves",
    "Plant",
    "Recorded",
    "Stop",
    "Unmodelled",
    "described_as",
    "driven",
    "example_robots",
    "in_turns",
    "on_moving_base",
    "plant",
    "record",
    "urdf_of",
]

# Robots that thresholds are developed on, and robots that are only reported: file in example-robot-data, rate of the
# log in Hz, top speed in rad/s. Two of the first appear again at another rate and speed.
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
# All of these and further ones, for campaigns whose results set no threshold.
STRANGERS = {
    **DEVELOPED,
    **REPORTED,
    "a1": ("a1_description/urdf/a1.urdf", 250.0, 4.0),
    "go2": ("go2_description/urdf/go2.urdf", 100.0, 4.0),
    "solo12": ("solo_description/robots/solo12.urdf", 125.0, 4.0),
    "ur5_gripper": ("ur_description/urdf/ur5_gripper.urdf", 100.0, 1.0),
}
SECONDS, HARMONICS, FUNDAMENTAL = 24.0, 5, 0.1  # s, -, Hz
FINE = 4  # simulation steps per sample
REACH = 1.5  # rad about the middle of a joint's range
STANDS, SETTLES = 1e-6, 0.05  # rad/s below which a joint is at rest; s in which its friction settles
MASSES_OFF = (0.05, 0.3)  # shares by which masses of a described robot are off
LEAST_SCALE = 0.02  # of the strongest joint: drives of light joints are not much smaller


@dataclass(frozen=True)
class Unmodelled:
    """Effects of a plant that the default model lacks; 0 = absent.

    Parameters
    ----------
    flexibility : float
        Deflection at the joint's largest torque, rad.
    hysteresis : float
        Distance over which friction builds up, rad.
    cable, ripple : float
        Torque of cables, and of the gear's teeth, as a share of the joint's torque.
    gear_friction : float
        Share of Coulomb friction that varies with the gear's position.
    warming : float
        Share of viscous friction lost over the log.
    current : float
        Share of torque lost at the peak.
    stale : float
        Share of samples that repeat the one before.
    encoder : float
        Counts per turn.
    torque_step : float
        Resolution of torque, as a share of the peak.
    lean : float
        Tilt of the base, rad.
    loaded : float
        Share of the link's torque that the gear loses to friction.
    at_rest : float
        Share of Coulomb friction up to which a joint at rest is held; drawn anew, to either side, for each dwell.

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
        """Draw effects: each in two logs of five, as large as on real arms."""
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
        sizes = {name: float(rng.uniform(*ends)) for name, ends in ranges.items()}
        kept = {name: size for name, size in sizes.items() if rng.random() < 0.4}
        return Unmodelled(**kept, encoder=float(2.0 ** rng.integers(14, 20)))

    @property
    def names(self) -> frozenset[str]:
        """Names of the effects that are present."""
        return frozenset(name for name, value in vars(self).items() if value and name != "encoder")


@dataclass(frozen=True, eq=False)
class Plant:
    """A robot with its true masses, rotors and friction.

    Parameters
    ----------
    described : RobotModel
        The model of the robot's URDF, masses exact.
    model : pinocchio.Model
        The simulated robot.
    rate : float
        Sampling rate of its logs, Hz.
    scale : ndarray, shape (n,)
        Usual torque of each joint, N m.
    rotor, viscous, coulomb : ndarray, shape (n,)
        Reflected rotor inertias and friction.
    speed : float
        Top speed, rad/s.

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

    Parameters
    ----------
    starts, seconds : ndarray, shape (K,)
        Start and duration of each move, s.
    poses : ndarray, shape (K + 1, n)
        Poses between them.

    """

    starts: Float
    seconds: Float
    poses: Float

    @staticmethod
    def random(robot: RobotModel, seconds: float, rng: np.random.Generator, standing: float = 0.0) -> Moves:
        """Draw moves within the limits, at 40 to 100 % of the top speed, with pauses of up to 2 s.

        Parameters
        ----------
        robot : RobotModel
            Limits and number of joints.
        seconds : float
            Length, s.
        rng : numpy.random.Generator
            Draws the moves.
        standing : float
            Probability that a joint keeps its position while others move.

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
        """Positions, velocities and accelerations at times t, each of shape (T, n)."""
        x = np.clip((t[:, None] - self.starts) / self.seconds, 0.0, 1.0)
        way = np.diff(self.poses, axis=0)
        q = self.poses[0] + (x**3 * (10.0 - 15.0 * x + 6.0 * x**2)) @ way
        dq = (30.0 * x**2 * (1.0 - x) ** 2 / self.seconds) @ way
        return q, dq, (60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / self.seconds**2) @ way


@dataclass(frozen=True, eq=False)
class Recorded:
    """A log: t of shape (T,), q, dq and tau of shape (T, n), and the effects of its plant."""

    t: Float
    q: Float
    dq: Float
    tau: Float
    effects: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True)
class Stop:
    """Joints that slow down from `start` on for `slowing` seconds and are at rest until `end`, s.

    Half a second later they have their speed again.

    Parameters
    ----------
    brake : float, "last" or None
        Torque of the motors under a brake as a multiple of `Plant.scale`, or the last value before it. None: no brake,
        the servos carry the links.
    catches : bool
        Whether the brakes stop the motion itself, rather than joints at rest.

    """

    joints: tuple[int, ...]
    start: float
    end: float
    slowing: float = 0.2
    brake: float | Literal["last"] | None = None
    catches: bool = False


@cache
def example_robots() -> Path:
    """The folder of robots of the package example-robot-data."""
    known = files("example-robot-data") or []
    path = next(p for p in known if str(p).endswith("ur_description/urdf/ur5_robot.urdf"))
    return Path(str(path.locate())).resolve().parents[2]


def urdf_of(name: str) -> Path:
    """The published URDF of a robot."""
    return example_robots() / STRANGERS[name][0]


def plant(name: str, rng: np.random.Generator) -> Plant:
    """A robot of `STRANGERS`, with friction and rotors drawn."""
    import pinocchio as pin

    _, rate, speed = STRANGERS[name]
    return driven(load_robot(urdf_of(name)), pin.buildModelFromUrdf(str(urdf_of(name))), rate, speed, rng)


def driven(
    described: RobotModel, model: pin.Model, rate: float, speed: float, rng: np.random.Generator
) -> Plant:
    """A robot with friction and rotors drawn.

    Parameters
    ----------
    described : RobotModel
        The model of its URDF.
    model : pinocchio.Model
        The same links as a tree in the same order; joints that follow others are joints of their own.
    rate, speed : float
        Of its logs, Hz, and its top speed, rad/s (m/s).
    rng : numpy.random.Generator
        Draws friction and rotors.

    """
    import pinocchio as pin

    data, n = model.createData(), described.n
    bounded = _within(described, speed)
    angles = rng.uniform(bounded.limits.lower, bounded.limits.upper, (200, n))
    P = described.projection
    poses = [_configuration(model, q) for q in described.tree_motion(angles, angles, angles)[0]]
    gravity = np.stack([pin.computeGeneralizedGravity(model, data, q) for q in poses]) @ P
    inertia = np.mean([np.diag(P.T @ _symmetric(pin.crba(model, data, q)) @ P) for q in poses], axis=0)
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


def _symmetric(M: Float) -> Float:
    # pinocchio fills the upper triangle only.
    return np.asarray(np.triu(M) + np.triu(M, 1).T)


def record(
    arm: Plant,
    rng: np.random.Generator,
    lacks: Unmodelled,
    seconds: float = SECONDS,
    load: float = 0.0,
    machine: np.random.Generator | None = None,
    stops: Sequence[Stop] = (),
    moves: bool = False,
    standing: float = 0.0,
    largest: Float | None = None,
) -> Recorded:
    """Measure a random motion of a plant.

    Parameters
    ----------
    arm : Plant
        The robot.
    rng : numpy.random.Generator
        Draws the motion and the noise.
    lacks : Unmodelled
        Effects beyond the default model.
    seconds : float
        Length of the log, s.
    load : float
        Mass on the last link, 0.1 m from its joint, kg.
    machine : numpy.random.Generator, optional
        Draws gears and cables; two logs of one machine take the same seed. None: `rng`.
    stops : sequence of Stop
        Joints at rest while others move.
    moves : bool
        Moves from pose to pose in place of a Fourier series.
    standing : float
        Probability that a joint keeps its position in such a move.
    largest : ndarray, shape (n,), N m, optional
        Largest torque of each joint of the machine, to which deflection, saturation, noise and resolution refer; its
        offsets are then the machine's, too. None: that of this log, whose offsets are its own.

    Returns
    -------
    Recorded
        The log.

    """
    machine = rng if machine is None else machine
    robot, n = arm.described, arm.described.n
    motion: Moves | FourierTrajectory = (
        Moves.random(robot, seconds, rng, standing)
        if moves
        else FourierTrajectory.random(robot, seconds, HARMONICS, int(rng.integers(2**31)), FUNDAMENTAL)
    )
    t = np.arange(0.0, seconds, 1.0 / (FINE * arm.rate))
    q, dq, ddq = _stopped(motion, t, stops) if stops else motion.motion(t)
    moved = _changed(arm.model, lacks.lean, load, rng)
    link = _link_torque(moved, *robot.tree_motion(q, dq, ddq)) @ robot.projection
    peak = np.abs(link).max(axis=0) if largest is None else largest
    theta = q + lacks.flexibility * link / peak
    dtheta = np.gradient(theta, t, axis=0)
    tau = link + arm.rotor * np.gradient(dtheta, t, axis=0)
    tau += _friction(arm, lacks, t, theta, dtheta, machine, rng)
    tau += lacks.loaded * np.abs(link) * np.tanh(dtheta / (5e-3 * arm.speed))
    tau += 0.01 * arm.scale * (rng if largest is None else machine).uniform(-1.0, 1.0, n)  # offsets
    if lacks.ripple:
        tau += (
            lacks.ripple
            * arm.scale
            * np.sin(machine.integers(30, 90, n) * theta + machine.uniform(0, 6.28, n))
        )
    if lacks.cable:
        tau += (
            lacks.cable * arm.scale * (0.5 * theta + 0.5 * np.sin(2.0 * theta + machine.uniform(0, 6.28, n)))
        )
    if lacks.current:
        tau -= lacks.current * tau * np.abs(tau) / (np.abs(tau).max(axis=0) if largest is None else largest)
    log = _measured(arm, lacks, rng, t[::FINE], theta[::FINE], dtheta[::FINE], tau[::FINE], largest)
    return _braked(arm, log, stops) if stops else log


def on_moving_base(arm: Plant, log: Recorded, acceleration: Float) -> Recorded:
    """A log as recorded on a base that accelerates without turning.

    Parameters
    ----------
    arm : Plant
        The robot.
    log : Recorded
        A log on a fixed base.
    acceleration : ndarray, shape (T, 3)
        Of the base in its axes, m/s^2.

    """
    import pinocchio as pin

    model, tau = arm.model.copy(), log.tau.copy()
    data, still = model.createData(), np.zeros(model.nv)
    for i, a in enumerate(acceleration):
        model.gravity.linear = -a
        tau[i] += pin.rnea(model, data, _configuration(model, log.q[i]), still, still)
    return replace(log, tau=tau)


def _stopped(
    motion: Moves | FourierTrajectory, t: Float, stops: Sequence[Stop]
) -> tuple[Float, Float, Float]:
    # Each joint follows its motion at its own pace.
    q = motion.motion(t)[0]
    for j in range(q.shape[1]):
        pace = np.ones(len(t))
        for stop in stops:
            if j in stop.joints:
                slower = 1.0 - _eased((t - stop.start) / stop.slowing)
                pace *= np.maximum(slower, _eased((t - stop.end) / 0.5))
        elapsed = np.concatenate([[0.0], np.cumsum(0.5 * (pace[1:] + pace[:-1]) * np.diff(t))])
        q[:, j] = motion.motion(elapsed)[0][:, j]
    dq = np.gradient(q, t, axis=0)
    return q, dq, np.gradient(dq, t, axis=0)


def _eased(x: Float) -> Float:
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def _braked(arm: Plant, log: Recorded, stops: Sequence[Stop]) -> Recorded:
    tau = np.array(log.tau)
    for stop in stops:
        since = stop.start if stop.catches else stop.start + stop.slowing
        inside = np.flatnonzero((log.t >= since) & (log.t < stop.end))
        for j in stop.joints:
            if stop.brake == "last":
                tau[inside, j] = tau[inside[0], j]
            elif stop.brake is not None:
                random = np.random.default_rng([j, len(inside)])
                noise = 0.005 * arm.scale[j] * random.normal(size=len(inside))
                tau[inside, j] = float(stop.brake) * arm.scale[j] + noise
    return replace(log, tau=tau)


def _measured(
    arm: Plant,
    lacks: Unmodelled,
    rng: np.random.Generator,
    t: Float,
    q: Float,
    dq: Float,
    tau: Float,
    largest: Float | None,
) -> Recorded:
    peak = np.abs(tau).max(axis=0) if largest is None else largest
    step = 2.0 * np.pi / lacks.encoder
    read_tau = tau + 0.005 * peak * rng.normal(size=tau.shape)
    if lacks.torque_step:
        read_tau = np.round(read_tau / (lacks.torque_step * peak)) * (lacks.torque_step * peak)
    # A drive's velocity: differences of its encoder over 8 ms.
    noise = step / 8e-3 / np.sqrt(12.0)
    columns = [np.round(q / step) * step, dq + noise * rng.normal(size=dq.shape), read_tau]
    if lacks.stale:
        rows = np.arange(len(t))
        rows[1:][rng.random(len(t) - 1) < lacks.stale] -= 1
        columns = [column[rows] for column in columns]
    return Recorded(t, columns[0], columns[1], columns[2], lacks.names)


def _friction(
    arm: Plant,
    lacks: Unmodelled,
    t: Float,
    theta: Float,
    dtheta: Float,
    machine: np.random.Generator,
    rng: np.random.Generator,
) -> Float:
    # machine draws the gears; rng the friction of each dwell, of which two logs have different numbers.
    n = theta.shape[1]
    if lacks.hysteresis:
        # One Maxwell slip element per joint: friction builds up over a distance, then slips.
        sign, z = np.empty_like(theta), np.zeros(n)
        steps = np.diff(theta, axis=0, prepend=theta[:1]) / lacks.hysteresis
        for i, step in enumerate(steps):
            z = np.clip(z + step, -1.0, 1.0)
            sign[i] = z
    else:
        sign = np.tanh(dtheta / (5e-3 * arm.speed))
    if lacks.at_rest:
        sign = _held(sign, dtheta, t, lacks.at_rest, rng)
    coulomb = arm.coulomb * (1.0 + 0.15 * np.exp(-((dtheta / (0.05 * arm.speed)) ** 2)))
    if lacks.gear_friction:
        coulomb = coulomb * (
            1.0
            + lacks.gear_friction * np.cos(machine.integers(20, 60, n) * theta + machine.uniform(0, 6.28, n))
        )
    warm = 1.0 - lacks.warming * (1.0 - np.exp(-t / (0.5 * t[-1])))[:, None]
    return np.asarray(coulomb * sign + warm * arm.viscous * dtheta)


def _held(sign: Float, dtheta: Float, t: Float, most: float, rng: np.random.Generator) -> Float:
    # Friction settles on a random value at each dwell and leaves it with the next motion.
    sign = np.array(sign)
    for j in range(sign.shape[1]):
        edges = np.flatnonzero(np.diff(np.abs(dtheta[:, j]) < STANDS, prepend=False, append=False))
        for a, b in zip(edges[::2], edges[1::2] - 1, strict=True):
            if t[b] - t[a] >= 2.0 * SETTLES:
                share = _eased((t[a : b + 1] - t[a]) / SETTLES) * _eased((t[b] - t[a : b + 1]) / SETTLES)
                sign[a : b + 1, j] += share * (most * rng.uniform(-1.0, 1.0) - sign[a : b + 1, j])
    return sign


def _link_torque(model: pin.Model, q: Float, dq: Float, ddq: Float) -> Float:
    import pinocchio as pin

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
    import pinocchio as pin

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


def in_turns(joints: int, seconds: float, slowing: float = 0.4) -> list[Stop]:
    """Stops that let one joint after the other move.    slowing: s that a joint takes to stop."""
    part = seconds / joints
    stops = []
    for j in range(joints):
        stops += [Stop((j,), -1.0, j * part)] if j else []
        stops += [Stop((j,), (j + 1) * part - slowing, 2.0 * seconds, slowing)] if j < joints - 1 else []
    return stops


def described_as(name: str, kind: str, rng: np.random.Generator, path: Path) -> None:
    """Write a robot's URDF without meshes, its inertias exact, off, placeholders or missing.

    Parameters
    ----------
    name : str
        Robot of `STRANGERS`.
    kind : {"exact", "off", "placeholders", "none"}
        Inertias: as published; off by 5 to 30 %; 1 kg and 1 kg m^2; missing.
    rng : numpy.random.Generator
        Draws the errors.
    path : Path
        The file to write.

    """
    tree = ElementTree.parse(urdf_of(name))  # noqa: S314 - of an installed package
    for link in tree.getroot().findall("link"):
        for tag in ("visual", "collision"):
            for part in link.findall(tag):
                link.remove(part)
        inertial = link.find("inertial")
        if inertial is None:
            continue
        if kind == "none":
            link.remove(inertial)
        elif kind == "placeholders":
            for part in list(inertial):
                inertial.remove(part)
            ElementTree.SubElement(inertial, "mass", value="1.0")
            unit = {"ixx": "1.0", "iyy": "1.0", "izz": "1.0", "ixy": "0.0", "ixz": "0.0", "iyz": "0.0"}
            ElementTree.SubElement(inertial, "inertia", unit)
        elif kind == "off":
            factor = 1.0 + float(rng.choice([-1.0, 1.0]) * rng.uniform(*MASSES_OFF))
            for part in (*inertial.findall("mass"), *inertial.findall("inertia")):
                for key, value in list(part.attrib.items()):
                    part.set(key, repr(factor * float(value)))
    tree.write(path)
