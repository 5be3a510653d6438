"""The folder of the app: projects, their files and settings; no file outside of it is ever opened."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from dynid.base import (
    InputError,
    Place,
    RefusedError,
    ResourceError,
    UsageError,
    claim,
    dataclass,
    remove,
    staged_files,
)

FORMAT = "dynid-app 1"
PRIVATE = 0o700  # mode of the folder
# Folders of a project.
ROBOT, LOGS, LIVE, RUNS, EXPORTS, PLANS, PAGES, JOBS = (
    "robot", "logs", "live", "runs", "exports", "plans", "pages", "jobs",
)  # fmt: skip
FOLDERS = (ROBOT, LOGS, LIVE, RUNS, EXPORTS, PLANS, PAGES, JOBS)
EXPERIMENT, DEMO = "experiment.toml", "demo"
# Suffixes of files that belong to a robot: meshes and textures.
_OF_ROBOTS = (".stl", ".obj", ".dae", ".msh", ".ply", ".glb", ".gltf", ".mtl", ".png", ".jpg", ".jpeg")
_NOT_A_ROBOT = ("package.xml",)
# Characters of names besides letters and digits; all are safe in shells.
_KEPT = "._- +=()[]@,"
LONGEST_NAME, DEEPEST = 100, 8
MOST_FILES, MOST_PROJECTS = 500, 500
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TRAIN, HELD_OUT, LEFT_OUT = "train", "validate", "off"
ROLES = {TRAIN: "fit", HELD_OUT: "hold out", LEFT_OUT: "leave out"}


@dataclass(frozen=True)
class About:
    """Stored settings of a project.

    Attributes
    ----------
    name : str
        Name of the project.
    created : float, s
        Time of creation.
    robot : str
        Path of the robot file; empty for the only one.
    roles : mapping
        TRAIN, HELD_OUT or LEFT_OUT by log.
    motions : mapping
        The same by name of a trajectory.
    answers : mapping
        Corrections, KEY -> VALUE of `dynid init --answer`.
    confirmed : mapping
        KEY -> VALUE of uncertain decisions that the user confirmed for the files with the hash `confirmed_for`.
    edited : str
        Hash of an experiment file that the user wrote.
    accepted : sequence of str
        Codes of accepted doubts, for the files and the experiment file with the hashes `accepted_for`.

    """

    name: str
    created: float
    robot: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    motions: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    confirmed: Mapping[str, str] = field(default_factory=dict)
    confirmed_for: str = ""
    edited: str = ""
    accepted: Sequence[str] = ()
    accepted_for: Sequence[str] = ()


class Workspace:
    """A folder of projects that one server uses at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock = threading.RLock()
        self._hashes: dict[tuple[str, int, int], str] = {}

    def open(self) -> Callable[[], None]:
        """Create the folder if necessary and lock it for this process; return a function that unlocks it.

        Raises RefusedError if the folder has other content or is used by another server.
        """
        marker = self.folder / "app.json"
        if self.folder.exists() and not marker.is_file() and any(self.folder.iterdir()):
            raise RefusedError(
                "not-a-workspace",
                found=f"folder '{self.folder}' with other files",
                expected="a new folder, or one that dynid app has made",
                do="choose another folder",
            )
        release = claim(self.folder)
        try:
            if not self.folder.exists():
                # Logs and models are nobody else's business on a shared machine.
                self.folder.mkdir(parents=True)
                self.folder.chmod(PRIVATE)
            (self.folder / "projects").mkdir(exist_ok=True)
            write_json(marker, {"format": FORMAT})
        except OSError as error:
            release()
            raise ResourceError(
                "io",
                found=str(error.strerror),
                expected="a writable disk",
                place=Place(file=str(self.folder)),
            ) from error
        self.folder = self.folder.resolve()
        return release

    def projects(self) -> list[Project]:
        """Return all projects, the newest first."""
        entries = []
        for folder in (self.folder / "projects").iterdir():
            with suppress(InputError):
                project = self.project(folder.name)
                entries.append((-project.about.created, project.id, project))
        return [project for *_, project in sorted(entries, key=lambda entry: entry[:2])]

    def project(self, name: str) -> Project:
        """Return a project by its id; raises InputError if it does not exist."""
        folder = self.folder / "projects" / name
        if not _ID.fullmatch(name) or folder.is_symlink() or not (folder / "project.json").is_file():
            raise absent(name)
        return Project(folder, self)

    def new_project(self, name: str) -> Project:
        """Create a project; raises UsageError for an empty name, ResourceError if there are too many projects."""
        shown = " ".join("".join(c if c.isprintable() else " " for c in name).split())[:LONGEST_NAME]
        if not shown:
            raise UsageError("no-name", found="an empty name", expected="a name for the project")
        with self._lock:
            if len(list((self.folder / "projects").iterdir())) >= MOST_PROJECTS:
                raise ResourceError(
                    "too-many", found=f"{MOST_PROJECTS} projects", expected="fewer", do="delete some"
                )
            stem = "-".join(re.findall(r"[a-z0-9]+", shown.lower()))[:30].strip("-") or "project"
            folder = self.folder / "projects" / f"{stem}-{secrets.token_hex(3)}"
            for subfolder in FOLDERS:
                (folder / subfolder).mkdir(parents=True)
            write_json(folder / "project.json", vars(About(shown, time.time())))
        return Project(folder, self)

    def hash_of(self, path: Path) -> str:
        """Return the SHA-256 of a file, cached while its size and modification time stay."""
        state = path.stat()
        key = (str(path), state.st_size, state.st_mtime_ns)
        if key not in self._hashes:
            with path.open("rb") as file:
                self._hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[key]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Allow one change of stored data at a time."""
        with self._lock:
            yield


class Project:
    """One robot with its logs, runs and plans."""

    def __init__(self, folder: Path, workspace: Workspace):
        self.folder, self.workspace = folder, workspace

    @property
    def id(self) -> str:
        """Id of the project in addresses."""
        return self.folder.name

    @property
    def about(self) -> About:
        """Stored settings."""
        try:
            stored = json.loads((self.folder / "project.json").read_text(encoding="utf-8"))
            return About(**{key: value for key, value in stored.items() if key in About.__dataclass_fields__})
        except (OSError, ValueError, TypeError) as error:
            raise absent(self.id) from error

    def change(self, **values: Any) -> None:
        """Change stored settings."""
        with self.workspace.locked():
            write_json(self.folder / "project.json", vars(replace(self.about, **values)))

    def remove(self) -> None:
        """Delete the project with all its files."""
        remove(self.folder)

    def inside(self, relative: str) -> Path:
        """Return an existing path below the project's folder without links; raises InputError for any other path."""
        parts = relative.split("/")
        if not relative or any(
            part_name in ("", ".", "..") or "\\" in part_name or "\0" in part_name for part_name in parts
        ):
            raise absent(relative)
        path = self.folder
        try:
            for part in parts:
                path = path / part
                if path.is_symlink():
                    raise absent(relative)
            if not path.exists():
                raise absent(relative)
        except OSError as error:  # a name that is too long for the file system
            raise absent(relative[:LONGEST_NAME]) from error
        return path

    def robots(self) -> tuple[str, ...]:
        """Return the robot files, without meshes."""
        return tuple(
            name
            for name in self._files(ROBOT)
            if _named_as_robot(name) and Path(name).name not in _NOT_A_ROBOT
        )

    @property
    def robot(self) -> str | None:
        """Robot file in use; None if there is none, or several without a choice."""
        names, chosen = self.robots(), self.about.robot
        return chosen if chosen in names else names[0] if len(names) == 1 else None

    def logs(self) -> tuple[str, ...]:
        """Return the logs, which are files or folders."""
        return tuple(
            f"{LOGS}/{path.name}"
            for path in sorted((self.folder / LOGS).iterdir())
            if not path.is_symlink() and not path.name.startswith(".")
        )

    def role(self, log: str) -> str:
        """Return the role of a log, TRAIN by default."""
        return self.about.roles.get(log, TRAIN)

    def logs_to(self, role: str) -> tuple[str, ...]:
        """Return the logs with a role."""
        return tuple(log for log in self.logs() if self.role(log) == role)

    def live_logs(self) -> tuple[str, ...]:
        """Return the CSV files that can be followed, recorded or uploaded."""
        names = (*self._files(LIVE), *self._files(LOGS))
        return tuple(name for name in names if name.lower().endswith((".csv", ".txt")))

    def runs(self) -> tuple[str, ...]:
        """Return the run folders, the newest last."""
        paths = [path for path in (self.folder / RUNS).iterdir() if (path / "run.json").is_file()]
        paths = [path for path in paths if not path.is_symlink()]
        return tuple(f"{RUNS}/{path.name}" for path in sorted(paths, key=lambda path: path.stat().st_mtime))

    def plans(self) -> tuple[str, ...]:
        """Return the folders of designed motions, the newest last."""
        paths = [path for path in (self.folder / PLANS).iterdir() if path.is_dir() and not path.is_symlink()]
        paths = [path for path in paths if not path.name.startswith(".")]
        return tuple(f"{PLANS}/{path.name}" for path in sorted(paths, key=lambda path: path.stat().st_mtime))

    def files_below(self, folder: str) -> tuple[str, ...]:
        """Return the files of a folder, as paths relative to the project's folder."""
        return tuple(self._files(folder))

    def free_name(self, folder: str, stem: str, suffix: str = "") -> str:
        """Return the first unused name of stem-1, stem-2, ..., as a path relative to the project's folder."""
        number = 1
        while (self.folder / folder / f"{stem}-{number}{suffix}").exists():
            number += 1
        return f"{folder}/{stem}-{number}{suffix}"

    def place_for(self, kind: str, relative: str) -> str:
        """Return the place of an uploaded file, relative to the project's folder.

        Parameters
        ----------
        kind : str
            ROBOT, LOGS, or empty to decide by the name.
        relative : str
            Name of the file, or its path in a dropped folder.

        Raises
        ------
        UsageError
            If the name is not a file's name.
        ResourceError
            If there are too many files.

        """
        parts = [
            sanitised(item) for item in relative.replace("\\", "/").split("/") if item not in ("", ".", "..")
        ]
        if not parts or len(parts) > DEEPEST:
            raise UsageError("file-name", found=f"'{relative[:LONGEST_NAME]}'", expected="a file's name")
        if kind not in (ROBOT, LOGS):
            of_robot = _named_as_robot(parts[-1]) or parts[-1].lower().endswith(_OF_ROBOTS)
            kind = ROBOT if of_robot else LOGS
        if sum(len(self._files(item)) for item in (ROBOT, LOGS)) >= MOST_FILES:
            raise ResourceError(
                "too-many", found=f"{MOST_FILES} files", expected="fewer", do="start another project"
            )
        return "/".join((kind, *parts))

    def remove_file(self, relative: str) -> None:
        """Delete a robot's file or a log."""
        path = self.inside(relative)
        if relative.split("/", maxsplit=1)[0] not in (ROBOT, LOGS) or "/" not in relative:
            raise absent(relative)
        remove(path)

    def adopt_demo(self) -> None:
        """Copy robot and logs of a finished demo into the project."""
        source = self.folder / RUNS / DEMO
        if (source / "robot.toml").is_file() and not self.robots() and not self.logs():
            with self.workspace.locked():
                for log in sorted((source / "logs").iterdir()):
                    shutil.copyfile(log, self.folder / LOGS / log.name)
                shutil.copyfile(source / "robot.toml", self.folder / ROBOT / "robot.toml")
            self.change(roles={f"{LOGS}/validate.parquet": HELD_OUT})

    def files_key(self) -> str:
        """Return a hash of names, contents and roles of the robot's files and of the logs in use."""
        digest = hashlib.sha256()
        about = {"robot": self.robot, "roles": {log: self.role(log) for log in self.logs()}}
        digest.update(json.dumps(about, sort_keys=True).encode())
        used = {log for log in self.logs() if self.role(log) != LEFT_OUT}
        for name in (*self._files(ROBOT), *self._files(LOGS)):
            if name.startswith(f"{ROBOT}/") or "/".join(name.split("/")[:2]) in used:
                digest.update(f"{name}\0{self.workspace.hash_of(self.folder / name)}\n".encode())
        return digest.hexdigest()

    def mapping_key(self) -> str:
        """Return the hash of the experiment file, empty if it does not exist."""
        path = self.folder / EXPERIMENT
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""

    @property
    def edited(self) -> bool:
        """Whether the user wrote the experiment file."""
        return self.mapping_key() == self.about.edited != ""

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of doubts that were accepted for the present files and experiment file."""
        about = self.about
        holds = (
            [self.files_key(), self.mapping_key()] == list(about.accepted_for) if about.accepted else False
        )
        return tuple(about.accepted) if holds else ()

    def accept(self, code: str, back: bool = False) -> None:
        """Accept a doubt for the present files, or withdraw that with `back`."""
        with self.workspace.locked():
            codes = [other for other in self.accepted if other != code] + ([] if back else [code])
            self.change(accepted=codes, accepted_for=[self.files_key(), self.mapping_key()])

    def _files(self, folder: str) -> list[str]:
        files = []
        for path in sorted((self.folder / folder).rglob("*")):
            relative = path.relative_to(self.folder)
            hidden = any(part.startswith(".") for part in relative.parts)
            linked = any((self.folder / part).is_symlink() for part in (relative, *relative.parents))
            if path.is_file() and not hidden and not linked:
                files.append(relative.as_posix())
        return files


def sanitised(name: str) -> str:
    """Return a safe file name: no path, no leading dot or dash, no control characters."""
    kept = "".join(c if c.isalnum() or c in _KEPT else "_" for c in name).strip()
    kept = kept.lstrip(".-").rstrip(". ") or "file"
    stem, dot, ending = kept.rpartition(".")
    if len(kept) > LONGEST_NAME:
        kept = f"{stem[: LONGEST_NAME - 12]}{dot}{ending[:11]}" if stem else kept[:LONGEST_NAME]
    while len(kept.encode()) > 2 * LONGEST_NAME:
        kept = kept[1:]
    return kept


def absent(name: str) -> InputError:
    """Return the error for a missing path; paths outside the workspace give the same error."""
    return InputError("not-found", found=f"no '{name}' here", expected="a link of these pages")


def write_json(path: Path, data: object) -> None:
    """Write a JSON file completely or not at all."""
    with staged_files(path) as (scratch,):
        scratch.write_text(json.dumps(data, indent=1, default=dict), encoding="utf-8")


def _named_as_robot(name: str) -> bool:
    from dynid.robot import (
        named_as_robot,
    )  # imported late, because it loads NumPy and all readers, and the link is printed first

    return named_as_robot(Path(name))
