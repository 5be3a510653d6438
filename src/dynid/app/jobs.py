"""Jobs: commands in processes of their own, with their state in files, so that they outlive the server."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from dynid.app.workspace import JOBS, Project, absent, write_json
from dynid.base import PROGRESS_VARIABLE, RefusedError, dataclass, staged_files

fcntl: Any
try:
    import fcntl
except (
    ImportError
):  # Windows: a job that the server did not start itself cannot be distinguished from one that was killed
    fcntl = None

RUNNING, DONE, FAILED, STOPPED, INTERRUPTED = "running", "done", "failed", "stopped", "interrupted"
# Jobs at a time; more would overload a small computer.
MOST_RUNNING = 4
# Exit codes after SIGINT or SIGTERM: dynid's own, and those of the operating system.
_STOPPED_CODES = (130, 143, -2, -15)
# Characters of an output that a page shows, from its end.
SHOWN_CHARACTERS = 60_000
_ID = re.compile(r"[0-9]{4,}")
_children: list[tuple[Path, subprocess.Popen[bytes]]] = []


@dataclass(frozen=True)
class Command:
    """A command line of dynid.

    Attributes
    ----------
    kind : str
        Name of the command on the pages.
    title : str
        Heading of its job.
    arguments : tuple of str
        Arguments after `dynid`.
    result : str
        Path of its output, relative to the project's folder.
    live : bool
        Whether its output is shown while it runs; `--json` is left out then.
    files : tuple of (path, text)
        Files to write when it starts, relative to the project's folder.

    """

    kind: str
    title: str
    arguments: tuple[str, ...]
    result: str = ""
    live: bool = False
    files: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """The command line, as typed in a terminal in the project's folder."""
        return shlex.join(("dynid", *self.arguments))


@dataclass(frozen=True)
class Job:
    """A started command.

    keys: hashes of files and mapping at its start.    code: exit code, None if not known.    pid: of its process.
    """

    id: str
    command: Command
    folder: Path
    created: float
    keys: Mapping[str, str] = field(default_factory=dict)
    state: str = RUNNING
    code: int | None = None
    pid: int | None = None
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """Duration until the end, or until now, s."""
        return (self.ended or time.time()) - self.created

    @property
    def printed(self) -> dict[str, Any]:
        """The JSON object that the command printed; empty before its end."""
        try:
            content = json.loads((self.folder / "stdout").read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def text(self, name: str) -> str:
        """Return the end of its output; `name` is "stdout" or "stderr"."""
        try:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return text if len(text) <= SHOWN_CHARACTERS else "...\n" + text[-SHOWN_CHARACTERS:]

    @property
    def progress(self) -> Mapping[str, Any]:
        """Stage and finished fraction, if the command reports them."""
        try:
            content = json.loads((self.folder / "progress.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def start(project: Project, command: Command, keys: Callable[[], Mapping[str, str]] = dict) -> Job:
    """Start a command in the project's folder, in its own session.

    Parameters
    ----------
    project : Project
        The project.
    command : Command
        The command.
    keys : callable
        Returns hashes of the inputs; called after the files of the command are written.

    Returns
    -------
    Job
        The started job.

    Raises
    ------
    RefusedError
        If too many jobs are running.

    """
    with project.workspace.locked():
        busy = [job for other in project.workspace.projects() for job in jobs(other) if job.state == RUNNING]
        if len(busy) >= MOST_RUNNING:
            raise RefusedError(
                "busy",
                found=f"{len(busy)} running jobs",
                expected=f"fewer than {MOST_RUNNING}",
                do="wait until one ends, or stop one",
            )
        number = 1 + max((int(job) for job in _ids(project)), default=0)
        folder = project.folder / JOBS / f"{number:04d}"
        folder.mkdir()
        for path, text in command.files:
            with staged_files(project.folder / path) as (scratch,):
                scratch.write_text(text, encoding="utf-8")
        stored = {
            "kind": command.kind,
            "title": command.title,
            "arguments": command.arguments,
            "result": command.result,
            "live": command.live,
            "keys": dict(keys()),
            "created": time.time(),
        }
        write_json(folder / "job.json", stored)
    _launch(folder, project.folder)
    return job_of(project, folder.name)


def jobs(project: Project) -> list[Job]:
    """Return all jobs of a project, the newest first."""
    listed = []
    for name in sorted(_ids(project), key=int, reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            listed.append(_read(project.folder / JOBS / name))
    return listed


def job_of(project: Project, name: str) -> Job:
    """Return a job by its id; raises InputError if it does not exist."""
    try:
        if name in _ids(project):
            return _read(project.folder / JOBS / name)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise absent(name)


def latest(project: Project, kind: str) -> Job | None:
    """Return the newest job of a kind, or None."""
    return next((job for job in jobs(project) if job.command.kind == kind), None)


def stop(job: Job) -> None:
    """Ask a running job to end; kill it at the second call."""
    if job.state != RUNNING or job.pid is None:
        return
    asked = (job.folder / "stop").exists()
    (job.folder / "stop").touch()
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(job.pid, signal.SIGKILL if asked else signal.SIGTERM)
        else:
            os.kill(job.pid, signal.SIGTERM)


def running(job_folder: Path) -> bool:
    """Whether a process of the job is alive; all of them keep its lock."""
    if fcntl is None:
        return any(child.poll() is None for folder, child in _children if folder == job_folder)
    try:
        file = os.open(job_folder / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(
            file, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared, so that two simultaneous checks do not block each other
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _launch(folder: Path, where: Path) -> None:
    # The lock is taken before the process starts; it is released when the last process that inherited it ends.
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.set_inheritable(lock, True)
        # -P: never import from the project's folder.
        call = [sys.executable, "-P", "-m", "dynid.app.runner", str(lock), str(folder)]
        child = subprocess.Popen(  # noqa: S603 - dynid's own command, no shell
            call,
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock,) if fcntl is not None else (),
            env=os.environ | {PROGRESS_VARIABLE: str(folder / "progress.json")},
        )
        write_json(folder / "started.json", {"pid": child.pid})
        _children.append((folder, child))
    finally:
        os.close(lock)


def _ids(project: Project) -> list[str]:
    return [path.name for path in (project.folder / JOBS).iterdir() if _ID.fullmatch(path.name)]


def _read(folder: Path) -> Job:
    _children[:] = [item for item in _children if item[1].poll() is None]
    stored = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    alive = running(folder)
    # Read after the check of the lock: a job that ends in between has written this file by then.
    ended = _optional(folder / "ended.json")
    code = ended.get("code")
    state = RUNNING
    if code is not None:
        stopped = (folder / "stop").exists() and code != 0
        state = DONE if code == 0 else STOPPED if stopped or code in _STOPPED_CODES else FAILED
    elif not alive:
        state = STOPPED if (folder / "stop").exists() else INTERRUPTED
    command = Command(
        stored["kind"], stored["title"], tuple(stored["arguments"]), stored["result"], stored["live"]
    )
    pid = _optional(folder / "started.json").get("pid")
    done = ended.get("ended") if state != RUNNING else None
    if state in (INTERRUPTED, STOPPED) and done is None:
        done = max(item.stat().st_mtime for item in folder.iterdir())
    return Job(folder.name, command, folder, stored["created"], stored["keys"], state, code, pid, done)


def _optional(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
