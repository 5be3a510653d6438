"""Demo on a robot that is known exactly: simulate, log, identify, validate, compare with the truth, report."""

from __future__ import annotations

import json
import math
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Diagnostics, Finding
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.factor.base import BaseMap, structural_base
from dynid.identification.pipeline import identify
from dynid.kernel import backend
from dynid.log.own_columns import canonical_columns, write_log
from dynid.log.read import read_log
from dynid.report import write_report
from dynid.robot import load_example, load_robot
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.result import Identification
from dynid.run.store import staged_run, write_tables
from dynid.signals.samples import samples_at
from dynid.simulation.motion import inverse
from dynid.simulation.sensors import Encoder, TorqueSensor
from dynid.terms.catalogue import DEFAULT_TERMS
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

# A run folder written with its report: run.json, model.json, tables, report.html.


def save(identification: Identification, folder: str | Path, force: bool = False) -> Path:
    """Write a run folder as a whole or not at all.

    Parameters
    ----------
    identification : Identification
        The finished identification.
    folder : str or Path
        Run folder.
    force : bool
        Whether an existing run is replaced; other files in the folder stay.

    Returns
    -------
    Path
        The report.

    Raises
    ------
    RefusedError
        If the folder exists and may not be replaced.
    ResourceError
        If it cannot be written.

    """
    with staged_run(folder, force) as scratch:
        write_run(identification, scratch, Path(folder))
    return Path(folder) / "report.html"


def write_run(identification: Identification, folder: Path, final: Path) -> None:
    """Write the files of a run and its report into an existing folder.

    Parameters
    ----------
    identification : Identification
        The result.
    folder : Path
        The folder to write into.
    final : Path
        Its place after it is moved.

    """
    write_tables(identification, folder, final)
    write_report(identification, folder / "report.html")


# The most informative of several random motions.

# States at which the information of a motion is evaluated; enough for six harmonics.
GRID = 240


def information(robot: RobotModel, terms: Terms, base: BaseMap, trajectory: Trajectory) -> float:
    """D-optimality criterion ln det(W'W / T) over the base columns; larger values mean smaller confidence regions.

    Rows are relative to the effort limit of their joint, to which sensor noise is assumed proportional; without a limit
    they count by 1. Columns are scaled by the base map, which adds the same constant for all motions.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    base : BaseMap
        The base parameters.
    trajectory : Trajectory
        The motion.

    Returns
    -------
    float
        -inf if a direction is not excited at all.

    """
    t = np.linspace(0.0, trajectory.duration, GRID)
    samples = samples_at(t, *trajectory.motion(t))
    panels = terms.torque_regressor(robot, samples, base.mask)
    weight = np.where(np.isfinite(robot.limits.effort), 1.0 / robot.limits.effort, 1.0)
    width = len(base.names)
    W = (panels.dense(width) * weight[None, :, None]).reshape(-1, width)[:, base.independent]
    scale = base.scale[base.independent]
    R = np.linalg.qr(W / np.where(scale > 0, scale, 1.0) / math.sqrt(GRID), mode="r")
    diagonal = np.abs(np.diag(R))
    return float(2.0 * np.log(diagonal).sum()) if diagonal.min() > 0 else -math.inf


def best_random(
    robot: RobotModel,
    terms: Terms,
    duration: float,
    harmonics: int = 6,
    seed: int = 0,
    candidates: int = 40,
    frequency: float = 0.1,
    ramp: float = 2.0,
) -> FourierTrajectory:
    """The most informative of several random Fourier motions within the limits of the robot.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    duration : float, s
        Length of the motion.
    harmonics : int
        Harmonics per joint.
    seed : int
        The same seed gives the same motion.
    candidates : int
        Number of random motions.
    frequency : float, Hz
        Base frequency.
    ramp : float, s
        Time to start and stop the motion.

    Returns
    -------
    FourierTrajectory

    Raises
    ------
    UsageError
        If `candidates` is below 1.

    """
    if candidates < 1:
        raise UsageError("candidates", found=f"{candidates} candidates", expected="at least 1")
    base = structural_base(robot, terms, TorqueRows(), 0)
    seeds = np.random.SeedSequence(seed).generate_state(candidates)
    drawn = [
        FourierTrajectory.random(robot, duration, harmonics, int(draw), frequency, ramp) for draw in seeds
    ]
    return max(drawn, key=lambda candidate: information(robot, terms, base, candidate))


ROBOT = "arm7"
# Hz: of the simulated log, and of the comparison with the noise-free torque.
RATE, COMPARISON_RATE = 1000.0, 100.0
# s: of the motion to identify and of the one to validate on.
SECONDS, FAST_SECONDS = (30.0, 15.0), (15.0, 8.0)
# Harmonics of the motion and its base frequency, Hz.
HARMONICS, FREQUENCY = 6, 0.2
# Encoder counts per turn; torque noise relative to the effort limit; steps of the torque sensor over its range.
ENCODER_COUNTS = 2.0**17
NOISE_SHARE, TORQUE_STEPS = 0.005, 2.0**14
# N m: true torque offsets of the joints.
OFFSETS = (0.8, -1.2, 0.5, 0.6, -0.4, 0.2, -0.15)
# Range of the relative error of every value of the imprecise robot file.
PRIOR_ERROR = (0.2, 0.3)
NUMPY_HINT = (
    "the native kernel is not in use: results are the same, only slower (to build it, install dynid with g++)"
)

Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Result of the demo.

    Attributes
    ----------
    folder : Path
        The run folder.
    report : Path
        The page to open.
    joint_names : tuple of str
    held_out : ndarray, shape (n_joints,)
        ||e|| / ||tau|| on the second motion, with measured and predicted torque filtered in the same way.
    model_error, prior_error : ndarray, shape (n_joints,)
        The same relative to the noise-free torque of the second motion, without filters: of the identified model, and
        of the imprecise robot file that the identification started from.
    base_count : int
        Number of base parameters.
    covered : int
        Number of those whose 95 % interval contains the true value.
    motion_seconds : tuple of float, s
        Length of the two motions.
    seconds : float, s
        Wall time.
    kernel : str
        The kernel in use.

    """

    folder: Path
    report: Path
    joint_names: tuple[str, ...]
    held_out: Float
    model_error: Float
    prior_error: Float
    base_count: int
    covered: int
    motion_seconds: tuple[float, float]
    seconds: float
    kernel: str

    def __post_init__(self) -> None:
        for name in ("held_out", "model_error", "prior_error"):
            object.__setattr__(self, name, locked(getattr(self, name), (len(self.joint_names),), name))

    def text(self) -> str:
        """Text for the terminal; the last line names the report."""
        train, held_out = self.motion_seconds
        lines = [
            f"{ROBOT}: simulated arm with {len(self.joint_names)} joints, identified from {train:g} s, "
            f"validated on {held_out:g} s of another motion",
            "",
            f"{'':<24}{'measured torque':>16}{'noise-free torque':>18}{'before':>18}",
            f"{'relative torque error':<24}{'(held out)':>16}{'(held out)':>18}{'identification':>18}",
        ]
        for name, *errors in zip(
            self.joint_names, self.held_out, self.model_error, self.prior_error, strict=True
        ):
            cells = (f"{100 * error:.2f} %" for error in errors)
            lines.append(
                f"  {name:<22}" + "".join(f"{c:>{w}}" for c, w in zip(cells, (16, 18, 18), strict=True))
            )
        lines += [
            "",
            f"95 % intervals contain the true value of {self.covered} of {self.base_count} base parameters",
            f"computed in {self.seconds:.1f} s with kernel {self.kernel}",
        ]
        if self.kernel == "numpy":
            lines.append(NUMPY_HINT)
        logs = self.folder / "logs"
        lines += [
            f"repeat: dynid identify {self.folder / 'robot.toml'} {logs / 'train.parquet'}"
            f" --validate {logs / 'validate.parquet'} --out another-run",
            f"report: {self.report}",
        ]
        return "\n".join(lines)


def run_demo(
    out: str | Path,
    *,
    seed: int = 1,
    fast: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> DemoResult:
    """Identify the simulated arm7 from its log and write a run folder, as a whole or not at all.

    The folder also gets logs/train.parquet, logs/validate.parquet and robot.toml: the imprecise robot file (every mass,
    centre of mass, inertia, rotor and friction 20 to 30 % off) that the identification starts from.

    Parameters
    ----------
    out : str or Path
        Folder to write.
    seed : int
        Seed of motions, noise and errors of the robot file.
    fast : bool
        Whether motions are shorter.
    force : bool
        Whether an earlier run is replaced.
    progress : callable, optional
        Called with stage and seconds of data done.

    Returns
    -------
    DemoResult

    Raises
    ------
    RefusedError
        If `out` exists and may not be replaced.
    ResourceError
        If it cannot be written.

    """
    started, out = time.perf_counter(), Path(out)
    with staged_run(out, force) as scratch:
        lab = _Lab.prepare(seed, FAST_SECONDS if fast else SECONDS)
        for index, name in enumerate(("train", "validate")):
            lab.record(index, scratch / "logs" / f"{name}.parquet", name)
            _report(progress, "simulation", lab.motions[index].duration)
        (scratch / "robot.toml").write_text(lab.description, encoding="utf-8")
        robot = replace(load_robot(scratch / "robot.toml"), source=str(out / "robot.toml"))
        identification = identify(
            robot,
            read_log(scratch / "logs" / "train.parquet", robot),
            validation=read_log(scratch / "logs" / "validate.parquet", robot),
            truth=lab.truth,
            progress=progress,
        )
        write_run(_with_final_paths(identification, str(scratch), str(out)), scratch, out)
    return lab.result(identification, out, time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class _Lab:
    """The true robot, its motions, its sensors, and the imprecise robot file.

    theta: true parameters for the columns of DEFAULT_TERMS, shape (p,).
    motions: to identify, and to validate on.
    description: text of the imprecise robot file.
    """

    robot: RobotModel
    theta: Float
    motions: tuple[Trajectory, Trajectory]
    description: str
    seed: int

    @staticmethod
    def prepare(seed: int, seconds: tuple[float, float]) -> _Lab:
        """Draw motions and errors of the robot file from the seed."""
        robot = load_example(ROBOT)
        text = (files("dynid.data") / f"{ROBOT}.toml").read_text(encoding="utf-8")
        draws = np.random.SeedSequence(seed).generate_state(3)
        first, second = (
            best_random(robot, DEFAULT_TERMS, duration, HARMONICS, int(draw), frequency=FREQUENCY)
            for duration, draw in zip(seconds, draws, strict=False)
        )
        offsets = iter(OFFSETS)
        columns = DEFAULT_TERMS.columns(robot)
        theta = np.array([next(offsets) if np.isnan(c.prior) else c.prior for c in columns])
        description = _description(_imprecise(tomllib.loads(text), np.random.default_rng(draws[2])))
        return _Lab(robot, theta, (first, second), description, seed)

    @property
    def truth(self) -> dict[str, float]:
        """True parameters by name."""
        return {c.name: float(v) for c, v in zip(DEFAULT_TERMS.columns(self.robot), self.theta, strict=True)}

    def motion(self, index: int, rate: float) -> tuple[Float, Float, Float, Float, Float]:
        """t, q, dq, ddq and the exact joint torque of a motion."""
        trajectory = self.motions[index]
        t: Float = np.arange(round(trajectory.duration * rate) + 1, dtype=np.float64) / rate
        q, dq, ddq = trajectory.motion(t)
        return t, q, dq, ddq, inverse(self.robot, DEFAULT_TERMS, self.theta, q, dq, ddq)

    def record(self, index: int, path: Path, name: str) -> None:
        """Write the log of encoders and torque sensors for a motion."""
        rng = np.random.default_rng([self.seed, index])
        effort = self.robot.limits.effort
        encoder = Encoder(np.array([2.0 * np.pi / ENCODER_COUNTS]))
        sensor = TorqueSensor(noise_std=NOISE_SHARE * effort, resolution=2.0 * effort / TORQUE_STEPS)
        t, q, _, _, tau = self.motion(index, RATE)
        columns = canonical_columns(
            self.robot.joint_names, encoder.measure(q, rng), tau=sensor.measure(tau, rng)
        )
        write_log(path, t, columns, name, {"robot": ROBOT, "origin": "simulated", "seed": str(self.seed)})

    def result(self, identification: Identification, out: Path, seconds: float) -> DemoResult:
        """Compare the identified model with the truth."""
        estimate = identification.estimate
        inside = np.abs(estimate.value - estimate.base.reduce(self.theta)) <= estimate.half_width()
        believed = np.array([0.0 if np.isnan(c.prior) else c.prior for c in estimate.columns])
        _, q, dq, ddq, tau = self.motion(1, COMPARISON_RATE)

        def error(theta: Float) -> Float:
            wrong = inverse(identification.robot, identification.terms, theta, q, dq, ddq) - tau
            return np.asarray(np.linalg.norm(wrong, axis=0) / np.linalg.norm(tau, axis=0))

        return DemoResult(
            folder=out,
            report=out / "report.html",
            joint_names=self.robot.joint_names,
            held_out=identification.validations[0].scores.relative,
            model_error=error(estimate.parameters),
            prior_error=error(believed),
            base_count=estimate.base.rank,
            covered=int(inside.sum()),
            motion_seconds=(self.motions[0].duration, self.motions[1].duration),
            seconds=seconds,
            kernel=backend(),
        )


def _imprecise(description: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    # Links stay physically consistent: the inertia about the centre of mass is scaled as a whole.
    def off(value: float) -> float:
        return float(f"{value * (1.0 + rng.choice([-1.0, 1.0]) * rng.uniform(*PRIOR_ERROR)):.6g}")

    joints = []
    for joint in description["joint"]:
        body = joint["inertial"]
        scale = off(1.0)
        inertial = {
            "mass": off(body["mass"]),
            "com": [off(x) for x in body["com"]],
            "about": body["about"],
            "inertia": {key: float(f"{scale * value:.6g}") for key, value in body["inertia"].items()},
        }
        drive = joint["drive"] | {"rotor_inertia": off(joint["drive"]["rotor_inertia"])}
        friction = {key: off(value) for key, value in joint["friction"].items()}
        joints.append(joint | {"drive": drive, "friction": friction, "inertial": inertial})
    return dict(description) | {"joint": joints}


def _description(data: Mapping[str, Any]) -> str:
    lines = [
        f"# {data['name']} as it may be known before measuring: geometry exact, everything else 20 to 30 % off.",
        *(f"{key} = {_value(value)}" for key, value in data.items() if key != "joint"),
    ]
    for joint in data["joint"]:
        lines += ["", "[[joint]]", *(f"{key} = {_value(value)}" for key, value in joint.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


def _with_final_paths(identification: Identification, scratch: str, out: str) -> Identification:
    # The files are moved after the run is complete, so the report must name their final place.
    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(scratch, out)
        if isinstance(value, Mapping):
            return {moved(key): moved(part) for key, part in value.items()}
        return [moved(part) for part in value] if isinstance(value, list | tuple) else value

    def placed(finding: Finding) -> Finding:
        file = finding.place.file
        place = finding.place if file is None else replace(finding.place, file=moved(file))
        return replace(finding, text=moved(finding.text), place=place)

    return replace(
        identification,
        provenance=moved(identification.provenance),
        log_summary=moved(identification.log_summary),
        diagnostics=Diagnostics([placed(finding) for finding in identification.diagnostics]),
    )


def _report(progress: Progress | None, stage: str, seconds: float) -> None:
    if progress is not None:
        progress(stage, seconds)
