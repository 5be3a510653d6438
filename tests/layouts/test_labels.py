"""Logs whose own text names the joints, and stamps in two columns: tables of joint states as ROS prints them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import propose_logs
from dynid.layouts.names import joint_labels
from dynid.log import open_table, split_stamps, write_log
from dynid.log.readers.dialect import joint_state_names
from tests.layouts.plants import UR_JOINTS, Layout, mistakes, run

UR = run("ur10e", UR_JOINTS)
ORDER = (3, 0, 5, 1, 4, 2)
EPOCH = 1_700_000_000


def _messages(order: Sequence[int] = ORDER, more: tuple[str, ...] = ()) -> Layout:
    """Joint states with names, and the stamp in two columns; `more`: joints of a gripper in the same messages."""
    names = [*(UR_JOINTS[j] for j in order), *more]
    still = np.zeros((len(UR.t), len(more)))
    columns = {
        "stamp.secs": EPOCH + np.floor(UR.t),
        "stamp.nsecs": np.round(1e9 * (UR.t % 1.0)),
        **{f"name{k}": np.full(len(UR.t), one) for k, one in enumerate(names)},
    }
    truth, units = {"time": ("stamp.secs + stamp.nsecs",)}, {"time": "s"}
    for kind, values, unit in (("position", UR.q, "rad"), ("effort", UR.tau, "N m")):
        numbers = np.hstack([values[:, list(order)], still])
        columns |= {f"{kind}{k}": numbers[:, k] for k in range(len(names))}
        truth[kind] = tuple(f"{kind}{list(order).index(j)}" for j in range(len(order)))
        units[kind] = unit
    return Layout("messages", UR.robot, columns, truth, units)


@pytest.mark.parametrize("more", [(), ("finger_left", "finger_right")])
@pytest.mark.parametrize("order", [ORDER, tuple(range(6))])
def test_text_in_the_log_says_which_number_is_which_joint(
    order: tuple[int, ...], more: tuple[str, ...], tmp_path: Path
) -> None:
    layout = _messages(order, more)
    found = propose_logs(layout.robot, [layout.write(tmp_path / "log.parquet")])
    assert mistakes(layout, found) == []
    assert [one.key for one in found.open] == []
    for channel in ("position", "effort"):
        assert tuple(found.groups[channel].columns.values()) == layout.truth[channel]


def test_joints_that_the_messages_lack_are_asked_for_by_name(tmp_path: Path) -> None:
    whole = _messages()
    lost = ORDER.index(4)
    kept = {k: v for k, v in whole.columns.items() if not k.endswith(str(lost))}
    last = {f"{kind}5": f"{kind}{lost}" for kind in ("name", "position", "effort")}
    columns = {last.get(k, k): v for k, v in kept.items()}
    found = propose_logs(UR.robot, [replace(whole, columns=columns).write(tmp_path / "log.parquet")])
    assert [one.key for one in found.open] == ["robot.lock.wrist_2_joint"]
    assert found.groups["position"].columns["wrist_3_joint"] == f"position{ORDER.index(5) % 5}"


def test_labels_that_change_or_name_no_joint_say_nothing() -> None:
    joints = ("a1", "a2", "a3")
    same = {f"name{k}": [one] * 4 for k, one in enumerate(("a2", "a3", "a1"))}
    assert joint_labels(same, joints) is not None
    assert joint_labels(same | {"name1": ["a3", "a3", "a1", "a3"]}, joints) is None
    assert joint_labels({f"name{k}": ["base"] * 4 for k in range(3)}, joints) is None
    assert joint_labels({f"name{k}": ["a1"] * 4 for k in range(3)}, joints) is None


@pytest.mark.parametrize("arrays", [1, 3])
def test_joint_states_echoed_without_a_header_line(arrays: int, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    fields = (UR.q, UR.dq, UR.tau)[:arrays]
    names = [UR_JOINTS[j] for j in ORDER]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        for k, t in enumerate(UR.t):
            stamp = [EPOCH + int(t), round(1e9 * (t % 1.0)), ""]
            rows.writerow([*stamp, *names, *(f"{values[k, j]:.9g}" for values in fields for j in ORDER)])
    found = propose_logs(UR.robot, [path])
    assert found["log.time.column"].value == "header.stamp.sec + header.stamp.nanosec"
    where = {joint: f"[{ORDER.index(j)}]" for j, joint in enumerate(UR_JOINTS)}
    assert found.groups["position"].columns == {j: f"position{at}" for j, at in where.items()}
    assert ("effort" in found.groups) == (arrays == 3)
    if arrays == 3:
        assert found.groups["effort"].columns == {j: f"effort{at}" for j, at in where.items()}
        assert [one.key for one in found.open] == []


@pytest.mark.parametrize(
    "row",
    [
        "1700000000,5,base,0.1,0.2",
        "1700000000.5,5,base,a,b,0.1,0.2",
        "1700000000,5000000000,base,a,b,0.1,0.2",
        "1700000000,5,base,a,b,0.1,0.2,0.3",
        "1700000000,5,base,a,a,0.1,0.2",
        "1700000000,5,base,a,b",
        "1700000000,5,base,a,b,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8",
        "0,1,2,a,b,0.1,0.2",
        "0.1,0.2,0.3",
    ],
)
def test_other_rows_are_no_joint_states(row: str) -> None:
    assert joint_state_names(row.split(",")) == ()


def test_two_arrays_leave_open_which_the_second_is() -> None:
    names = joint_state_names(["1", "0", "", "a", "b", "1", "2", "3", "4"])
    assert names[-2:] == ("velocity_or_effort[0]", "velocity_or_effort[1]")


@pytest.mark.parametrize(
    ("seconds", "nanoseconds"),
    [
        ("sec", "nanosec"),
        ("secs", "nsecs"),
        ("header.stamp.sec", "header.stamp.nanosec"),
        ("timestamp_sec", "timestamp_nsec"),
        ("stampSec", "stampNanoSec"),
        ("/joint_states/header/stamp/sec", "/joint_states/header/stamp/nanosec"),
        ("Seconds", "Nanoseconds"),
        ("time_stamp_sec", "time_stamp_nano_sec"),
        ("stamp_secs", "stamp_nano_secs"),
        ("t_seconds", "t_nano_seconds"),
        ("secs", "nanosecs"),
        ("stampSec", "stampNSec"),
    ],
)
def test_seconds_and_nanoseconds_belong_together(seconds: str, nanoseconds: str) -> None:
    names = ["q1", nanoseconds, seconds]
    assert split_stamps(names) == {f"{seconds} + {nanoseconds}": (seconds, nanoseconds)}


@pytest.mark.parametrize(("name", "second"), [("time_nano_sec", 10**9), ("usec", 10**6), ("time_ms", 1000)])
def test_the_rest_of_a_second_is_no_clock(name: str, second: int, tmp_path: Path) -> None:
    rest = np.round((UR.t + 0.3) % 1.0 * second) % second
    q = {f"q_{joint}": UR.q[:, j] for j, joint in enumerate(UR_JOINTS)}
    found = propose_logs(UR.robot, [write_log(tmp_path / "log.parquet", UR.t, {name: rest, **q})])
    assert found["log.time.column"].value == "t"
    columns = {name: rest, **q}
    np.savetxt(
        tmp_path / "a.csv",
        np.column_stack(list(columns.values())),
        delimiter=",",
        header=",".join(columns),
        comments="",
    )
    found = propose_logs(UR.robot, [tmp_path / "a.csv"])
    assert found["log.time.column"].value == "row"
    assert "log.time.unit" in {one.key for one in found.open}


def test_other_units_of_time_are_whole_clocks() -> None:
    assert not split_stamps(["msec", "usec", "time_ms", "t_sec", "header_nsec", "elapsed_nsec"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_whole_stamp_is_the_sum(kind: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv as pacsv
    from pyarrow import parquet as pq

    n = 700
    whole = np.arange(n) * 10_000_000 + 1_700_000_000_990_000_000
    table = pa.table({"sec": whole // 10**9, "nanosec": whole % 10**9, "q": np.arange(n, dtype=float)})
    path = tmp_path / f"log.{kind}"
    (pq.write_table if kind == "parquet" else pacsv.write_csv)(table, path)
    opened = open_table(path)
    assert opened.column_names == ("sec", "nanosec", "q", "sec + nanosec")
    batches = list(opened.batches(("sec + nanosec", "q"), 256, 10, 600))
    t = np.concatenate([np.asarray(one["sec + nanosec"]) for one in batches])
    # One step of a double at this time is 2.4e-7 s.
    np.testing.assert_allclose(t - 1_700_000_000, 0.99 + 0.01 * np.arange(10, 600), atol=3e-7)
    np.testing.assert_array_equal(
        np.concatenate([np.asarray(one["q"]) for one in batches]), np.arange(10, 600)
    )
