"""Fleets on Dask: nothing lost, nothing twice, the same bytes; killed workers, a killed scheduler, a killed command.

Schedulers and workers here are real processes of this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import Diagnostics
from dynid.factor import Factor
from dynid.fleet import FleetLog, FleetStore, read_plan
from dynid.fleet.cluster import local_file
from dynid.fleet.processes import finished
from dynid.fleet.task import packed, process, unpacked
from dynid.identification import torque_factors
from dynid.log import read_log
from dynid.run import load
from tests.command_line import Run
from tests.fleet.conftest import catalogue, many
from tests.fleet.tasks import deadly

pytest.importorskip("distributed")
# Seconds that a process of the test may take for one step on a busy machine.
PATIENCE = 180.0


def sums(folder: Path) -> dict[str, str]:
    """SHA-256 of all files of a store."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def stored(folder: Path) -> list[tuple[str, str]]:
    """Serial number and time of the rows of a store."""
    store = FleetStore.open(folder)
    return [(row["serial"], row["time"].isoformat()) for _, rows in store.rows("arm") for row in rows]


def until(holds: Callable[[], object]) -> None:
    """Waits for something to hold."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def rows_arrived(out: Path) -> int:
    """Rows of all of these files."""
    count = 0
    for path in arrived(out):
        with contextlib.suppress(OSError, pa.ArrowInvalid):  # taken in, or not whole yet
            count += pq.read_metadata(path).num_rows
    return count


def arrived(out: Path) -> list[Path]:
    """Files of rows that came in, and of those that are with the others of their robot."""
    return [*(out / "incoming").glob("*.parquet"), *(out / "factors").glob("*/*/factors.parquet")]


@pytest.fixture(scope="module")
def reference(arm_run: Path, two_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A catalogue, and the store that comes of it without any process but this one."""
    folder = tmp_path_factory.mktemp("reference")
    rows = [*many(two_logs, 36), ("arm", "s0", "2026-02-01", two_logs / "gone.parquet")]
    path = catalogue(folder / "logs.csv", rows)
    plan = read_plan(path, {"arm": arm_run})
    store = store_of(folder / "store", arm_run)
    text = store.model("arm").text()
    store.commit([process(fields(log), text, local_file) for log in plan.logs])
    store.fold()
    return path, store.folder


def store_of(folder: Path, arm_run: Path) -> FleetStore:
    from dynid.fleet import TypeModel

    return FleetStore.open(folder, {"arm": TypeModel.of_run("arm", arm_run)})


def fields(log: FleetLog) -> dict[str, str]:
    return {name: str(getattr(log, name)) for name in ("type", "serial", "time", "path", "trajectory")}


def test_a_row_holds_the_factor_of_its_log(
    reference: tuple[Path, Path], arm_run: Path, two_logs: Path
) -> None:
    run, store = load(arm_run), FleetStore.open(reference[1])
    model = store.model("arm")
    row = next(row for _, rows in store.rows("arm") for row in rows if row["path"].endswith("a.parquet"))
    log = read_log(two_logs / "a.parquet", run.robot)
    true = torque_factors(run, log, model.wanted, Diagnostics(), 1, model.terms).total
    for R, factor in zip(unpacked(row["R"], [len(one) for one in model.layout]), true, strict=True):
        assert pytest.approx(factor.R, rel=2.0**-16) == R
        assert Factor(factor.columns, R, factor.count, factor.sums, 0.0).target_square == pytest.approx(
            factor.target_square, rel=1e-4
        )
    assert row["count"] == [one.count for one in true]
    assert max(row["relative"]) < 0.1
    assert min(row["design"]) >= 1.0


@pytest.mark.parametrize("count", [500, 4_000, 100_000, 3_000_000])
def test_rounding_moves_estimates_by_a_tenth_of_their_error(count: int) -> None:
    """Columns as alike as those of an arm, a residual of one per cent: logs of any length."""
    rng = np.random.default_rng(count)
    w = 40
    mixed = np.linalg.qr(rng.normal(size=(w, w)))[0] * np.geomspace(1.0, 1e-2, w) @ rng.normal(size=(w, w))
    X = np.linalg.qr(rng.normal(size=(w + 5, w)))[0] @ mixed * np.sqrt(count)
    b = rng.normal(size=w)
    sigma = 0.01 * float(np.linalg.norm(X @ b)) / np.sqrt(count)
    y = X @ b + sigma * rng.normal(size=w + 5)
    R = np.linalg.qr(np.column_stack([X, y]), mode="r")
    (rounded,) = unpacked(packed([R], [count]), [w])
    error = sigma * np.sqrt(np.diag(np.linalg.inv(R[:w, :w].T @ R[:w, :w])))
    first, second = (np.linalg.solve(one[:w, :w], one[:w, w]) for one in (R, rounded))
    assert np.sqrt(np.mean(((first - second) / error) ** 2)) < 0.1


def test_size_of_a_factor(reference: tuple[Path, Path]) -> None:
    rows = [row for _, rows in FleetStore.open(reference[1]).rows("arm") for row in rows]
    seconds = sum(row["seconds"] for row in rows)
    files = sum(one.stat().st_size for one in (reference[1] / "factors").rglob("*.parquet"))
    assert files / (seconds / 60.0) < 30e3


def test_a_log_that_fails_is_one_row_with_its_message(reference: tuple[Path, Path]) -> None:
    rows = [row for _, rows in FleetStore.open(reference[1]).rows("arm") for row in rows]
    wrong = [row for row in rows if row["status"] != "done"]
    assert len(rows) == 37
    assert [(row["code"], row["again"]) for row in wrong] == [("file-missing", False)]
    assert "gone.parquet" in wrong[0]["message"]


def test_other_tools_read_the_store(reference: tuple[Path, Path]) -> None:
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    files = str(reference[1] / "factors" / "**" / "*.parquet")
    found = duckdb.read_parquet(files, hive_partitioning=True).filter("status = 'done'")
    ((count, seconds),) = found.aggregate("count(*), sum(seconds)").fetchall()
    table = polars.scan_parquet(files).filter(polars.col("status") == "done").collect()
    assert (count, len(table)) == (36, 36)
    assert table["seconds"].sum() == pytest.approx(seconds)
    frame = pandas.read_parquet(reference[1] / "factors" / "type=arm" / "serial=s0" / "factors.parquet")
    assert set(frame["serial"]) == {"s0"}


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_bytes_do_not_depend_on_workers(
    run: Run, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path, workers: int
) -> None:
    out = tmp_path / "fleet"
    outcome = run("fleet", reference[0], "--model", f"arm={arm_run}", "--out", out, "--workers", workers)
    assert (outcome.code, outcome.err) == (0, "")
    assert "36 done now, 1 failed now" in outcome.out
    assert "file-missing: 1" in outcome.out
    assert sums(out) == sums(reference[1])


def test_a_finished_fleet_starts_no_process(
    run: Run, reference: tuple[Path, Path], arm_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: object, **more: object) -> None:
        raise AssertionError("a task was started")

    monkeypatch.setattr("dynid.fleet.run.run_tasks", never)
    outcome = run("fleet", reference[0], "--model", f"arm={arm_run}", "--out", reference[1])
    assert outcome.code == 0
    assert "37 already done, 0 done now" in outcome.out


class Cluster:
    """A scheduler and its workers, each a process of its own."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.workers = [self.worker() for _ in range(2)]

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(
            "dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--death-timeout", "60"
        )

    def start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--no-dashboard"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self) -> None:
        for one in (*self.workers, self.scheduler):
            one.kill()
            one.wait()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.end()


def started(*arguments: object) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "dynid", "fleet", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_worker_then_killed_scheduler(
    run: Run, cluster: Cluster, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    out, plan = tmp_path / "fleet", reference[0]
    given = (plan, "--model", f"arm={arm_run}", "--out", out, "--scheduler", cluster.address)
    command = started(*given)
    until(lambda: arrived(out))
    cluster.workers[1].send_signal(signal.SIGSTOP)  # so that the fleet is not done before the scheduler dies
    cluster.workers[0].kill()  # what it held and what it did not yet send is done again
    cluster.scheduler.kill()
    _, errors = command.communicate(timeout=PATIENCE)
    assert command.returncode == 6, errors
    assert "scheduler-lost" in errors
    assert f"go on with: dynid fleet {plan} --model" in errors.replace(f" --out {out}", "").replace("'", "")
    before = stored(out)
    assert 0 < len(before) < 37
    assert len(set(before)) == len(before)
    outcome = run(*("fleet", *given[:-2]), "--workers", 1)
    assert f"{len(before)} already done, " in outcome.out
    assert sums(out) == sums(reference[1])


def test_killed_command_goes_on(
    run: Run, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "fleet"
    given = (reference[0], "--model", f"arm={arm_run}", "--out", out, "--workers", 1)
    command = started(*given)
    until(lambda: rows_arrived(out) > 2)
    os.kill(command.pid, signal.SIGKILL)
    command.communicate()
    done = len(FleetStore.open(out).finished())
    outcome = run("fleet", *given)
    assert 0 < done < 37
    assert f"{done} already done, " in outcome.out
    assert sums(out) == sums(reference[1])


def test_a_run_on_this_machine_opens_no_port(
    reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    """A scheduler of Dask's would run whatever any user of the machine sends to its port."""
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "fleet"
    command = started(reference[0], "--model", f"arm={arm_run}", "--out", out, "--workers", 2)
    parent = psutil.Process(command.pid)
    listening: set[tuple[str, int]] = set()
    most = 0
    while command.poll() is None:
        with contextlib.suppress(psutil.Error):
            family = [parent, *parent.children(recursive=True)]
            most = max(most, len(family))
            for member in family:
                with contextlib.suppress(psutil.Error):
                    listening |= {
                        tuple(one.laddr)
                        for one in member.net_connections("inet")
                        if one.status == psutil.CONN_LISTEN
                    }
        time.sleep(0.1)
    _, errors = command.communicate()
    assert command.returncode == 0, errors
    assert most > 2  # the command and its workers were looked at
    assert not listening
    assert sums(out) == sums(reference[1])


def test_a_killed_process_of_this_machine_is_replaced(
    reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "fleet"
    command = started(reference[0], "--model", f"arm={arm_run}", "--out", out, "--workers", 1)
    until(lambda: rows_arrived(out) > 2)
    workers = [
        child
        for child in psutil.Process(command.pid).children(recursive=True)
        if "spawn_main" in " ".join(child.cmdline())
    ]
    assert workers
    for child in workers:
        child.kill()
    _, errors = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0, errors
    assert sums(out) == sums(reference[1])


def test_interrupted_run_ends_with_its_processes(
    run: Run, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "fleet"
    given = (reference[0], "--model", f"arm={arm_run}", "--out", out, "--workers", 2)
    command = started(*given)
    until(lambda: rows_arrived(out) > 2)
    children = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, errors
    assert "Traceback" not in errors
    assert not psutil.wait_procs(children, timeout=PATIENCE)[1]
    assert 0 < len(FleetStore.open(out).finished()) < 37
    assert run("fleet", *given).code == 0
    assert sums(out) == sums(reference[1])


def test_a_task_that_ends_its_processes_is_given_up() -> None:
    results = [one for batch in finished(deadly, range(3), 2) for one in batch]
    assert {one.task: one.result for one in results} == {0: 0, 1: 1, 2: 4}
    results = [one for batch in finished(deadly, [3, 5], 2) for one in batch]
    assert {one.task: one.result for one in results} == {3: None, 5: 25}


def test_a_task_that_takes_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil")
    monkeypatch.setattr("dynid.fleet.processes.RETRIES", 0)
    results = [one for batch in finished(deadly, [4, 5], 1, 290e6) for one in batch]
    assert {one.task: one.result for one in results} == {4: None, 5: 25}


def test_no_scheduler_ends_with_exit_code_6(
    run: Run, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynid.fleet.cluster._PATIENCE", 1)
    outcome = run(
        "fleet", reference[0], "--model", f"arm={arm_run}", "--out", tmp_path / "fleet",
        "--scheduler", "tcp://127.0.0.1:1",
    )  # fmt: skip
    assert outcome.code == 6
    assert "scheduler-unreachable" in outcome.err


def test_another_model_has_another_store(
    run: Run, reference: tuple[Path, Path], robot_file: Path, other_log: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert run("identify", robot_file, other_log, "--out", other, "--no-auto").code == 0
    outcome = run("fleet", reference[0], "--model", f"arm={other}", "--out", reference[1])
    assert outcome.code == 2
    assert "fleet-model" in outcome.err


def test_a_folder_of_something_else_is_left_alone(
    run: Run, reference: tuple[Path, Path], arm_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    outcome = run("fleet", reference[0], "--model", f"arm={arm_run}", "--out", tmp_path)
    assert outcome.code == 7
    assert sorted(one.name for one in tmp_path.iterdir()) == ["thesis.txt"]


def test_names_of_strangers_stay_within_the_folder(arm_run: Path, two_logs: Path, tmp_path: Path) -> None:
    store = store_of(tmp_path / "a" / "store", arm_run)
    rows = [
        ("arm", "../../../out", "2026-01-01", two_logs / "a.parquet"),
        ("arm", "..", "2026-01-01", "x.csv"),
    ]
    plan = read_plan(catalogue(tmp_path / "logs.csv", rows), {"arm": arm_run})
    store.commit([process(fields(log), store.model("arm").text(), local_file) for log in plan.logs])
    store.fold()
    assert sorted(serial for serial, _ in store.rows("arm")) == ["..", "../../../out"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "logs.csv"]


@pytest.mark.parametrize(
    ("uri", "code"), [("file://{}", ""), ("file://{}.gone", "file-missing"), ("no://x", "uri")]
)
def test_logs_come_by_fsspec(arm_run: Path, two_logs: Path, uri: str, code: str) -> None:
    from dynid.fleet import TypeModel

    path = two_logs / "a.parquet"
    log = FleetLog("arm", "s0", read_time(), uri.format(path))
    row = process(fields(log), TypeModel.of_run("arm", arm_run).text(), local_file)
    assert row.code == code
    with contextlib.suppress(FileNotFoundError):
        assert not list(Path("/tmp").glob("dynid-fleet-*/log.parquet"))  # noqa: S108 - copies are gone


def read_time() -> object:
    from datetime import UTC, datetime

    return datetime(2026, 1, 1, tzinfo=UTC)
