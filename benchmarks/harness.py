"""What benchmarks share: options, campaigns that go on where they stopped, processor time and tables.

Import it before NumPy: it gives one thread to linear algebra.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from dynid.base import Float
    from dynid.robot import RobotModel

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "src"))  # its recipes and its plain least squares
# Logs of real robots, a folder for each.
DATA = Path(os.environ.get("DYNID_DATA", ROOT.parent / "shared" / "data"))
END = "<!-- end of the table -->"
Row = dict[str, Any]
K = TypeVar("K", bound=Hashable)
J = TypeVar("J")


def parser(description: str | None, /, **defaults: Any) -> argparse.ArgumentParser:
    """Options by name and default; the description, a module's docstring, explains them.

    A default of False is a switch, a list takes several values, a type stands for an option without a default.
    """
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        option = "--" + name.replace("_", "-")
        if default is False:
            options.add_argument(option, action="store_true")
        elif isinstance(default, list):
            options.add_argument(option, nargs="+", type=type(default[0]), default=default)
        elif isinstance(default, type):
            options.add_argument(option, type=default)
        else:
            options.add_argument(
                option, type=Path if isinstance(default, Path) else type(default), default=default
            )
    return options


def on_real_logs(
    description: str | None, arguments: Sequence[str] | None, /, **defaults: Any
) -> argparse.Namespace:
    """Options of a benchmark on real logs: with --data, --write PAGE, and --only where a part is enough."""
    options = parser(description, data=DATA, write=Path, **defaults)
    given = options.parse_args(arguments)
    if given.write and getattr(given, "only", ""):
        options.error("--write needs all rows: leave --only out")
    if not given.data.is_dir():
        options.error(f"no folder '{given.data}': set DYNID_DATA or give --data")
    return given


def rows_of(path: Path | None) -> list[Row]:
    """Rows of a file of JSON lines, none where there is no file."""
    if path is None or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path | None, row: Mapping[str, Any]) -> None:
    """Add a row to a file of JSON lines."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def part_of(items: Iterable[J], part: str) -> list[J]:
    """Every n-th item from the i-th on, by a text "i/n": the share of one of n processes."""
    number, parts = (int(text) for text in part.split("/"))
    return list(items)[number - 1 :: parts]


def campaign(
    jobs: Mapping[K, J],
    work: Callable[[J], Row],
    key: Callable[[Row], K],
    given: argparse.Namespace,
    show: Callable[[Row], object] | None = None,
    pool: type[Executor] = ProcessPoolExecutor,
) -> list[Row]:
    """Results of jobs, in their order; those in the file --out are not repeated.

    Parameters
    ----------
    jobs : mapping
        Jobs by their keys.
    work : callable
        Does a job.
    key : callable
        The key of a result.
    given : argparse.Namespace
        Options: out, and where they are given workers (processes; without it this one) and part ("i/n").
    show : callable, optional
        Prints a new result.
    pool : type
        Of workers, threads or processes.

    Returns
    -------
    list of dict
        A row for each job that is done.

    """
    done = {key(row): row for row in rows_of(given.out)}
    missing = [job for name, job in part_of(jobs.items(), getattr(given, "part", "1/1")) if name not in done]
    workers = getattr(given, "workers", 0)

    def take(rows: Iterable[Row]) -> None:
        for row in rows:
            done[key(row)] = row
            append(given.out, row)
            if show is not None:
                show(row)

    if workers and missing:
        with pool(workers) as executor:  # type: ignore[call-arg]  # every pool takes a number of workers
            take(executor.map(work, missing))
    else:
        take(map(work, missing))
    return [done[name] for name in jobs if name in done]


def note(*text: object) -> None:
    """Print progress as errors are printed, so that tables stay alone."""
    print(*text, file=sys.stderr, flush=True)


class Ended(NamedTuple):
    """How a command ended: exit code, what it printed, processor time in s and peak memory in MB."""

    code: int
    output: str
    errors: str
    seconds: float
    megabytes: float


# In a process of its own: a child's peak memory is at least that of the process that starts it, and this one is large.
WATCHER = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
print()
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def dynid_command(*words: object, timeout: float = 86400.0) -> Ended:
    """Run a dynid command and measure it; one that takes longer than the timeout, s, ends with 124."""
    command = ["/usr/bin/timeout", f"{timeout:g}", sys.executable, "-m", "dynid", *map(str, words)]
    watcher = [sys.executable, "-S", "-c", WATCHER, *command]
    ended = subprocess.run(watcher, capture_output=True, check=True, text=True, errors="replace")
    *output, last = ended.stdout.splitlines(keepends=True)
    code, seconds, megabytes = json.loads(last)
    return Ended(code, "".join(output), ended.stderr, seconds, megabytes)


def spent() -> float:
    """Processor time of this process and of those that it started and that ended, s."""
    return sum(os.times()[:4])


def least(work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of some runs, s: other programs on the machine count little."""
    times = []
    for _ in range(repeats):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)


def pinocchio_model(robot: RobotModel, inertia: Float | None = None) -> Any:
    """The robot in pinocchio.    inertia: (n, 10) of the links; None = those of its priors."""
    import numpy as np
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.array(robot.gravity)
    for i, axis in enumerate(np.array(robot.axis)):
        slides = robot.joint_types[i] == "prismatic"
        joint = (pin.JointModelPrismaticUnaligned if slides else pin.JointModelRevoluteUnaligned)(axis)
        place = pin.SE3(np.array(robot.T_parent_joint[i]))
        index = model.addJoint(int(robot.parent[i]) + 1, joint, place, f"j{i}")
        link = np.array(robot.inertia_prior[i] if inertia is None else inertia[i])
        model.appendBodyToJoint(index, pin.Inertia.FromDynamicParameters(link), pin.SE3.Identity())
    return model


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def figure(value: float | None) -> str:
    """A number with three digits, or a dash."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def start_of(program: str) -> str:
    """The line of a page behind which a program's table stands."""
    return f"<!-- table: written by benchmarks/{program} -->"


def written(page: str, program: str, text: str) -> str:
    """A page with its table replaced; raises ValueError if it has no place for one."""
    before, start, rest = page.partition(start_of(program))
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no {start_of(program)} ... {END} in the page")
    return f"{before}{start}\n\n{text}\n\n{end}{after}"


def publish(text: str, program: str, page: Path | None) -> None:
    """Print a table, and write it to a page of the documentation where one is named."""
    print(text)
    if page is not None:
        page.write_text(written(page.read_text(encoding="utf-8"), program, text), encoding="utf-8")
