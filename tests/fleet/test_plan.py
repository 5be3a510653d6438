"""Plans say what is wrong with them, row by row; their logs have one order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import DynidError, InputError
from dynid.fleet import read_plan
from tests.fleet.conftest import catalogue

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_toml_parquet_and_csv_name_the_same_logs(tmp_path: Path) -> None:
    catalogue(tmp_path / "logs.csv", [("arm", "7", "2026-03-01T13:00:00+01:00", "b.parquet")])
    columns = {"type": ["arm"], "serial": ["7"], "time": [NOON], "path": ["b.parquet"]}
    pq.write_table(pa.table(columns), tmp_path / "logs.parquet")
    (tmp_path / "plan.toml").write_text(
        '[type.arm]\nmodel = "run"\n[[log]]\ntype = "arm"\nserial = "7"\n'
        'time = 2026-03-01T12:00:00\npath = "b.parquet"\n'
    )
    (tmp_path / "both.toml").write_text('catalogue = "logs.csv"\n[type.arm]\nmodel = "run"\n')
    models = {"arm": tmp_path / "run"}
    plans = [
        read_plan(tmp_path / name, models) for name in ("logs.csv", "logs.parquet", "plan.toml", "both.toml")
    ]
    assert len({plan.logs for plan in plans}) == 1
    assert plans[0].logs[0].time == NOON
    assert plans[0].logs[0].path == str(tmp_path / "b.parquet")


def test_order_of_a_catalogue_does_not_matter(tmp_path: Path) -> None:
    rows = [("arm", s, f"2026-03-0{d}", f"{s}{d}.csv") for s in "ba" for d in (2, 1)]
    models = {"arm": tmp_path}
    one = read_plan(catalogue(tmp_path / "one.csv", rows), models)
    other = read_plan(catalogue(tmp_path / "other.csv", rows[::-1]), models)
    assert one.logs == other.logs
    assert [(log.serial, log.time.day) for log in one.logs] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        ([("arm", "7", "yesterday", "b.csv")], "catalogue-time", "row 1"),
        (
            [("arm", "7", "2026-03-01", "b.csv"), ("arm", "", "2026-03-01", "b.csv")],
            "catalogue-empty",
            "row 2",
        ),
        ([("leg", "7", "2026-03-01", "b.csv")], "unknown-type", "'leg'"),
        ([("arm", "7", "2026-03-01", "b.csv")] * 2, "log-twice", "b.csv"),
        ([], "no-log", "without logs"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, rows: list[tuple[object, ...]], code: str, words: str
) -> None:
    with pytest.raises(InputError, match=code) as error:
        read_plan(catalogue(tmp_path / "logs.csv", rows), {"arm": tmp_path})
    assert words in str(error.value)


def test_wrong_keys_of_a_plan_are_named_with_their_lines(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[type.arm]\nmodle = "run"\n[[log]]\ntype = "arm"\nserial = 7\n')
    with pytest.raises(DynidError) as error:
        read_plan(plan)
    text = str(error.value)
    assert "plan.toml:2" in text
    assert "did you mean 'model'?" in text
    assert "plan.toml:5" in text


def test_a_catalogue_without_its_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("type,serial,file\narm,7,b.csv\n")
    with pytest.raises(InputError, match="no column time, path"):
        read_plan(tmp_path / "logs.csv", {"arm": tmp_path})
