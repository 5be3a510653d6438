"""Identified logs give what they gave: parameters, verdicts, codes, keys of JSON files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynid.kernel import backend
from tests.baseline import rows
from tests.baseline.records import expect_none


def test_the_fast_demo(baseline_demo: tuple[dict[str, object], Path]) -> None:
    expect_none(rows.row_differences(dict(baseline_demo[0]), "demo --fast"))


@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    expect_none(rows.row_differences(rows.demo("demo", tmp_path), "demo"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=rows.file_name(name), marks=[] if name == rows.SHORT else [pytest.mark.slow])
        for name in rows.names()
    ],
)
def test_a_real_log(name: str, data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pinocchio", reason="benchmarks/real.py, which names the rows, loads it")
    if name not in set(rows.real_rows(data_dir)):
        pytest.skip(f"{data_dir} has no log of this row")
    if name != rows.SHORT and backend() == "numpy":
        pytest.skip(
            "searches of shapes end elsewhere with the NumPy kernel; the rows were stored with the native one"
        )
    expect_none(rows.row_differences(rows.real_row(name, data_dir, tmp_path), name))


def test_every_row_is_stored(data_dir: Path) -> None:
    pytest.importorskip("pinocchio", reason="benchmarks/real.py, which names the rows, loads it")
    assert set(rows.real_rows(data_dir)) <= set(rows.names())


def test_what_is_compared_sees_a_change() -> None:
    before = [["base m1", "kg", "identified", 2.0, 0.5], ["full mcx1", "kg m", "", 1e-17]]
    assert rows.parameter_differences([[*row] for row in before], before) == []
    near = [["base m1", "kg", "identified", 2.0 + 1e-6, 0.5], ["full mcx1", "kg m", "", 1e-17]]
    assert rows.parameter_differences(near, before) == []
    moved = [["base m1", "kg", "identified", 2.00001, 0.5], before[1]]
    assert len(rows.parameter_differences(moved, before)) == 1
    assert rows.parameter_differences(before[::-1], before)
    # Rounding of zero, beside the greatest of the unit.
    assert rows.parameter_differences([before[0], ["full mcx1", "kg m", "", 1.5e-17]], before) != []
    large = [*before, ["full mcy1", "kg m", "", 1.0]]
    assert rows.parameter_differences([before[0], ["full mcx1", "kg m", "", 1e-14], large[2]], large) == []
    # A tie of the fourth digit.
    formula = [["base Izz1 + 1.322 m3", "kg m^2", "identified", 2.0, 0.5]]
    tie = [["base Izz1 + 1.323 m3", *formula[0][1:]]]
    assert rows.parameter_differences(tie, formula) == []
    assert rows.parameter_differences([["base Izz1 + 1.352 m3", *formula[0][1:]]], formula) != []
    assert rows.parameter_differences([["base Izz1 + 1.322 m4", *formula[0][1:]]], formula) != []
    wider = [["base m1", "kg", "identified", 2.0, 0.50001], before[1]]
    assert len(rows.parameter_differences(wider, before)) == 1
