"""Units behind the numbers of a table's cells: the numbers are read, in the units that the file states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.errors import InputError
from dynid.log.cell_units import units_of, without_units
from dynid.log.files import open_table
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


def test_another_unit_further_down_is_no_number_of_the_column(tmp_path: Path) -> None:
    columns = cells(" ")
    columns["trq3"][1500] = columns["trq3"][1500].replace("mNm", "Nm")
    path = csv(tmp_path / "log.csv", columns)
    with pytest.raises(InputError, match=r"row 1500.* Nm'; expected a number in mNm, as above"):
        reads(path)


def test_blanks_in_a_cell_are_passed_once() -> None:
    # Tried from each of them, so many would take hours.
    blanks = " " * 500_000
    assert without_units(f"1 a{blanks}b,2 Nm{blanks}") == f"1 a{blanks}b,2{blanks}"
    assert units_of([["1 m" + blanks], ["2 m"]], 1, lambda cell: not cell) == ("m",)
    assert units_of([["1 m" + blanks + "x"], ["2 m"]], 1, lambda cell: not cell) == ()
