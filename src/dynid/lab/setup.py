"""Settings of a simulation: trajectory, controller and plant by name or file, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dynid.base import Float, InputError, Place, Strict, UsageError, dataclass, read_toml, validate
from dynid.robot import Mounting, RobotModel
from dynid.simulation import (
    SMOOTHING,
    Adaptive,
    ComputedTorque,
    Controller,
    Coupling,
    Dahl,
    Elasticity,
    FixedStep,
    Friction,
    FunctionLoad,
    GravityPD,
    Implicit,
    Integrator,
    Load,
    LuGre,
    Plant,
    SimulatedMotion,
    SmoothFriction,
    Tabulated,
    TorqueTable,
    check_budget,
    fastest_mode,
    follow,
    is_stiff,
    pd_gains,
    sample_times,
    simulate,
    steps_between,
)
from dynid.spatial import from_com, symmetric
from dynid.terms import described_springs, spring_torque
from dynid.trajectories import FourierTrajectory, Trajectory, joints_of, read_motion, to_json

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Vector = tuple[float, float, float]
CONTROLLERS = ("ideal", "pd", "computed-torque")
SIMULATORS = ("dynid", "mujoco")


class ElasticSection(Strict):
    """Elastic joints: stiffness N m/rad and damping N m s/rad at the joint, one number or one per joint."""

    stiffness: Positive | list[Positive]
    damping: NotNegative | list[NotNegative] = 0.0


class PayloadSection(Strict):
    """A load on a link: mass kg, centre m and inertia about it (xx, xy, yy, xz, yz, zz) in the link's joint frame."""

    mass: Positive
    com: Vector
    inertia: tuple[float, float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    body: str = ""


class IntegratorSection(Strict):
    """Integration of the motion."""

    method: Literal["auto", "rk4", "implicit", "DOP853", "RK45", "LSODA", "Radau", "BDF"] = "auto"
    step: Positive | None = None
    held: bool = False
    tolerance: Positive = 1e-5
    rtol: Positive = 1e-9
    atol: Positive = 1e-10


class FrictionSection(Strict):
    """Friction in the drives, at the joint; one number or one per joint, None = that of the robot file.

    "smooth" uses viscous and coulomb, "dahl" coulomb and stiffness, "lugre" all of them.
    """

    kind: Literal["none", "smooth", "dahl", "lugre"] = "smooth"
    viscous: NotNegative | list[NotNegative] | None = None
    coulomb: NotNegative | list[NotNegative] | None = None
    smoothing: Positive = SMOOTHING
    stiffness: Positive | list[Positive] = 1e4
    damping: NotNegative | list[NotNegative] = 0.0
    static: Positive | list[Positive] | None = None
    velocity: Positive | list[Positive] = 0.05


class PlantFile(Strict):
    """Properties of the simulated robot that its file lacks; carriers and axes of the motors as in `Mounting.of`."""

    friction: FrictionSection = FrictionSection()
    coupling: Coupling = Coupling.SIMPLIFIED
    carriers: tuple[str, ...] = ()
    axes: tuple[Vector, ...] = ()
    elastic: ElasticSection | None = None
    payload: PayloadSection | None = None
    integrator: IntegratorSection = IntegratorSection()


class ControllerFile(Strict):
    """A controller and its gains; kp and kd in N m/rad and N m s/rad ("computed-torque": 1/s^2 and 1/s)."""

    kind: Literal["ideal", "pd", "computed-torque", "open-loop"]
    bandwidth: Positive = 3.0
    damping: Positive = 1.0
    kp: NotNegative | list[NotNegative] | None = None
    kd: NotNegative | list[NotNegative] | None = None
    friction: bool = True
    torque: str | None = None


@dataclass(frozen=True)
class TrajectoryChoice:
    """A trajectory: given, random with a seed, or (seed None) a new random one for every run."""

    given: Trajectory | None = None
    seed: int | None = None
    duration: float = 20.0
    harmonics: int = 6
    frequency: float = 0.1

    @staticmethod
    def read(text: str, robot: RobotModel, duration: float = 20.0) -> TrajectoryChoice:
        """Read a choice: "random", "random:SEED", or the path of a JSON file or of a folder of `dynid excite`.

        Raises InputError for a file without a trajectory, UsageError for another number of joints or an invalid seed.
        """
        if text == "random" or text.startswith("random:"):
            seed = text.removeprefix("random").removeprefix(":")
            if seed and not seed.isdigit():
                raise UsageError(
                    "trajectory", found=f"'{text}'", expected="random:SEED with a whole number >= 0"
                )
            return TrajectoryChoice(seed=int(seed) if seed else None, duration=duration)
        given = read_motion(Path(text)).trajectory
        if joints_of(given) != robot.n:
            raise UsageError(
                "trajectory",
                found=f"a trajectory of {joints_of(given)} joints",
                expected=f"{robot.n}",
                place=Place(file=text),
            )
        return TrajectoryChoice(given=given)

    @property
    def shared(self) -> bool:
        """Whether all runs have the same motion."""
        return self.given is not None or self.seed is not None

    def draw(self, robot: RobotModel, seed: int) -> Trajectory:
        """The trajectory of a run with the given seed."""
        if self.given is not None:
            return self.given
        ramp = min(2.0, 0.25 * self.duration)
        drawn_seed = seed if self.seed is None else self.seed
        return FourierTrajectory.random(
            robot, self.duration, self.harmonics, drawn_seed, self.frequency, ramp
        )


@dataclass(frozen=True)
class Setup:
    """A simulated motion except for its trajectory and its sensors.

    Parameters
    ----------
    plant : Plant
        The simulated robot.
    controller : ControllerFile
        The controller.
    integrator : IntegratorSection
        The integrator.
    simulator : str
        "dynid" or "mujoco".
    torque : TorqueTable, optional
        Torque of an open-loop controller.

    """

    plant: Plant
    controller: ControllerFile
    integrator: IntegratorSection = field(default_factory=IntegratorSection)
    simulator: str = "dynid"
    torque: TorqueTable | None = None

    def motion(self, trajectory: Trajectory, rate: float) -> SimulatedMotion:
        """Simulate the motion along a trajectory.

        Parameters
        ----------
        trajectory : Trajectory
            The trajectory.
        rate : float, Hz
            Rate at which the motion is sampled.

        Returns
        -------
        SimulatedMotion
            The motion.

        Raises
        ------
        UsageError
            If settings exclude one another.
        SolverError
            If the controller cannot follow the trajectory.
        ResourceError
            If the simulation needs too many steps.

        """
        t = sample_times(trajectory.duration, rate)
        if self.controller.kind == "ideal":
            if self.simulator == "mujoco":
                from dynid.lab.mujoco import MujocoSimulator

                return MujocoSimulator(self.plant).follow(trajectory, t)
            return follow(self.plant, trajectory, t)
        start = self.plant.at_rest(trajectory.motion(t[:1])[0])[0]
        # The table of the reference does not change the controller at the start, so a coarse one is enough.
        probe = self._controller(trajectory, t, trajectory.duration)
        step, joint = fastest_mode(self.plant, start, 1.0 / rate, probe)
        method = self.integrator.method
        if method == "auto":
            method = "implicit" if self.integrator.step is None and is_stiff(step) else "rk4"
        step = self.integrator.step or step
        if method == "rk4" or self.simulator == "mujoco":
            check_budget(t, step, None if self.integrator.step else joint)
        controller = self._controller(trajectory, t, step if method == "rk4" else None)
        if self.simulator == "mujoco":
            from dynid.lab.mujoco import MujocoSimulator

            return MujocoSimulator(self.plant, step).simulate(controller, start, t)
        return simulate(self.plant, controller, start, t, self._integrator(method, step))

    def _integrator(self, method: str, step: float) -> Integrator:
        chosen = self.integrator
        if method == "rk4":
            return FixedStep(step, chosen.held)
        if method == "implicit":
            return Implicit(chosen.tolerance, chosen.held)
        return Adaptive(chosen.rtol, chosen.atol, method)

    def _controller(self, trajectory: Trajectory, t: Float, step: float | None) -> Controller:
        # step: fixed step whose halves are the times at which the controller is asked; None = at any time.
        c, plant = self.controller, self.plant
        if c.kind == "open-loop":
            if self.torque is None:
                raise UsageError(
                    "open-loop", found="an open-loop controller without torque", expected="a log with torque"
                )
            return self.torque
        dt = float(t[1] - t[0])
        reference = trajectory if step is None else Tabulated(trajectory, dt / (2 * steps_between(t, step)))
        if c.kind == "pd":
            kp, kd = pd_gains(plant, c.bandwidth, c.damping)
            return GravityPD(plant, reference, _given_or(c.kp, kp), _given_or(c.kd, kd))
        w = 2.0 * np.pi * c.bandwidth
        return ComputedTorque(
            plant, reference, _given_or(c.kp, w**2), _given_or(c.kd, 2.0 * c.damping * w), c.friction
        )


def read_setup(
    robot: RobotModel, controller: str, plant: str | Path | None = None, simulator: str = "dynid"
) -> Setup:
    """Read and check the settings of a simulation.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    controller : str
        "ideal", "pd", "computed-torque", "open-loop:LOG", or a TOML file.
    plant : str or Path, optional
        TOML file of the plant.
    simulator : str
        "dynid" or "mujoco".

    Returns
    -------
    Setup
        The settings.

    Raises
    ------
    InputErrors
        With the line of every error in a file.
    UsageError
        If settings exclude one another.

    """
    if simulator not in SIMULATORS:
        raise UsageError("simulator", found=f"'{simulator}'", expected=" or ".join(SIMULATORS))
    chosen, folder = _controller_file(controller)
    described = PlantFile()
    if plant is not None:
        data, lines = read_toml(plant)
        described = validate(PlantFile, data, lines, str(plant))
    torque = None
    if chosen.kind == "open-loop":
        if chosen.torque is None:
            raise UsageError(
                "open-loop",
                found="an open-loop controller without torque",
                expected="torque = LOG, or open-loop:LOG",
            )
        torque = _torque_table(robot, folder / chosen.torque)
    return Setup(build_plant(robot, described), chosen, described.integrator, simulator, torque)


def build_plant(robot: RobotModel, described: PlantFile) -> Plant:
    """Build the simulated robot from a robot and a plant file.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    described : PlantFile
        The plant file. Joints are elastic if it or the robot file gives a stiffness.

    Returns
    -------
    Plant
        The simulated robot.

    Raises
    ------
    UsageError
        If settings exclude one another, for example a stiffness of some joints only.

    """
    payload = None
    if described.payload is not None:
        load = described.payload
        if load.body and load.body not in robot.body_names:
            raise UsageError(
                "unknown-body", found=f"body '{load.body}'", expected="one of " + ", ".join(robot.body_names)
            )
        payload = np.zeros((robot.n_bodies, 10))
        index = robot.body_names.index(load.body) if load.body else -1
        payload[index] = from_com(load.mass, np.array(load.com), symmetric(np.array(load.inertia)))
    return Plant(
        robot,
        elasticity=_elasticity(robot, described.elastic),
        coupling=described.coupling,
        mounting=Mounting.of(robot, described.carriers, described.axes),
        payload=payload,
        loads=_springs(robot),
        friction=_friction(robot, described.friction),
    )


def _elasticity(robot: RobotModel, section: ElasticSection | None) -> Elasticity | None:
    if section is not None:
        return Elasticity(_each(section.stiffness, robot.n), _each(section.damping, robot.n))
    known = np.isfinite(robot.drive.stiffness)
    if not known.any():
        return None
    if not known.all():
        rigid = ", ".join(robot.joint_names[j] for j in np.flatnonzero(~known))
        raise UsageError(
            "elasticity",
            found=f"no stiffness for {rigid}, although other joints have one",
            expected="a stiffness for every joint or for none",
            do="give drive.stiffness of all joints, or [elastic] in a plant file",
        )
    return Elasticity(robot.drive.stiffness, np.nan_to_num(robot.drive.damping, nan=0.0))


def _springs(robot: RobotModel) -> tuple[Load, ...]:
    # Springs of the robot file.
    springs = described_springs(robot)
    if not springs:
        return ()
    return (
        FunctionLoad(
            lambda q, _: spring_torque(springs, q),
            lambda q: np.asarray(sum(spring.energy(q) for spring in springs)),
        ),
    )


def _friction(robot: RobotModel, f: FrictionSection) -> Friction | None:
    known = SmoothFriction.of(robot)
    viscous = known.viscous if f.viscous is None else _each(f.viscous, robot.n)
    coulomb = known.coulomb if f.coulomb is None else _each(f.coulomb, robot.n)
    stiffness = _each(f.stiffness, robot.n)
    if f.kind == "none":
        return None
    if f.kind == "smooth":
        return SmoothFriction(viscous, coulomb, f.smoothing)
    if f.kind == "dahl":
        return Dahl(coulomb, stiffness)
    static = 1.2 * coulomb if f.static is None else _each(f.static, robot.n)
    return LuGre(coulomb, static, _each(f.velocity, robot.n), stiffness, _each(f.damping, robot.n), viscous)


def _controller_file(text: str) -> tuple[ControllerFile, Path]:
    if text.startswith("open-loop:"):
        return ControllerFile(kind="open-loop", torque=text.removeprefix("open-loop:")), Path()
    if text in CONTROLLERS:
        return ControllerFile.model_validate({"kind": text}), Path()
    path = Path(text)
    if path.suffix.lower() != ".toml":
        raise UsageError(
            "controller",
            found=f"'{text}'",
            expected=", ".join(CONTROLLERS) + ", open-loop:LOG or a TOML file",
        )
    data, lines = read_toml(path)
    return validate(ControllerFile, data, lines, str(path)), path.parent


def _torque_table(robot: RobotModel, path: Path) -> TorqueTable:
    from dynid.log import read_log

    log = read_log(path, robot)
    chunk = log.read(log.trajectories[0])
    if chunk.tau is None:
        raise InputError(
            "no-effort",
            found="a log without torque",
            expected="tau of every joint",
            place=Place(file=str(path)),
        )
    return TorqueTable(chunk.t - chunk.t[0], chunk.tau)


def _each(values: float | list[float], n: int) -> Float:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)):
        raise UsageError(
            "one-a-joint", found=f"{len(array)} numbers", expected=f"one number, or {n} (one per joint)"
        )
    return np.array(np.broadcast_to(array, (n,)))


def _given_or(given: float | list[float] | None, default: Float | float) -> Float:
    return np.asarray(default if given is None else given, dtype=np.float64)


def summary(setup: Setup, trajectory: Trajectory, names: Mapping[str, str]) -> dict[str, str]:
    """Metadata of a log: what was simulated.

    Parameters
    ----------
    setup : Setup
        The settings.
    trajectory : Trajectory
        The trajectory.
    names : mapping of str to str
        Further entries.

    Returns
    -------
    dict of str to str
        The metadata.

    """
    return {
        "origin": "simulated",
        "robot": setup.plant.robot.name,
        "controller": setup.controller.model_dump_json(),
        "simulator": setup.simulator,
        "trajectory": to_json(trajectory),
        **names,
    }
