"""Monte-Carlo simulations: one robot, many seeds, in parallel processes, whose number does not change the files."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path

import numpy as np

from dynid.base import (
    DynidError,
    ResourceError,
    UsageError,
    dataclass,
    end_with_parent,
    ended,
    refuse_existing,
    staged_folder,
    uninterrupted,
)
from dynid.lab.rig import Rig
from dynid.lab.setup import Setup, TrajectoryChoice, summary
from dynid.log import write_log
from dynid.simulation import SimulatedMotion

Progress = Callable[[str, float], None]
_ENDINGS = (".parquet", ".pq", ".csv")


@dataclass(frozen=True)
class Campaign:
    """The settings that all runs share; runs differ only by their number.

    seed: of all random streams. The streams of a run depend on the seed and its number, not on the process that
    computes it.
    """

    setup: Setup
    trajectory: TrajectoryChoice
    rig: Rig
    seed: int = 0

    def run_seed(self, run: int) -> int:
        """Seed of the trajectory of a run."""
        return int(np.random.SeedSequence([self.seed, run]).generate_state(1)[0])

    def motion(self, run: int) -> SimulatedMotion:
        """True motion of a run."""
        trajectory = self.trajectory.draw(self.setup.plant.robot, self.run_seed(run))
        return self.setup.motion(trajectory, self.rig.rate)

    def write(self, run: int, motion: SimulatedMotion, path: Path) -> Path:
        """Write the log of a run.

        Parameters
        ----------
        run : int
            Number of the run.
        motion : SimulatedMotion
            Its true motion.
        path : Path
            File to write.

        Returns
        -------
        Path
            The file.

        """
        robot = self.setup.plant.robot
        t, columns = self.rig.measure(robot, motion, (self.seed, run))
        trajectory = self.trajectory.draw(robot, self.run_seed(run))
        about = summary(self.setup, trajectory, {"seed": str(self.seed), "run": str(run)})
        metadata = None if path.suffix.lower() == ".csv" else about
        return write_log(path, t, columns, f"run{run + 1}", metadata)


def record(campaign: Campaign, out: str | Path) -> Path:
    """Simulate one run and write its log completely, or not at all.

    Raises RefusedError if the file exists, UsageError if its name does not end in .parquet, .pq or .csv.
    """
    out = Path(out)
    refuse_existing(out)
    if out.suffix.lower() not in _ENDINGS:
        raise UsageError(
            "log-ending", found=f"log '{out.name}'", expected="a name that ends in .parquet, .pq or .csv"
        )
    campaign.rig.check(campaign.setup.plant.robot)
    return campaign.write(0, campaign.motion(0), out)


def run_campaign(
    campaign: Campaign, out: str | Path, runs: int, workers: int = 1, progress: Progress | None = None
) -> list[Path]:
    """Write a folder with one log per run: run_0001.parquet and so on, completely or not at all.

    Parameters
    ----------
    campaign : Campaign
        The campaign.
    out : str or Path
        Folder to write.
    runs : int
        Number of runs.
    workers : int
        Number of processes; the files do not depend on it.
    progress : callable, optional
        Called with ("runs", 1) after each run.

    Returns
    -------
    list of Path
        The logs.

    Raises
    ------
    RefusedError
        If the folder exists.
    ResourceError
        If it cannot be written, or a process dies.

    """
    out = Path(out)
    refuse_existing(out)
    if runs < 1 or workers < 1:
        raise UsageError("runs", found=f"{runs} runs in {workers} processes", expected="at least one of each")
    campaign.rig.check(campaign.setup.plant.robot)
    digits = max(4, len(str(runs)))
    names = [f"run_{run + 1:0{digits}d}.parquet" for run in range(runs)]
    with staged_folder(out) as scratch:
        shared = scratch / "motion.npz" if campaign.trajectory.shared else None
        if shared is not None:
            # Passed as a file: a process that is stopped while it reads a pipe would report an error.
            np.savez(shared, **vars(campaign.motion(0)))
        work = _Work(campaign, shared, scratch, tuple(names))
        for _ in _one_by_one(work) if workers == 1 else _in_processes(work, min(workers, runs)):
            if progress is not None:
                progress("runs", 1.0)
        if shared is not None:
            shared.unlink()
    return [out / name for name in names]


@dataclass(frozen=True)
class _Work:
    campaign: Campaign
    shared: Path | None
    folder: Path
    names: tuple[str, ...]

    def run(self, number: int) -> None:
        motion = self.campaign.motion(number) if self.shared is None else _read_motion(self.shared)
        self.campaign.write(number, motion, self.folder / self.names[number])


@cache
def _read_motion(path: Path) -> SimulatedMotion:
    with np.load(path, allow_pickle=False) as arrays:
        return SimulatedMotion(**arrays)


@dataclass(frozen=True)
class _Failure:
    # Errors with places cannot be pickled.
    kind: type[DynidError]
    identifier: str
    found: str
    expected: str
    do: str

    def error(self) -> DynidError:
        return self.kind(self.identifier, found=self.found, expected=self.expected, do=self.do)


def _one_by_one(work: _Work) -> Iterator[int]:
    for number in range(len(work.names)):
        work.run(number)
        yield number


def _in_processes(work: _Work, workers: int) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    with ended(ProcessPoolExecutor(workers, context, _start, (work,))) as pool:
        waiting: set[Future[_Failure | None]] = set()
        numbers = iter(range(len(work.names)))
        finished = 0
        try:
            while finished < len(work.names):
                with uninterrupted():
                    while len(waiting) < 2 * workers and (number := next(numbers, None)) is not None:
                        waiting.add(pool.submit(_run, number))
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    failure = future.result()
                    if failure is not None:
                        raise failure.error()
                    finished += 1
                    yield finished
        except BrokenProcessPool as error:
            raise ResourceError(
                "process-died",
                found="a worker process that ended before its run was complete",
                expected="enough memory for all processes",
                do="use fewer --workers",
            ) from error


_work: _Work | None = None


def _start(work: _Work) -> None:
    global _work  # noqa: PLW0603  (a worker process keeps its campaign)
    # Ctrl-C reaches all processes of a terminal; the parent stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _work = work


def _run(number: int) -> _Failure | None:
    if _work is None:
        raise RuntimeError("a process without its work")
    try:
        _work.run(number)
    except DynidError as error:
        return _Failure(type(error), error.identifier, error.found, error.expected, error.do)
    return None
