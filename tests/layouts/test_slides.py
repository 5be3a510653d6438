"""Robots with joints that slide: columns in millimetres beside others in degrees, or alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float
from dynid.layouts import answer_option, experiment_text, propose_logs, summary_lines
from dynid.layouts.names import columns_of_slide, families
from dynid.log import read_log
from dynid.log.mapping import RATED
from dynid.robot import load_robot

LINK = '<link name="{0}"><inertial><origin xyz="{1}"/><mass value="{2}"/><inertia ixx="{3}" iyy="{3}" izz="{3}" ixy="0" ixz="0" iyz="0"/></inertial></link>'  # noqa: E501
JOINT = '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><origin xyz="{} 0 0"/><axis xyz="0 0 1"/><limit lower="{}" upper="{}" velocity="9" effort="200"/></joint>'  # noqa: E501
SCARA = (
    '<robot name="scara"><link name="base"/>'
    + LINK.format("arm", "0.2 0 0", 9.0, 0.1)
    + LINK.format("forearm", "0.15 0.01 0", 6.0, 0.05)
    + LINK.format("spindle", "0.01 0 0", 2.0, 0.01)
    + LINK.format("flange", "0.03 0.01 0", 1.0, 0.005)
    + JOINT.format("j1", "revolute", "base", "arm", 0, -2.5, 2.5)
    + JOINT.format("j2", "revolute", "arm", "forearm", 0.35, -2.5, 2.5)
    + JOINT.format("j3", "prismatic", "forearm", "spindle", 0.3, -0.2, 0)
    + JOINT.format("j4", "revolute", "spindle", "flange", 0, -6, 6)
    + "</robot>"
)
SLIDES = np.array([False, False, True, False])


def motion(path: Path) -> tuple[Float, Float, Float, Float]:
    model = pin.buildModelFromUrdf(str(path))
    data, rng, t = model.createData(), np.random.default_rng(3), np.arange(4000) / 200.0
    rate, phase = rng.uniform(1, 5, (3, 4)), rng.uniform(0, 6, (3, 4))
    size, angle = np.array([0.7, 0.8, 0.03, 1.5]), t[:, None, None] * rate + phase
    q = size * np.sin(angle).sum(1) - np.array([0, 0, 0.1, 0])
    dq, ddq = size * (rate * np.cos(angle)).sum(1), -size * (rate**2 * np.sin(angle)).sum(1)
    tau = np.array([pin.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)])
    return t, q, dq, tau + 0.02 * np.abs(tau).max(axis=0) * np.sign(dq)


@pytest.mark.parametrize("length", [("mm", "mm/s", 1e3), ("m", "m/s", 1.0)])
def test_a_slide_is_read_in_its_own_units(length: tuple[str, str, float], tmp_path: Path) -> None:
    robot_file, log_file = tmp_path / "scara.urdf", tmp_path / "log.csv"
    robot_file.write_text(SCARA)
    unit, speed, scale = length
    t, q, dq, tau = motion(robot_file)
    factor = np.where(SLIDES, scale, np.rad2deg(1.0))
    names = ["time [s]"]
    names += [f"J{k + 1} position [{unit if SLIDES[k] else 'deg'}]" for k in range(4)]
    names += [f"J{k + 1} velocity [{speed if SLIDES[k] else 'deg/s'}]" for k in range(4)]
    names += [f"J{k + 1} force [N]" if SLIDES[k] else f"J{k + 1} torque [Nm]" for k in range(4)]
    table = np.column_stack([t, q * factor, dq * factor, tau])
    np.savetxt(log_file, table, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    found = propose_logs(robot, [log_file])
    assert not found.open
    assert not found.unused
    log = read_log(log_file, robot, tomllib.loads(experiment_text(found, "dynid init"))["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    assert chunk.dq is not None
    assert chunk.tau is not None
    rows = slice(0, len(chunk.q))
    for measured, true in ((chunk.q, q), (chunk.dq, dq), (chunk.tau, tau)):
        np.testing.assert_allclose(measured, true[rows], atol=1e-6)


def test_a_slide_whose_current_stands_among_the_others_is_no_joint_that_is_held(tmp_path: Path) -> None:
    """As recorders of SCARAs write: positions in deg and mm, and amperes of all motors."""
    robot_file, log_file = tmp_path / "scara.urdf", tmp_path / "log.csv"
    robot_file.write_text(SCARA)
    t, q, _, tau = motion(robot_file)
    gains = np.array([14.0, 9.0, 60.0, 0.8])
    names = ["time [s]", *(f"J{k + 1} position [{'mm' if SLIDES[k] else 'deg'}]" for k in range(4))]
    names += [f"J{k + 1} current [A]" for k in range(4)]
    table = np.column_stack([t, q * np.where(SLIDES, 1e3, np.rad2deg(1.0)), tau / gains])
    np.savetxt(log_file, table, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    few = propose_logs(robot, [log_file], {"robot.drive_gain": "14, 9, 0.8"})
    assert [one.key for one in few.open] == ["robot.drive_gain"]
    assert "4 numbers" in few.open[0].question
    assert "not '14, 9, 0.8'" in few.open[0].question
    found = propose_logs(robot, [log_file], {"robot.drive_gain": "14, 9, 60, 0.8"})
    assert not found.open
    assert not found.unused
    assert not found.locked
    written = tomllib.loads(experiment_text(found, "dynid init"))
    assert written["robot"]["drive_gain"] == dict(zip(robot.joint_names, gains, strict=True))
    assert written["log"]["position"]["unit"] == {"j1": "deg", "j2": "deg", "j3": "mm", "j4": "deg"}
    assert written["log"]["effort"]["columns"] == {f"j{k + 1}": f"J{k + 1} current [A]" for k in range(4)}
    assert set(written["log"]["effort"]["unit"].values()) == {"A"}


def test_columns_that_were_commanded_or_are_two_say_nothing() -> None:
    columns = ["z_pos_mm", "z_vel_mm_s", "z force [N]"]
    assert columns_of_slide("z", columns) == {
        "position": ("z_pos_mm", "mm"),
        "velocity": ("z_vel_mm_s", "mm/s"),
        "effort": ("z force [N]", "N"),
    }
    assert columns_of_slide("z", ["z_target_mm", "z_pos_mm"]) == {"position": ("z_pos_mm", "mm")}
    assert columns_of_slide("z", ["z_pos_mm", "z2 pos mm", "z (mm)"]) == {}
    assert columns_of_slide("y", columns) == {}


GANTRY = (
    '<robot name="gantry"><link name="frame"/>'
    + LINK.format("bridge", "0 0 0", 30.0, 1.0)
    + LINK.format("trolley", "0 0 0", 12.0, 0.2)
    + LINK.format("ram", "0 0 0", 8.0, 0.1)
    + "".join(
        f'<joint name="axis_{name}" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="{axis}"/><limit lower="-0.8" upper="0.8" velocity="4" effort="800"/></joint>'
        for name, parent, child, axis in (
            ("x", "frame", "bridge", "1 0 0"),
            ("y", "bridge", "trolley", "0 1 0"),
            ("z", "trolley", "ram", "0 0 1"),
        )
    )
    + "</robot>"
)


def gantry_motion(path: Path) -> tuple[Float, Float, Float, Float]:
    """Of slides alone: gravity holds the last one, and each accelerates what it carries."""
    model = pin.buildModelFromUrdf(str(path))
    data, rng, t = model.createData(), np.random.default_rng(5), np.arange(3000) / 200.0
    rate, phase = rng.uniform(1, 5, (3, 3)), rng.uniform(0, 6, (3, 3))
    angle = t[:, None, None] * rate + phase
    q = 0.2 * np.sin(angle).sum(1)
    dq, ddq = 0.2 * (rate * np.cos(angle)).sum(1), -0.2 * (rate**2 * np.sin(angle)).sum(1)
    tau = np.array([pin.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)])
    return t, q, dq, tau + 2.0 * np.sign(dq)


@pytest.mark.parametrize(
    ("names", "factors", "answers"),
    [
        (("Axis {} pos [mm]", "Axis {} vel [mm/s]", "Axis {} force [N]"), (1e3, 1e3, 1.0), {}),
        (("Axis {} pos [m]", "Axis {} vel [m/s]", "Axis {} force [kN]"), (1.0, 1.0, 1e-3), {}),
        (("axis_{}_mm", "axis_{}_vel_mm_s", "axis_{}_force_n"), (1e3, 1e3, 1.0), {}),
        # Nothing but the limits, the derivative and the masses say which units these are in.
        (("axis_{}_pos", "axis_{}_vel", "axis_{}_effort"), (1e3, 1.0, 1.0), {}),
        (("axis_{}_pos", "axis_{}_vel", "axis_{}_effort"), (1.0, 1e3, 1.0), {}),
        (("q_{number}", "dq_{number}", "force_{number}"), (1e3, 1e3, 1.0), {}),
        (
            ("axis_{}_pos", "axis_{}_vel", "axis_{}_effort"),
            (1e3, 1e3, 1e-3),
            {"log.position.unit": "mm", "log.velocity.unit": "mm/s", "log.effort.unit": "kN"},
        ),
    ],
)
def test_where_all_joints_slide_units_are_those_of_length_and_force(
    names: tuple[str, ...], factors: tuple[float, ...], answers: dict[str, str], tmp_path: Path
) -> None:
    robot_file, log_file = tmp_path / "gantry.urdf", tmp_path / "log.csv"
    robot_file.write_text(GANTRY)
    t, *signals = gantry_motion(robot_file)
    heads = ["time [s]"]
    heads += [name.format(axis, number=k + 1) for name in names for k, axis in enumerate("XYZ")]
    table = np.column_stack([t, *(one * factor for one, factor in zip(signals, factors, strict=True))])
    np.savetxt(log_file, table, delimiter=",", header=",".join(heads), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    found = propose_logs(robot, [log_file], answers)
    assert not found.open
    log = read_log(log_file, robot, tomllib.loads(experiment_text(found, "dynid init"))["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    for measured, true in zip((chunk.q, chunk.dq, chunk.tau), signals, strict=True):
        assert measured is not None
        np.testing.assert_allclose(measured, true, atol=1e-5, rtol=1e-6)


WITH_WRIST = GANTRY.replace(
    "</robot>",
    LINK.format("flange", "0.02 0.01 0", 1.5, 0.01)
    + JOINT.format("axis_c", "revolute", "ram", "flange", 0, -4, 4)
    + "</robot>",
)


@pytest.mark.parametrize("effort", ["forces", "currents"])
@pytest.mark.parametrize("wrists", [1, 2])
def test_a_wrist_that_turns_under_three_slides_is_read_beside_them(
    wrists: int, effort: str, tmp_path: Path
) -> None:
    """As controllers of gantries write: most columns in mm, those of the wrist in deg."""
    text, axes = WITH_WRIST, "xyzc"
    if wrists == 2:
        more = LINK.format("tool", "0 0.02 0.03", 0.8, 0.004)
        more += JOINT.format("axis_a", "revolute", "flange", "tool", 0.1, -4, 4).replace("0 0 1", "1 0 0")
        text, axes = text.replace("</robot>", more + "</robot>"), "xyzca"
    robot_file, log_file = tmp_path / "gantry.urdf", tmp_path / "log.csv"
    robot_file.write_text(text)
    model = pin.buildModelFromUrdf(str(robot_file))
    n, data, rng, t = model.nv, model.createData(), np.random.default_rng(5), np.arange(3000) / 200.0
    rate, phase = rng.uniform(1, 5, (3, n)), rng.uniform(0, 6, (3, n))
    size, angle = np.where(np.arange(n) < 3, 0.2, 0.9), t[:, None, None] * rate + phase
    q, dq, ddq = (
        size * np.sin(angle).sum(1), size * (rate * np.cos(angle)).sum(1), -size * (rate**2 * np.sin(angle)).sum(1)
    )  # fmt: skip
    tau = np.array([pin.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)]) + 0.5 * np.sign(dq)
    slides, gains = np.arange(n) < 3, np.array([70.0, 60.0, 50.0, 2.0, 1.5])[:n]
    heads = [
        "time [s]",
        *(f"axis_{a}_ActPos [{'mm' if s else 'deg'}]" for a, s in zip(axes, slides, strict=True)),
    ]
    if effort == "forces":
        heads += [
            f"axis_{a}_Act{'Force [N]' if s else 'Torque [Nm]'}" for a, s in zip(axes, slides, strict=True)
        ]
    else:
        heads += [f"axis_{a}_Current [A]" for a in axes]
    heads += [f"axis_{a}_FollErr" for a in axes]
    logged = tau if effort == "forces" else tau / gains
    scale = np.where(slides, 1e3, np.rad2deg(1.0))
    table = np.column_stack([t, q * scale, logged, 1e-3 * rng.normal(size=q.shape)])
    np.savetxt(log_file, table, delimiter=",", header=",".join(heads), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    answers = {} if effort == "forces" else {"robot.drive_gain": ", ".join(str(one) for one in gains)}
    found = propose_logs(robot, [log_file], answers)
    assert not found.open
    assert not found.locked
    line = "\n".join(summary_lines(found))
    assert all(f"axis_{a}_ActPos [mm] mm" in line for a in "xyz")
    written = tomllib.loads(experiment_text(found, "dynid init"))
    if effort == "currents":
        assert written["robot"]["drive_gain"] == dict(zip(robot.joint_names, gains, strict=True))
        assert written["log"]["effort"]["columns"] == {f"axis_{a}": f"axis_{a}_Current [A]" for a in axes}
        return
    log = read_log(log_file, robot, written["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    assert chunk.tau is not None
    np.testing.assert_allclose(chunk.q, q, atol=1e-6)
    np.testing.assert_allclose(chunk.tau, tau, atol=1e-6)


LENGTHS = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "in": 0.0254}


def small_gantry(tmp_path: Path, unit: str, heads: tuple[str, str], load: float, stroke: float) -> Path:
    """A log of a gantry that moves by `stroke` of 0.8 m, positions in a unit, forces times `load`."""
    (tmp_path / "gantry.urdf").write_text(GANTRY)
    model = pin.buildModelFromUrdf(str(tmp_path / "gantry.urdf"))
    t, q, dq, tau = gantry_motion(tmp_path / "gantry.urdf")
    friction = 2.0 * np.sign(dq)
    weight = pin.rnea(model, model.createData(), *np.zeros((3, 3)))
    # Accelerations and their forces are linear in the motion of slides.
    tau = weight + stroke * (tau - friction - weight) + friction
    names = ["time [s]", *(one.format(axis) for one in heads for axis in "xyz")]
    table = np.column_stack([t, stroke * q / LENGTHS[unit], load * tau])
    log_file = tmp_path / "log.csv"
    np.savetxt(log_file, table, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    return log_file


@pytest.mark.parametrize("unit", LENGTHS)
@pytest.mark.parametrize("stroke", [1.0, 0.05])
@pytest.mark.parametrize("named", ["axis_{}_force [N]", "axis_{}_effort"])
def test_masses_and_weight_say_in_which_unit_slides_move(
    named: str, stroke: float, unit: str, tmp_path: Path
) -> None:
    log_file = small_gantry(tmp_path, unit, ("axis_{}_pos", named), 1.0, stroke)
    found = propose_logs(load_robot(tmp_path / "gantry.urdf"), [log_file])
    assert not found.open
    assert found["log.position.unit"].value == unit
    assert found["log.effort.unit"].value == "N"


@pytest.mark.parametrize("unit", ["mm", "cm", "in"])
@pytest.mark.parametrize("load", [0.1, 10.0])
@pytest.mark.parametrize("named", ["axis_{}_current", "axis_{}_effort"])
def test_units_of_slides_that_fit_alike_are_asked_for(
    named: str, load: float, unit: str, tmp_path: Path
) -> None:
    """An effort of unknown size says nothing of lengths: 0.1 A for a newton would make centimetres of millimetres."""
    log_file = small_gantry(tmp_path, unit, ("axis_{}_pos", named), load, 0.05)
    robot = load_robot(tmp_path / "gantry.urdf")
    asked = {one.key: one.question for one in propose_logs(robot, [log_file]).open}
    offered = asked["log.position.unit"].removeprefix("are the positions in ").removesuffix("?").split(" or ")
    assert {unit, "cm", "in"} <= set(offered) <= {"mm", "cm", "in"}
    assert "log.position.unit" not in [
        one.key for one in propose_logs(robot, [log_file], {"log.position.unit": unit}).open
    ]


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        ("z_pos_cm", {"position": ("z_pos_cm", "cm")}),
        ("z pos [in]", {"position": ("z pos [in]", "in")}),
        ("z_pos_inch", {"position": ("z_pos_inch", "in")}),
        ("z vel (in/s)", {"velocity": ("z vel (in/s)", "in/s")}),
        ("z_pos_in", {}),
    ],
)
def test_names_say_centimetres_and_inches(column: str, meant: dict[str, tuple[str, str]]) -> None:
    assert columns_of_slide("z", [column]) == meant


def test_what_slides_take_is_called_force(tmp_path: Path) -> None:
    log_file = small_gantry(tmp_path, "m", ("q_{}", "effort_{}"), 300.0, 1.0)
    found = propose_logs(load_robot(tmp_path / "gantry.urdf"), [log_file])
    said = [text for one in found.decisions for text in (*one.why, one.question)]
    assert any("force" in text for text in said)
    assert not any("torque" in text or "N m" in text for text in said)


def test_where_all_joints_slide_questions_offer_units_of_length_and_force(tmp_path: Path) -> None:
    robot_file, log_file = tmp_path / "gantry.urdf", tmp_path / "log.csv"
    robot_file.write_text(GANTRY)
    t, q, _, tau = gantry_motion(robot_file)
    # Counts of an encoder, and of a current.
    table = np.column_stack([t, 1e5 * q, 300.0 * tau])
    heads = ["time", *(f"axis_{a}_{kind}" for kind in ("pos", "effort") for a in "xyz")]
    np.savetxt(log_file, table, delimiter=",", header=",".join(heads), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    found = propose_logs(robot, [log_file])
    offered = {one.key: [option.value for option in one.options] for one in found.open}
    assert offered["log.position.unit"] == ["m", "mm", "cm", "in"]
    assert offered["log.effort.unit"] == ["N", "kN", "A", "mA", *RATED, "raw"]
    left = propose_logs(robot, [log_file], {"log.position.unit": "0.01 mm"}).open
    assert [one.key for one in left] == ["log.effort.unit"]
    assert "300 times" in left[0].why[0]


@pytest.mark.parametrize(
    "names", [("{}_pos [mm]", "{}_force [N]"), ("pos_{}", "force_{}"), ("{} pos", "tau.{}")]
)
@pytest.mark.parametrize("letters", ["xyz", "XYZ"])
def test_letters_that_joints_do_not_have_in_common_name_them(names: tuple[str, str], letters: str) -> None:
    columns = [name.format(letter) for name in names for letter in letters]
    found = families(columns, ("axis_x", "axis_y", "axis_z"), [])
    assert [one.columns for one in found] == [tuple(columns[:3]), tuple(columns[3:])]
    assert all(one.named for one in found)


def test_letters_name_joints_where_all_are_there_and_none_is_a_unit() -> None:
    joints = ("axis_a", "axis_b", "axis_c")
    assert families(["pos_a", "pos_b"], joints, []) == []
    # Amperes are no joint, and a column with two letters is not one joint's.
    currents = tuple(f"{letter}_current [A]" for letter in "abc")
    assert [one.columns for one in families(currents, joints, [])] == [currents]
    assert families(["a_b pos", "b_c pos", "c_a pos"], joints, []) == []


def test_the_answer_that_a_question_for_columns_shows_answers_it(tmp_path: Path) -> None:
    robot_file, log_file = tmp_path / "gantry.urdf", tmp_path / "log.csv"
    robot_file.write_text(GANTRY)
    t, q, _, tau = gantry_motion(robot_file)
    heads = ["time", *(f"{name} {kind}" for kind in ("travel", "push") for name in ("long", "cross", "up"))]
    table = np.column_stack([t, q, tau])
    np.savetxt(log_file, table, delimiter=",", header=",".join(heads), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    asked = propose_logs(robot, [log_file]).open
    assert [one.key for one in asked] == ["log.position.columns", "log.effort.columns"]
    answers: dict[str, str] = {}
    for k, one in enumerate(asked):
        shown = answer_option(one)
        key, column = shown.split("'")[1].split("=")
        assert key == f"{one.key}.axis_x"
        assert column in heads[1:]
        assert "', and the same for axis_y, axis_z" in shown
        own = heads[1 + 3 * k : 4 + 3 * k]
        answers |= {f"{one.key}.{joint}": name for joint, name in zip(robot.joint_names, own, strict=True)}
    assert not propose_logs(robot, [log_file], answers).open


@pytest.mark.parametrize(
    ("turning", "sliding", "scale"),
    [
        (("slew_pos_deg", "slew_torque_kNm"), ("trolley_pos_m", "trolley_force_kN"), (1.0, 1e-3)),
        (("slew_pos_deg", "slew_torque_kNm"), ("trolley_pos_mm", "trolley_force_N"), (1e3, 1.0)),
        (("slew (deg)", "slew (kNm)"), ("trolley position (m)", "trolley force (kN)"), (1.0, 1e-3)),
    ],
)
def test_a_joint_that_turns_beside_one_that_slides_is_read(
    turning: tuple[str, str], sliding: tuple[str, str], scale: tuple[float, float], tmp_path: Path
) -> None:
    """Two joints of which no two columns are alike, as of a tower crane."""
    robot_file, log_file = tmp_path / "crane.urdf", tmp_path / "log.csv"
    robot_file.write_text(
        '<robot name="crane"><link name="tower"/>'
        + LINK.format("jib", "4 0 0", 900.0, 5e3)
        + LINK.format("carriage", "0 0 0", 600.0, 60.0)
        + JOINT.format("slew", "revolute", "tower", "jib", 0, -6, 6)
        + JOINT.format("trolley", "prismatic", "jib", "carriage", 0, 3, 30).replace("0 0 1", "1 0 0")
        + "</robot>"
    )
    model = pin.buildModelFromUrdf(str(robot_file))
    data, t = model.createData(), np.arange(3000) / 50.0
    rate, middle, size = np.array([0.5, 0.8]), np.array([0.0, 15.0]), np.array([1.0, 6.0])
    angle = t[:, None] * rate + np.array([0.0, 1.0])
    q, dq, ddq = middle + size * np.sin(angle), size * rate * np.cos(angle), -size * rate**2 * np.sin(angle)
    tau = np.array([pin.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)]) + 50.0 * np.sign(dq)
    heads = ["t", turning[0], sliding[0], turning[1], sliding[1]]
    factors = np.array([np.rad2deg(1.0), scale[0], 1e-3, scale[1]])
    table = np.column_stack([t, np.column_stack([q, tau]) * factors])
    np.savetxt(log_file, table, delimiter=",", header=",".join(heads), comments="", fmt="%.9g")
    robot = load_robot(robot_file)
    found = propose_logs(robot, [log_file], {})
    assert not found.open
    assert not found.locked
    log = read_log(log_file, robot, tomllib.loads(experiment_text(found, "dynid init"))["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    assert chunk.q is not None
    assert chunk.tau is not None
    np.testing.assert_allclose(chunk.q, q, atol=1e-5, rtol=1e-6)
    np.testing.assert_allclose(chunk.tau, tau, atol=1e-3, rtol=1e-6)
