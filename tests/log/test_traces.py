"""Traces of CODESYS: a variable's times and values, one variable behind the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError
from dynid.layouts import propose_logs
from dynid.log import contents
from tests.layouts.test_strangers import ARM, DEG, numbered

HEAD = (
    "[key]; [value]\nVersion; 0x03050000\nName; Application.Trace\nIecTaskName; MainTask\nComment; \nFlags; 16\n"
    "{k}.Variable; {name}\n{k}.Class; 14\n{k}.YAxis; 0\n{k}.Data; \n"
)


def written(path: Path, t: Float, columns: dict[str, Float], decimal: str = ".") -> Path:
    parts = []
    for k, (name, values) in enumerate(columns.items()):
        head = HEAD.format(k=k, name=name)
        parts.append(head if k == 0 else head[head.index(f"{k}.Variable") :])
        rows = zip(t[: len(values)], values, strict=True)
        parts += [f"; {1e3 * at:.0f}; {value:.9g}\n".replace(".", decimal) for at, value in rows]
    path.write_text("".join(parts), encoding="utf-8")
    return path


@pytest.mark.parametrize("decimal", [".", ","])
def test_variables_are_columns_with_one_clock(decimal: str, tmp_path: Path) -> None:
    columns = numbered("GVL.Axis[#].fActPosition", ARM.q * DEG) | numbered(
        "GVL.Axis[#].fActVelocity", ARM.dq * DEG
    )
    columns |= numbered("GVL.Axis[#].fActTorque", ARM.tau)
    found = propose_logs(ARM.robot, [written(tmp_path / "Application.trace.csv", ARM.t, columns, decimal)])
    assert not found.open
    assert found["log.time.unit"].value == "ms"
    assert found["log.position.unit"].value == "deg"
    assert found["log.effort.unit"].value == "N m"


def test_variables_of_other_lengths_are_brought_to_one_clock(tmp_path: Path) -> None:
    t = np.arange(200) * 0.02
    path = written(tmp_path / "log.trace.csv", t, {"whole": 3.0 * t, "short": 5.0 * t[:150], "none": t[:0]})
    found = contents(path)
    assert set(found.table.column_names) == {"time", "whole", "short"}
    read = found.read(["time", "whole"])
    np.testing.assert_allclose(read["whole"], 3e-3 * np.asarray(read["time"]))
    assert len(read["time"]) == 150


def test_a_variable_with_few_values_leaves_the_others_theirs(tmp_path: Path) -> None:
    t = np.arange(200) * 0.02
    parts = [written(tmp_path / f"{k}.csv", *one).read_text() for k, one in enumerate([
        (t, {"q": np.sin(t), "state": np.round(t), "on": t > 2.0}),
        (t[::40], {"slow": 0.5 + 3.0 * t[::40], "few": np.round(10 * t[::40])}),
    ])]  # fmt: skip
    path = tmp_path / "log.trace.csv"
    path.write_text("".join(parts).replace("; True", "; TRUE").replace("; False", "; FALSE"))
    read = contents(path).read(["time", "q", "slow", "few"])
    assert len(read["time"]) == 161  # to the last value of all
    np.testing.assert_allclose(read["q"], np.sin(t[:161]), atol=1e-8)
    np.testing.assert_allclose(read["slow"], 0.5 + 3.0 * t[:161])
    assert set(np.asarray(read["few"])) == set(np.round(10 * t[::40]))


def test_what_was_recorded_for_a_short_time_is_left_out_with_a_warning(tmp_path: Path) -> None:
    t = np.arange(200) * 0.02
    found = contents(written(tmp_path / "log.trace.csv", t, {"q": t, "dq": t, "short": t[:30]}))
    assert set(found.table.column_names) == {"time", "q", "dq"}
    assert len(found.read(["q"])["q"]) == 200
    (warning,) = getattr(found.table, "remarks", ())
    assert "short" in warning.text


@pytest.mark.parametrize("cell", ["1.#QNAN", "16#FF"])
def test_a_variable_with_cells_that_are_no_numbers_is_left_out_with_a_warning(
    cell: str, tmp_path: Path
) -> None:
    t = np.arange(9.0)
    path = written(tmp_path / "log.trace.csv", t, {"q": t, "status": 10.0 + t})
    path.write_text(path.read_text().replace("; 3000; 13", f"; 3000; {cell}"))
    found = contents(path)
    assert set(found.table.column_names) == {"time", "q"}
    (warning,) = getattr(found.table, "remarks", ())
    assert f"status ('{cell}' is not a number)" in warning.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("; 3000; 3", "; 500; 3", "decrease, from 2000 to 500"),
        ("Variable; dq", "Variable; q", "q more than once"),
        ("; 3000; 3", "; 3000; three", "'three' is not a number"),
    ],
)
def test_times_that_run_back_and_names_that_are_there_twice_are_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    t = np.arange(9.0)
    path = written(tmp_path / "log.trace.csv", t, {"q": t, "dq": t})
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError) as info:
        contents(path)
    assert message in str(info.value)


def test_variables_of_other_times_are_refused(tmp_path: Path) -> None:
    t = np.arange(9.0)
    path = written(tmp_path / "log.trace.csv", t, {"q": t})
    path.write_text(path.read_text() + written(tmp_path / "b.csv", t + 100.0, {"dq": t}).read_text())
    with pytest.raises(InputError, match="recorded at other times"):
        contents(path)


def test_a_variable_may_be_called_as_the_clock_is(tmp_path: Path) -> None:
    t = np.arange(9.0)
    found = contents(written(tmp_path / "log.trace.csv", t, {"time": t, "q": t}))
    assert set(found.table.column_names) == {"trace_time", "time", "q"}
