"""Runs the tasks of a fleet on processes of this machine or on a Dask cluster; fetches remote logs with fsspec.

Only this file imports Dask and fsspec, the packages of the extra `fleet`. On a cluster, Dask does the scheduling, the
retries and the transport. Without a cluster no scheduler is started, because a scheduler would run whatever any user of
this machine sends to its port.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from dynid.base import DynidError, InputError, Place, RefusedError, ResourceError, __version__
from dynid.fleet.plan import FleetLog, is_uri
from dynid.fleet.processes import RETRIES, finished
from dynid.fleet.task import LogRow, failed, process

# Tasks submitted to the scheduler at a time; each takes about 2 kB of its memory.
_AT_A_TIME = 10_000
# s: time to wait for a scheduler and for its first worker.
_PATIENCE = 30
# s: time to close the connection to a scheduler that may have ended.
_GOODBYE = 10
# Fraction of its share of the machine's memory that a local process may take: Dask's limit for a worker.
_SHARE = 0.95

Commit = Callable[[Sequence[LogRow]], None]


def run_tasks(
    logs: Sequence[FleetLog],
    models: Mapping[str, tuple[str, str]],
    commit: Commit,
    *,
    scheduler: str | None,
    workers: int,
) -> None:
    """Process logs and commit their rows as they are finished, in any order.

    Parameters
    ----------
    logs : sequence of FleetLog
        The logs to process.
    models : mapping
        By type, the text of its model and the digest of that text.
    commit : callable
        Called in this process with rows that are finished.
    scheduler : str or None
        Address of a running Dask scheduler; None for processes of this machine.
    workers : int
        Number of processes of this machine.

    Raises
    ------
    ResourceError
        If a package is missing, or the scheduler cannot be reached or is lost.
    RefusedError
        If workers have another version of dynid.

    """
    if scheduler is None:
        _run_here(logs, models, commit, workers)
        return
    with _client(scheduler) as client:
        _check_workers(client)
        # Models are sent as results of tasks: Dask computes these again when the worker that stores them dies.
        texts = {
            name: client.submit(_unchanged, text, key=f"dynid-model-{digest}")
            for name, (text, digest) in models.items()
        }
        for start in range(0, len(logs), _AT_A_TIME):
            _run(client, logs[start : start + _AT_A_TIME], models, texts, commit)


def _run_here(
    logs: Sequence[FleetLog], models: Mapping[str, tuple[str, str]], commit: Commit, workers: int
) -> None:
    if any(is_uri(log.path) for log in logs):
        _require("fsspec")
    work = partial(_row, {name: text for name, (text, _) in models.items()})
    with closing(finished(work, logs, workers, _memory_of_one())) as batches:
        for batch in batches:
            commit(
                [
                    row.result
                    if row.result is not None
                    else _row_of_dead_worker(row.task, models, RETRIES + 1)
                    for row in batch
                ]
            )


def _row(texts: Mapping[str, str], log: FleetLog) -> LogRow:
    return process(_fields(log), texts[log.type], local_file)


def _memory_of_one() -> float | None:
    """Memory that a process may use, bytes, by Dask's rule for a worker; None if Dask is not installed.

    Without a limit one large log could use up the memory of the machine.
    """
    try:
        from distributed.system import CPU_COUNT, MEMORY_LIMIT
    except ImportError:
        return None
    return _SHARE * float(MEMORY_LIMIT) / int(CPU_COUNT)


def _row_of_dead_worker(log: FleetLog, models: Mapping[str, tuple[str, str]], times: int) -> LogRow:
    text = f"the worker process died {times} times while it read this log, probably out of memory"
    return failed(log, models[log.type][1], "worker-died", text, again=True)


def _run(
    client: Any,
    logs: Sequence[FleetLog],
    models: Mapping[str, tuple[str, str]],
    texts: Mapping[str, Any],
    commit: Commit,
) -> None:
    from distributed import KilledWorker, as_completed

    futures = {}
    for log in logs:
        key = f"dynid-log-{log.key}-{models[log.type][1]}"
        futures[client.submit(_work, _fields(log), texts[log.type], __version__, key=key)] = log
    waiting = as_completed(list(futures), loop=client.loop)
    for batch in waiting.batches():
        rows: list[LogRow] = []
        for future in batch:
            log = futures.pop(future)
            if future.status == "finished":
                try:
                    result = future.result()
                except Exception as error:  # the connection was lost after the status was read
                    commit(rows)
                    raise _scheduler_lost(error) from error
                if isinstance(result, str):
                    raise _wrong_version({result})
                rows.append(result)
            elif future.status == "error":
                cause = future.exception()
                if not isinstance(cause, KilledWorker):
                    commit(rows)
                    raise _worker_error(cause) from cause
                rows.append(_row_of_dead_worker(log, models, cause.allowed_failures + 1))
            else:
                commit(rows)
                raise _scheduler_lost()
            future.release()
        commit(rows)


def _work(fields: Mapping[str, Any], text: str, version: str) -> LogRow | str:
    """Process a log on a worker; return the worker's version of dynid if it differs from the client's."""
    # An error with a place cannot be pickled, so a difference of versions is returned as a value.
    return process(fields, text, local_file) if version == __version__ else __version__


def _unchanged(text: str) -> str:
    return text


def _fields(log: FleetLog) -> dict[str, str]:
    return {
        "type": log.type,
        "serial": log.serial,
        "time": log.time.isoformat(),
        "path": log.path,
        "trajectory": log.trajectory,
    }


def _version() -> str:
    return __version__


def _require(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found=f"no package '{error.name}'",
            expected="the packages dask, distributed and fsspec, which fleets need",
            do="pip install 'dynid[fleet]'",
        ) from error


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    dask, distributed = _require("dask"), _require("distributed")
    with _silent(), dask.config.set({"distributed.admin.tick.limit": "1h"}):
        try:
            client = distributed.Client(scheduler, timeout=_PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ResourceError(
                "scheduler-unreachable",
                found=f"no answer from '{scheduler}' within {_PATIENCE} s ({type(error).__name__})",
                expected="a Dask scheduler, such as tcp://host:8786",
                do="start one with `dask scheduler`, and workers with `dask worker`",
            ) from error
        try:
            yield client
        finally:
            with suppress(TimeoutError, OSError):
                client.close(timeout=_GOODBYE)


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the log messages of distributed, which sets a level for each of its loggers."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _check_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except (TimeoutError, OSError) as error:
        raise ResourceError(
            "no-worker",
            found=f"a scheduler without workers for {_PATIENCE} s",
            expected="at least one worker",
            do="start workers with `dask worker tcp://...`",
        ) from error
    try:
        versions = set(client.run(_version).values())
    except (OSError, TimeoutError) as error:
        raise _scheduler_lost(error) from error
    except Exception as error:
        raise _worker_error(error) from error
    if versions - {__version__}:
        raise _wrong_version(versions)


def _worker_error(error: BaseException) -> DynidError:
    if isinstance(error, DynidError):
        return error
    if isinstance(error, ImportError):
        return _wrong_version({f"none ({error})"})
    return ResourceError(
        "worker",
        found=f"an error on a worker: {type(error).__name__}: {error}",
        expected="a result for each log",
    )


def _wrong_version(versions: set[str]) -> RefusedError:
    return RefusedError(
        "worker-version",
        found=f"workers with dynid {', '.join(sorted(versions))}",
        expected=f"version {__version__} everywhere, because factors of two versions cannot be pooled",
        do="install the same version on all workers",
    )


def _scheduler_lost(error: BaseException | None = None) -> ResourceError:
    reason = f" ({type(error).__name__})" if error is not None else ""
    return ResourceError(
        "scheduler-lost",
        found=f"a lost connection to the scheduler{reason}",
        expected="a connection until all logs are processed",
        do="run the command again; processed logs are kept",
    )


@contextmanager
def local_file(path: str) -> Iterator[Path]:
    """Yield the local file of a log: the log itself, or a copy fetched by fsspec that is deleted at the end.

    Raises
    ------
    InputError
        If the log does not exist.
    ResourceError
        If the log cannot be fetched.

    """
    if not is_uri(path):
        yield Path(path)
        return
    import fsspec

    place = Place(file=path)
    suffix = "".join(Path(path.split("::", maxsplit=1)[0].split("?", maxsplit=1)[0]).suffixes[-1:])
    with tempfile.TemporaryDirectory(prefix="dynid-fleet-") as folder:
        target = Path(folder) / f"log{suffix}"
        try:
            with fsspec.open(path, "rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
        except FileNotFoundError as error:
            raise InputError(
                "file-missing", found="no such file", expected="a log file", place=place
            ) from error
        except (ValueError, ImportError) as error:
            raise InputError(
                "uri",
                found=str(error),
                expected="a URI of a protocol that fsspec knows here",
                place=place,
            ) from error
        except Exception as error:
            raise ResourceError(
                "file-unreadable",
                found=f"'{type(error).__name__}: {error}'",
                expected="a log file",
                place=place,
            ) from error
        yield target
