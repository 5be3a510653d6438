"""dynid fleet report: tables that any program reads, and one page, from a store alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.fleet import FleetLog, FleetStore, TypeModel
from dynid.fleet.drift import effects_of
from dynid.fleet.pool import Weights, days
from dynid.fleet.task import LogRow, failed, packed, process, unpacked
from dynid.run import load
from tests.command_line import Run

HOSTILE = "<img src=x onerror=alert(1)>"
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)


def at_hand(path: str) -> object:
    from contextlib import nullcontext

    return nullcontext(Path(path))


@pytest.fixture(scope="module")
def folder(arm_run: Path, two_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of seven robots, 30 days; the elbow's friction of one of them grows by a fifth on the 21st day."""
    model = TypeModel.of_run("arm", arm_run)
    store = FleetStore.open(tmp_path_factory.mktemp("store") / "fleet", {"arm": model})
    text = model.text()
    measured = []
    for name in "ab":
        given = {
            "type": "arm",
            "serial": "0",
            "time": BEGIN.isoformat(),
            "path": str(two_logs / f"{name}.parquet"),
        }
        measured.append(process(given, text, at_hand))
    for r in range(7):
        rng = np.random.default_rng(r)
        serial = HOSTILE if r == 3 else f"s{r}"
        own = model.value * (1.0 + 0.1 * rng.normal(size=len(model.value)))
        rows = []
        for day in range(30):
            x = own * (1.0 + 0.01 * rng.normal(size=len(own)))
            if r == 3 and day >= 20:
                x = x * (1.0 + 0.2 * model.friction(1))
            rows.append(simulated(model, measured[day % 2], serial, day, x, rng))
        store.commit(rows)
    store.commit(
        [failed(FleetLog("arm", "s0", BEGIN, "gone.csv"), model.digest, "file-missing", "found no such file")]
    )
    store.fold()
    return store.folder


def simulated(
    model: TypeModel, like: LogRow, serial: str, day: int, x: np.ndarray, rng: np.random.Generator
) -> LogRow:
    """The row of a log with parameters x and the motion of another one."""
    triangles = []
    place = {int(c): i for i, c in enumerate(model.kept)}
    for j, R in enumerate(unpacked(like.R, [len(one) for one in model.layout])):
        w = len(R) - 1
        noise = like.sigma[j] * np.sqrt(like.design[j]) * rng.normal(size=w)
        R[:w, w] = R[:w, :w] @ x[[place[int(c)] for c in model.layout[j]]] + noise
        triangles.append(R)
    log = FleetLog("arm", serial, BEGIN + timedelta(days=day), "simulated")
    return LogRow(
        log, like.status, like.model, seconds=12.0, R=packed(triangles, like.count), count=like.count, sigma=like.sigma,
        design=like.design, relative=like.relative,
    )  # fmt: skip


def test_a_report_names_joint_effect_and_day(run: Run, folder: Path) -> None:
    outcome = run("fleet", "report", folder)
    assert outcome.code == 0, outcome.err
    assert "arm: 7 robots, 211 logs (1 failed), 1 alarms" in outcome.out
    alarms = pq.read_table(folder / "tables" / "alarms.parquet").to_pylist()
    assert [(one["serial"], one["joint"], one["effect"]) for one in alarms] == [
        (HOSTILE, "elbow", "friction")
    ]
    assert abs((alarms[0]["since"] - (BEGIN + timedelta(days=20)).date()).days) <= 1
    assert (alarms[0]["found"] - (BEGIN + timedelta(days=20)).date()).days <= 2
    assert abs(alarms[0]["size"] - 0.2) < 4 * alarms[0]["std"]


def test_the_page_is_offline_and_escapes_names(run: Run, folder: Path) -> None:
    assert run("fleet", "report", folder).code == 0
    text = (folder / "report.html").read_text()
    assert HOSTILE not in text
    assert "&lt;img src=x" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert text.count("<script") == text.count("</script>")
    assert "http-equiv" in text


def test_tables_are_of_one_length_a_thing(run: Run, folder: Path) -> None:
    assert run("fleet", "report", folder).code == 0
    tables = {path.stem: pq.read_table(path) for path in (folder / "tables").glob("*.parquet")}
    model = FleetStore.open(folder).model("arm")
    m = len(model.kept) + model.robot.n
    effects = tables["days"].column("effect").unique().to_pylist()
    assert set(effects) == {"friction", "gain", "offset", "stiffness", "load"}
    assert tables["logs"].num_rows == 211
    assert tables["robots"].num_rows == 7
    assert tables["parameters"].num_rows == m
    assert tables["states"].num_rows == 7 * m
    assert tables["days"].num_rows == 7 * 30 * (4 * model.robot.n + 1)


def test_the_same_store_gives_the_same_tables(run: Run, folder: Path) -> None:
    first = []
    for _ in range(2):
        assert run("fleet", "report", folder).code == 0
        first.append([path.read_bytes() for path in sorted((folder / "tables").glob("*.parquet"))])
    assert first[0] == first[1]


def test_information_is_that_of_weighted_least_squares(folder: Path, arm_run: Path) -> None:
    """A h of a day are the normal equations of its factors, so that A^-1 h is their weighted solution."""
    store = FleetStore.open(folder)
    model, rows = store.model("arm"), store.robot("arm", "s1")
    weights = Weights.of(model, rows)
    (day, *_) = days(model, weights, rows)
    k = len(model.kept)
    weight = weights.of_log(rows[0])
    normal, right = np.zeros((k, k)), np.zeros(k)
    place = {int(c): i for i, c in enumerate(model.kept)}
    for j, R in enumerate(unpacked(rows[0]["R"], [len(one) for one in model.layout])):
        X = np.zeros((len(R), k))
        X[:, [place[int(c)] for c in model.layout[j]]] = R[:, :-1]
        normal += weight[j] * X.T @ X
        right += weight[j] * X.T @ (R[:, -1] - X @ model.value)
    assert day.A[:k, :k] == pytest.approx(normal, rel=1e-9, abs=1e-9 * np.abs(normal).max())
    assert day.h[:k] == pytest.approx(right, rel=1e-6, abs=1e-9 * np.abs(right).max())
    # A gain of all joints is all parameters larger by as much.
    assert day.A[k:, k:].sum() == pytest.approx(model.value @ normal @ model.value, rel=1e-6)


def test_effects_are_directions_of_the_model(arm_run: Path, folder: Path) -> None:
    model = FleetStore.open(folder).model("arm")
    weights = Weights(np.ones(2), np.ones(2), np.full(2, 10.0))
    found = {(one.joint, one.kind): one for one in effects_of(model, weights)}
    run = load(arm_run)
    names = [model.columns[i].name for i in model.kept]
    friction = found["elbow", "friction"].D[: len(names), 0]
    assert {name for name, value in zip(names, friction, strict=True) if value} == {"fv2", "fc2"}
    fv = dict(zip(run.estimate.names, run.estimate.value, strict=True))["fv2"]
    assert friction[names.index("fv2")] == pytest.approx(fv, rel=0.05)
    assert {
        name for name, v in zip(names, found["elbow", "offset"].D[: len(names), 0], strict=True) if v
    } == {"fo2"}
    assert found["shoulder", "stiffness"].unit == "rad/(N m)"
    assert found["", "load"].unit == "kg"


def test_a_folder_that_is_no_fleet_is_refused(run: Run, tmp_path: Path) -> None:
    outcome = run("fleet", "report", tmp_path)
    assert outcome.code == 3
    assert "not-a-fleet" in outcome.err
    assert run("fleet", tmp_path / "plan.csv").code == 2
