"""Units in a line below the names count as those in the names themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import read_log
from dynid.base import Float
from tests.layouts.test_strangers import ARM

SLICE = slice(0, 800)


def written(path: Path, names: dict[str, str], units: dict[str, str], scale: dict[str, float]) -> Path:
    """A table of t, q, dq and tau by the names' templates, with a line of units."""
    columns: dict[str, Float] = {names["t"]: ARM.t[SLICE] * scale.get("t", 1.0)}
    stated = [units["t"]]
    for key, values in (("q", ARM.q), ("dq", ARM.dq), ("tau", ARM.tau)):
        for k, joint in enumerate(ARM.robot.joint_names):
            name = names[key].replace("#", str(k + 1)).replace("@", joint)
            columns[name] = values[SLICE, k] * scale.get(key, 1.0)
            stated.append(units[key])
    rows = np.column_stack(list(columns.values()))
    lines = [",".join(columns), ",".join(stated), *(",".join(f"{x:.9g}" for x in row) for row in rows)]
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.parametrize("ends", ["{}", "[{}]", "({})"])
@pytest.mark.parametrize(
    "names",
    [
        {"t": "t", "q": "q_@", "dq": "dq_@", "tau": "tau_@"},
        {"t": "time", "q": "pos#", "dq": "vel#", "tau": "trq#"},
    ],
    ids=["dynid's own names", "others"],
)
def test_units_below_the_names_are_those_of_the_columns(
    names: dict[str, str], ends: str, tmp_path: Path
) -> None:
    turn = 180 / np.pi
    units = {
        key: ends.format(unit) for key, unit in {"t": "ms", "q": "°", "dq": "deg/s", "tau": "mNm"}.items()
    }
    path = written(tmp_path / "log.csv", names, units, {"t": 1e3, "q": turn, "dq": turn, "tau": 1e3})
    chunk = next(iter((log := read_log(path, ARM.robot)).chunks(log.trajectories[0])))
    for seen, true in ((chunk.q, ARM.q), (chunk.dq, ARM.dq), (chunk.tau, ARM.tau)):
        assert seen is not None
        np.testing.assert_allclose(seen, true[: len(seen)], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(chunk.t, ARM.t[: len(chunk.t)], atol=1e-7)


def test_a_line_of_units_in_place_of_names(tmp_path: Path) -> None:
    names = {"t": "t", "q": "pos#", "dq": "vel#", "tau": "trq#"}
    path = written(tmp_path / "log.csv", names, {"t": "s", "q": "rad", "dq": "rad/s", "tau": "Nm"}, {})
    path.write_text(path.read_text().partition("\n")[2])
    log = read_log(path, ARM.robot)
    chunk = log.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.tau, ARM.tau[SLICE], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(chunk.t, ARM.t[SLICE], atol=1e-7)


def test_units_of_si_below_dynids_own_names_leave_nothing_to_find(tmp_path: Path) -> None:
    names = {"t": "t", "q": "q_@", "dq": "dq_@", "tau": "tau_@"}
    path = written(tmp_path / "log.csv", names, {"t": "sec", "q": "rad", "dq": "rad/s", "tau": "Nm"}, {})
    assert not any(one.identifier == "columns-found" for one in read_log(path, ARM.robot).remarks)
