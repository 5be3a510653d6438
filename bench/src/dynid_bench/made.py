"""Two made sets: arms simulated by MuJoCo with known links, and with effects that dynid's model does not describe.

`made_elastic_arm`: six turning joints. Each motor drives its link through a spring, and the log shows the motor only.
Friction builds up over a distance (Maxwell slip) with a Stribeck peak; gears have teeth; encoders count.
`made_rail_arm`: an arm of four turning joints on a rail. Viscous friction falls while the drives warm up, dry friction
grows with the load, drives lose torque at high current, hoses pull, the torque is logged late and samples repeat.

Everything is drawn from a seed: links, drives, sizes of effects, motions. URDFs have masses that are off by 5 to 30 %.
MuJoCo computes motion and torque; dynid has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np

from dynid.base import Float
from dynid.spatial import from_com, placement
from dynid_bench.bodies import Body, mjcf
from dynid_bench.dataset import DataSet
from dynid_bench.protocol import Motion

STEP, EVERY = 5e-4, 8  # s; steps per sample: 250 Hz
BANDWIDTH = 5.0  # Hz, of the position controller
HARMONICS, FUNDAMENTAL = 5, 0.1  # -, Hz
# Share of the lengths in a quick run, s of each motion in a full one, and recordings for intervals.
QUICK, TRAINING, HELD_OUT, REPEATS = 0.4, 20.0, 10.0, 3
PACES = {"slower": 0.4, "faster": 1.6}
ASIDE = 1.0  # rad by which the motion "elsewhere" is moved aside
CUTOFF = 8.0  # Hz, of the scores
REASON = (
    "Training on one Fourier series; held out are another one, the same kind at 0.4 and 1.6 times the speed, one a "
    "radian aside, and moves from pose to pose with pauses."
)
TITLES = {
    "made_elastic_arm": "made arm, 6 joints: springs behind the motors, friction that builds up, teeth",
    "made_rail_arm": "made arm, a rail and 4 joints: warming, friction by load, saturation, hoses, late torque",
}


@dataclass(frozen=True, eq=False)
class Effects:
    """What the drives do; 0 = absent.

    Parameters
    ----------
    viscous, coulomb : ndarray, shape (n,), N m s/rad and N m (N s/m, N)
        Friction.
    stribeck : float
        Share by which dry friction is greater at rest.
    slip : float, rad (m)
        Distance over which friction builds up.
    teeth : float
        Torque with `count` periods a turn, as a share of the joint's.
    warming : float
        Share of viscous friction that is lost with a time constant of 10 s.
    loaded : float
        Share of the torque between motor and link that adds to dry friction.
    saturation : float
        Share of torque lost at the greatest.
    hose : float
        Torque of a cubic spring 1 rad from the middle, as a share of the joint's.
    late : int
        Samples by which torque is logged late.
    repeated : float
        Share of samples that repeat the one before.

    """

    viscous: Float
    coulomb: Float
    stribeck: float = 0.0
    slip: float = 1e-4
    teeth: float = 0.0
    count: int = 40
    warming: float = 0.0
    loaded: float = 0.0
    saturation: float = 0.0
    hose: float = 0.0
    late: int = 0
    repeated: float = 0.0


@dataclass(frozen=True, eq=False)
class Plant:
    """A made robot.

    bodies : true links.    prior : links as the URDF has them.    rotor, stiffness : of motors and springs.
    scale : usual torque of each joint, N m (N).    reach, speed : amplitudes of motion, rad (m) and rad/s (m/s).
    centre : middle of the training motion.
    """

    name: str
    bodies: list[Body]
    prior: list[Body]
    rotor: Float
    stiffness: Float | None
    effects: Effects
    scale: Float
    reach: Float
    speed: Float
    centre: Float
    logs_velocity: bool = True
    counts: float = 2.0**17
    payload: float = 0.0
    payload_inertia: Float = field(default_factory=lambda: np.zeros(10))

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.bodies)

    def truth(self) -> str:
        """The rigid robot with its true links and rotors, as MJCF."""
        return mjcf(self.bodies, self.rotor)


def made_elastic_arm(seed: int) -> Plant:
    """An arm of six turning joints with springs between motors and links."""
    rng = np.random.default_rng([seed, 1])
    axes = [(0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0)]
    offsets = [(0, 0, 0.3), (0.05, 0, 0.2), (0, 0, 0.45), (0.1, 0, 0.08), (0.3, 0, 0), (0.1, 0, 0)]
    masses = np.array([9.0, 8.0, 4.5, 3.0, 1.5, 0.6])
    ways = [(0, 0, 0.1), (0, 0.03, 0.2), (0.05, 0, 0.05), (0.12, 0, 0), (0.04, 0, 0.01), (0.02, 0.01, 0.02)]
    plant = _plant("made_elastic_arm", rng, axes, offsets, masses, ways, rail=False)
    plant = replace(plant, stiffness=plant.scale / rng.uniform(1.5e-3, 4e-3, plant.n))
    effects = replace(
        plant.effects,
        stribeck=float(rng.uniform(0.15, 0.4)),
        slip=float(rng.uniform(1e-3, 4e-3)),
        teeth=float(rng.uniform(0.01, 0.025)),
        count=int(rng.integers(30, 70)),
    )
    return replace(plant, effects=effects, counts=float(2.0 ** rng.integers(15, 18)))


def made_rail_arm(seed: int) -> Plant:
    """An arm of four turning joints on a rail."""
    rng = np.random.default_rng([seed, 2])
    axes = [(0, 1, 0), (0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 0, 1)]
    offsets = [(0, 0, 0.4), (0, 0, 0.1), (0, 0.1, 0.2), (0.4, 0, 0), (0.3, 0, -0.05)]
    masses = np.array([14.0, 6.0, 5.0, 3.0, 0.8])
    ways = [(0, 0.05, 0), (0, 0.02, 0.1), (0.18, 0, 0.02), (0.12, 0.01, 0), (0.02, 0, -0.06)]
    plant = _plant("made_rail_arm", rng, axes, offsets, masses, ways, rail=True)
    effects = replace(
        plant.effects,
        warming=float(rng.uniform(0.15, 0.35)),
        loaded=float(rng.uniform(0.03, 0.1)),
        saturation=float(rng.uniform(0.02, 0.05)),
        hose=float(rng.uniform(0.01, 0.03)),
        late=1,
        repeated=float(rng.uniform(0.02, 0.08)),
    )
    return replace(plant, effects=effects, logs_velocity=False, counts=float(2.0 ** rng.integers(16, 19)))


MADE: dict[str, Callable[[int], Plant]] = {
    "made_elastic_arm": made_elastic_arm,
    "made_rail_arm": made_rail_arm,
}


def _plant(
    name: str,
    rng: np.random.Generator,
    axes: Sequence[tuple[int, int, int]],
    offsets: Sequence[tuple[float, float, float]],
    masses: Float,
    ways: Sequence[tuple[float, float, float]],
    rail: bool,
) -> Plant:
    n = len(axes)
    bodies, prior = [], []
    for i in range(n):
        mass = masses[i] * rng.uniform(0.7, 1.4)
        centre = np.array(ways[i]) * rng.uniform(0.7, 1.3) + 0.01 * rng.normal(size=3)
        body = Body(
            f"joint{i + 1}",
            i - 1,
            rail and i == 0,
            placement(np.eye(3), np.array(offsets[i]) * rng.uniform(0.8, 1.2)),
            np.array(axes[i], dtype=float),
            _link(mass, centre, rng),
        )
        bodies.append(body)
        wrong = mass * (1.0 + rng.choice([-1.0, 1.0]) * rng.uniform(0.05, 0.3))
        prior.append(replace(body, inertia=_link(wrong, centre + 0.01 * rng.normal(size=3), rng)))
    speed = np.where([body.slides for body in bodies], 0.5, rng.uniform(1.2, 2.0, n))
    reach = np.where([body.slides for body in bodies], 0.35, rng.uniform(0.6, 0.9, n))
    centre = np.where([body.slides for body in bodies], 0.0, rng.uniform(-0.5, 0.5, n))
    inertia, gravity = _of_poses(bodies, centre, reach, rng)
    rotor = inertia * rng.uniform(0.3, 0.8, n) + 0.01
    scale = np.maximum(gravity, 2.0 * speed * (inertia + rotor))
    scale = np.maximum(scale, 0.02 * scale.max())
    effects = Effects(scale * rng.uniform(0.05, 0.12, n) / speed, scale * rng.uniform(0.05, 0.15, n))
    payload = float(masses[-1] * rng.uniform(0.8, 2.0))
    load = _link(payload, np.array(ways[-1]) * 3.0, rng)
    return Plant(
        name, bodies, prior, rotor, None, effects, scale, reach, speed, centre,
        payload=payload, payload_inertia=load,
    )  # fmt: skip


def _link(mass: float, centre: Float, rng: np.random.Generator) -> Float:
    # A box of random size: its moments of inertia are those of a body that exists.
    x, y, z = 0.05 + np.abs(centre) + 0.05 * rng.random(3)
    return from_com(mass, centre, mass / 3.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y]))


def _of_poses(
    bodies: list[Body], centre: Float, reach: Float, rng: np.random.Generator
) -> tuple[Float, Float]:
    # Mean inertia and greatest gravity torque of each joint over random poses.
    model = mujoco.MjModel.from_xml_string(mjcf(bodies, np.zeros(len(bodies))))
    data, n = mujoco.MjData(model), len(bodies)
    inertia, gravity = [], []
    for _ in range(50):
        data.qpos[:] = centre + reach * rng.uniform(-1, 1, n)
        mujoco.mj_forward(model, data)
        full = np.zeros((n, n))
        mujoco.mj_fullM(model, data, full)
        inertia.append(np.diag(full))
        gravity.append(np.abs(data.qfrc_bias))
    return np.mean(inertia, axis=0), np.max(gravity, axis=0)


@dataclass(frozen=True, eq=False)
class Reference:
    """A motion that the controller follows.

    sines, cosines : (n, harmonics) amplitudes, rad (m).    frequency : Hz of the first.    centre : (n,).
    poses, starts, seconds : of moves from pose to pose, in place of the series.
    """

    centre: Float
    sines: Float
    cosines: Float
    frequency: float
    poses: Float | None = None
    starts: Float = field(default_factory=lambda: np.zeros(0))
    seconds: Float = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def series(plant: Plant, rng: np.random.Generator, pace: float = 1.0, shift: float = 0.0) -> Reference:
        """A Fourier series.    pace: factor of the speed.    shift: rad by which turning joints are moved aside."""
        n, order = plant.n, np.arange(1, HARMONICS + 1)
        sines, cosines = rng.normal(size=(2, n, HARMONICS)) / order
        t = np.linspace(0, 1 / FUNDAMENTAL, 400)
        phase = 2 * np.pi * FUNDAMENTAL * np.outer(order, t)
        q = sines @ np.sin(phase) + cosines @ np.cos(phase)
        size = np.minimum(
            plant.reach / np.abs(q).max(axis=1),
            plant.speed / np.abs(np.gradient(q, t, axis=1)).max(axis=1),
        )[:, None]
        side = np.array([0.0 if body.slides else shift for body in plant.bodies])
        return Reference(
            plant.centre + side * rng.choice([-1.0, 1.0], n), sines * size, cosines * size, FUNDAMENTAL * pace
        )

    @staticmethod
    def moves(plant: Plant, rng: np.random.Generator, seconds: float) -> Reference:
        """Moves from pose to pose with pauses."""
        poses, starts, lasting, now = [plant.centre], [], [], 0.2
        while now < seconds:
            poses.append(plant.centre + plant.reach * rng.uniform(-1, 1, plant.n))
            needed = float((1.875 * np.abs(poses[-1] - poses[-2]) / plant.speed).max()) / rng.uniform(
                0.5, 1.0
            )
            starts.append(now)
            lasting.append(max(needed, 0.4))
            now += lasting[-1] + float(rng.choice([0.0, 0.3, 1.0]))
        none = np.zeros((plant.n, HARMONICS))
        return Reference(
            plant.centre, none, none, FUNDAMENTAL, np.array(poses), np.array(starts), np.array(lasting)
        )

    def at(self, t: Float) -> tuple[Float, Float]:
        """Positions and velocities at times, (T, n) each."""
        if self.poses is not None:
            x = np.clip((t[:, None] - self.starts) / self.seconds, 0.0, 1.0)
            way = np.diff(self.poses, axis=0)
            q = self.poses[0] + (x**3 * (10.0 - 15.0 * x + 6.0 * x**2)) @ way
            return q, (30.0 * x**2 * (1.0 - x) ** 2 / self.seconds) @ way
        rate = 2 * np.pi * self.frequency * np.arange(1, HARMONICS + 1)
        sine, cosine = np.sin(np.outer(t, rate)), np.cos(np.outer(t, rate))
        q = self.centre + sine @ self.sines.T + cosine @ self.cosines.T
        return q, (cosine * rate) @ self.sines.T - (sine * rate) @ self.cosines.T


def recorded(
    plant: Plant, reference: Reference, seconds: float, rng: np.random.Generator, loaded: bool = False
) -> Motion:
    """A log of the plant: MuJoCo's motion under a position controller, as encoders and drives show it."""
    bodies = list(plant.bodies)
    if loaded and bodies[-1].inertia is not None:
        bodies[-1] = replace(bodies[-1], inertia=bodies[-1].inertia + plant.payload_inertia)
    model = mujoco.MjModel.from_xml_string(mjcf(bodies, plant.rotor, plant.stiffness, STEP))
    data, n, effects = mujoco.MjData(model), plant.n, plant.effects
    motor = np.arange(0, model.nv, 2 if plant.stiffness is not None else 1)
    count = round(seconds / STEP)
    goal, rate = reference.at(np.asarray(np.arange(count) * STEP, dtype=np.float64))
    data.qpos[motor], data.qvel[motor] = goal[0], rate[0]
    omega = 2 * np.pi * BANDWIDTH
    stiff = omega**2 * (plant.rotor + _inertia(model, data)[motor])
    damped = 1.8 * stiff / omega
    largest = 3.0 * plant.scale
    slip, before, now = np.zeros(n), goal[0], 0.0
    q, tau = np.empty((count // EVERY, n)), np.empty((count // EVERY, n))
    for k in range(count):
        position, velocity = data.qpos[motor], data.qvel[motor]
        drive = stiff * (goal[k] - position) + damped * (rate[k] - velocity)
        drive = np.clip(drive, -largest, largest)
        if k % EVERY == 0 and k // EVERY < len(q):
            q[k // EVERY], tau[k // EVERY] = position, drive
        slip = np.clip(slip + (position - before) / effects.slip, -1.0, 1.0)
        before = position.copy()
        dry = effects.coulomb * (1.0 + effects.stribeck * np.exp(-((velocity / 0.05) ** 2)))
        if effects.loaded:
            dry = dry + effects.loaded * np.abs(drive - effects.viscous * velocity)
        warm = 1.0 - effects.warming * (1.0 - np.exp(-now / 10.0))
        away = position - plant.centre
        given = drive * (1.0 - effects.saturation * (drive / largest) ** 2)
        given -= dry * slip + warm * effects.viscous * velocity
        given -= plant.scale * (effects.teeth * np.sin(effects.count * position) + effects.hose * away**3)
        data.qfrc_applied[motor] = given
        mujoco.mj_step(model, data)
        now += STEP
    return _measured(plant, q, tau, rng)


def _inertia(model: mujoco.MjModel, data: mujoco.MjData) -> Float:
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    return np.asarray(np.diag(full) - model.dof_armature, dtype=np.float64)


def _measured(plant: Plant, q: Float, tau: Float, rng: np.random.Generator) -> Motion:
    effects, period = plant.effects, EVERY * STEP
    t = np.asarray(np.arange(len(q)) * period, dtype=np.float64)
    count = 2 * np.pi / plant.counts
    read = np.round(q / count) * count
    # A drive's velocity: differences of its encoder over two samples.
    dq = np.gradient(read, period, axis=0)
    torque = tau + 0.005 * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape)
    if effects.late:
        torque = np.concatenate([np.repeat(torque[:1], effects.late, axis=0), torque[: -effects.late]])
    if effects.repeated:
        rows = np.arange(len(t))
        rows[1:][rng.random(len(t) - 1) < effects.repeated] -= 1
        read, dq, torque = read[rows], dq[rows], torque[rows]
    return Motion(t, read, torque, dq if plant.logs_velocity else None)


def made_set(plant: Plant, seed: int, quick: bool = False) -> DataSet:
    """Record all motions of a made robot."""
    share = QUICK if quick else 1.0

    def log(stream: int, reference: Reference, seconds: float, loaded: bool = False) -> Motion:
        return recorded(plant, reference, seconds * share, np.random.default_rng([seed, stream, 1]), loaded)

    def series(stream: int, pace: float = 1.0, shift: float = 0.0) -> Reference:
        return Reference.series(plant, np.random.default_rng([seed, stream, 0]), pace, shift)

    repeats = [[log(i, series(i), TRAINING)] for i in range(1 if quick else REPEATS)]
    held_out = {
        "same": [log(10, series(10), HELD_OUT)],
        **{
            region: [log(11 + i, series(11 + i, pace), HELD_OUT)]
            for i, (region, pace) in enumerate(PACES.items())
        },
        "elsewhere": [log(13, series(13, shift=ASIDE), HELD_OUT)],
        "moves": [log(14, Reference.moves(plant, np.random.default_rng([seed, 14, 0]), HELD_OUT), HELD_OUT)],
    }
    return DataSet(
        plant.name,
        TITLES[plant.name],
        f"MuJoCo, dynid_bench.made, seed {seed}",
        "Apache-2.0",
        False,
        REASON,
        plant.prior,
        None,
        CUTOFF,
        np.array([0.0, 0.0, -9.81]),
        np.zeros((0, plant.n)),
        repeats[0],
        held_out,
        [log(20, series(20), TRAINING, loaded=True)],
        repeats if len(repeats) > 1 else [],
        None,
        plant.payload,
        plant.truth(),
    )
