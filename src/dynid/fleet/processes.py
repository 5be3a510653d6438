"""Tasks on processes of this machine, over pipes: no port is opened, so that nobody else can send them work."""

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

# A task whose process dies is done again by another one, up to so many times, as Dask does it.
RETRIES = 3
# Seconds between two looks at the memory of the processes.
_LOOK = 0.2
# Processes have one thread each, unless the environment says otherwise.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class Finished(Generic[Task, Result]):
    """A task with its result; None = every process that had it died, RETRIES + 1 of them."""

    task: Task
    result: Result | None


def finished(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    most_memory: float | None = None,
) -> Generator[list[Finished[Task, Result]], None, None]:
    """Yields the results of tasks as they come, in any order; the processes end with the generator.

    Parameters
    ----------
    function : callable
        What is called with each task, in another process. It is pickled once for each process and raises nothing.
    tasks : iterable
        The tasks, which are pickled.
    workers : int
        Number of processes, each of which has one task at a time.
    most_memory : float, optional
        Bytes of memory above which a process is ended, as if it had died.

    Raises
    ------
    ResourceError
        If a process ends before it takes its first task.

    """
    # Each with the number of processes that died of it.
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
                if waiting and not worker.take(waiting[0]):  # it died while it had nothing to do
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
    """A process and its end of the pipe.

    ready: it has started.    taken: the task that it has, with how many processes died of it before.
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
        """Whether the process took the task."""
        try:
            self.connection.send(task[0])
        except OSError:
            return False
        self.taken = task
        return True

    def end_above(self, most_memory: float) -> None:
        """Ends the process if it takes more bytes of memory than this."""
        psutil: Any = import_module("psutil")  # a package of the extra `fleet`, as is Dask, which needs it

        with suppress(psutil.Error):
            if self.busy and psutil.Process(self.process.pid).memory_info().rss > most_memory:
                self.process.kill()

    def end(self) -> None:
        """Ends the process at once: it has nothing to put away."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(pipe: Any, function: Callable[[Any], Any]) -> None:
    # The parent ends its processes; the terminal's Ctrl-C reaches all of them.
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
    """Processes that are started in the block begin with one thread of linear algebra."""
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
        expected="processes that import the program again",
        do="in a script, call it below: if __name__ == '__main__':",
    )
