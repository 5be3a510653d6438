"""Runs tasks on processes of this machine over pipes; no port is opened, so nobody else can send them tasks."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import connection
from typing import Any, Generic, TypeVar

from dynid.base import ResourceError, dataclass, end_with_parent, uninterrupted

Task = TypeVar("Task")
Result = TypeVar("Result")

# Times that a task whose process died is given to another process, as in Dask.
RETRIES = 3
# s: time between two measurements of the processes' memory.
_LOOK = 0.2
# Each process uses one thread, unless the environment sets another number.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class Finished(Generic[Task, Result]):
    """A task with its result; None if RETRIES + 1 processes died while they had the task."""

    task: Task
    result: Result | None


def finished(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    most_memory: float | None = None,
) -> Generator[list[Finished[Task, Result]], None, None]:
    """Yield the results of tasks as they are finished, in any order; the processes end with the generator.

    Parameters
    ----------
    function : callable
        Called with each task in another process. It is pickled once for each process and must not raise.
    tasks : iterable
        The tasks; they are pickled.
    workers : int
        Number of processes; each has one task at a time.
    most_memory : float, optional
        Memory in bytes above which a process is killed and counts as died.

    Raises
    ------
    ResourceError
        If a process ends before it takes its first task.

    """
    # Each task with the number of processes that died while they had it.
    waiting = deque((task, 0) for task in tasks)
    pool: list[_Worker] = []
    try:
        while len(pool) < workers:
            pool.append(_Worker(function))
        while waiting or any(worker.busy for worker in pool):
            asked: dict[Any, _Worker] = {
                worker.connection: worker for worker in pool if worker.busy or not worker.ready
            }
            timeout = None if most_memory is None else _LOOK
            results: list[Finished[Task, Result]] = []
            for ready in connection.wait(list(asked), timeout):
                worker = asked[ready]
                try:
                    result = worker.connection.recv()
                except (EOFError, OSError) as error:
                    if not worker.ready:
                        raise _not_started() from error
                    task, deaths = worker.taken
                    if deaths < RETRIES:
                        waiting.appendleft((task, deaths + 1))
                    else:
                        results.append(Finished(task, None))
                    pool.remove(worker)
                    worker.end()
                    pool.append(_Worker(function))
                    continue
                if worker.busy:
                    results.append(Finished(worker.taken[0], result))
                worker.ready, worker.taken = True, None
            for worker in [worker for worker in pool if worker.ready and not worker.busy and waiting]:
                if waiting and not worker.take(waiting[0]):  # it died while it was idle
                    pool.remove(worker)
                    worker.end()
                    pool.append(_Worker(function))
                elif waiting:
                    waiting.popleft()
            if most_memory is not None:
                for worker in pool:
                    worker.end_above(most_memory)
            if results:
                yield results
    finally:
        for worker in pool:
            worker.end()


class _Worker:
    """A process and the connection to it.

    ready: whether it has started.    taken: its task and the number of processes that died with this task.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        with uninterrupted(), _one_thread():
            self.process.start()
        theirs.close()
        self.ready = False
        self.taken: Any = None

    @property
    def busy(self) -> bool:
        return self.taken is not None

    def take(self, task: Any) -> bool:
        """Send a task; return whether the process received it."""
        try:
            self.connection.send(task[0])
        except OSError:
            return False
        self.taken = task
        return True

    def end_above(self, most_memory: float) -> None:
        """Kill the process if it uses more bytes of memory than this."""
        psutil: Any = import_module("psutil")  # installed with the extra `fleet`, because Dask needs it

        with suppress(psutil.Error):
            if self.busy and psutil.Process(self.process.pid).memory_info().rss > most_memory:
                self.process.kill()

    def end(self) -> None:
        """Kill the process; it has nothing to save."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(pipe: Any, function: Callable[[Any], Any]) -> None:
    # Ctrl-C in a terminal reaches every process; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    pipe.send(None)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(function(task))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Start processes inside the block with one thread of linear algebra."""
    missing = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _not_started() -> ResourceError:
    return ResourceError(
        "worker",
        found="a worker process that ended while it started",
        expected="a program that worker processes can import",
        do="in a script, put the call below `if __name__ == '__main__':`",
    )
