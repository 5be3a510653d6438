"""The logs of a plan to factors in a store: those that are not there yet, once each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dynid.base import claim, dataclass, default_threads
from dynid.fleet.cluster import run_tasks
from dynid.fleet.plan import Plan, TypeModel
from dynid.fleet.store import FleetStore
from dynid.fleet.task import DONE, LogRow

# Called with the number of logs that are done and how many of them failed, since the last call.
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class FleetRun:
    """What a run did: how many logs the plan has, how many were done before, and of the others how many failed."""

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
    """Makes a factor of every log of a plan that the store has none of; a log that fails is a row and stops nothing.

    scheduler: address of a Dask scheduler; None = processes of this machine, `workers` of them (None = all cores).
    again: try failed logs again that failed by themselves.    advance: progress.
    The store's bytes do not depend on the workers.

    Raises ResourceError if the scheduler is lost: what is done is kept, and the next run goes on from there;
    RefusedError if another process writes there.
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
