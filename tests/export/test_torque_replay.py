"""Exported files in other programs: a log is replayed better by the identified robot than by a wrong description."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, UnfitDataError, UsageError
from dynid.lab import TorqueReplay
from dynid.report import Page
from dynid.robot import RobotModel, load_example
from dynid.run import keep_replay, load
from dynid.signals import Samples
from dynid.terms import (
    Coulomb,
    MotorInertia,
    Offset,
    OnMotor,
    RigidBody,
    RotorInertia,
    Spring,
    TorsionSpring,
    Triangle,
    Viscous,
)
from tests.report.sections import section

pytestmark = pytest.mark.usefixtures("unexamined")

pytest.importorskip("mujoco")
TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.02) + Offset()


@pytest.fixture(scope="module")
def unseen() -> dynid.Log:
    return dynid.simulate(load_example("arm7"), seconds=6.0, seed=2)


@pytest.fixture(scope="module")
def result() -> dynid.Result:
    """Of a robot whose description is a third too heavy."""
    robot = load_example("arm7")
    log = dynid.simulate(robot, seconds=10.0, seed=1)
    found = dynid.identify(robot, log, dynid.Settings(terms=TERMS))
    heavy = replace(robot, inertia_prior=4.0 / 3.0 * np.array(robot.inertia_prior))
    fields = {name: getattr(found, name) for name in dynid.Result.__dataclass_fields__}
    return dynid.Result(**(fields | {"robot": heavy}))


@pytest.fixture(scope="module")
def replayed(result: dynid.Result, unseen: dynid.Log) -> TorqueReplay:
    return result.replay(unseen)


def row(one: TorqueReplay, program: str, description: str) -> tuple[np.ndarray, np.ndarray | None]:
    (found,) = (r for r in one.rows if (r.program, r.description) == (program, description))
    assert found.why == ""
    assert found.torque is not None
    return found.torque, found.motion


def test_the_identified_robot_moves_as_the_real_one(replayed: TorqueReplay) -> None:
    torque, motion = row(replayed, "MuJoCo", "identified")
    heavy_torque, heavy_motion = row(replayed, "MuJoCo", "as described")
    assert motion is not None
    assert heavy_motion is not None
    assert (torque < 0.03).all()
    assert (torque < 0.5 * heavy_torque).all()
    assert (motion < 0.02).all()
    assert np.linalg.norm(motion) < 0.2 * np.linalg.norm(heavy_motion)


def test_programs_agree(replayed: TorqueReplay) -> None:
    pytest.importorskip("pinocchio")
    for description in ("identified", "as described"):
        ours, _ = row(replayed, "pinocchio", description)
        np.testing.assert_allclose(ours, row(replayed, "MuJoCo", description)[0], rtol=0, atol=1e-6)


def test_its_torque_is_that_of_the_scores(
    result: dynid.Result, unseen: dynid.Log, replayed: TorqueReplay
) -> None:
    scores = dynid.validate(result, unseen).scores
    torque, _ = row(replayed, "MuJoCo", "identified")
    # Scores are relative to the measured torque with its offset.
    np.testing.assert_allclose(torque, scores.relative, rtol=0.05)


def test_the_first_row_is_what_the_model_misses(
    result: dynid.Result, unseen: dynid.Log, replayed: TorqueReplay
) -> None:
    scores = dynid.validate(result, unseen).scores
    torque, _ = row(replayed, "dynid", "identified")
    np.testing.assert_allclose(torque, scores.relative, rtol=0.05)
    (first,) = (one for one in replayed.rows if one.program == "dynid")
    assert first.all_torque is not None
    assert torque.min() <= first.all_torque <= torque.max()


def sprung(robot: object, log: dynid.Log, stiffness: float, preload: float) -> dynid.Log:
    """The log, with a torsion spring about the second joint that the robot's file knows nothing of."""
    (whole,) = (log.read(one) for one in log.trajectories)
    tau = np.array(whole.tau)
    tau[:, 1] += stiffness * whole.q[:, 1] + preload
    return dynid.Log.from_arrays(robot, whole.t, whole.q, tau, whole.dq)  # type: ignore[arg-type]  # of load_example


def levered(robot: RobotModel, log: dynid.Log, mounted: Triangle) -> dynid.Log:
    """The log, with a helical spring on a lever of the second joint."""
    (whole,) = (log.read(one) for one in log.trajectories)
    length, slopes = mounted.length(robot, whole.q)
    tau = np.array(whole.tau) + (4000.0 * length - 500.0)[:, None] * slopes
    return dynid.Log.from_arrays(robot, whole.t, whole.q, tau, whole.dq)  # type: ignore[arg-type]  # of load_example


def test_springs_of_joints_are_in_the_files(unseen: dynid.Log) -> None:
    # Half of the constant torque is the offset's by the estimate, which knows the sum alone: no half may be lost.
    pytest.importorskip("pinocchio")
    robot = load_example("arm7")
    train = sprung(robot, dynid.simulate(robot, seconds=10.0, seed=1), 60.0, 20.0)
    spring = TorsionSpring((robot.joint_names[1],), label="balance")
    found = dynid.identify(robot, train, dynid.Settings(terms=TERMS + spring))
    replayed = found.replay(sprung(robot, unseen, 60.0, 20.0))
    own, _ = row(replayed, "dynid", "identified")
    assert own[1] < 0.02
    for program in ("MuJoCo", "pinocchio"):
        torque, motion = row(replayed, program, "identified")
        np.testing.assert_allclose(torque, own, rtol=0, atol=1e-3)
        assert motion is None or motion[1] < 0.02
    assert replayed.lacking == ()
    assert not [one for one in replayed.rows if one.description.startswith("identified, with")]


def test_what_no_file_holds_has_rows_of_its_own(unseen: dynid.Log) -> None:
    robot = load_example("arm7")
    mounted = Triangle(robot.joint_names[1], 0.3, 0.1, 1.0)
    spring = Spring(mounted, label="balance")
    train = levered(robot, dynid.simulate(robot, seconds=10.0, seed=1), mounted)
    found = dynid.identify(robot, train, dynid.Settings(terms=TERMS + spring))
    replayed = found.replay(levered(robot, unseen, mounted))
    own, _ = row(replayed, "dynid", "identified")
    for program in ("MuJoCo", "pinocchio"):
        if program == "pinocchio":
            pytest.importorskip("pinocchio")
        alone, moved = row(replayed, program, "identified")
        beside, moved_beside = row(replayed, program, "identified, with spring")
        np.testing.assert_allclose(beside, own, rtol=0, atol=1e-3)
        assert alone[1] > 10 * own[1]
        np.testing.assert_allclose(np.delete(alone, 1), np.delete(beside, 1), rtol=1e-9)
        if moved is not None and moved_beside is not None:
            assert moved_beside[1] < 0.1 * moved[1]
    assert "Neither file can represent spring." in replayed.lines()


def test_motors_of_several_joints_are_in_mujocos_file(unseen: dynid.Log) -> None:
    robot = load_example("arm7")
    N = np.eye(7)
    N[1, 2] = 0.8
    coupled = replace(robot, drive=replace(robot.drive, transmission=N))
    terms = RigidBody() + MotorInertia() + OnMotor(Viscous()) + Coulomb(width=0.02) + Offset()
    (whole,) = (unseen.read(one) for one in unseen.trajectories)
    dq = np.gradient(whole.q, whole.t, axis=0)
    moved = Samples.from_motion(whole.q, dq, np.gradient(dq, whole.t, axis=0), np.zeros_like(dq))
    of_motors = MotorInertia() + OnMotor(Viscous())
    tau = np.array(whole.tau) + of_motors.torque(coupled, moved, np.array([*[2.0] * 7, *[5.0] * 7]))
    log = dynid.Log.from_arrays(coupled, whole.t, whole.q, tau, whole.dq)
    replayed = dynid.identify(coupled, log, dynid.Settings(terms=terms)).replay(log)
    own, _ = row(replayed, "dynid", "identified")
    np.testing.assert_allclose(row(replayed, "MuJoCo", "identified")[0], own, rtol=0, atol=1e-3)


def test_files_hold_consistent_bodies_and_so_are_replayed(
    result: dynid.Result, unseen: dynid.Log, tmp_path: Path
) -> None:
    heavy = np.array(result.estimate.parameters)
    heavy[0] = -5.0  # kg, of a first link that no simulator takes
    fields = {name: getattr(result, name) for name in dynid.Result.__dataclass_fields__}
    broken = dynid.Result(
        **(
            fields
            | {"estimate": replace(result.estimate, parameters=heavy, consistent=result.estimate.parameters)}
        )
    )
    replayed = broken.replay(unseen)
    assert replayed.made_consistent
    torque, motion = row(replayed, "MuJoCo", "identified")
    expected, expected_motion = row(result.replay(unseen), "MuJoCo", "identified")
    np.testing.assert_allclose(torque, expected, rtol=1e-12)
    assert motion is not None
    assert expected_motion is not None
    np.testing.assert_allclose(motion, expected_motion, rtol=1e-12)
    assert "not physically consistent" in repr(replayed)


def test_the_table_tells_what_was_done(replayed: TorqueReplay) -> None:
    text = repr(replayed)
    assert "windows of 0.25 s" in text
    assert "MuJoCo, as described, motion" in text
    assert "joint7" in text


def test_a_program_that_is_not_there_is_named(
    result: dynid.Result, unseen: dynid.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mujoco", "pinocchio"):
        monkeypatch.setitem(sys.modules, name, None)
    lines = result.replay(unseen).lines()
    assert "pinocchio, identified: not replayed: the program is not installed" in lines
    assert "MuJoCo, as described: not replayed: the program is not installed" in lines


def test_what_is_no_window_is_said(result: dynid.Result, unseen: dynid.Log) -> None:
    with pytest.raises(UsageError, match="a window of 0"):
        result.replay(unseen, window=0.0)
    with pytest.raises(UnfitDataError, match="no 100 s"):
        result.replay(unseen, window=100.0)


@pytest.mark.parametrize(("suffix", "program"), [(".xml", "MuJoCo"), (".urdf", "pinocchio")])
def test_the_users_own_file_is_replayed(
    result: dynid.Result, unseen: dynid.Log, tmp_path: Path, suffix: str, program: str
) -> None:
    pytest.importorskip(program.lower())
    path = tmp_path / f"arm{suffix}"
    result.export(path)
    text = path.read_text()
    if suffix == ".xml":
        # What simulators need and a replay does not: meshes that are elsewhere, sensors.
        text = text.replace("<worldbody>", '<asset><mesh name="hull" file="gone.stl"/></asset><worldbody>')
        text = text.replace("</body>", '<geom type="mesh" mesh="hull"/></body>', 1)
    path.write_text(text)
    theirs = dynid.load_robot(path, diagnostics=Diagnostics())
    fields = {name: getattr(result, name) for name in dynid.Result.__dataclass_fields__}
    own = dynid.Result(**(fields | {"robot": theirs}))
    rows = {(row.program, row.description): row for row in own.replay(unseen).rows}
    new, edited = rows[program, "identified"], rows[program, "identified, in your file"]
    assert edited.why == ""
    assert new.torque is not None
    assert edited.torque is not None
    np.testing.assert_allclose(edited.torque, new.torque, rtol=1e-6)
    if suffix == ".xml":
        assert new.motion is not None
        assert edited.motion is not None
        np.testing.assert_allclose(edited.motion, new.motion, rtol=1e-3)
    assert (path.read_text() == text, sorted(tmp_path.iterdir())) == (True, [path])


def test_errors_are_kept_with_the_run_and_stand_in_its_report(
    result: dynid.Result, replayed: TorqueReplay, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    dynid.save(result, run)
    assert "Not done yet" in str(section("replay").render(load(run), Page()))
    again = keep_replay(run, replayed.plain() | {"logs": ["unseen.csv"]})
    assert again.replayed == load(run).replayed
    assert again.replayed is not None
    assert again.replayed["rows"][0]["torque"] == replayed.rows[0].torque.tolist()  # type: ignore[union-attr]  # rows were kept
    html = str(section("replay").render(again, Page()))
    for text in ("MuJoCo", "pinocchio", "as described", "unseen.csv", *result.robot.joint_names):
        assert text in html
    # One of a run that was here before, or that is damaged, is not this one's.
    kept = json.loads((run / "replay.json").read_text())
    for text in (json.dumps(kept | {"run": "earlier"}), "{"):
        (run / "replay.json").write_text(text)
        assert load(run).replayed is None
