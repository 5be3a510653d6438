"""Data sets: logs with their splits, from recipes and a folder of fetched files, or made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dynid.base import Float, InputError, Place, Strict, UsageError, meant, read_toml, validate
from dynid.log import Selection, file_digest, read_log
from dynid.robot import RobotModel, ServoSettings, load_example, load_robot
from dynid_bench.bodies import Body, bodies_of, write_urdf
from dynid_bench.made import MADE, Plant, Reference, recorded
from dynid_bench.protocol import Motion

FOLDER = "DYNID_DATA"
EXAMPLE = "example:"
REGIONS = ("same", "repeated", "slower", "faster", "elsewhere", "moves")
# Share of the made sets' lengths in a quick run, s of each motion in a full one, and recordings for intervals.
QUICK, TRAINING, HELD_OUT, REPEATS = 0.4, 20.0, 10.0, 3
PACES = {"slower": 0.4, "faster": 1.6}
ASIDE = 1.0  # rad by which the motion "elsewhere" is moved aside


class SplitTable(Strict):
    """Which parts of a log are trained on and held out, and why."""

    reason: str
    train: list[dict[str, Any]]
    held_out: dict[str, list[dict[str, Any]]]
    loaded: list[dict[str, Any]] = Field(default=[])
    repeats: list[list[dict[str, Any]]] = Field(default=[])


class TruthTable(Strict):
    """What is known of the robot besides the log."""

    payload: float
    payload_source: str


class ServoTable(Strict):
    """Gains of the drives, where torque was commanded and not measured."""

    kp: float | list[float]
    kd: float | list[float]


class Recipe(Strict):
    """A data set that the user fetches."""

    name: str
    title: str
    source: str
    licence: str
    developed_on: bool
    robot: str
    log: str
    cutoff: float
    files: dict[str, str]
    split: SplitTable
    mapping: dict[str, Any] | None = None
    torque_scale: list[float] | None = None
    servo: ServoTable | None = None
    truth: TruthTable | None = None


@dataclass(frozen=True, eq=False)
class DataSet:
    """A set with its logs in memory.

    Parameters
    ----------
    name, title, source, licence : str
        What it is and where it comes from.
    developed_on : bool
        Whether dynid was developed on it.
    reason : str
        Reason of the split.
    bodies : list of Body
        Kinematics, with the inertias of the robot file where it has some.
    robot_file : Path or None
        Robot file as published, or as it comes with dynid; None for made sets.
    cutoff : float, Hz
        Cutoff frequency of the scores.
    gravity : ndarray, shape (3,)
        Gravity.
    motors : ndarray, shape (k, n)
        Motors that turn with several joints.
    train : list of Motion
        Training motion.
    held_out : mapping of str to list of Motion
        Held-out motion by region, with torque.
    loaded : list of Motion
        Motion with a payload.
    repeats : list of list of Motion
        Separate recordings of one robot, for intervals.
    servo : mapping or None
        Gains of the drives, of logs without torque.
    payload : float, kg, or None
        True mass of the payload.
    truth : str
        The rigid robot as MJCF, of made sets.

    """

    name: str
    title: str
    source: str
    licence: str
    developed_on: bool
    reason: str
    bodies: list[Body]
    robot_file: Path | None
    cutoff: float
    gravity: Float
    motors: Float
    train: list[Motion]
    held_out: Mapping[str, list[Motion]]
    loaded: list[Motion] = field(default_factory=list)
    repeats: list[list[Motion]] = field(default_factory=list)
    servo: Mapping[str, list[float]] | None = None
    payload: float | None = None
    truth: str = ""

    @property
    def joints(self) -> list[str]:
        """Names of the joints."""
        return [body.joint for body in self.bodies]

    @property
    def has_priors(self) -> bool:
        """Whether the robot file has inertias."""
        return all(body.inertia is not None for body in self.bodies)

    def about(self) -> dict[str, Any]:
        """Plain data for the report."""
        seconds = {
            region: sum(float(motion.t[-1] - motion.t[0]) for motion in motions)
            for region, motions in {"training": self.train, **self.held_out}.items()
        }
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "licence": self.licence,
            "developed_on": self.developed_on,
            "reason": self.reason,
            "cutoff": self.cutoff,
            "joints": self.joints,
            "seconds": seconds,
            "regions": [region for region in REGIONS if region in self.held_out],
            "payload": self.payload,
            "commands": self.servo is not None,
        }


def recipes() -> dict[str, Path]:
    """Recipes that come with the package, by the name of their set."""
    folder = Path(str(files("dynid_bench"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def names_of_sets() -> list[str]:
    """Made sets, then those of recipes."""
    return [*MADE, *recipes()]


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; raises InputErrors with the line of each wrong key."""
    data, lines = read_toml(path)
    recipe = validate(Recipe, data, lines, str(path))
    if strange := sorted(set(recipe.split.held_out) - set(REGIONS)):
        raise InputError(
            "bench-region",
            found=f"region '{strange[0]}'",
            expected=f"one of {', '.join(REGIONS)}",
            place=Place(file=str(path)),
        )
    return recipe


def data_folder(given: Path | None) -> Path | None:
    """The folder of fetched logs: the given one, or that of DYNID_DATA; None if neither exists."""
    folder = given or Path(os.environ.get(FOLDER, "") or ".no-folder")
    return folder if folder.is_dir() else None


def open_set(name: str, data: Path | None, seed: int = 0, quick: bool = False) -> DataSet:
    """Make a set, or read it from the folder of fetched logs.

    Parameters
    ----------
    name : str
        Set, or the path of a recipe.
    data : Path or None
        Folder with a folder for each fetched set.
    seed : int
        Draws the robots and motions of made sets.
    quick : bool
        Whether made sets are shortened, without recordings for intervals.

    Returns
    -------
    DataSet

    Raises
    ------
    UsageError
        For an unknown set, or a missing folder.
    InputError
        For a file that is missing or is not the recipe's.

    """
    if name in MADE:
        return made_set(MADE[name](seed), seed, quick)
    path = Path(name) if name.endswith(".toml") else recipes().get(name)
    if path is None:
        raise UsageError(
            "bench-set",
            found=f"set '{name}'",
            expected=f"one of {', '.join(names_of_sets())}",
            do=f"did you mean '{meant(name, names_of_sets())}'?" if meant(name, names_of_sets()) else "",
        )
    if data is None:
        raise UsageError(
            "bench-data",
            found="no folder of fetched logs",
            expected=f"a folder with a folder for each robot in {FOLDER} or --data",
            do="'--made' runs the sets that need none",
        )
    return fetched_set(read_recipe(path), data)


def fetched_set(recipe: Recipe, data: Path) -> DataSet:
    """Read a set of a recipe."""
    folder = data / recipe.name
    for name, digest in recipe.files.items():
        _check(folder / name, digest, recipe)
    if recipe.robot.startswith(EXAMPLE):
        name = recipe.robot.removeprefix(EXAMPLE)
        robot, robot_file = load_example(name), Path(str(files("dynid"))) / "data" / f"{name}.toml"
    else:
        robot_file = folder / recipe.robot
        robot = load_robot(robot_file)
    scale = np.array(recipe.torque_scale or [1.0] * robot.n)
    servo = None
    if recipe.servo is not None:
        servo = {
            key: np.broadcast_to(getattr(recipe.servo, key), robot.n).astype(float).tolist()
            for key in ("kp", "kd")
        }
        # The reader needs gains; the torque is computed below, without a delay.
        robot = robot.with_servo(ServoSettings(kp=servo["kp"], kd=servo["kd"], delay=0.0))

    def motions(selections: Sequence[Mapping[str, Any]]) -> list[Motion]:
        if not selections:
            return []
        chosen = [
            Selection(
                str(entry["pattern"]),
                *(tuple(entry[key]) if key in entry else None for key in ("window", "part")),
            )
            for entry in selections
        ]
        log = read_log([folder / recipe.log], robot, recipe.mapping, chosen)
        parts = []
        for trajectory in log.trajectories:
            chunk = log.read(trajectory)
            tau, commands = chunk.tau, {}
            if servo is not None:
                desired = log.commands(trajectory)
                commands = {"q_des": np.array(desired.q_des), "dq_des": np.array(desired.dq_des)}
                speed = np.gradient(chunk.q, chunk.t, axis=0) if chunk.dq is None else chunk.dq
                tau = np.array(servo["kp"]) * (desired.q_des - chunk.q)
                tau = tau + np.array(servo["kd"]) * (desired.dq_des - speed)
            if tau is None:
                raise InputError("bench-torque", found="a log without torque", expected="torque or [servo]")
            dq = None if chunk.dq is None else np.array(chunk.dq)
            parts.append(Motion(np.array(chunk.t), np.array(chunk.q), np.array(tau) * scale, dq, **commands))
        return parts

    return DataSet(
        recipe.name,
        recipe.title,
        recipe.source,
        recipe.licence,
        recipe.developed_on,
        recipe.split.reason,
        bodies_of(robot),
        robot_file,
        recipe.cutoff,
        np.array(robot.gravity),
        motors_of(robot),
        motions(recipe.split.train),
        {region: motions(parts) for region, parts in recipe.split.held_out.items()},
        motions(recipe.split.loaded),
        [motions(parts) for parts in recipe.split.repeats],
        servo,
        recipe.truth.payload if recipe.truth else None,
    )


def motors_of(robot: RobotModel) -> Float:
    """Motors that turn with several joints (k, n), each scaled by its largest ratio."""
    ratios = robot.drive.transmission
    coupled = ratios[(ratios != 0).sum(axis=1) > 1]
    return np.asarray(coupled / np.abs(coupled).max(axis=1, keepdims=True, initial=0.0))


def _check(path: Path, digest: str, recipe: Recipe) -> None:
    place = Place(file=str(path))
    if not path.is_file():
        raise InputError(
            "bench-file",
            found="no such file",
            expected=f"the file of {recipe.source}",
            do="fetch it; the README of dynid-bench says how folders are laid out",
            place=place,
        )
    if (actual := file_digest(path)) != digest:
        raise InputError(
            "bench-digest",
            found=f"SHA-256 {actual[:12]}...",
            expected=f"{digest[:12]}..., as in the recipe",
            do="scores of another file cannot be compared",
            place=place,
        )


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
        {
            "made_elastic_arm": "made arm, 6 joints: springs behind the motors, friction that builds up, teeth",
            "made_rail_arm": "made arm, a rail and 4 joints: warming, friction by load, saturation, hoses, late torque",
        }[plant.name],
        f"MuJoCo, dynid_bench.made, seed {seed}",
        "Apache-2.0",
        False,
        "Training on one Fourier series; held out are another one, the same kind at 0.4 and 1.6 times the "
        "speed, one a radian aside, and moves from pose to pose with pauses.",
        plant.prior,
        None,
        8.0,
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


def write_robot(dataset: DataSet, folder: Path) -> tuple[Path, Path]:
    """Write the URDF of a task and copy the published robot file."""
    urdf = write_urdf(folder / "kinematics.urdf", dataset.bodies)
    if dataset.robot_file is None:
        return urdf, write_urdf(folder / "robot.urdf", dataset.bodies)
    source = folder / dataset.robot_file.name
    source.write_bytes(dataset.robot_file.read_bytes())
    return urdf, source
