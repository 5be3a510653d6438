"""Tables without names or without a clock: what the numbers themselves say."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import NOWHERE, InputError, UsageError, factor
from dynid.layouts import experiment_text, propose_logs
from dynid.layouts.nameless import _is_clock
from dynid.log import read_log
from dynid.robot import RobotModel
from tests.layouts.plants import RATE, UR_JOINTS, run
from tests.layouts.test_held import arm_with_finger

UR = run("ur10e", UR_JOINTS)
DDQ = np.gradient(UR.dq, 1 / RATE, axis=0)
EPOCH = 1_700_000_000.0
PARTS = {
    "t": UR.t[:, None], "epoch": EPOCH + UR.t[:, None], "ms": 1e3 * UR.t[:, None],
    "count": np.arange(len(UR.t))[:, None],
    "q": UR.q, "dq": UR.dq, "ddq": DDQ, "tau": UR.tau, "wanted": UR.wanted,
    "command": 0.97 * np.roll(UR.tau, 2, axis=0), "deg": np.rad2deg(UR.q),
}  # fmt: skip


def written(tmp_path: Path, *parts: str, head: str = "", name: str = "log.txt") -> Path:
    table = np.column_stack([PARTS[one] for one in parts])
    np.savetxt(tmp_path / name, table, delimiter=",", header=head, comments="", fmt="%.15g")
    return tmp_path / name


@pytest.mark.parametrize(
    ("parts", "time"),
    [
        (("t", "q", "dq", "tau"), "s"),
        (("ms", "q", "dq", "ddq", "tau"), "ms"),
        (("epoch", "q", "tau", "dq"), "s"),
        (("tau", "dq", "q", "t"), "s"),
        (("t", "q", "tau"), "s"),
        (("t", "tau", "deg"), "s"),
        (("count", "t", "q", "dq", "tau"), "s"),
        (("count", "q", "dq", "tau"), "1/100 s"),
        (("q", "dq", "tau"), "1/100 s"),
        (("tau", "q", "dq", "ddq"), "1/100 s"),
    ],
)
def test_columns_without_names_are_known_by_what_derives_from_what(
    parts: tuple[str, ...], time: str, tmp_path: Path
) -> None:
    found = propose_logs(UR.robot, [written(tmp_path, *parts)])
    assert [one.key for one in found.open] == []
    assert found["log.time.unit"].value == time
    assert found["log.position.unit"].value == ("deg" if "deg" in parts else "rad")
    assert found["log.effort.unit"].value == "N m"
    assert not found["log.position.columns"].sure or found["log.position.columns"].likely
    at = {part: sum(PARTS[one].shape[1] for one in parts[: parts.index(part)]) for part in parts}
    for kind, names in (("position", ("q", "deg")), ("velocity", ("dq",)), ("effort", ("tau",))):
        (part,) = [one for one in names if one in at] or [None]
        wanted = () if part is None else tuple(f"column[{at[part] + j}]" for j in range(6))
        assert tuple(found.groups[kind].columns.values() if kind in found.groups else ()) == wanted


def test_what_the_numbers_do_not_say_is_asked_with_the_groups(tmp_path: Path) -> None:
    found = propose_logs(UR.robot, [written(tmp_path, "t", "q")])
    assert [one.key for one in found.open] == ["log.position.columns", "log.effort.columns"]
    assert [one.value for one in found["log.position.columns"].options] == ["column[1:7]"]


@pytest.mark.parametrize(
    ("parts", "asked"), [(("t", "q", "tau", "command"), "effort"), (("t", "wanted", "q", "tau"), "position")]
)
def test_which_of_two_alike_was_measured_is_asked(parts: tuple[str, ...], asked: str, tmp_path: Path) -> None:
    found = propose_logs(UR.robot, [written(tmp_path, *parts)])
    assert f"log.{asked}.columns" in [one.key for one in found.open]
    assert len([one for one in found[f"log.{asked}.columns"].options if one.value.startswith("column[")]) == 2


NAMED = ",".join(f"q{k}" for k in range(1, 7)) + "," + ",".join(f"tau{k}" for k in range(1, 7))
SPEEDS = ",".join(f"dq{k}" for k in range(1, 7))


@pytest.mark.parametrize(
    ("parts", "head", "column"),
    [
        (("q", "tau", "dq"), f"{NAMED},{SPEEDS}", "row"),
        (("count", "q", "tau", "dq"), f"step,{NAMED},{SPEEDS}", "step"),
        (("count", "q", "tau", "dq"), f"Unnamed: 0,{NAMED},{SPEEDS}", "Unnamed: 0"),
    ],
)
def test_rows_are_the_clock_of_a_log_without_one(
    parts: tuple[str, ...], head: str, column: str, tmp_path: Path
) -> None:
    path = written(tmp_path, *parts, head=head)
    found = propose_logs(UR.robot, [path])
    assert (found["log.time.column"].value, found["log.time.unit"].value) == (column, "1/100 s")
    assert found["log.time.unit"].likely
    assert found.open == ()
    assert f'time = {{ column = "{column}", unit = "1/100 s" }}' in experiment_text(found, "dynid init")
    log = read_log(
        path, UR.robot, {
            "time": {"column": column, "unit": "1/100 s"}, "position": {"columns": "q{number}", "unit": "rad"},
        }
    )  # fmt: skip
    np.testing.assert_allclose(log.read(log.trajectories[0]).t, UR.t, rtol=0, atol=1e-12)
    pieces = list(log.chunks(log.trajectories[0], 333))
    np.testing.assert_allclose(np.concatenate([one.t for one in pieces]), UR.t, rtol=0, atol=1e-12)


@pytest.mark.parametrize("answer", ["100", "100 Hz", "1/100 s"])
def test_the_rate_of_rows_is_asked_where_nothing_says_it(answer: str, tmp_path: Path) -> None:
    path = written(tmp_path, "q", "tau", head=NAMED)
    found = propose_logs(UR.robot, [path])
    assert "log.time.unit" in [one.key for one in found.open]
    assert "log.time.column" not in [one.key for one in found.open]
    answered = propose_logs(UR.robot, [path], {"log.time.unit": answer})
    assert answered["log.time.unit"].value == "1/100 s"
    assert answered.open == ()


@pytest.mark.parametrize("constant", [{"dt": 0.01}, {"Ts": 0.01}, {"fs": 100}, {"sampling_rate": 100.0}])
def test_a_period_beside_the_arrays_is_that_of_their_rows(constant: dict[str, float], tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", q=UR.q, tau=UR.tau, **constant)  # type: ignore[arg-type]
    found = propose_logs(UR.robot, [tmp_path / "log.npz"])
    assert (found["log.time.column"].value, found["log.time.unit"].value) == ("row", "1/100 s")
    assert found.open == ()


def test_a_share_of_a_second_is_a_unit_of_time() -> None:
    assert factor("1/500 s", ("time",), NOWHERE) == ("time", 0.002)
    for unit, quantity in (("1/0 s", "time"), ("1/500", "time"), ("2/500 s", "time"), ("1/500 s", "angle")):
        with pytest.raises(InputError, match="unit"):
            factor(unit, (quantity,), NOWHERE)


COUNT = 2 * np.pi / 4096


def counted(tmp_path: Path) -> Path:
    names = [f"{kind}{k}" for kind in ("present_position_", "present_current_") for k in range(1, 7)]
    table = np.column_stack([UR.t, 2048 + np.round(UR.q / COUNT), np.round(UR.tau / 12 / 2.69e-3)])
    np.savetxt(
        tmp_path / "log.csv",
        table,
        delimiter=",",
        header=",".join(["time", *names]),
        comments="",
        fmt="%.10g",
    )
    return tmp_path / "log.csv"


def test_counts_are_shares_of_other_units(tmp_path: Path) -> None:
    path = counted(tmp_path)
    found = propose_logs(plain_arm(), [path])
    assert {"log.position.unit", "log.effort.unit"} <= {one.key for one in found.open}
    assert "1/4096 turn" in " ".join(found["log.position.unit"].why)
    answers = {"log.position.unit": "1/4096 turn", "log.effort.unit": "2.69 mA", "log.order": "base-to-tip"}
    found = propose_logs(plain_arm(), [path], answers)
    assert [one.key for one in found.open] == ["robot.drive_gain"]
    assert "1 A?" in found["robot.drive_gain"].question
    log = read_log(
        path, UR.robot, {
            "time": {"column": "time", "unit": "s"},
            "position": {
                "columns": "present_position_{number}", "unit": "1/4096 turn",
                "offset": dict.fromkeys(UR_JOINTS, -2048.0),
            },
        }
    )  # fmt: skip
    np.testing.assert_allclose(log.read(log.trajectories[0]).q, UR.q, rtol=0, atol=0.51 * COUNT)


@pytest.mark.parametrize(
    ("unit", "quantity", "value"),
    [("1/4096 turn", "angle", COUNT), ("0.088 deg", "angle", np.deg2rad(0.088)), ("2.69 mA", "current", 2.69e-3),
     ("0.229 rpm", "angular velocity", 0.229 * np.pi / 30), ("1e-3 N m", "torque", 1e-3), ("2 ms", "time", 2e-3)],
)  # fmt: skip
def test_multiples_of_units(unit: str, quantity: str, value: float) -> None:
    assert factor(unit, (quantity,), NOWHERE) == (quantity, pytest.approx(value, rel=1e-15))
    for wrong in (f"-{unit}", unit.replace(" ", ""), f"{unit} {unit}", "2 raw", "2 furlongs"):
        with pytest.raises(InputError, match="unit"):
            factor(wrong, (quantity,), NOWHERE)


RATIOS = (101.0, 121.0, 101.0, -81.0, 80.0, -50.0)


def test_counts_of_motors_are_read_through_the_gears_of_the_description(tmp_path: Path) -> None:
    geared = replace(UR.robot, drive=UR.robot.drive.with_constants(gear_ratio=dict(enumerate(RATIOS))))
    counts = np.round(UR.q * RATIOS / COUNT)
    table = np.column_stack([UR.t, counts, UR.tau])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header="time," + NAMED, comments="")
    asked = propose_logs(geared, [tmp_path / "log.csv"])["log.position.unit"]
    assert "log.position.side=motor" in asked.question
    answers = {"log.position.unit": "1/4096 turn", "log.position.side": "motor", "log.effort.side": "link"}
    found = propose_logs(geared, [tmp_path / "log.csv"], answers)
    assert found.open == ()
    mapping = tomllib.loads(experiment_text(found, "dynid init"))["log"]
    log = read_log(tmp_path / "log.csv", geared, mapping)
    np.testing.assert_allclose(log.read(log.trajectories[0]).q, UR.q, rtol=0, atol=COUNT / 50)
    with pytest.raises(UsageError, match="unknown-answer"):
        propose_logs(geared, [tmp_path / "log.csv"], answers | {"log.position.side": "shaft"})
    with pytest.raises(UsageError, match="not a question"):
        propose_logs(geared, [tmp_path / "log.csv"], answers | {"log.velocity.side": "motor"})


def test_gains_are_asked_for_and_guessed_in_amperes(tmp_path: Path) -> None:
    for unit, size in (("A", 1.0), ("mA", 1e-3)):
        names = [f"{kind}{k}" for kind in ("q", "i") for k in range(1, 7)]
        table = np.column_stack([UR.t, UR.q, UR.tau / 12 / size])
        np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=",".join(["time", *names]), comments="")
        found = propose_logs(plain_arm(), [tmp_path / "log.csv"], {"log.effort.unit": unit})[
            "robot.drive_gain"
        ]
        assert "1 A?" in found.question
        guess = [float(one) for one in found.why[-1].rpartition(" be ")[2].split(", ")]
        assert np.allclose(guess[:3], 12, rtol=0.25)


def plain_arm() -> RobotModel:
    """The same arm under a name for which no preset has gains."""
    return replace(UR.robot, name="arm")


@pytest.mark.parametrize("turn", ["deg", "rad"])
def test_angles_that_begin_anew_after_a_turn(turn: str, tmp_path: Path) -> None:
    whole = 360.0 if turn == "deg" else 2 * np.pi
    q = np.mod((np.rad2deg(UR.q) if turn == "deg" else UR.q), whole)
    table = np.column_stack([UR.t, q, UR.tau])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header="time," + NAMED, comments="")
    found = propose_logs(UR.robot, [tmp_path / "log.csv"])
    assert found.open == ()
    assert found["log.position.unit"].value == turn


def test_stretches_of_time_that_begins_anew_are_motions(tmp_path: Path) -> None:
    half = len(UR.t) // 2
    t = np.concatenate([UR.t[:half], UR.t[: len(UR.t) - half]])
    table = np.column_stack([t, UR.q, UR.tau])
    path = tmp_path / "log.csv"
    np.savetxt(path, table, delimiter=",", header="time," + NAMED, comments="")
    found = propose_logs(UR.robot, [path])
    assert found.open == ()
    assert (found["log.trajectory"].value, found["log.trajectory"].likely) == ("motion", True)
    assert 'trajectory = "motion"' in experiment_text(found, "dynid init")
    log = read_log(
        path, UR.robot, {
            "time": {"column": "time", "unit": "s"}, "trajectory": "motion",
            "position": {"columns": "q{number}", "unit": "rad"},
        }
    )  # fmt: skip
    assert [(one.name, one.row_count) for one in log.trajectories] == [
        ("log 1", half),
        ("log 2", len(t) - half),
    ]
    np.testing.assert_allclose(log.read(log.trajectories[1]).q, UR.q[half:])
    # A clock that is set back in the middle of the motion is no new beginning.
    table[:, 0] = np.concatenate([UR.t[:half], UR.t[half:] - 1.0])
    np.savetxt(path, table, delimiter=",", header="time," + NAMED, comments="")
    assert [one.key for one in propose_logs(UR.robot, [path]).open] == ["log.trajectory"]


def test_extra_columns_are_asked_for_once(tmp_path: Path) -> None:
    fingers = 0.04 * np.abs(np.sin(UR.t))[:, None] * [1, 1]
    names = ",".join(f"{kind}{k}" for kind in ("q", "tau") for k in range(1, 9))
    table = np.column_stack([UR.t, UR.q, fingers, UR.tau, fingers])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=f"time,{names}", comments="")
    assert [one.key for one in propose_logs(UR.robot, [tmp_path / "log.csv"]).open] == ["log.position.which"]
    answered = propose_logs(UR.robot, [tmp_path / "log.csv"], {"log.position.which": "first"})
    assert answered.open == ()
    assert tuple(answered.groups["effort"].columns.values()) == tuple(f"tau{k}" for k in range(1, 7))


def test_recordings_one_behind_the_other_begin_their_clock_anew() -> None:
    t = np.tile(np.arange(1000.0) / 100, 2)
    assert _is_clock(t)
    assert not _is_clock(np.concatenate([t[:1000], t[:1000] + 3.0]))  # it goes back, and not to its beginning
    assert not _is_clock(np.tile(np.arange(50.0), 40))  # a counter's turns
    assert not _is_clock(np.sin(t))


def test_a_table_without_names_of_two_recordings(tmp_path: Path) -> None:
    half = len(UR.t) // 2
    rows = [
        np.column_stack([UR.t[:half], x[a : a + half]])
        for a in (0, half)
        for x in [np.hstack([UR.q, UR.dq, UR.tau])]
    ]
    text = "\n\n".join("\n".join(" ".join(f"{x:.9f}" for x in row) for row in part) for part in rows)
    (tmp_path / "log.dat").write_text(text + "\n")
    found = propose_logs(UR.robot, [tmp_path / "log.dat"])
    assert not found.open
    assert found["log.effort.columns"].value == "column[13:19]"


def test_a_table_without_names_has_no_columns_of_a_hand(tmp_path: Path) -> None:
    """Of three joints and a finger's: twelve columns are four groups of three, not three of four."""
    robot = arm_with_finger(tmp_path)
    t = np.arange(0.0, 20.0, 0.01)
    q = np.column_stack([0.6 * np.sin(w * t + k) for k, w in enumerate((1.1, 1.7, 2.3))])
    dq = np.gradient(q, t, axis=0)
    ddq = np.gradient(dq, t, axis=0)
    tau = np.cos(np.cumsum(q, axis=1)) * [9.0, 5.0, 2.0] + ddq
    np.savetxt(tmp_path / "log.csv", np.hstack([t[:, None], q, dq, ddq, tau]), delimiter=",")
    found = propose_logs(robot, [tmp_path / "log.csv"])
    assert [one.key for one in found.open] == ["log.effort.unit"]
    assert found.locked == {"finger_joint": 0.0}
    assert tuple(found.groups["effort"].columns.values()) == tuple(f"column[{k}]" for k in (10, 11, 12))
