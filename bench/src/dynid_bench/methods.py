"""Methods: adapters that run the authors' own packages, each as a process in an environment of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dynid.base import UsageError, meant
from dynid_bench.protocol import Answer, Task, installed

ENVIRONMENTS = "DYNID_BENCH_ENVS"
# Lines of an adapter between these comments are what a user of the package writes.
BEGIN, END = "# user's code: begin", "# user's code: end"
KEPT = 300  # characters of an error message
# Methods that share an environment.
SHARED = {"gaussian-process": "neural-net"}


@dataclass(frozen=True)
class Method:
    """A method.

    Parameters
    ----------
    name : str
        On the command line; also that of its environment.
    title : str
        What it is.
    adapter : Path
        Python file.
    packages : sequence of str
        What pip installs in its environment; empty = the environment of dynid.
    ended_early : str
        Where the method is ended, a colon, and why; its rows are then in the tables and not in the figure.
    not_run : str
        Why the authors' code cannot be installed by pip; the adapter then only shows how it would be called.

    """

    name: str
    title: str
    adapter: Path
    packages: Sequence[str] = ()
    not_run: str = ""
    ended_early: str = ""

    @property
    def lines(self) -> int:
        """Lines of code that a user of the package writes, without blank lines and comments."""
        inside, count = False, 0
        for line in self.adapter.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text in (BEGIN, END):
                inside = text == BEGIN
            elif inside and text and not text.startswith("#"):
                count += 1
        return count

    def python(self, environments: Path | None) -> Path | None:
        """The interpreter that runs the adapter: of its environment, or this one if it has the packages; else None."""
        for name in (self.name, SHARED.get(self.name, self.name)):
            for place in ("bin/python", "Scripts/python.exe"):
                if environments is not None and (path := environments / name / place).exists():
                    return path
        missing = [package for package in self.packages if installed(package.partition("[")[0]) == "-"]
        return None if missing else Path(sys.executable)


def _adapter(name: str) -> Path:
    return Path(str(files("dynid_bench"))) / "adapters" / f"{name}.py"


METHODS = {
    method.name: method
    for method in (
        Method("dynid", "dynid, default command", _adapter("dynid_default")),
        Method(
            "least-squares",
            "weighted least squares in a hundred lines of pinocchio and SciPy",
            _adapter("least_squares"),
            ("pin", "scipy"),
        ),
        Method("figaroh", "figaroh", _adapter("figaroh_base"), ("figaroh",)),
        Method(
            "mujoco-sysid",
            "mujoco.sysid",
            _adapter("mujoco_sysid"),
            ("mujoco[sysid]",),
            ended_early="ended after 10 of its 200 iterations, 90 on made_rail_arm: the processor time that this "
            "campaign gave it, 224 s for the 90, whose intervals are not compared",
        ),
        Method("neural-net", "network of two hidden layers", _adapter("neural_net"), ("scikit-learn",)),
        Method(
            "gaussian-process", "Gaussian process per joint", _adapter("gaussian_process"), ("scikit-learn",)
        ),
        Method(
            "robot-payload-id",
            "robot_payload_id",
            _adapter("robot_payload_id"),
            ("drake", "robot_payload_id"),
            "no package on PyPI: install nepfaff/robot_payload_id from its repository",
        ),
        Method(
            "flobaroid",
            "FloBaRoID",
            _adapter("flobaroid"),
            ("idyntree", "flobaroid"),
            "no package on PyPI: install kjyv/FloBaRoID from its repository",
        ),
    )
}


def method_named(name: str) -> Method:
    """A method by name, or one of an adapter file; raises UsageError for neither."""
    if name in METHODS:
        return METHODS[name]
    path = Path(name)
    if name.endswith(".py") and path.is_file():
        return Method(path.stem, str(path), path.resolve())
    raise UsageError(
        "bench-method",
        found=f"method '{name}'",
        expected=f"one of {', '.join(METHODS)}, or an adapter file",
        do=f"did you mean '{meant(name, list(METHODS))}'?" if meant(name, list(METHODS)) else "",
    )


def environments_folder(given: Path | None) -> Path | None:
    """The folder of environments: the given one, or that of DYNID_BENCH_ENVS; None if neither exists."""
    folder = given or Path(os.environ.get(ENVIRONMENTS, "") or ".no-folder")
    return folder if folder.is_dir() else None


@dataclass(frozen=True, eq=False)
class Ran:
    """How a method ended.

    answer, packages : what it gave and the versions of its packages; None without an answer.    message : why there
    is none.    seconds : processor time of all its processes.    folder : of the answer.
    """

    answer: Answer | None
    packages: dict[str, str]
    message: str
    seconds: float
    folder: Path


def run_method(method: Method, task: Task, scratch: Path, environments: Path | None, limit: float) -> Ran:
    """Run a method on a task.

    Parameters
    ----------
    method : Method
        Method.
    task : Task
        Its files `robot` and `source` are in `scratch`.
    scratch : Path
        Folder for the files of the run.
    environments : Path or None
        Folder of environments.
    limit : float, s
        Wall time after which the method is ended.

    Returns
    -------
    Ran

    """
    answer = scratch / "answer"
    answer.mkdir(parents=True, exist_ok=True)
    python = method.python(environments)
    if python is None:
        where = f"{ENVIRONMENTS}/{method.name}"
        reason = method.not_run or f"no environment {where} with {', '.join(method.packages)}"
        return Ran(None, {}, f"not run here: {reason}", 0.0, answer)
    task.write(scratch)
    command = [str(python), str(method.adapter), str(scratch), str(answer)]
    before = os.times()
    message = ""
    try:
        ended = subprocess.run(  # noqa: S603 - a file of this package or one that the user names
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
            cwd=scratch,
            env=_environment(scratch, own=not method.packages),
        )
        if ended.returncode:
            message = _last_error(ended.stderr or ended.stdout) or f"exit code {ended.returncode}"
    except subprocess.TimeoutExpired:
        message = f"no result within {limit:g} s"
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    if message:
        return Ran(None, {}, message, seconds, answer)
    try:
        result, packages = Answer.read(answer)
    except (OSError, ValueError, KeyError) as error:
        return Ran(None, {}, f"no answer: {error}"[:KEPT], seconds, answer)
    return Ran(result, packages, "", seconds, answer)


def _last_error(text: str) -> str:
    # The last line that names an exception, with what follows it; otherwise the last line.
    # Folders are left out, which say nothing to a reader.
    lines = [re.sub(r"(/[\w.-]+)+/", "", line.strip()) for line in text.splitlines() if line.strip()]
    for i in range(len(lines) - 1, -1, -1):
        if re.match(r"[\w.]*(Error|Exception)\b", lines[i]):
            return " ".join(lines[i:])[:KEPT]
    return lines[-1][:KEPT] if lines else ""


def _environment(scratch: Path, own: bool) -> dict[str, str]:
    # A peer sees the protocol and nothing else of this environment.
    library = scratch / "library" / "dynid_bench"
    library.mkdir(parents=True, exist_ok=True)
    package = Path(str(files("dynid_bench")))
    for name in ("__init__.py", "protocol.py"):
        shutil.copyfile(package / name, library / name)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    paths = [str(library.parent), *([os.environ.get("PYTHONPATH", "")] if own else [])]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **variables,
        **threads,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "MPLBACKEND": "Agg",
    }


def stamp() -> str:
    """Date of a run, UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime())
