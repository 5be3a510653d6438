"""From commands to a model: gains, delay, friction and armature of an arm in MuJoCo whose torque nobody measured."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, SolverError, UsageError
from dynid.exporters import export
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.identification.commands import contradicted_gains
from dynid.lab import Replay
from dynid.lab.replay import replay
from dynid.log import Log
from dynid.robot import RobotModel, ServoSettings, load_robot
from dynid.run import Identification
from tests.command_line import Run
from tests.servo_plant import ARMATURE, DAMPING, FRICTION, KD, KP, Recording, recorded, robot_file

PLAIN = Settings(terms=DEFAULT_TERMS)


@cache
def unseen_rows() -> Recording:
    """Of another motion."""
    return recorded(seconds=8.0, seed=5)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded()


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    return load_robot(robot_file(tmp_path_factory.mktemp("arm")))


@pytest.fixture(scope="module")
def found(recording: Recording, arm: RobotModel) -> Identification:
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD)))
    return identify(known, recording.log(known), PLAIN)


def parameter(found: Identification, name: str) -> tuple[float, float]:
    names = [found.estimate.columns[k].name for k in found.estimate.base.independent]
    i = names.index(name)
    return float(found.estimate.value[i]), float(found.estimate.half_width()[i])


def test_the_delay_is_found(found: Identification) -> None:
    servo = found.robot.drive.servo
    assert servo is not None
    assert servo.delay == pytest.approx(0.010, abs=0.001)
    assert servo.hold == pytest.approx(0.005)
    (note,) = [one for one in found.diagnostics if one.identifier == "command-delay"]
    assert "samples" in note.text
    assert "for 5 ms each" in note.text
    assert servo.loop == "computer"
    (note,) = [one for one in found.diagnostics if one.identifier == "command-loop"]
    assert "--loop drive" in note.text


def test_the_model_is_that_of_the_plant(found: Identification) -> None:
    assert found.training.scores.total_relative < 0.03
    for j in (0, 1):
        # MuJoCo's dry friction is a soft constraint, which a measured torque finds a tenth too small as well.
        viscous, coulomb = (parameter(found, f"{name}{j + 1}")[0] for name in ("fv", "fc"))
        assert viscous + coulomb == pytest.approx(DAMPING[j] + FRICTION[j], rel=0.1)
    assert parameter(found, "Ia2")[0] == pytest.approx(ARMATURE[1], rel=0.1)


def test_a_delay_that_is_declared_is_taken(recording: Recording, arm: RobotModel) -> None:
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD), delay=0.01))
    servo = identify(known, recording.log(known), PLAIN).robot.drive.servo
    assert servo is not None
    assert servo.delay == 0.01
    assert servo.hold == pytest.approx(0.005)


def test_gains_are_sought_on_the_scale_of_the_description(recording: Recording, arm: RobotModel) -> None:
    found = identify(arm, recording.log(arm, dq_des=np.zeros_like(recording.q)), PLAIN)
    servo = found.robot.drive.servo
    assert servo is not None
    assert servo.kp == pytest.approx(KP, rel=0.05)
    (doubt,) = [one for one in found.diagnostics.doubts if one.identifier == "drive-gain"]
    assert "scale of its masses" in doubt.text
    assert "--kp" in doubt.text


def test_gains_that_would_hold_joints_at_their_limits_are_another_arms(
    recording: Recording, arm: RobotModel
) -> None:
    """A joint at its limit in most samples would not follow its commands, as the elbow does."""
    stiff = arm.with_servo(ServoSettings(kp=tuple(60 * k for k in KP), kd=tuple(KD), effort_limit=8.0))
    found = identify(stiff, recording.log(stiff, dq_des=np.zeros_like(recording.q)), PLAIN)
    servo = found.robot.drive.servo
    assert servo is not None
    assert servo.kp[1] == pytest.approx(KP[1], rel=0.1)
    (doubt,) = [one for one in found.diagnostics.doubts if one.identifier == "drive-gain"]
    assert "(elbow 96 %), yet they follow" in doubt.text


def test_a_limit_that_is_rarely_reached_contradicts_no_gains(recording: Recording, arm: RobotModel) -> None:
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD), effort_limit=8.0))
    servo = known.drive.servo
    assert servo is not None
    assert contradicted_gains(recording.log(known), servo) == {}


def test_a_joint_that_its_bodies_hardly_load_takes_the_gains_of_the_others(
    recording: Recording, arm: RobotModel
) -> None:
    """A lower body that is a point on its axis makes no torque at the elbow: it says nothing of the gain."""
    balanced = arm.inertia_prior.copy()
    balanced[1, 1:] = 0.0
    bare = replace(arm, inertia_prior=balanced)
    found = identify(bare, recording.log(bare, dq_des=np.zeros_like(recording.q)), PLAIN)
    servo = found.robot.drive.servo
    assert servo is not None
    assert servo.kp[1] == servo.kp[0]
    (doubt,) = [one for one in found.diagnostics.doubts if one.identifier == "drive-gain"]
    assert "not determined by elbow" in doubt.text


def test_gains_are_sought_where_position_and_velocity_errors_lack_different_rows(
    recording: Recording, arm: RobotModel
) -> None:
    """Readings are filtered one by one, and each leaves out the rows around its own jumps."""
    dq_des = np.zeros_like(recording.q)
    dq_des[2500:] = 0.3  # a command of velocity that jumps, as at the end of a motion
    servo = identify(arm, recording.log(arm, dq_des=dq_des), PLAIN).robot.drive.servo
    assert servo is not None
    assert np.all(servo.kp > 0)


def test_gains_have_no_scale_without_inertias(recording: Recording, arm: RobotModel) -> None:
    bare = replace(arm, inertia_prior=np.full_like(arm.inertia_prior, np.nan))
    with pytest.raises(InputError, match="no-gains"):
        identify(bare, recording.log(bare), PLAIN)


def test_commands_from_the_command_line(recording: Recording, tmp_path: Path, run: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("shoulder", "elbow")
    rows = {"q": recording.q, "dq": recording.dq, "q_des": recording.q_des}
    columns = {f"{key}_{joint}": x[:, j] for key, x in rows.items() for j, joint in enumerate(names)}
    log, robot = tmp_path / "log.parquet", robot_file(tmp_path)
    pq.write_table(pa.table({"t": recording.t} | columns), log)
    out = tmp_path / "run"
    ended = run("identify", robot, log, "--kp", "[60, 40]", "--kd", "[1.5, 1]", "--no-auto", "--out", out)
    assert ended.code == 0, ended.err
    ended = run("validate", out, log)
    assert ended.code == 0, ended.err
    assert "training-is-validation" in ended.err


@pytest.mark.parametrize("how", ["--fit", "--no-fit"])
def test_a_check_doubts_gains_that_nobody_declared(
    recording: Recording, tmp_path: Path, run: Run, how: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {"q": recording.q, "dq": recording.dq, "q_des": recording.q_des}
    columns = {
        f"{key}_{joint}": x[:, j] for key, x in rows.items() for j, joint in enumerate(("shoulder", "elbow"))
    }
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table({"t": recording.t} | columns), log)
    ended = run("check", robot_file(tmp_path), log, how)
    assert ended.code == 0, ended.err
    assert ended.err.count("doubt[drive-gain]") == 1
    assert "in doubt: drive-gain" in ended.out


def test_a_log_of_commands_keeps_the_plain_model(recording: Recording, arm: RobotModel) -> None:
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD), delay=0.01))
    assert identify(known, recording.log(known)).selection is None


def test_the_model_follows_commands_better_than_the_description(
    found: Identification, arm: RobotModel
) -> None:
    """Unseen commands, a description whose friction and armature are unknown."""
    unseen = unseen_rows().log(found.robot)
    bare = replace(found.robot, friction_prior=np.full((2, 2), np.nan))
    outcome = replay(replace(found, robot=bare), unseen)
    model, description = outcome.total
    assert model < 0.004
    assert description is not None
    assert model < 0.2 * description
    assert "mrad" in outcome.lines()[0]


def test_replay_is_exact_where_the_model_is(recording: Recording, found: Identification) -> None:
    """The plant itself as described: what is left is the noise of the log and the delay in steps of the simulation."""
    outcome = replay(found, unseen_rows().log(found.robot))
    assert outcome.description is not None
    assert outcome.description.max() < 0.002


def test_replay_wants_commands(found: Identification, recording: Recording) -> None:
    measured = Log.from_arrays(found.robot, recording.t, recording.q, recording.tau)
    with pytest.raises(UsageError, match="no-command"):
        replay(found, measured)


def test_the_error_of_a_replay_is_the_root_mean_square_over_its_joints() -> None:
    both = Replay(("a", "b"), np.array([3e-3, 4e-3]), np.array([6e-3, 8e-3]), 2.0)
    assert both.total == pytest.approx((np.sqrt(12.5) * 1e-3, np.sqrt(50.0) * 1e-3))
    assert "position error: 3.54 mrad (mm); robot file: 7.07" in both.lines()[0]
    alone = replace(both, description=None)
    assert alone.total == (both.total[0], None)
    assert "description" not in alone.lines()[0]


def changed(found: Identification, **values: float) -> Identification:
    """With other parameters, by name."""
    estimate = found.estimate
    theta = [values.get(c.name, x) for c, x in zip(estimate.columns, estimate.parameters, strict=True)]
    return replace(found, estimate=replace(estimate, parameters=np.array(theta)))


def test_a_model_that_runs_away_is_told(found: Identification) -> None:
    with pytest.raises(SolverError, match="replay-diverged"):
        replay(changed(found, fv1=-50.0), unseen_rows().log(found.robot))


def test_offsets_that_the_controller_makes_up_for_do_not_move_the_joints(found: Identification) -> None:
    unseen, robot, offset = recorded(seconds=2.0, seed=5), found.robot, np.array([0.7, -0.4])
    without = replay(changed(found, fo1=0.0, fo2=0.0), unseen.log(robot))
    fed = unseen.log(robot, tau_ff=np.tile(offset, (len(unseen.t), 1)))
    made_up = replay(changed(found, fo1=offset[0], fo2=offset[1]), fed)
    np.testing.assert_allclose(made_up.model, without.model, rtol=1e-6)


def test_exports_hold_the_controllers(found: Identification, tmp_path: Path) -> None:
    import mujoco

    new = replace(found, robot=replace(found.robot, source=""))
    (scene,) = export(new, tmp_path / "new.xml").files
    model = mujoco.MjModel.from_xml_path(str(scene))
    assert model.actuator_gainprm[:, 0] == pytest.approx(KP)
    assert model.actuator_biasprm[:, 2] == pytest.approx(-KD)
    (table,) = export(new, tmp_path / "actuators.json", "actuators").files
    elbow = json.loads(table.read_text())["actuators"][1]
    assert elbow["joint_names_expr"] == ["elbow"]
    assert elbow["stiffness"] == KP[1]
    assert elbow["armature"] == pytest.approx(ARMATURE[1], rel=0.1)
    assert elbow["max_delay"] == pytest.approx(0.01, abs=0.001)
    assert elbow["loop"] == "computer"


def test_a_velocity_that_never_changes_is_not_used(recording: Recording, arm: RobotModel) -> None:
    from dynid.signals.prepare import prepare

    dead = replace(recording, dq=recording.dq * [1.0, 0.0])
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD), delay=0.01))
    settings = prepare(dead.log(known)).settings
    assert settings.velocity == "differentiate" or settings.crossover is not None
    if settings.crossover is not None:
        assert settings.crossover[1] >= 200.0


def test_damping_acts_where_no_velocity_was_logged(
    recording: Recording, arm: RobotModel, found: Identification
) -> None:
    """A column that stays zero: the drive damped all the same, and friction must not hold its damping twice."""
    dead = replace(recording, dq=recording.dq * [1.0, 0.0])
    known = arm.with_servo(ServoSettings(kp=tuple(KP), kd=tuple(KD), delay=0.01))
    other = identify(known, dead.log(known), PLAIN)
    assert parameter(other, "fv2")[0] == pytest.approx(parameter(found, "fv2")[0], abs=0.05 * KD[1])
    assert replay(other, unseen_rows().log(found.robot)).total[0] < 0.004
