"""Files that the benchmark and a method exchange. Needs NumPy only, so that it runs in every environment.

A method is a Python file that the benchmark starts as `python ADAPTER TASK ANSWER`, in an environment of its own. TASK
is a folder that the benchmark has written, ANSWER one that the method fills. Joints have the order of `task.joints`;
units are SI; torque and motion are those of the joints, not of the motors. A method never sees held-out torque.

    from dynid_bench.protocol import Answer, Task, serve

    def run(task: Task) -> Answer:
        model = fit(task.train)
        return Answer({name: model.torque(m.q, m.dq, m.ddq) for name, m in task.held_out.items()})

    if __name__ == "__main__":
        serve(run)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
VERSION = 1


@dataclass(frozen=True)
class Motion:
    """A stretch of a log, with its jitter and gaps.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Time.
    q : ndarray, shape (T, n), rad (m)
        Positions.
    tau : ndarray, shape (T, n), N m (N)
        Torque.
    dq : ndarray, shape (T, n), optional
        Velocities, if the robot logs them.
    q_des, dq_des : ndarray, shape (T, n), optional
        Commands, where torque was not measured; tau is then the law of the drives, kp (q_des - q) + kd (dq_des - dq).

    """

    t: Float
    q: Float
    tau: Float
    dq: Float | None = None
    q_des: Float | None = None
    dq_des: Float | None = None


@dataclass(frozen=True)
class States:
    """Filtered motion on uniform time.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Time.
    q, dq, ddq : ndarray, shape (T, n)
        Positions, velocities and accelerations.
    tau : ndarray, shape (T, n), N m (N)
        Torque, of training motion only; else of shape (0, n).

    """

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float


def write_arrays(path: Path, record: Motion | States) -> None:
    """Write a motion or states as .npz."""
    arrays = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    np.savez(path, **{name: values for name, values in arrays.items() if values is not None})


def read_arrays(path: Path) -> dict[str, Float]:
    """Arrays of an .npz file by name."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: np.asarray(arrays[name], dtype=float) for name in arrays.files}


@dataclass(frozen=True)
class Task:
    """What a method gets.

    Parameters
    ----------
    name : str
        Data set.
    joints : sequence of str
        Joint names, in the order of all columns.
    robot : Path
        URDF with the kinematics; `priors` says whether its masses and inertias mean something.
    source : Path
        The robot file as published: URDF, MJCF or dynid's TOML.
    train : sequence of Motion
        Motion with torque, as logged.
    prepared : sequence of States
        The same with accelerations, uniform and filtered as held-out motion is, for methods that filter nothing.
    held_out : mapping of str to States
        Filtered motion without torque, by name.
    loaded : sequence of Motion
        Motion with torque and an unknown payload on the last link; empty if the set has none.
    cutoff : float, Hz
        Cutoff frequency of the filter of scores.
    gravity : ndarray, shape (3,), m/s^2
        Gravity in the base frame.
    priors : bool
        Whether the URDF has inertias from a data sheet or CAD.
    motors : ndarray, shape (k, n)
        Further motors that turn with several joints, by their ratios.
    servo : mapping or None
        Gains kp and kd of the drives, if torque was commanded rather than measured.

    """

    name: str
    joints: Sequence[str]
    robot: Path
    source: Path
    train: Sequence[Motion]
    prepared: Sequence[States]
    held_out: Mapping[str, States]
    loaded: Sequence[Motion] = ()
    cutoff: float = 8.0
    gravity: Float = field(default_factory=lambda: np.array([0.0, 0.0, -9.81]))
    priors: bool = False
    motors: Float = field(default_factory=lambda: np.zeros((0, 0)))
    servo: Mapping[str, Sequence[float]] | None = None

    def write(self, folder: Path) -> None:
        """Write the task; `robot` and `source` must be files of the folder."""
        kinds: dict[str, Mapping[Any, Motion | States]] = {
            "train": dict(enumerate(self.train)),
            "prepared": dict(enumerate(self.prepared)),
            "loaded": dict(enumerate(self.loaded)),
            "held_out": dict(self.held_out),
        }
        for kind, records in kinds.items():
            for name, record in records.items():
                write_arrays(folder / f"{kind}-{name}.npz", record)
        plain = {
            "version": VERSION,
            "name": self.name,
            "joints": list(self.joints),
            "robot": self.robot.name,
            "source": self.source.name,
            "motions": {kind: list(records) for kind, records in kinds.items()},
            "cutoff": self.cutoff,
            "gravity": self.gravity.tolist(),
            "priors": self.priors,
            "motors": self.motors.tolist(),
            "servo": self.servo,
        }
        (folder / "task.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> Task:
        """Read a task folder; raises ValueError for another version."""
        plain = json.loads((folder / "task.json").read_text(encoding="utf-8"))
        if plain["version"] != VERSION:
            raise ValueError(f"task of version {plain['version']}; this adapter reads version {VERSION}")

        def arrays(kind: str) -> dict[str, dict[str, Float]]:
            return {name: read_arrays(folder / f"{kind}-{name}.npz") for name in plain["motions"][kind]}

        n = len(plain["joints"])
        return Task(
            plain["name"],
            plain["joints"],
            folder / plain["robot"],
            folder / plain["source"],
            [Motion(**motion) for motion in arrays("train").values()],
            [States(**states) for states in arrays("prepared").values()],
            {name: States(**states) for name, states in arrays("held_out").items()},
            [Motion(**motion) for motion in arrays("loaded").values()],
            plain["cutoff"],
            np.array(plain["gravity"]),
            plain["priors"],
            np.array(plain["motors"]).reshape(-1, n),
            plain["servo"],
        )


@dataclass
class Answer:
    """What a method gives back; only torque is required.

    Parameters
    ----------
    torque : mapping of str to ndarray, shape (T, n)
        Torque of each held-out motion, on its samples.
    parameters : mapping of str to (value, half width)
        Estimates with 95 % intervals, with names that are the same for every log of a robot.
    payload : (value, half width) or None
        Mass of the payload and half its 95 % interval, kg; the half width may be nan.
    model : str
        File in the answer's folder with the identified robot as a user would simulate it, MJCF or URDF; "" = none.
    packages : sequence of str
        Installed packages whose versions are printed.
    settings : str
        Settings that differ from the method's defaults, in words.

    """

    torque: Mapping[str, Float]
    parameters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    payload: tuple[float, float] | None = None
    model: str = ""
    packages: Sequence[str] = ()
    settings: str = ""

    def write(self, folder: Path) -> None:
        """Write the answer."""
        arrays: dict[str, Any] = {name: np.asarray(tau, float) for name, tau in self.torque.items()}
        np.savez(folder / "torque.npz", **arrays)
        plain = {
            "version": VERSION,
            "parameters": {name: [float(x) for x in pair] for name, pair in self.parameters.items()},
            "payload": None if self.payload is None else [float(x) for x in self.payload],
            "model": self.model,
            "packages": {name: installed(name) for name in self.packages},
            "settings": self.settings,
        }
        (folder / "answer.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> tuple[Answer, dict[str, str]]:
        """Read an answer and the versions of its packages."""
        plain = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        packages: dict[str, str] = plain["packages"]
        answer = Answer(
            read_arrays(folder / "torque.npz"),
            {name: (pair[0], pair[1]) for name, pair in plain["parameters"].items()},
            None if plain["payload"] is None else (plain["payload"][0], plain["payload"][1]),
            plain["model"],
            tuple(packages),
            plain["settings"],
        )
        return answer, packages


def installed(package: str) -> str:
    """Version of an installed package, "-" if it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def serve(run: Callable[[Task], Answer]) -> None:
    """Run a method on the folders of the command line."""
    task, answer = (Path(word) for word in sys.argv[1:3])
    run(Task.read(task)).write(answer)


def answer_folder() -> Path:
    """The folder for files of the answer, such as an exported model."""
    return Path(sys.argv[2])
