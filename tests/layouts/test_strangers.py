"""Layouts that strangers' programs write, of a simulated arm: read rightly, or asked so that the answer helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.io import savemat

from dynid import read_log
from dynid.base import Float, InputError, UsageError
from dynid.layouts import propose_logs
from tests.layouts.plants import UR_JOINTS, run

ARM = run("arm", tuple(f"joint{k}" for k in range(1, 7)))
UR = run("ur10e", UR_JOINTS)
DEG, TURN = 180 / np.pi, 1 / (2 * np.pi)
SINCE_1970 = 1_700_000_000.0


def numbered(name: str, values: Float, first: int = 1) -> dict[str, Float]:
    return {name.replace("#", str(k + first)): values[:, k] for k in range(values.shape[1])}


def csv(path: Path, columns: Mapping[str, Float | Sequence[str]], mark: str = ",", head: str = "") -> Path:
    rows = zip(
        *([f"{x:.15g}" if not isinstance(x, str) else x for x in one] for one in columns.values()),
        strict=True,
    )
    lines = [mark.join(columns), *(mark.join(row) for row in rows)]
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def reads(
    path: Path, dq: bool = True, tau: Float | None = None, rows: int | None = None, **answers: str
) -> None:
    """The log, of so many of the first rows, is read as the arm moved, whatever it is written in."""
    log = read_log(
        path, ARM.robot, answers={key.replace("__", "."): one for key, one in answers.items()} or None
    )
    (name,) = log.trajectories
    raw = log.read(name)
    assert_allclose(raw.q, ARM.q[:rows], atol=1e-6)
    assert_allclose(raw.tau, ARM.tau[:rows] if tau is None else tau, atol=1e-6)
    assert_allclose(np.diff(raw.t), np.diff(ARM.t[:rows]), atol=1e-5)
    if dq:
        assert_allclose(raw.dq, ARM.dq[:rows], atol=1e-6)


def asked(path: Path) -> dict[str, str]:
    return {one.key: one.question for one in propose_logs(ARM.robot, [path]).open}


# TwinCAT Scope View: a time before each channel, or one for all; the head says what channels are called.
PROPERTIES = (
    ("SymbolComment", ""), ("Data-Type", "REAL64"), ("SampleTime[ms]", "10"), ("VariableSize", "8"), ("Port", "851"),
    ("Offset", "0"), ("ScaleFactor", "1"),
)  # fmt: skip
SCOPE = {
    **numbered("Axis#.ActPos", ARM.q * DEG), **numbered("Axis#.ActVelo", ARM.dq * DEG),
    **numbered("Axis#.ActTorque", ARM.tau),
}  # fmt: skip


@pytest.mark.parametrize(
    ("mark", "decimal"),
    [("\t", ","), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((";", ","), ("\t", ".")))],
)
def test_a_time_before_each_channel_of_scope_view(mark: str, decimal: str, tmp_path: Path) -> None:
    head = [["Name", "Project"], ["File", "C:\\scope"], ["Starttime of export", "133500000000000000"], [""]]
    head += [[cell for name in SCOPE for cell in ("Name", name)]]
    head += [[cell for _ in SCOPE for cell in one] for one in PROPERTIES]
    rows = [[f"{x:.9f}" for one in SCOPE.values() for x in (1e3 * t, one[k])] for k, t in enumerate(ARM.t)]
    lines = [mark.join(one) for one in [*head, [""]]]
    lines += [mark.join(one).replace(".", decimal) for one in rows]
    (tmp_path / "scope.csv").write_text("\r\n".join([*lines, "EOF", ""]), encoding="utf-8")
    reads(tmp_path / "scope.csv")
    remarks = read_log(tmp_path / "scope.csv", ARM.robot).remarks
    assert "last-line" not in [one.identifier for one in remarks]


def test_one_time_for_all_channels_of_scope_view(tmp_path: Path) -> None:
    head = [
        ["Name", "Project", ""],
        ["File", "C:\\scope", ""],
        ["Starttime of export", "133500000000000000", ""],
        [],
    ]
    head += [["Name", *SCOPE], *([key, *[value] * len(SCOPE)] for key, value in PROPERTIES[:3])]
    rows = [[f"{1e3 * t:g}", *(f"{one[k]:.9f}" for one in SCOPE.values())] for k, t in enumerate(ARM.t)]
    (tmp_path / "scope.csv").write_text(
        "\n".join(",".join(one) for one in [*head, *rows]) + "\n", encoding="utf-8"
    )
    reads(tmp_path / "scope.csv")


@pytest.mark.parametrize("comment", ["\tComment", ""])
def test_measurement_files_of_labview(comment: str, tmp_path: Path) -> None:
    columns = {
        **numbered("Joint # Position (deg)", ARM.q * DEG), **numbered("Joint # Velocity (deg/s)", ARM.dq * DEG),
        **numbered("Joint # Torque (Nm)", ARM.tau),
    }  # fmt: skip
    n = len(columns)
    head = ["LabVIEW Measurement\t", "Writer_Version\t2", "Reader_Version\t2", "Separator\tTab", "X_Columns\tOne",
            "Date\t2019/07/22", "Time\t17:18:18.9389", "***End_of_Header***\t", "\t", f"Channels\t{n}" + "\t" * n,
            "Samples" + "\t2000" * n, "X_Dimension" + "\tTime" * n, "X0" + "\t0.0000000000000000E+0" * n,
            "Delta_X" + "\t0.010000" * n, "***End_of_Header***" + "\t" * n,
            "\t".join(["X_Value", *columns]) + comment]  # fmt: skip
    rows = [
        "\t".join([f"{t:.6f}", *(f"{one[k]:.9f}" for one in columns.values())]) for k, t in enumerate(ARM.t)
    ]
    (tmp_path / "log.lvm").write_text("\r\n".join([*head, *rows, ""]), encoding="utf-8")
    reads(tmp_path / "log.lvm")


@pytest.mark.parametrize("said", ["# sample rate: 100 Hz", "% dt = 0.01", "fs;100", "Ts [ms]: 10"])
def test_a_head_says_the_rate_of_rows_without_a_clock(said: str, tmp_path: Path) -> None:
    columns = numbered("q#", ARM.q) | numbered("tau#", ARM.tau)
    reads(csv(tmp_path / "log.csv", columns, head=f"# an arm\n{said}\n"), dq=False)
    assert "log.time.unit" in asked(csv(tmp_path / "other.csv", columns, head="# an arm\n# payload: 100\n"))


def test_a_head_of_blanks_is_read_as_any_other(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("q#", ARM.q) | numbered("tau#", ARM.tau)
    # Tried in every way that they can be shared out, so many blanks would take ten minutes.
    reads(
        csv(tmp_path / "log.csv", columns, head="# arm" + " " * 4000 + "x\n# fs:" + "\t" * 4000 + "100\n"),
        dq=False,
    )


def test_remarks_between_rows_are_none(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("q#", ARM.q) | numbered("tau#", ARM.tau)
    path = csv(tmp_path / "log.csv", columns)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[100:100] = ["# the arm was touched?", "", "  % and left alone"]
    path.write_text("\n".join(lines), encoding="utf-8")
    reads(path, dq=False)
    path.write_text("\n".join([*lines[:100], "# half", "1,2,3", *lines[104:]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"ragged-row.*3 cells; expected 13"):
        read_log(path, ARM.robot).read("log")


def test_numbers_with_commas_in_a_cell_are_a_list(tmp_path: Path) -> None:
    def joined(values: Float) -> list[str]:
        return ['"' + ",".join(f"{x:.15g}" for x in row) + '"' for row in values]

    columns = {
        "timestamp": SINCE_1970 + ARM.t,
        "joint_positions": joined(ARM.q),
        "joint_torques": joined(ARM.tau),
    }
    reads(csv(tmp_path / "log.csv", columns), dq=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SINCE_1970 + ARM.t, ARM.t),
        (ARM.t, 1e3 * ARM.t),
        (ARM.t, 1e9 * (SINCE_1970 + 0.3 + ARM.t)),
        (ARM.t, ARM.t),
    ],
)
def test_clocks_that_run_alike_are_one(first: Float, second: Float, tmp_path: Path) -> None:
    columns = {"wall_time": first, "robot_time": second} | numbered("q#", ARM.q) | numbered("tau#", ARM.tau)
    reads(csv(tmp_path / "log.csv", columns), dq=False)


def test_clocks_that_run_apart_are_a_question(tmp_path: Path) -> None:
    late = ARM.t + 0.02 * np.random.default_rng(3).random(len(ARM.t))
    columns = (
        {"wall_time": np.sort(late), "robot_time": ARM.t} | numbered("q#", ARM.q) | numbered("tau#", ARM.tau)
    )
    assert "log.time.column" in asked(csv(tmp_path / "log.csv", columns))


def test_structures_of_simulink_have_one_clock(tmp_path: Path) -> None:
    def signal(values: Float) -> dict[str, object]:
        return {"time": ARM.t[:, None], "signals": {"values": values, "label": "x"}}

    savemat(tmp_path / "out.mat", {"q": signal(ARM.q), "qd": signal(ARM.dq), "tau": signal(ARM.tau)})
    reads(tmp_path / "out.mat")


@pytest.mark.parametrize("also", [{}, {"u": ARM.tau}])
def test_states_side_by_side_are_positions_and_velocities(also: dict[str, Float], tmp_path: Path) -> None:
    state = np.column_stack([ARM.q, ARM.dq] if also else [ARM.q, ARM.dq, ARM.tau])
    np.savez(tmp_path / "log.npz", t=ARM.t, x=state, **also)
    reads(tmp_path / "log.npz")


def test_one_matrix_is_a_table_without_names(tmp_path: Path) -> None:
    savemat(tmp_path / "out.mat", {"ans": np.column_stack([ARM.t, ARM.q, ARM.dq, ARM.tau]).T})
    found = propose_logs(ARM.robot, [tmp_path / "out.mat"])
    assert found.open == ()
    assert tuple(found.groups["position"].columns.values()) == tuple(f"ans[{k}]" for k in range(1, 7))
    assert found["log.time.column"].value == "ans[0]"


@pytest.mark.parametrize(
    ("position", "angle", "torque", "size", "dq"),
    [
        ("pos_J#[mrad]", 1e3, "trq_J#[Ncm]", 100.0, "vel_J#[mrad/s]"),
        ("position_# [rev]", TURN, "torque_# [Nm]", 1.0, "velocity_# [rev/s]"),
    ],
)
def test_rare_units_are_units(
    position: str, angle: float, torque: str, size: float, dq: str, tmp_path: Path
) -> None:
    columns = {"t[ms]": 1e3 * ARM.t} | numbered(position, ARM.q * angle) | numbered(dq, ARM.dq * angle)
    reads(csv(tmp_path / "log.csv", columns | numbered(torque, ARM.tau * size)))


def test_turns_that_nobody_names_are_known_by_the_size_of_the_torque(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("position_#", ARM.q * TURN) | numbered("velocity_#", ARM.dq * TURN)
    reads(csv(tmp_path / "log.csv", columns | numbered("torque_#", ARM.tau)))
    # The size of a current says nothing.
    path = csv(tmp_path / "log.csv", columns | numbered("current_#", ARM.tau / 12))
    assert "6.28 times the angles: turns?" in asked(path)["log.position.unit"]
    gains = ", ".join(["12"] * ARM.robot.n)
    answers = {"log.position.unit": "turn", "log.effort.unit": "A", "robot.drive_gain": gains}
    assert not propose_logs(ARM.robot, [path], answers).open


def test_pulses_by_letters_take_a_unit_for_each_joint(tmp_path: Path) -> None:
    letters, a_degree = "SLURBT", np.array([1341.4, 1341.4, 1300.0, 1000.0, 900.0, 622.0])
    names = tuple(f"joint_{k + 1}_{letter.lower()}" for k, letter in enumerate(letters))
    robot = replace(UR.robot, joint_names=names, tree_joint_names=names)
    pulses = np.round(UR.q * DEG * a_degree)
    columns = {"time[ms]": UR.t * 1e3, **{f"{one} pulse": pulses[:, k] for k, one in enumerate(letters)}}
    path = csv(
        tmp_path / "log.csv", columns | {f"{one} torque": UR.tau[:, k] for k, one in enumerate(letters)}
    )
    assert "comma-separated value per joint" in propose_logs(robot, [path])["log.position.unit"].question
    units = ", ".join(f"1/{one:g} deg" for one in a_degree)
    log = read_log(path, robot, answers={"log.position.unit": units})
    assert_allclose(log.read(log.trajectories[0]).q, pulses / a_degree / DEG, atol=1e-9)
    with pytest.raises(UsageError, match="6 units from base to tip"):
        read_log(path, robot, answers={"log.position.unit": "1/1341.4 deg, 1/622 deg"})


def test_a_torque_that_drives_estimate_is_better_than_a_current_that_nobody_knows_the_worth_of(
    tmp_path: Path,
) -> None:
    columns = {
        "t": ARM.t,
        **numbered("node#_pos_estimate", ARM.q * TURN),
        **numbered("node#_vel_estimate", ARM.dq * TURN),
    }
    columns |= numbered("node#_torque_estimate", ARM.tau) | numbered("node#_iq_measured", ARM.tau / 12)
    path = csv(tmp_path / "log.csv", columns)
    reads(path)
    current = "node{number}_iq_measured"
    assert (
        propose_logs(ARM.robot, [path], {"log.effort.columns": current}).groups["effort"].family.template
        == current
    )
    geared = replace(ARM.robot, drive=replace(ARM.robot.drive, drive_gain=np.full(ARM.robot.n, 12.0)))
    assert propose_logs(geared, [path])["log.effort.columns"].value == current


def test_a_report_of_a_drive_says_the_torque_that_it_made(tmp_path: Path) -> None:
    columns = {
        "t": ARM.t,
        **numbered("servo#_position", ARM.q * TURN),
        **numbered("servo#_velocity", ARM.dq * TURN),
    }
    columns |= numbered("servo#_torque", ARM.tau) | numbered("servo#_q_current", ARM.tau / 12)
    assert "log.effort.columns" in asked(csv(tmp_path / "log.csv", columns))
    reads(csv(tmp_path / "log.csv", columns | numbered("servo#_temperature", 35.0 + 0.0 * ARM.q)))


def test_positions_that_no_name_says_are_what_other_columns_are_the_derivative_of(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("joint_dp#", ARM.dq) | numbered("joint_p#", ARM.q)
    reads(csv(tmp_path / "log.csv", columns | numbered("joint_u#", ARM.tau)))


def test_a_strange_unit_is_answered_by_what_it_is_worth(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("q#", ARM.q) | numbered("torque_# [kgcm]", ARM.tau / 0.0980665)
    path = csv(tmp_path / "log.csv", columns)
    with pytest.raises(InputError, match=r"log\.effort\.unit: .*'kgcm', which is not a known unit; it is"):
        read_log(path, ARM.robot)
    reads(path, dq=False, log__effort__unit="0.0980665 N m")


def test_only_what_no_other_answer_settles_is_asked_first(tmp_path: Path) -> None:
    columns = (
        {"a_time": ARM.t, "b_time": ARM.t**1.01} | numbered("q#", ARM.q * 1000) | numbered("torque#", ARM.tau)
    )
    with pytest.raises(InputError, match=r"log\.time\.column: which is the clock") as found:
        read_log(csv(tmp_path / "log.csv", columns), ARM.robot)
    assert "log.time.unit" not in str(found.value)
    assert "log.effort.unit" not in str(found.value)


def test_efforts_of_simulators_that_have_none_are_none(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("position#", ARM.q) | numbered("effort#", 0 * ARM.q)
    path = csv(tmp_path / "log.csv", columns)
    assert asked(path) == {
        "log.effort.columns": "which columns are the effort? 'effort{number}' is 0 in every row"
    }


def _stamps(unit: float) -> dict[str, Float]:
    late = np.round(unit * (SINCE_1970 + ARM.t + 2e-3 * np.random.default_rng(1).random(len(ARM.t))))
    return {"time": np.sort(late), "field.header.stamp": unit * (SINCE_1970 + ARM.t)}


@pytest.mark.parametrize("unit", [1e9, 1e3])
def test_the_stamp_of_a_message_is_its_time_in_any_unit(unit: float, tmp_path: Path) -> None:
    columns = _stamps(unit) | numbered("field.position#", UR.q, 0) | numbered("field.effort#", UR.tau, 0)
    found = propose_logs(UR.robot, [csv(tmp_path / "log.csv", columns)])
    assert found["log.time.column"].value == "field.header.stamp"


WRITERS: dict[str, Callable[[Path], Path]] = {
    "interleaved, wanted and measured": lambda path: csv(
        path / "log.csv",
        {"time": ARM.t, "phase": np.ones(len(ARM.t))}
        | numbered("q_des_#", ARM.wanted, 0) | numbered("q_meas_#", ARM.q, 0) | numbered("q_motor_#", 0.5 - ARM.q, 0)
        | numbered("dq_meas_#", ARM.dq, 0) | numbered("tau_meas_#", ARM.tau, 0),
    ),
    "planned without a word": lambda path: csv(
        path / "log.csv",
        {"t": ARM.t} | numbered("q_#", ARM.wanted) | numbered("q_real_#", ARM.q) | numbered("dq_real_#", ARM.dq)
        | numbered("tau_#", 0.9 * ARM.tau) | numbered("tau_real_#", ARM.tau),
    ),
    "capital letters, a wrist sensor": lambda path: csv(
        path / "log.csv",
        {"Time": ARM.t} | numbered("Q#", ARM.q) | numbered("dQ#", ARM.dq) | numbered("FT#", np.cos(ARM.q))
        | numbered("Torque#_Nm", ARM.tau),
    ),
    "semicolons, ages of values": lambda path: csv(
        path / "log.csv",
        {"Timestamp": ARM.t} | numbered("TargetPosition#", ARM.wanted)
        | numbered("CalculatedActualPosition#", 0.99 * ARM.q)
        | numbered("ActualPosition#", ARM.q) | numbered("ActualPositionTimestamp#", ARM.t[:, None] + 0 * ARM.q)
        | numbered("ActualPositionAgeMs#", 2 + 0 * ARM.q) | numbered("ActualVelocity#", ARM.dq)
        | numbered("ActualTorque#", ARM.tau),
        ";",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_measured_signals_are_read(name: str, tmp_path: Path) -> None:
    reads(WRITERS[name](tmp_path))


@pytest.mark.parametrize("first", [45356.5, 739_316.25])
def test_days_of_spreadsheets_are_known_by_their_steps(first: float, tmp_path: Path) -> None:
    columns = {"Timestamp": first + ARM.t / 86400, **numbered("q#", ARM.q), **numbered("tau#", ARM.tau)}
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])
    assert (found["log.time.unit"].value, [*found.open]) == ("day", [])


@pytest.mark.parametrize("first", [20_000.0, 45356.5])
def test_seconds_that_look_like_days_are_seconds(first: float, tmp_path: Path) -> None:
    columns = {"Timestamp": first + ARM.t, **numbered("q#", ARM.q), **numbered("tau#", ARM.tau)}
    assert propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])["log.time.unit"].value == "s"


def test_what_the_status_of_a_drive_holds_is_measured(tmp_path: Path) -> None:
    columns = {"Zeit / ms": 1e3 * ARM.t, **numbered("Axis_#.ActualPosition", ARM.q * DEG)}
    columns |= numbered("Axis_#.StatusTorqueData.ActualTorque", ARM.tau)
    columns |= numbered("Axis_#.ActualTorqueStatus", np.round(np.abs(ARM.tau)))
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])
    assert not found.open
    assert found["log.effort.columns"].value == "Axis_{number}.StatusTorqueData.ActualTorque"


@pytest.mark.parametrize("name", ["Time", "unix", "Zeit [s]"])
def test_stamps_in_full_seconds_say_the_rate(name: str, tmp_path: Path) -> None:
    t = ARM.t + 0.374
    times: Float | list[str] = np.floor(t) + (SINCE_1970 if name != "Zeit [s]" else 0.0)
    if name == "Time":
        times = [f"05-Mar-2024 14:59:{int(x):02}" for x in t]
    columns = {
        name if name != "unix" else "time": times,
        **numbered("q#", ARM.q),
        **numbered("tau#", ARM.tau),
    }
    reads(csv(tmp_path / "log.csv", columns), dq=False)


@pytest.mark.parametrize("pause", [0, 40])
def test_full_seconds_of_other_counts_of_rows_say_no_rate(pause: int, tmp_path: Path) -> None:
    kept = np.flatnonzero((np.arange(len(ARM.t)) % 300 >= pause) & (np.arange(len(ARM.t)) >= pause))
    t = np.floor(ARM.t if pause else ARM.t / 0.04)  # with pauses, or rows for each of which some seconds pass
    columns = {"time": SINCE_1970 + t, **numbered("q#", ARM.q), **numbered("tau#", ARM.tau)}
    path = csv(tmp_path / "log.csv", {key: np.asarray(one)[kept] for key, one in columns.items()})
    assert "log.time.unit" in asked(path)
