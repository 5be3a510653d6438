"""The folder that the app works in: projects, their files, what was said of them; nothing outside is ever opened."""

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
# Folders of a project.
ROBOT, LOGS, LIVE, RUNS, EXPORTS, PLANS, PAGES, JOBS = (
    "robot", "logs", "live", "runs", "exports", "plans", "pages", "jobs",
)  # fmt: skip
FOLDERS = (ROBOT, LOGS, LIVE, RUNS, EXPORTS, PLANS, PAGES, JOBS)
EXPERIMENT, DEMO = "experiment.toml", "demo"
# What comes with a robot and is no log: meshes and their pictures.
_OF_ROBOTS = (".stl", ".obj", ".dae", ".msh", ".ply", ".glb", ".gltf", ".mtl", ".png", ".jpg", ".jpeg")
_NOT_A_ROBOT = ("package.xml",)
# Names are for people and shells: letters and digits of any script, and these.
_KEPT = "._- +=()[]@,"
LONGEST_NAME, DEEPEST = 100, 8
MOST_FILES, MOST_PROJECTS = 500, 500
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TRAIN, HELD_OUT, LEFT_OUT = "train", "validate", "off"
ROLES = {TRAIN: "fit", HELD_OUT: "hold out", LEFT_OUT: "leave out"}


@dataclass(frozen=True)
class About:
    """What was said of a project.

    robot: path of the description, "" = the only one.    roles: by log, TRAIN, HELD_OUT or LEFT_OUT.    motions: by
    name of a trajectory, likewise.    answers: corrections, KEY -> VALUE of `dynid init --answer`.    confirmed: KEY ->
    VALUE of doubtful decisions that the user found right, for the files whose key is `confirmed_for`.
    edited: key of an experiment file that the user wrote.    accepted: codes of doubts that a run accepts, for the
    files and the experiment file whose keys are `accepted_for`.
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
        """Makes the folder where it is missing, and takes it for this process; returns what gives it up.

        Raises RefusedError for a folder that holds something else, or that another server uses.
        """
        marker = self.folder / "app.json"
        if self.folder.exists() and not marker.is_file() and any(self.folder.iterdir()):
            raise RefusedError(
                "not-a-workspace",
                found=f"'{self.folder}' holds other files",
                expected="a new folder, or one that dynid app has made",
                do="name another folder",
            )
        release = claim(self.folder)
        try:
            (self.folder / "projects").mkdir(parents=True, exist_ok=True)
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
        """All projects, the newest first."""
        entries = []
        for folder in (self.folder / "projects").iterdir():
            with suppress(InputError):
                project = self.project(folder.name)
                entries.append((-project.about.created, project.id, project))
        return [project for *_, project in sorted(entries, key=lambda entry: entry[:2])]

    def project(self, name: str) -> Project:
        """A project by its id; raises InputError if there is none."""
        folder = self.folder / "projects" / name
        if not _ID.fullmatch(name) or folder.is_symlink() or not (folder / "project.json").is_file():
            raise absent(name)
        return Project(folder, self)

    def new_project(self, name: str) -> Project:
        """An empty project; raises UsageError for an empty name, ResourceError if there are too many."""
        shown = " ".join("".join(c if c.isprintable() else " " for c in name).split())[:LONGEST_NAME]
        if not shown:
            raise UsageError("no-name", found="an empty name", expected="a name for the project")
        with self._lock:
            if len(list((self.folder / "projects").iterdir())) >= MOST_PROJECTS:
                raise ResourceError(
                    "too-many", found=f"{MOST_PROJECTS} projects", expected="fewer", do="remove some"
                )
            stem = "-".join(re.findall(r"[a-z0-9]+", shown.lower()))[:30].strip("-") or "project"
            folder = self.folder / "projects" / f"{stem}-{secrets.token_hex(3)}"
            for subfolder in FOLDERS:
                (folder / subfolder).mkdir(parents=True)
            write_json(folder / "project.json", vars(About(shown, time.time())))
        return Project(folder, self)

    def hash_of(self, path: Path) -> str:
        """SHA-256 of a file, remembered as long as its size and time of change stay."""
        state = path.stat()
        key = (str(path), state.st_size, state.st_mtime_ns)
        if key not in self._hashes:
            with path.open("rb") as file:
                self._hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[key]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One change of what is stored at a time."""
        with self._lock:
            yield


class Project:
    """One robot with its logs, runs and plans."""

    def __init__(self, folder: Path, workspace: Workspace):
        self.folder, self.workspace = folder, workspace

    @property
    def id(self) -> str:
        """Its name in addresses."""
        return self.folder.name

    @property
    def about(self) -> About:
        """What was said of it."""
        try:
            stored = json.loads((self.folder / "project.json").read_text(encoding="utf-8"))
            return About(**{key: value for key, value in stored.items() if key in About.__dataclass_fields__})
        except (OSError, ValueError, TypeError) as error:
            raise absent(self.id) from error

    def change(self, **values: Any) -> None:
        """Stores what was said anew."""
        with self.workspace.locked():
            write_json(self.folder / "project.json", vars(replace(self.about, **values)))

    def remove(self) -> None:
        """Deletes it with everything in it."""
        remove(self.folder)

    def inside(self, relative: str) -> Path:
        """An existing path below the project's folder, no part of which is a link; raises InputError for any other."""
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
        except OSError as error:  # a name longer than the file system takes
            raise absent(relative[:LONGEST_NAME]) from error
        return path

    def robots(self) -> tuple[str, ...]:
        """Descriptions among the robot's files."""
        return tuple(
            name
            for name in self._files(ROBOT)
            if _named_as_robot(name) and Path(name).name not in _NOT_A_ROBOT
        )

    @property
    def robot(self) -> str | None:
        """The description in use; None while there is none, or several and none was chosen."""
        names, chosen = self.robots(), self.about.robot
        return chosen if chosen in names else names[0] if len(names) == 1 else None

    def logs(self) -> tuple[str, ...]:
        """Logs, files and folders of files alike."""
        return tuple(
            f"{LOGS}/{path.name}"
            for path in sorted((self.folder / LOGS).iterdir())
            if not path.is_symlink() and not path.name.startswith(".")
        )

    def role(self, log: str) -> str:
        """What a log is for: TRAIN unless something else was said."""
        return self.about.roles.get(log, TRAIN)

    def logs_to(self, role: str) -> tuple[str, ...]:
        """The logs of one role."""
        return tuple(log for log in self.logs() if self.role(log) == role)

    def live_logs(self) -> tuple[str, ...]:
        """CSV files that may be followed: recordings under way, and uploaded ones."""
        names = (*self._files(LIVE), *self._files(LOGS))
        return tuple(name for name in names if name.lower().endswith((".csv", ".txt")))

    def runs(self) -> tuple[str, ...]:
        """Run folders, the newest last."""
        paths = [path for path in (self.folder / RUNS).iterdir() if (path / "run.json").is_file()]
        paths = [path for path in paths if not path.is_symlink()]
        return tuple(f"{RUNS}/{path.name}" for path in sorted(paths, key=lambda path: path.stat().st_mtime))

    def plans(self) -> tuple[str, ...]:
        """Folders of designed motions, the newest last."""
        paths = [path for path in (self.folder / PLANS).iterdir() if path.is_dir() and not path.is_symlink()]
        paths = [path for path in paths if not path.name.startswith(".")]
        return tuple(f"{PLANS}/{path.name}" for path in sorted(paths, key=lambda path: path.stat().st_mtime))

    def files_below(self, folder: str) -> tuple[str, ...]:
        """Files of a folder of the project, by path from the project's folder."""
        return tuple(self._files(folder))

    def free_name(self, folder: str, stem: str, suffix: str = "") -> str:
        """The first of stem-1, stem-2, ... that nothing stands under, as a path from the project's folder."""
        number = 1
        while (self.folder / folder / f"{stem}-{number}{suffix}").exists():
            number += 1
        return f"{folder}/{stem}-{number}{suffix}"

    def place_for(self, kind: str, relative: str) -> str:
        """Where an uploaded file goes, by path from the project's folder.

        kind: ROBOT, LOGS, or "" = by its name.    relative: its name, or path in a folder that was dropped.

        Raises ResourceError if there are too many files.
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
        """Deletes a robot's file or a log."""
        path = self.inside(relative)
        if relative.split("/", maxsplit=1)[0] not in (ROBOT, LOGS) or "/" not in relative:
            raise absent(relative)
        remove(path)

    def adopt_demo(self) -> None:
        """Takes robot and logs of a finished demo as the project's own."""
        source = self.folder / RUNS / DEMO
        if (source / "robot.toml").is_file() and not self.robots() and not self.logs():
            with self.workspace.locked():
                for log in sorted((source / "logs").iterdir()):
                    shutil.copyfile(log, self.folder / LOGS / log.name)
                shutil.copyfile(source / "robot.toml", self.folder / ROBOT / "robot.toml")
            self.change(roles={f"{LOGS}/validate.parquet": HELD_OUT})

    def files_key(self) -> str:
        """Hash of the contents and names of the robot's files and of the logs in use, with their roles."""
        digest = hashlib.sha256()
        about = {"robot": self.robot, "roles": {log: self.role(log) for log in self.logs()}}
        digest.update(json.dumps(about, sort_keys=True).encode())
        used = {log for log in self.logs() if self.role(log) != LEFT_OUT}
        for name in (*self._files(ROBOT), *self._files(LOGS)):
            if name.startswith(f"{ROBOT}/") or "/".join(name.split("/")[:2]) in used:
                digest.update(f"{name}\0{self.workspace.hash_of(self.folder / name)}\n".encode())
        return digest.hexdigest()

    def mapping_key(self) -> str:
        """Hash of the experiment file, "" while there is none."""
        path = self.folder / EXPERIMENT
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""

    @property
    def edited(self) -> bool:
        """Whether the experiment file is one that the user wrote."""
        return self.mapping_key() == self.about.edited != ""

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of doubts that were accepted for these very files and this experiment file."""
        about = self.about
        holds = (
            [self.files_key(), self.mapping_key()] == list(about.accepted_for) if about.accepted else False
        )
        return tuple(about.accepted) if holds else ()

    def accept(self, code: str, back: bool = False) -> None:
        """Accepts a doubt for the files as they are, or takes that back."""
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
    """A name that is safe in a folder and on a command line: no path, no leading dot or dash, no control characters."""
    kept = "".join(c if c.isalnum() or c in _KEPT else "_" for c in name).strip()
    kept = kept.lstrip(".-").rstrip(". ") or "file"
    stem, dot, ending = kept.rpartition(".")
    if len(kept) > LONGEST_NAME:
        kept = f"{stem[: LONGEST_NAME - 12]}{dot}{ending[:11]}" if stem else kept[:LONGEST_NAME]
    while len(kept.encode()) > 2 * LONGEST_NAME:
        kept = kept[1:]
    return kept


def absent(name: str) -> InputError:
    """The error for what is not there, or not below the workspace, which sound alike."""
    return InputError("not-found", found=f"no '{name}' here", expected="something that the pages link to")


def write_json(path: Path, data: object) -> None:
    """Writes a JSON file, whole or not at all."""
    with staged_files(path) as (scratch,):
        scratch.write_text(json.dumps(data, indent=1, default=dict), encoding="utf-8")


def _named_as_robot(name: str) -> bool:
    from dynid.robot import named_as_robot  # with NumPy and all readers: the link is printed before

    return named_as_robot(Path(name))
