"""Data sets: logs with their splits, from recipes and a folder of fetched files, or made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dynid.base import Float, InputError, Place, Strict, UsageError, meant, read_toml, validate
from dynid.log import Selection, file_digest, read_log
from dynid.robot import RobotModel, ServoSettings, load_example, load_robot
from dynid_bench.bodies import bodies_of, write_urdf
from dynid_bench.dataset import REGIONS, DataSet
from dynid_bench.made import MADE, made_set
from dynid_bench.protocol import Motion

FOLDER = "DYNID_DATA"
EXAMPLE = "example:"


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


def recipes() -> dict[str, Path]:
    """Recipes that come with the package, by the name of their set."""
    folder = Path(str(files("dynid_bench"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def names_of_sets() -> list[str]:
    """Made sets, then those of recipes."""
    return [*MADE, *recipes()]


def recipe_path(name: str) -> Path:
    """The recipe of a set, or the file that is named; raises UsageError for an unknown set."""
    path = Path(name) if name.endswith(".toml") else recipes().get(name)
    if path is None:
        near = meant(name, names_of_sets())
        raise UsageError(
            "bench-set",
            found=f"set '{name}'",
            expected=f"one of {', '.join(names_of_sets())}",
            do=f"did you mean '{near}'?" if near else "",
        )
    return path


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


def no_data() -> UsageError:
    """What to say where fetched logs are needed and there is no folder of them."""
    return UsageError(
        "bench-data",
        found="no folder of fetched logs",
        expected=f"a folder with a folder for each robot in {FOLDER} or --data",
        do="'--made' runs the sets that need none",
    )


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
    path = recipe_path(name)
    if data is None:
        raise no_data()
    return fetched_set(read_recipe(path), data)


def fetched_set(recipe: Recipe, data: Path) -> DataSet:
    """Read a set of a recipe."""
    folder = data / recipe.name
    for name, digest in recipe.files.items():
        check_file(folder / name, digest, recipe.source)
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


def check_file(path: Path, digest: str, source: str) -> None:
    """Raise InputError for a file that is missing or has another SHA-256 than its recipe's."""
    place = Place(file=str(path))
    if not path.is_file():
        raise InputError(
            "bench-file",
            found="no such file",
            expected=f"the file of {source}",
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


def write_robot(dataset: DataSet, folder: Path) -> tuple[Path, Path]:
    """Write the URDF of a task and copy the published robot file."""
    urdf = write_urdf(folder / "kinematics.urdf", dataset.bodies)
    if dataset.robot_file is None:
        return urdf, write_urdf(folder / "robot.urdf", dataset.bodies)
    source = folder / dataset.robot_file.name
    source.write_bytes(dataset.robot_file.read_bytes())
    return urdf, source
