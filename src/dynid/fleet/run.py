"""Reduces every log of a plan that is not in the store yet to a factor in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dynid.base import claim, dataclass, default_threads
from dynid.fleet.cluster import run_tasks
from dynid.fleet.plan import Plan, TypeModel
from dynid.fleet.store import FleetStore
from dynid.fleet.task import DONE, LogRow

# Called with the number of logs processed since the last call and the number of failed ones among them.
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class FleetRun:
    """Result of a fleet run: logs in the plan, logs processed earlier, and logs processed or failed in this run."""

    store: FleetStore
    logs: int
    before: int
    done: int
    failed: int


def run_fleet(
    plan: Plan,
    folder: str | Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    again: bool = False,
    advance: Advance | None = None,
) -> FleetRun:
    """Make a factor of every log of a plan that the store does not contain yet.

    A log that fails is recorded as failed and does not stop the others. The stored bytes do not depend on the workers.

    Parameters
    ----------
    plan : Plan
        Logs and models.
    folder : str or Path
        Folder of the store; it is created if it does not exist.
    scheduler : str, optional
        Address of a Dask scheduler; without it processes of this machine are used.
    workers : int, optional
        Number of processes of this machine; all cores by default.
    again : bool
        Whether to try logs again that failed through an error in the log.
    advance : callable, optional
        Called with the numbers of processed and failed logs since the last call.

    Returns
    -------
    FleetRun
        The store and the numbers of logs.

    Raises
    ------
    ResourceError
        If the scheduler is lost. Processed logs are kept, and the next run continues from there.
    RefusedError
        If another process writes to the folder.

    """
    models = {
        name: TypeModel.of_run(name, path, plan.experiments.get(name))
        for name, path in sorted(plan.models.items())
        if any(log.type == name for log in plan.logs)
    }
    release = claim(Path(folder))
    try:
        return _run(plan, FleetStore.open(folder, models), models, scheduler, workers, again, advance)
    finally:
        release()


def _run(
    plan: Plan,
    store: FleetStore,
    models: Mapping[str, TypeModel],
    scheduler: str | None,
    workers: int | None,
    again: bool,
    advance: Advance | None,
) -> FleetRun:
    finished = store.finished(failed=not again)
    waiting = [log for log in plan.logs if log.key not in finished]
    counts = {"done": 0, "failed": 0}

    def commit(rows: Sequence[LogRow]) -> None:
        store.commit(rows)
        failed = sum(row.status != DONE for row in rows)
        counts["failed"] += failed
        counts["done"] += len(rows) - failed
        if advance is not None and rows:
            advance(len(rows), failed)

    try:
        if waiting:
            run_tasks(
                waiting,
                {name: (model.text(), model.digest) for name, model in models.items()},
                commit,
                scheduler=scheduler,
                workers=min(workers or default_threads(), len(waiting)),
            )
    finally:
        store.fold()
    return FleetRun(store, len(plan.logs), len(plan.logs) - len(waiting), **counts)
