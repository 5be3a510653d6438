"""Ordered work on several threads, and its progress."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


# Ordered work on several threads: results and their order do not depend on the number of threads.
#
# Passes over a log use one thread by default. Most of a pass is Python, which runs one thread at a time: two threads on
# two processors take 0 to 9 % less time and 5 to 20 % more processor time. Compiled work such as simulations uses all
# processors.

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Map a function over items on several threads, in order.

    Items are drawn lazily, at most threads + 1 at a time, so that a stream may be larger than memory.

    Parameters
    ----------
    function : callable
        Called with one item.
    items : iterable
        Its arguments.
    threads : int
        Number of threads.

    Yields
    ------
    object
        function(item), in the order of the items.

    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            # Threads do not inherit context variables such as the choice of dynid.kernel.using.
            waiting.append(pool.submit(copy_context().run, function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_background(work: Callable[[], Result], threads: int) -> Callable[[], Result]:
    """Start work in the background and return a function that waits for its result; with one thread, run it now."""
    if threads <= 1:
        result = work()
        return lambda: result
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(copy_context().run, work)
    pool.shutdown(wait=False)
    return future.result


def pass_threads(asked: int | None) -> int:
    """Number of threads of a pass over a log: as asked, else one."""
    return asked or 1


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ended(pool: ProcessPoolExecutor) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool whose processes are killed if the block ends with an error or an interruption.

    Parameters
    ----------
    pool : concurrent.futures.ProcessPoolExecutor
        The pool; shut down at the end of the block.

    Yields
    ------
    concurrent.futures.ProcessPoolExecutor

    """
    import multiprocessing

    others = set(multiprocessing.active_children())
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def end_with_parent() -> None:
    """Make this process of a pool exit as soon as its parent process has ended, even if that was killed."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the block ends; for the start of processes.

    A process that is interrupted while it starts prints an error of its own. Only the main thread receives signals, so
    elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


# Progress of long work, for programs that watch it.

# Called with (stage, seconds of data done).
Progress = Callable[[str, float], None]
# Environment variable with the path of a file to which a command writes its progress.
PROGRESS_VARIABLE = "DYNID_PROGRESS"
# s: least time between two writes of the file; a page that shows it does not ask more often.
WRITTEN_EVERY = 0.2


def progress_file(path: Path, total: float) -> Progress:
    """Return a function that writes the current stage and its share to a JSON file.

    The file contains {"stage": text, "share": 0 to 1, or null = unknown}. Write errors are ignored.

    Parameters
    ----------
    path : Path
        The file.
    total : float, s
        Seconds of data per stage; nan = unknown.

    Returns
    -------
    callable
        Called with the stage and the seconds of data done.

    """
    done: dict[str, float] = {}
    latest = -math.inf

    def advance(stage: str, seconds: float) -> None:
        nonlocal latest
        new = stage not in done
        done[stage] = done.get(stage, 0.0) + seconds
        if not new and monotonic() - latest < WRITTEN_EVERY:
            return
        latest = monotonic()
        share = min(1.0, done[stage] / total) if math.isfinite(total) and total > 0 else None
        part = path.with_name(f"{path.name}.part")
        with suppress(OSError):
            part.write_text(json.dumps({"stage": stage, "share": share}), encoding="utf-8")
            part.replace(path)

    return advance
