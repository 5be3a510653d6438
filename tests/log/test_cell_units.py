"""Units behind the numbers of a table's cells: the numbers are read, in the units that the file states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError
from dynid.log import open_table
from dynid.log.readers.dialect import units_of, without_units
from tests.layouts.test_strangers import ARM, DEG, csv, reads

MINUS, NO_BREAK = "\u2212", "\u00a0"


def with_unit(values: Float, unit: str, form: str = "{:.9f}") -> list[list[str]]:
    return [[f"{form.format(x)}{unit}" for x in one] for one in np.atleast_2d(values.T)]


def cells(blank: str, decimal: str = ".") -> dict[str, list[str]]:
    kinds = (("pos#", ARM.q * DEG, "°"), ("vel#", ARM.dq * DEG, "deg/s"), ("trq#", 1e3 * ARM.tau, "mNm"))
    columns = {"time": with_unit(1e3 * ARM.t, f"{blank}ms")[0]}
    for name, values, unit in kinds:
        written = with_unit(values, blank + unit)
        columns |= {name.replace("#", str(k)): one for k, one in enumerate(written)}
    return {name: [one.replace(".", decimal) for one in cells] for name, cells in columns.items()}


@pytest.mark.parametrize(
    ("mark", "decimal", "blank"),
    [(",", ".", " "), (";", ",", NO_BREAK), pytest.param("\t", ".", "", marks=pytest.mark.slow)],
)
def test_units_in_cells_are_those_of_the_columns(mark: str, decimal: str, blank: str, tmp_path: Path) -> None:
    reads(csv(tmp_path / "log.csv", cells(blank, decimal), mark))


def test_units_in_cells_of_dynids_own_names(tmp_path: Path) -> None:
    joints = ARM.robot.joint_names
    columns = {"t": with_unit(ARM.t, " s")[0]}
    for name, values, unit in (("q", ARM.q * DEG, "deg"), ("dq", ARM.dq, "rad/s"), ("tau", ARM.tau, "N m")):
        written = with_unit(values, f" {unit}")
        columns |= {f"{name}_{joint}": one for joint, one in zip(joints, written, strict=True)}
    reads(csv(tmp_path / "log.csv", columns))


def test_thousands_apart_before_a_unit(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,x,fan\n" + "".join(f'"{k:,.1f} ms",{k} V,on\n' for k in range(900, 1200)))
    table = open_table(path)
    (batch,) = table.batches(("t", "x"), 1000)
    np.testing.assert_array_equal(batch["t"], np.arange(900.0, 1200.0))
    np.testing.assert_array_equal(batch["x"], np.arange(900.0, 1200.0))


def test_missing_cells_have_no_unit(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k},{'---' if k == 3 else '' if k == 5 else f'{MINUS}{k}.5 Nm'}" for k in range(20)]
    path.write_text("\n".join(["t,trq", *rows, ""]))
    (batch,) = open_table(path).batches(("trq",), 100)
    expected = -(np.arange(20.0) + 0.5)
    expected[[3, 5]] = np.nan
    np.testing.assert_array_equal(batch["trq"], expected)


@pytest.mark.parametrize("start", [0, 1500])
def test_units_of_one_quantity_may_be_mixed(start: int, tmp_path: Path) -> None:
    columns = cells(" ")
    for k, values in enumerate(ARM.tau.T):
        large = [i for i in range(start, len(values)) if abs(values[i]) > np.median(np.abs(values))]
        for i in large:
            columns[f"trq{k}"][i] = f"{values[i]:.12f} Nm"
    for k, values in enumerate(ARM.q.T):
        columns[f"pos{k}"][start + 2 :: 3] = [f"{1e3 * x:.9f} mrad" for x in values[start + 2 :: 3]]
    reads(csv(tmp_path / "log.csv", columns))


def test_a_unit_of_another_quantity_further_down_is_no_number_of_the_column(tmp_path: Path) -> None:
    columns = cells(" ")
    columns["trq3"][1500] = columns["trq3"][1500].replace("mNm", "A")
    path = csv(tmp_path / "log.csv", columns)
    with pytest.raises(InputError, match=r"row 1500.* A'; expected a number in mNm, or in another"):
        reads(path)


def test_units_of_several_quantities_in_one_column_are_none() -> None:
    rows = [["1 Nm", "1 ms"], ["2 A", "2 s"], ["3 Nm", "3 s"]]
    assert units_of(rows, 2, lambda cell: not cell) == ()  # durations are read as times
    assert units_of([["1 °"], ["20 mrad"]], 1, lambda cell: not cell) == ("°",)
    assert units_of([["1 Nm", "9 mNm", "1 A"]], 3, lambda cell: not cell) == ("Nm", "Nm", "A")
    assert units_of([["1 Nm"], ["20"]], 1, lambda cell: not cell) == ()


def test_blanks_in_a_cell_are_passed_once() -> None:
    # Tried from each of them, so many would take hours.
    blanks = " " * 500_000
    assert without_units(f"1 a{blanks}b,2 Nm{blanks}") == f"1 a{blanks}b,2{blanks}"
    assert units_of([["1 m" + blanks], ["2 m"]], 1, lambda cell: not cell) == ("m",)
    assert units_of([["1 m" + blanks + "x"], ["2 m"]], 1, lambda cell: not cell) == ()
