"""Columns grouped by joint or number, and what their words say."""

from __future__ import annotations

import pytest

from dynid.layouts.channels import choose
from dynid.layouts.meaning import meaning_of, most_fitting, single
from dynid.layouts.names import Family, families
from dynid.layouts.presets import presets
from dynid.layouts.proposal import Decision, Option, decided
from tests.layouts.plants import UR_JOINTS

PLAIN = tuple(f"joint{k}" for k in range(1, 7))


def found(columns: list[str], joints: tuple[str, ...] = PLAIN, robot: str = "arm") -> dict[str, Family]:
    known = most_fitting(columns, [one for one in presets() if one.fits((robot, *joints))])
    return {one.template: one for one in families(columns, joints, known)}


def numbered(text: str, first: int = 1, count: int = 6) -> list[str]:
    return [text.replace("#", str(k)) for k in range(first, first + count)]


@pytest.mark.parametrize(
    ("name", "quantity", "role", "unit"),
    [
        ("q#", "position", "", "unknown"),
        ("deg[#]", "position", "", "deg"),
        ("rpm[#]", "velocity", "", "rpm"),
        ("rad/s[#]", "velocity", "", "rad/s"),
        ("Nm[#]", "torque", "", "N m"),
        ("rev#", "", "", "unknown"),
        ("qd#", "velocity", "", "unknown"),
        ("q_dot_#", "velocity", "", "unknown"),
        ("q_ddot_#", "acceleration", "", "unknown"),
        ("q_d#", "position", "commanded", "unknown"),
        ("tau_J_#", "torque", "", "unknown"),
        ("tau_J_d_#", "torque", "commanded", "unknown"),
        ("dq_des_#", "velocity", "commanded", "unknown"),
        ("jointPositions#", "position", "", "unknown"),
        ("Joint # Position [deg]", "position", "", "deg"),
        ("joint_#_velocity_rad_s", "velocity", "", "rad/s"),
        ("Axis# Torque (Nm)", "torque", "", "N m"),
        ("motor_current_#_mA", "current", "", "mA"),
        ("i#", "current", "", "unknown"),
        ("joint_#_current_position", "position", "measured", "unknown"),
        ("actual_joint_#_current", "current", "measured", "unknown"),
        ("measured_torque_#_current", "effort", "measured", "unknown"),
        ("effort_#", "effort", "", "unknown"),
        ("tau_ext_#", "torque", "model", "unknown"),
        ("tau_model#", "torque", "model", "unknown"),
        ("tau_dyn_#", "torque", "model", "unknown"),
        ("/dynamic_joint_states/joint#/effort", "torque", "measured", "N m"),
        ("motor_state[#].tau_est", "torque", "estimated", "unknown"),
        ("tauEst_#", "torque", "estimated", "unknown"),
        ("tau_ext_est_#", "torque", "model", "unknown"),
        ("position_error_#", "position", "model", "unknown"),
        ("tcp_speed_#", "other", "", "unknown"),
        ("load_#", "raw", "", "unknown"),
        ("joint_temperature_#", "temperature", "", "unknown"),
        ("qm#", "position", "", "unknown"),
        ("Achse # Istposition [°]", "position", "measured", "deg"),
        ("Achse # Drehmoment [Nm]", "torque", "", "N m"),
        ("Gelenk # Geschwindigkeit [°/s]", "velocity", "", "deg/s"),
        ("Achse#_Ist[Grad]", "position", "measured", "deg"),
        ("Achse#_Soll[Grad]", "position", "commanded", "deg"),
        ("Motorstrom_A#[%]", "raw", "", "% of rated torque"),
        ("Motorstrom A# [A]", "current", "", "A"),
        ("joint_#_torque [%]", "raw", "", "% of rated torque"),
        ("torque_pct_#", "raw", "", "% of rated torque"),
        ("Moment_#_Prozent", "raw", "", "% of rated torque"),
        ("current_percent_#", "raw", "", "% of rated torque"),
        ("Torque%_#", "raw", "", "% of rated torque"),
        ("drive#_torque_actual_permille", "raw", "measured", "permille of rated torque"),
        ("Moment # [‰]", "raw", "", "permille of rated torque"),
        ("load_# [%]", "raw", "", "raw"),
        ("duty#_percent", "raw", "", "raw"),
        ("J#_deg", "position", "", "deg"),
        ("J#_error [deg]", "position", "model", "deg"),
        ("vitesse articulation #", "velocity", "", "unknown"),
        ("posición eje #", "position", "", "unknown"),
        ("关节#角度", "position", "", "unknown"),
        ("关节#目标角度", "position", "commanded", "unknown"),
        ("关节#实际力矩", "torque", "measured", "unknown"),
        ("joint_#_eff", "effort", "", "unknown"),
        ("θ#", "position", "", "unknown"),
        ("θ̇#", "velocity", "", "unknown"),
        ("q̇#", "velocity", "", "unknown"),
        ("q̈#", "acceleration", "", "unknown"),
        ("τ#", "torque", "", "unknown"),
        ("$AXIS_ACT_MEAS.A#", "position", "", "unknown"),
        ("Joint#_Force", "effort", "", "unknown"),
        ("joint_#_ext_force", "effort", "model", "unknown"),
        ("force_#", "other", "", "unknown"),
        ("joint_#_torque_enable", "other", "", "unknown"),
        ("dQ#", "velocity", "", "unknown"),
        ("ddTheta_#", "acceleration", "", "unknown"),
        ("Axis#.ActVelo", "velocity", "measured", "unknown"),
        ("joint_tor_#", "torque", "", "unknown"),
        ("CalculatedActualPosition#", "position", "model", "unknown"),
        ("COMPUTED_TORQUE_#", "torque", "model", "unknown"),
        ("TorqueDemandValue_#", "torque", "commanded", "unknown"),
        ("requested_torque_#", "torque", "commanded", "unknown"),
        ("TORQUE_SENSOR_A_#", "torque", "measured", "unknown"),
        ("ActualPositionTimestamp#", "other", "measured", "unknown"),
        ("ActualPositionAgeMs#", "other", "measured", "unknown"),
        ("pos_J#[mrad]", "position", "", "mrad"),
        ("vel_J#[mrad/s]", "velocity", "", "mrad/s"),
        ("enc # (arcsec)", "position", "", "arcsec"),
        ("pos_#_arcmin", "position", "", "arcmin"),
        ("vel # [arcsec/s]", "velocity", "", "arcsec/s"),
        ("trq_J#[Ncm]", "torque", "", "N cm"),
        ("boom moment # (kNm)", "torque", "", "kN m"),
        ("torque_# [kN m]", "torque", "", "kN m"),
        ("torque_# [kN·m]", "torque", "", "kN m"),
        ("torque_#_kNm", "torque", "", "kN m"),
        ("position_# [rev]", "position", "", "turn"),
        ("velocity_# [rev/s]", "velocity", "", "turn/s"),
        ("pos_rev_#", "position", "", "turn"),
        ("joint_rev_#_pos", "position", "", "unknown"),
        ("position_rot_#", "position", "", "turn"),
        ("Position # (rotations)", "position", "", "turn"),
        ("rot_#", "", "", "unknown"),
        ("effort_current_#", "current", "", "unknown"),
        ("current_effort_#", "effort", "", "unknown"),
        ("q_current_#", "position", "measured", "unknown"),
        ("q_current_#_A", "current", "", "A"),
        ("d_current_#_A", "other", "", "unknown"),
        ("j#_force", "effort", "", "unknown"),
        ("q#p [deg/s]", "velocity", "", "deg/s"),
        ("qp_#", "velocity", "", "unknown"),
        ("rax_#_torque", "torque", "", "unknown"),
        ("関節#角速度[deg/s]", "velocity", "", "deg/s"),
        ("関節#トルク[Nm]", "torque", "", "N m"),
        ("관절# 목표 각도(deg)", "position", "commanded", "deg"),
        ("관절# 토크(Nm)", "torque", "", "N m"),
        ("Угол #, град", "position", "", "deg"),
        ("скорость # [град/с]", "velocity", "", "deg/s"),
        ("Скорость #, рад/с", "velocity", "", "rad/s"),
        ("Момент # (Н·м)", "torque", "", "N m"),
    ],
)
def test_words_say_what_columns_are(name: str, quantity: str, role: str, unit: str) -> None:
    (one,) = found(numbered(name)).values()
    assert (one.meaning.quantity, one.meaning.role, one.meaning.unit) == (quantity, role, unit)


@pytest.mark.parametrize(
    "clock", ["t", "time_s", "millis", "micros", "Zeit [ms]", "時間[s]", "시간", "Время, с"]
)
def test_the_clock_of_one_joint_is_none_of_its_signals(clock: str) -> None:
    columns = [clock, "angle_deg", "speed_rpm", "current_mA"]
    one = found(columns, ("pivot",))
    assert set(one) == set(columns[1:])
    ((_, meaning),) = single([clock], ())
    assert meaning.quantity == "time"
    units = {
        "time_s": "s",
        "millis": "ms",
        "micros": "us",
        "Zeit [ms]": "ms",
        "時間[s]": "s",
        "Время, с": "s",
    }
    assert meaning.unit == units.get(clock, "unknown")


def test_a_unit_of_another_quantity_is_a_doubt() -> None:
    (one,) = found(numbered("position_#_nm")).values()
    assert one.meaning.doubt


@pytest.mark.parametrize(
    ("name", "first", "template"),
    [
        ("q#", 1, "q{number}"),
        ("q_#", 0, "q_{index}"),
        ("q[#]", 0, "q[{index}]"),
        ("arm2/q#", 1, "arm2/q{number}"),
        ("/joint_states/position[#]", 0, "/joint_states/position[{index}]"),
    ],
)
def test_numbers_count_from_nought_or_one(name: str, first: int, template: str) -> None:
    one = found(numbered(name, first))[template]
    assert (one.first, one.named) == (first, False)
    assert one.columns == tuple(numbered(name, first))


def test_an_estimated_torque_stands_in_where_nothing_else_is_logged() -> None:
    estimated = numbered("motor_state[#].tau_est")
    decision, alone = choose("effort", list(found(estimated).values()), {})
    assert alone is not None
    assert decision.grade == "likely"
    assert "estimated" in decision.why[0]
    _, chosen = choose("effort", list(found([*estimated, *numbered("torque_#")]).values()), {})
    assert chosen is not None
    assert chosen.template == "torque_{number}"


def chosen(kind: str, *names: str) -> tuple[str | None, str]:
    """The template that is chosen of columns with these names, and how sure it is."""
    columns = [one for name in names for one in numbered(name)]
    decision, _ = choose(kind, list(found(columns).values()), {})
    return decision.value, decision.grade


@pytest.mark.parametrize(
    ("kind", "names", "best"),
    [
        ("position", ("positions_raw#", "positions#"), "positions{number}"),
        ("position", ("q_raw#", "q_filtered#"), "q_raw{number}"),
        ("position", ("state_q_deg_#", "state_q_rad_#"), "state_q_rad_{number}"),
        ("position", ("q_meas_#", "q_motor_#"), "q_meas_{number}"),
        ("position", ("gearPosition#", "jointPosition#"), "jointPosition{number}"),
        ("position", ("theta_m_#", "q_#"), "q_{number}"),
        ("position", ("ActualPosition#", "ActualPositionTimestamp#"), "ActualPosition{number}"),
        ("effort", ("tau_calc_#", "tau_#"), "tau_{number}"),
        ("effort", ("MOTOR_TORQUE_#", "TORQUE_SENSOR_A_#"), "TORQUE_SENSOR_A_{number}"),
        ("effort", ("measured_current_#", "measured_torque_#"), "measured_torque_{number}"),
        ("effort", ("present_pwm_#", "present_current_#"), "present_current_{number}"),
    ],
)
def test_what_says_more_of_what_was_measured_is_taken(kind: str, names: tuple[str, ...], best: str) -> None:
    assert chosen(kind, *names)[0] == chosen(kind, *names[::-1])[0] == best


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("effort", ("torque_#", "current_#")),
        ("effort", ("tau#", "tau_nnfm#")),
        ("position", ("q_deg_a_#", "q_rad_b_#")),
    ],
)
def test_what_may_have_been_wanted_is_asked_for(kind: str, names: tuple[str, ...]) -> None:
    assert chosen(kind, *names) == (None, "asked")


@pytest.mark.parametrize("name", ["tau_calc_#", "COMPUTED_TORQUE_#", "TorqueDemandValue_#"])
def test_what_was_computed_alone_is_no_measurement(name: str) -> None:
    assert chosen("effort", name) == (None, "asked")


def test_groups_with_names_of_joints_come_before_numbers() -> None:
    columns = [
        *(f"/joint_states/{joint}/position" for joint in UR_JOINTS),
        *numbered("/controller_state/actual/positions[#]", 0),
    ]
    decision, family = choose("position", list(found(columns, UR_JOINTS).values()), {})
    assert family is not None
    assert family.named
    assert decision.sure


@pytest.mark.parametrize(
    ("name", "motor"), [("theta_m#", True), ("q_m_#", True), ("axis#_position_m", False)]
)
def test_m_before_a_number_is_a_motor_and_behind_it_may_be_metres(name: str, motor: bool) -> None:
    assert meaning_of(name.replace("#", "{number}"), "{number}", (), False).motor == motor


def test_a_unit_behind_a_joint_says_what_is_measured() -> None:
    columns = [f"{joint}_{unit}" for unit in ("deg", "Nm") for joint in ("shoulder", "elbow")]
    position, torque = families(columns, ["shoulder", "elbow"], [])
    assert (position.meaning.quantity, position.meaning.unit) == ("position", "deg")
    assert (torque.meaning.quantity, torque.meaning.unit) == ("torque", "N m")


def test_addresses_of_motors_are_numbers_of_joints() -> None:
    one = found(numbered("pos_#", 11))["pos_{number}"]
    assert one.columns == tuple(numbered("pos_#", 11))
    assert found(numbered("pos_#", 11, 5)) == {}
    assert found(["pos_11"], ("pivot",))["pos_11"].columns == ("pos_11",)


@pytest.mark.parametrize(
    ("name", "strange"),
    [
        ("torque_# [kgcm]", True),
        ("torque_# [Nm]", False),
        ("torque_# [measured]", False),
        ("torque_#", False),
    ],
)
def test_a_unit_that_nobody_knows_is_a_doubt(name: str, strange: bool) -> None:
    (one,) = found(numbered(name)).values()
    assert bool(one.meaning.doubt) is strange


def test_numbers_that_do_not_count_are_no_group() -> None:
    assert found(["q1", "q2", "q3", "q5", "q6", "q7"]) == {}
    assert found(numbered("q#", 1, 4)) == {}


def test_ten_is_after_nine() -> None:
    joints = tuple(f"j{k}x" for k in range(12))
    (one,) = found(numbered("pos_#", 0, 12), joints).values()
    assert one.columns[9:] == ("pos_9", "pos_10", "pos_11")


@pytest.mark.parametrize(
    ("name", "joints"),
    [
        ("{}_pos", PLAIN),
        ("/joint_states/{}/position", UR_JOINTS),
        ("observation.state.{}.pos", ("shoulder_pan", "elbow_flex", "wrist_roll")),
    ],
)
def test_joints_are_found_by_name(name: str, joints: tuple[str, ...]) -> None:
    columns = [name.format(joint) for joint in reversed(joints)]
    one = found(columns, joints)[name.format("{joint}")]
    assert one.named
    assert one.columns == tuple(name.format(joint) for joint in joints)


@pytest.mark.parametrize(
    ("joints", "columns"),
    [
        (("shoulder_pan_joint", "elbow_joint"), ("Pos_ShoulderPanJoint", "Pos_ElbowJoint")),
        (("shoulder_pan_joint", "elbow_joint"), ("q.shoulder-pan-joint", "q.elbow-joint")),
        (("LShoulderPitch", "LElbowYaw"), ("q_l_shoulder_pitch", "q_l_elbow_yaw")),
        (("joint_a2", "joint_a1"), ("JointA2 [rad]", "JointA1 [rad]")),
        (("x", "y"), ("posX", "posY")),
    ],
)
def test_words_of_a_name_may_be_joined_in_another_way(
    joints: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    (one,) = found(list(columns), joints).values()
    assert one.named
    assert one.columns == columns
    assert one.meaning.quantity == "position"


def test_joints_are_found_without_what_they_have_in_common() -> None:
    joints = tuple(f"panda_joint{k}" for k in range(1, 8))
    (one,) = found([f"joint{k}_pos" for k in range(1, 8)], joints).values()
    assert one.named
    (one,) = found(
        ["shoulder_pan.pos", "elbow.pos", "wrist_1.pos"],
        ("shoulder_pan_joint", "elbow_joint", "wrist_1_joint"),
    ).values()
    assert one.columns == ("shoulder_pan.pos", "elbow.pos", "wrist_1.pos")


def test_a_run_from_nought_is_not_taken_for_names_from_one() -> None:
    joints = tuple(f"joint_{k}" for k in range(1, 7))
    (one,) = found([f"joint_{k}_pos" for k in range(6)], joints).values()
    assert (one.named, one.first) == (False, 0)


def test_joints_that_the_log_lacks_are_named() -> None:
    joints = (*PLAIN, "finger")
    (one,) = found([f"q_{joint}" for joint in PLAIN], joints).values()
    assert one.missing == ("finger",)


def test_a_preset_is_known_however_it_is_spelt() -> None:
    for name in ("actual_q_#", "Actual Q #", "robot1/actual-q-#", "ACTUAL_Q_#"):
        (one,) = found(numbered(name, 0), UR_JOINTS, "ur10e").values()
        assert "RTDE" in one.meaning.said_by, name
        assert (one.meaning.role, one.meaning.unit) == ("measured", "rad")
    (one,) = found(numbered("target_actual_q_#", 0), UR_JOINTS, "ur10e").values()
    assert "RTDE" not in one.meaning.said_by


def test_a_clock_is_that_of_the_recorder() -> None:
    columns = ["timestamp", *numbered("actual_q_#", 0), *numbered("actual_current_#", 0)]
    known = most_fitting(columns, [one for one in presets() if one.fits(("ur10e", *UR_JOINTS))])
    ((_, one),) = single(["timestamp"], known)
    assert (one.quantity, one.unit) == ("time", "s")
    assert "RTDE" in one.said_by
    ((_, one),) = single(["time_ms"], known)
    assert (one.unit, one.said_by) == ("ms", "name")
    ((_, one),) = single(["execution_time"], known)
    assert one.quantity == ""
    # A recorder is not known by its clock alone.
    columns = ["timestamp", *numbered("q#"), *numbered("tau#")]
    ((_, one),) = single(["timestamp"], most_fitting(columns, [*presets()]))
    assert (one.unit, one.said_by) == ("unknown", "name")


def test_one_arm_of_two_is_known_by_full_names_alone() -> None:
    joints = tuple(f"{side}_{name}" for side in ("left", "right") for name in ("s0", "s1", "e0", "w0"))
    columns = [f"{joint} angle [deg]" for joint in joints[4:]]
    (one,) = found(columns, joints).values()
    assert one.joints == joints[4:]
    assert one.missing == joints[:4]
    assert one.meaning.quantity == "position"
    # Shortened names of a few joints may be anything.
    assert not any(family.named for family in found(["s0 angle", "s1 angle"], joints).values())


def test_columns_named_after_the_joints_alone_are_positions() -> None:
    def meant(*columns: str) -> dict[str, str]:
        return {
            one.template: one.meaning.quantity
            for one in found([c for text in columns for c in numbered(text)]).values()
        }

    assert meant("J#") == {"J{number}": "position"}
    assert meant("joint#", "joint#_effort") == {"{joint}": "position", "{joint}_effort": "effort"}
    assert meant("j#", "v#", "u#") == {
        "j{number}": "position",
        "v{number}": "velocity",
        "u{number}": "effort",
    }
    # Whatever else says more comes first.
    assert meant("J#", "q#") == {"J{number}": "", "q{number}": "position"}
    assert meant("q#", "dq#", "v#", "i#", "u#") == {
        "q{number}": "position", "dq{number}": "velocity", "v{number}": "", "i{number}": "current", "u{number}": "",
    }  # fmt: skip
    assert set(meant("J#", "A#").values()) == {""}


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (("position_#", "velocity_#", "q_current_#"), "position_{number}"),
        (("q_#", "q_current_#", "d_current_#"), "q_{number}"),
        (("q_current_#", "q_desired_#"), "q_current_{number}"),
    ],
)
def test_the_current_of_the_axis_that_makes_torque_is_no_position(names: tuple[str, ...], best: str) -> None:
    assert chosen("position", *names)[0] == best


def test_a_position_in_a_unit_of_its_own_stands_before_one_in_a_strange_unit() -> None:
    assert chosen("position", "q#[deg]", "q#pp[deg/s^2]")[0] == "q{number}[deg]"


def test_estimated_positions_stand_in_where_nothing_else_is_logged() -> None:
    assert chosen("position", "angle_est_#") == ("angle_est_{number}", "likely")
    assert chosen("position", "angle_est_#", "angle_#")[0] == "angle_{number}"


def test_an_encoder_is_a_position_where_nothing_else_is() -> None:
    assert chosen("position", "enc_#", "torque_#")[0] == "enc_{number}"
    assert chosen("position", "enc_#", "q_#")[0] == "q_{number}"
    (enc,) = (
        one for one in found(["t_ms", "enc", "current_mA"], ("crank",)).values() if one.template == "enc"
    )
    assert enc.meaning.quantity == "position"


def test_names_in_full_stand_before_names_in_part() -> None:
    joints = tuple(f"left_joint{k}" for k in range(1, 7))
    columns = [f"{side}_joint{k}_effort" for k in range(1, 7) for side in ("right", "left")]
    _, one = choose("effort", list(found(columns, joints).values()), {})
    assert one is not None
    assert one.columns == tuple(f"{joint}_effort" for joint in joints)


@pytest.mark.parametrize("wrist", ["wrist1", "wrist_1", "Wrist 1"])
def test_universal_robots_joints_have_other_names_too(wrist: str) -> None:
    names = ("base", "shoulder", "elbow", *(wrist.replace("1", k) for k in "123"))
    (one,) = found([f"{name}_pos" for name in names], UR_JOINTS, "ur5e").values()
    assert one.columns == tuple(f"{name}_pos" for name in names)
    assert one.joints == UR_JOINTS


def test_a_control_is_an_effort_where_nothing_else_is() -> None:
    assert chosen("effort", "J#_pos", "J#_control")[0] == "J{number}_control"
    assert chosen("effort", "J#_torque", "J#_control")[0] == "J{number}_torque"


def test_letters_behind_numbers_name_joints() -> None:
    joints = tuple(f"joint_{k}_{letter}" for k, letter in enumerate("slurbt", 1))
    columns = [f"{letter}_{kind}" for kind in ("pos[deg]", "trq[Nm]") for letter in "SLURBT"]
    of = {one.meaning.quantity: one for one in families(columns, joints, ())}
    assert of["position"].joints == of["torque"].joints == joints


@pytest.mark.parametrize(
    ("name", "clock"), [("T_des", False), ("T_pos[deg]", False), ("t_robot", True), ("$ROB_TIMER", True)]
)
def test_a_letter_beside_a_word_of_a_signal_is_no_clock(name: str, clock: bool) -> None:
    ((_, meaning),) = single([name], ())
    assert (meaning.quantity == "time") == clock


def test_what_was_filtered_stands_behind_what_was_not() -> None:
    raw, smooth = (next(iter(found(numbered(f"q#_{word}")).values())) for word in ("raw", "filt"))
    for same in ([raw, smooth], [smooth, raw]):
        assert choose("position", same, {})[1] is raw
    assert choose("position", [smooth], {})[1] is smooth


@pytest.mark.parametrize("joints", [("x", "y", "z"), ("j1", "j2", "z", "r4"), ("X", "Y", "Z", "A", "C")])
@pytest.mark.parametrize("pattern", ["{}_{}", "{1}_{0}", "robot/{}/{}"])
def test_a_letter_is_a_name_of_a_joint(joints: tuple[str, ...], pattern: str) -> None:
    kinds = {"pos": "position", "vel": "velocity", "torque": "torque"}
    columns = [pattern.format(kind, joint) for kind in kinds for joint in joints]
    found = families(["t", *columns, "tcp_x", "tcp_y", "tcp_z"], joints, ())
    meant = {one.meaning.quantity: one for one in found}
    for kind, quantity in kinds.items():
        assert meant[quantity].joints == joints
        assert meant[quantity].columns == tuple(pattern.format(kind, joint) for joint in joints)


@pytest.mark.parametrize("answer", ["kN m", "kNm", "kN·m"])
def test_answers_with_units_may_be_joined_in_any_way(answer: str) -> None:
    options = tuple(Option(one, one) for one in ("N m", "kN m"))
    asked = Decision("log.effort.unit", None, (), "which unit does the effort have?", options)
    assert decided(asked, {asked.key: answer}).value == "kN m"


def test_addresses_of_objects_are_no_numbers_of_joints() -> None:
    columns = [f"Parameter [0x2201/{k}]" for k in (1, 2, 3)] + [f"bus [0x{k}C01]" for k in (1, 2, 3)]
    assert families(columns, ["a", "b", "c"], ()) == []
    assert [
        one.template for one in families([f"q{k} [0x2201/7]" for k in (1, 2, 3)], ["a", "b", "c"], ())
    ] == ["q{number} [0x2201/7]"]
