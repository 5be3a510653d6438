"""Series one behind the other in a file are columns side by side; recordings one behind the other are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.log import file_hash, open_table
from tests.layouts.test_strangers import ARM, csv, numbered, reads

START = 1.7e9


def plotted(path: Path, head: str, stamps: bool) -> Path:
    """What Foxglove's Plot panel exports."""
    lines = [head]
    series = {f"/joint_states.position[{k}]": one for k, one in enumerate(ARM.q.T)}
    series |= {f"/joint_states.effort[{k}]": one for k, one in enumerate(ARM.tau.T)}
    for topic, values in series.items():
        for t, value in zip(ARM.t, values, strict=True):
            times = f"{t},{START + t + 0.001:.6f},{START + t:.6f}" if stamps else f"{START + t:.6f}"
            lines.append(f"{times},{topic},{value:.12g}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("head", "stamps"),
    [("timestamp,topic,value", False), ('"x","receive time","header.stamp","topic","value"', True)],
)
def test_a_plot_of_foxglove(head: str, stamps: bool, tmp_path: Path) -> None:
    path = plotted(tmp_path / "plot.csv", head, stamps)
    reads(path, dq=False)
    table = open_table(path)
    assert table.column_names[1] == "/joint_states.position[0]"
    assert getattr(table, "sha256", None) is None
    assert len(file_hash(path)) == 64


def test_annotated_tables_of_influxdb(tmp_path: Path) -> None:
    series = {f"position_{k + 1}": one for k, one in enumerate(ARM.q.T)}
    series |= {f"effort_{k + 1}": one for k, one in enumerate(ARM.tau.T)}
    lines: list[str] = []
    for k, (name, values) in enumerate(series.items()):
        lines += ["#datatype,string,long,dateTime:RFC3339,double,string", "#default,_result,,,,"]
        lines += [",result,table,_time,_value,_field"]
        times = [f"2024-05-04T12:00:{t:09.6f}Z" for t in ARM.t]
        lines += [f",,{k},{t},{value:.12g},{name}" for t, value in zip(times, values, strict=True)]
        lines += [""]
    (tmp_path / "log.csv").write_text("\n".join([*lines, ""]))
    reads(tmp_path / "log.csv", dq=False)


@pytest.mark.parametrize("number", [False, True])
def test_the_rows_of_each_joint_in_one_piece(number: bool, tmp_path: Path) -> None:
    lines = ["joint,time,position,velocity,effort"]
    for k, joint in enumerate(ARM.robot.joint_names):
        values = zip(ARM.t, ARM.q[:, k], ARM.dq[:, k], ARM.tau[:, k], strict=True)
        lines += [",".join([str(k) if number else joint, *(f"{x:.12g}" for x in row)]) for row in values]
    (tmp_path / "log.csv").write_text("\n".join([*lines, ""]))
    reads(tmp_path / "log.csv")


def test_series_with_other_stamps_and_rows_are_brought_to_those_of_the_slowest(tmp_path: Path) -> None:
    lines = ["series,t,value"]
    for name, step in (("a", 0.01), ("b", 0.03)):
        lines += [
            f"{name},{t:.6f},{np.sin(5 * t):.6f}" for t in np.arange(0.005 if name == "b" else 0, 2, step)
        ]
    (tmp_path / "log.csv").write_text("\n".join([*lines, ""]))
    (batch,) = open_table(tmp_path / "log.csv").batches(("t", "a", "b"), 1000)
    t = np.asarray(batch["t"])
    np.testing.assert_allclose(np.diff(t), 0.03)
    np.testing.assert_allclose(batch["a"], np.sin(5 * t), atol=1e-3)
    np.testing.assert_allclose(batch["b"], np.sin(5 * t), atol=1e-6)


@pytest.mark.parametrize("anew", [False, True])
def test_recordings_of_one_joint_after_the_other_stay_as_they_are(anew: bool, tmp_path: Path) -> None:
    half = len(ARM.t) // 2
    t = np.concatenate([ARM.t[:half], ARM.t[half:] - (ARM.t[half] if anew else 0)])
    moved = ["1"] * half + ["2"] * (len(ARM.t) - half)
    columns = {"t": t, "joint": moved, **numbered("q#", ARM.q), **numbered("tau#", ARM.tau)}
    assert open_table(csv(tmp_path / "log.csv", columns)).column_names == tuple(columns)
