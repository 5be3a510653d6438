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


# Ordered work on several threads: the results, and their order, do not depend on how many there are.
#
# Passes over a log take one thread unless more are asked for: most of a pass is Python, which runs one
# thread at a time, so that on two processors two threads take 0 to 9 % less time and 5 to 20 % more
# processor time (an hour of arm7, real logs). What is compiled as a whole, such as simulations, takes all
# processors.

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yields function(item) in the order of the items, at most threads + 1 of them in flight.

    The items are drawn lazily, so a stream that does not fit in memory may be mapped.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            # A thread does not inherit what its caller chose with dynid.kernel.using.
            waiting.append(pool.submit(copy_context().run, function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_background(work: Callable[[], Result], threads: int) -> Callable[[], Result]:
    """Starts work beside what follows and returns a function that waits for its result; with one thread does it now."""
    if threads <= 1:
        result = work()
        return lambda: result
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(copy_context().run, work)
    pool.shutdown(wait=False)
    return future.result


def pass_threads(asked: int | None) -> int:
    """Threads of a pass over a log: those asked for, else one."""
    return asked or 1


def default_threads() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ended(pool: ProcessPoolExecutor) -> Iterator[ProcessPoolExecutor]:
    """The pool, whose processes end at once when the block ends with an error or an interruption."""
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
    """Called in a process of a pool: it ends when the one that started it is gone, however that ended."""
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
    """Signals that would end the program wait until the block is done; for the start of processes.

    A process whose parent is interrupted while it starts ends with an error of its own. Outside the main thread, which
    alone is interrupted, this does nothing.
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


# Progress of long work, for whoever watches it.

# Called with (stage, seconds of data done).
Progress = Callable[[str, float], None]
# Names a file that a command keeps its progress in, for programs that watch it.
PROGRESS_VARIABLE = "DYNID_PROGRESS"
# A file is written at most so often, s: a page that shows it asks no more often.
WRITTEN_EVERY = 0.2


def progress_file(path: Path, total: float) -> Progress:
    """Keeps the present stage and its share in a JSON file: {"stage": text, "share": 0 to 1, or null = not known}.

    total: seconds of data of a stage, nan = not known.    What cannot be written is left out.
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
