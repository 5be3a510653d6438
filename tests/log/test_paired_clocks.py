"""A clock before each channel, and lines of names, units and remarks above a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.log import open_table
from dynid.log.readers.dialect import distinct, names_above_units
from tests.layouts.test_strangers import ARM, csv, numbered, reads

# An array that ends earlier, and begins later, than another one.
LATE = 2


def channels() -> dict[str, Float]:
    return numbered("Axis#.Pos", ARM.q) | numbered("Axis#.Trq", ARM.tau)


def written(path: Path, head: list[str], columns: list[Float]) -> Path:
    """Columns of different lengths, the shorter ones with empty cells at their ends."""
    rows = range(max(map(len, columns)))
    lines = [";".join(f"{one[k]:.12g}" if k < len(one) else "" for one in columns) for k in rows]
    path.write_text("\n".join([";".join(head), *lines, ""]))
    return path


@pytest.mark.parametrize("clock", ["Time [s]", "time of #"])
def test_a_clock_before_each_channel(clock: str, tmp_path: Path) -> None:
    head, columns = list[str](), list[Float]()
    for name, values in channels().items():
        head += [clock.replace("#", name), name]
        columns += [ARM.t, values]
    reads(written(tmp_path / "log.csv", head, columns), dq=False)


def test_a_clock_before_the_channels_of_each_joint(tmp_path: Path) -> None:
    head, columns = list[str](), list[Float]()
    for k in range(ARM.robot.n):
        head += ["t", f"pos{k}", f"vel{k}", f"trq{k}"]
        columns += [ARM.t, ARM.q[:, k], ARM.dq[:, k], ARM.tau[:, k]]
    reads(written(tmp_path / "log.csv", head, columns))


def test_a_second_in_the_unit_of_a_speed_is_no_clock(tmp_path: Path) -> None:
    head, columns = list[str](), list[Float]()
    speeds = numbered("Axis#.Vel [rad/s]", ARM.dq)
    for name, values in (
        numbered("Axis#.Pos [rad]", ARM.q) | speeds | numbered("Axis#.Trq [Nm]", ARM.tau)
    ).items():
        head += ["Time [s]", name]
        columns += [ARM.t, values]
    reads(written(tmp_path / "log.csv", head, columns))


def test_blanks_in_the_name_of_a_clock_are_passed_once() -> None:
    name = "t" + " " * 200_000 + "x"
    assert distinct([name, "a", name, "b"]) == (name, "a", f"{name} 2", "b")


def test_clocks_of_channels_that_differ_are_brought_to_one(tmp_path: Path) -> None:
    head, columns = list[str](), list[Float]()
    for k, (name, values) in enumerate(channels().items()):
        own = slice(LATE * k, len(ARM.t) - 2 * LATE * k)
        head += [f"{name} time", name]
        columns += [ARM.t[own], values[own]]
    table = open_table(written(tmp_path / "log.csv", head, columns))
    assert table.column_names == ("Axis1.Pos time", *channels())
    (batch,) = table.batches(table.column_names, 10_000)
    last = LATE * (len(channels()) - 1)
    own = slice(last, len(ARM.t) - 2 * last)
    np.testing.assert_allclose(np.asarray(batch["Axis1.Pos time"]), ARM.t[own])
    for name, values in channels().items():
        np.testing.assert_allclose(np.asarray(batch[name]), values[own], atol=1e-9)


def test_clocks_of_two_computers_stay_two(tmp_path: Path) -> None:
    columns = {"t_robot": ARM.t, "pos": ARM.q[:, 0], "t_sensor": ARM.t + 1e6, "force": ARM.tau[:, 0]}
    assert open_table(csv(tmp_path / "log.csv", columns)).column_names == tuple(columns)


def test_names_below_those_of_groups_and_above_units() -> None:
    groups, names = ("", "Axis 1", "", "Axis 2", ""), ("t", "pos", "trq", "pos", "trq")
    whole = ("t", "Axis 1 pos", "Axis 1 trq", "Axis 2 pos", "Axis 2 trq")
    units = ("s", "deg", "Nm", "deg", "Nm")
    assert names_above_units([("a title",), groups, names, units], 5) == (whole, units)
    assert names_above_units([groups, whole, units, ("", "", "", "", "")], 5) == (whole, units)
    assert names_above_units([("pos",) * 5, ("deg",) * 5], 5) == (("pos",) * 5, ("deg",) * 5)
    assert names_above_units([groups, names], 5) is None


@pytest.mark.parametrize(
    "order", [("names", "units", "remarks"), ("names", "remarks", "units"), ("remarks", "names", "units")]
)
def test_remarks_among_names_and_units(order: tuple[str, ...], tmp_path: Path) -> None:
    columns = {"Time": 1e3 * ARM.t, **numbered("A#.Pos", ARM.q), **numbered("A#.Trq", ARM.tau)}
    n = ARM.robot.n
    lines = {
        "names": list(columns),
        "units": ["ms", *["rad"] * n, *["Nm"] * n],
        "remarks": ["", *["robot 7"] * n, *["drive"] * n],
    }
    path = csv(tmp_path / "log.csv", columns, "\t")
    rows = path.read_text(encoding="utf-8").splitlines()[1:]
    path.write_text("\n".join([*("\t".join(lines[one]) for one in order), *rows, ""]), encoding="utf-8")
    reads(path, dq=False)
