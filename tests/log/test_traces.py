"""Traces of CODESYS: a variable's times and values, one variable behind the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.errors import InputError
from dynid.layouts.propose import propose
from dynid.log.contents import contents
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
    found = propose(ARM.robot, written(tmp_path / "Application.trace.csv", ARM.t, columns, decimal))
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


def test_words_among_values_are_damage(tmp_path: Path) -> None:
    path = written(tmp_path / "log.trace.csv", np.arange(9.0), {"q": np.arange(9.0)})
    path.write_text(path.read_text().replace("; 3000; 3", "; 3000; three"))
    with pytest.raises(InputError, match="damaged"):
        contents(path)
