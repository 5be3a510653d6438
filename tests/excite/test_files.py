"""Motions as files: the same numbers in every format, a page, a folder; the command line."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import signal
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import UsageError, options_of
from dynid.excitation import REMOVED_OPTIONS, Criterion, Format, MotionSettings, information_of, plan
from dynid.excitation.design import solve
from dynid.excitation.plan import design_terms, information_after
from dynid.excitation.settings import FILES, times, write_motion
from dynid.factor import Assembly, Blocking
from dynid.robot import load_example
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.trajectories import BasisTrajectory, FourierBasis, FourierTrajectory
from tests.command_line import SHORT_SEARCH, Run, planned

NAMES = ("a", 'b "quoted": {c}', "d", "e", "f", "g")
MOTION = BasisTrajectory(FourierBasis(4.0, 2, 0.5, 1.0), np.random.default_rng(0).normal(0, 0.2, (5, 6)))


def test_tables_hold_the_exact_motion(tmp_path: Path) -> None:
    path = write_motion(tmp_path, NAMES, MOTION, Format.PARQUET, 50.0)
    table = pq.read_table(path)
    t = table["t"].to_numpy()
    np.testing.assert_allclose(t, np.arange(201) / 50.0)
    for prefix, values in zip(("q", "dq", "ddq"), MOTION.motion(t), strict=True):
        for j, name in enumerate(NAMES):
            np.testing.assert_array_equal(table[f"{prefix}_{name}"].to_numpy(), values[:, j])
    with write_motion(tmp_path, NAMES, MOTION, Format.CSV, 50.0).open(newline="") as file:
        assert len(list(csv.reader(file))) == 202


def test_ros2_points(tmp_path: Path) -> None:
    written = write_motion(tmp_path, NAMES, MOTION, Format.ROS2, 20.0).read_text().splitlines()
    lines = [line for line in written if not line.startswith("#")]
    assert json.loads(lines[0].removeprefix("joint_names: ")) == list(NAMES)
    points = [line for line in lines if line.startswith("- positions: ")]
    found = np.array([json.loads(line.removeprefix("- positions: ")) for line in points])
    np.testing.assert_allclose(found, MOTION.motion(times(4.0, 20.0))[0], atol=1e-9)
    stamps = [line for line in lines if "time_from_start" in line]
    assert stamps[0].endswith("{sec: 0, nanosec: 0}")
    assert stamps[-1].endswith("{sec: 4, nanosec: 0}")
    assert stamps[21].endswith("{sec: 1, nanosec: 50000000}")


def test_libfranka_rows_come_at_one_kilohertz(tmp_path: Path) -> None:
    rows = np.loadtxt(write_motion(tmp_path, NAMES, MOTION, Format.LIBFRANKA, 7.0), delimiter=",")
    assert rows.shape == (4001, 19)
    np.testing.assert_allclose(rows[:, 1:7], MOTION.motion(rows[:, 0])[0], atol=1e-9)


def test_urscript_is_for_six_joints(tmp_path: Path) -> None:
    text = write_motion(tmp_path, NAMES, MOTION, Format.URSCRIPT, 100.0).read_text()
    assert re.search(r"^def excitation\(\):\n  movej\(\[", text, re.MULTILINE)
    assert text.count("servoj(") == 400
    assert text.endswith("stopj(2.0)\nend\n")
    with pytest.raises(UsageError, match="six joints"):
        write_motion(tmp_path, "abcdefg", BasisTrajectory(MOTION.basis, np.zeros((5, 7))), Format.URSCRIPT)


def test_bad_rates_are_refused(tmp_path: Path) -> None:
    for rate in (0.0, -1.0, np.nan, 1e12):
        with pytest.raises(UsageError, match="rate"):
            write_motion(tmp_path, NAMES, MOTION, Format.CSV, rate)


def test_factors_of_a_run_count_as_recorded_rows() -> None:
    robot = load_example("arm7")
    terms = RigidBody() + Viscous() + Coulomb()
    information = information_of(robot, terms, np.ones(7))
    t = np.arange(0, 8, 0.05)
    motion = FourierTrajectory.random(robot, 8.0, 4, 3).motion(t)
    smooth = design_terms(terms, robot)
    whole = ParallelFilter(20.0, None)
    assembly = Assembly(robot, smooth, TorqueRows(), information.base.mask, whole, Blocking(1.0))
    factors = assembly.factors([Samples.from_motion(*motion, rate=20.0)])
    after = information_after(robot, terms, factors, np.ones(7))
    assert after.recorded is not None
    W = information.triangle(*motion) * np.sqrt(len(t))
    np.testing.assert_allclose(after.recorded.T @ after.recorded, W.T @ W, rtol=1e-8, atol=1e-8)
    assert after.rate == pytest.approx(20.0, rel=0.06)
    assert after.criterion is Criterion.LOGDET


ARM = files("dynid") / "data" / "arm7.toml"


def test_a_stored_motion_is_written_in_other_forms(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "traj"
    keys = {"motion.seconds": 8.0, "motion.harmonics": 2, "search.starts": 1, "search.iterations": 1}
    assert run("excite", ARM, *planned(tmp_path, keys), "--out", out).code == 0
    # At the same speeds, with what was not checked, without another search.
    again = run("export", out, "--to", tmp_path / "again", "--format", "csv, ros2")
    assert again.code == 0, again.err
    for name in ("motion.csv", "motion-25.csv", "motion-50.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    slow = (tmp_path / "again" / "joint_trajectory-25.yaml").read_text()
    assert slow.startswith("# NOT CHECKED: the robot's own shapes")
    assert "32 s" in slow.splitlines()[1]
    for options, code, words in (
        (("--format", "urscript"), 2, "six joints"),
        ((), 2, "no --format"),
        (("--format", "urdf"), 2, "csv, parquet, ros2"),
        (("--format", "csv", "--ensemble", 3), 2, "--ensemble with a planned motion"),
    ):
        done = run("export", out, "--to", tmp_path / "none", *options)
        assert (done.code, words in done.err) == (code, True), done.err
        assert not (tmp_path / "none").exists()
    assert run("export", out, "--to", tmp_path / "again", "--format", "csv").code == 7
    assert run("export", out, "--to", tmp_path / "again", "--format", "csv", "--force").code == 0
    assert not (tmp_path / "again" / "joint_trajectory.yaml").exists()


def test_the_command_writes_a_whole_folder(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "traj"
    keys = {
        "motion.seconds": 8.0, "motion.frequency": 0.25, "motion.harmonics": 3, "search.starts": 1,
        "search.iterations": 3, "search.workers": 1,
    }  # fmt: skip
    command = ("excite", ARM, *planned(tmp_path, keys), "--floor", -0.5, "--out", out)
    done = run(*command)
    assert done.code == 0, done.err
    assert {path.name for path in out.iterdir()} == {
        "plan.json", "motion.toml", "picture.html", "trajectory.json", FILES[Format.CSV], "motion-25.csv",
        "motion-50.csv", "manifest.json",
    }  # fmt: skip
    stored = json.loads((out / "plan.json").read_text())
    assert min(m["margin"] for m in stored["margins"]) >= 0
    assert FourierTrajectory.from_json((out / "trajectory.json").read_text()).duration == 8.0
    assert done.out.startswith("NOT CHECKED: the robot's own shapes")
    assert (out / FILES[Format.CSV]).read_text().startswith("# NOT CHECKED: the robot's own shapes")
    page = (out / "picture.html").read_text()
    assert all(
        word in page for word in ("Margins", "velocity", "torque", "Smallest distances", "NOT CHECKED")
    )
    # The moving robot, on the floor that it keeps off, at most 30 frames a second of the 8 s.
    scene = json.loads(page.split('class="scene-data">')[1].split("</script>")[0])
    assert len(base64.b64decode(scene["motion"]["q"])) == 4 * 7 * 241
    assert {round(line[2], 6) for line in scene["grid"]} == {-0.5}
    assert len(scene["lines"]) == 4
    refused = run(*command)
    assert (refused.code, "--force to replace that plan" in refused.err) == (7, True)
    (out / "picture.html").unlink()
    assert run(*command, "--force").code == 0
    assert (out / "picture.html").read_text() == page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plans", "traj"]


def test_force_replaces_a_plan_alone(tmp_path: Path, run: Run) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "arm.toml").write_bytes(ARM.read_bytes())
    for robot, word in ((ARM, "not a plan folder"), (mine / "arm.toml", "output-is-input")):
        done = run("excite", robot, "--out", mine, "--force")
        assert (done.code, word in done.err) == (7, True), done.err
    assert [path.name for path in mine.iterdir()] == ["arm.toml"]


def test_the_command_names_what_is_wrong(tmp_path: Path, run: Run, robot_file: Path) -> None:
    out = tmp_path / "none"
    for key, value, code, words in (
        ("motion.criterion", "best", 3, "'condition', 'logdet'"),
        ("output.formats", ["urscript"], 2, "six joints"),
        ("tool.point", [1.0, 2.0], 3, "3 numbers"),
        ("limits.velocity", [1.0, 2.0], 2, "2 limits"),
        ("limits.velocity", 0.0, 4, "velocity limit of 0"),
        ("motion.focus", ["m1"], 4, "no influence"),
        ("surroundings.floor", 9.0, 4, "floor"),
        ("shapes.radius", [0.1, 0.1], 3, "2 radii"),
        ("surroundings.clearance", 9.0, 2, "every pair"),
        ("motion.harmonics", 400, 2, "5607 coefficients"),
        ("motion.seconds", 1e5, 2, "up to 10000000 rows"),
        ("output.rate", 0.0, 3, "output.rate = 0.0"),
        ("motion.second", 3.0, 3, "did you mean 'seconds'?"),
    ):
        plan = planned(tmp_path, {"search.workers": 1, key: value})
        done = run("excite", ARM, "--out", out, *plan)
        assert (done.code, words in done.err) == (code, True), (key, done.err)
        assert not out.exists()
    done = run("excite", robot_file, "--out", out)
    assert (done.code, "no limits for 'shoulder' (position, velocity)" in done.err) == (2, True), done.err
    done = run("excite", robot_file)
    assert (done.code, "--out FOLDER" in done.err) == (2, True), done.err


@pytest.mark.parametrize(("option", "key"), sorted(REMOVED_OPTIONS.items()))
def test_an_option_that_became_a_key_is_named(option: str, key: str, run: Run) -> None:
    done = run("excite", ARM, option, "1", "--out", "nowhere")
    assert done.code == 2
    assert (f"{key} in a plan file" in done.err) if key else ("always used" in done.err), done.err
    if key:
        table, name = key.split(".")
        assert name in options_of(type(getattr(MotionSettings(), table)))


def test_limits_beyond_the_description_are_stated(tmp_path: Path, run: Run) -> None:
    short = SHORT_SEARCH | {"search.iterations": 1}
    fast = planned(tmp_path, short | {"limits.velocity": 3.0, "limits.upper": 2.0})
    done = run("excite", ARM, *fast, "--out", tmp_path / "fast")
    assert done.code == 0
    assert "limits-raised" in done.err
    assert "velocity of 'joint1'" in done.err
    assert "position of 'joint2'" in done.err
    assert "velocity of 'joint5'" not in done.err
    slow = planned(tmp_path, short | {"limits.velocity": 1.0})
    done = run("excite", ARM, *slow, "--out", tmp_path / "slow")
    assert (done.code, done.err) == (0, "")


def test_ctrl_c_keeps_the_best_so_far(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return solve(*arguments)

    monkeypatch.setattr(plan, "solve", interrupted)
    keys = {
        "motion.seconds": 8.0, "motion.frequency": 0.25, "motion.harmonics": 2, "search.iterations": 50,
        "search.workers": 1,
    }  # fmt: skip
    done = run("excite", ARM, *planned(tmp_path, keys), "--out", tmp_path / "traj")
    assert (done.code, "the best motion so far" in done.err, "stopped" in done.out) == (0, True, True), (
        done.err
    )
    stored = json.loads((tmp_path / "traj" / "plan.json").read_text())
    assert stored["stopped"]
    assert (stored["starts"], stored["iterations"]) == (1, 1)
    assert min(m["margin"] for m in stored["margins"]) >= 0
    assert "search was stopped early" in (tmp_path / "traj" / "picture.html").read_text()


def test_a_colliding_start_pose_is_refused(tmp_path: Path, run: Run) -> None:
    folded = {"motion.start": [0.0, 0.0, 0.0, 1.9, 0.0, 1.8, 0.0], "shapes.radius": 0.13, "limits.share": 1.0}
    folded |= {"surroundings.clearance": 0.02, "search.iterations": 1}
    done = run("excite", ARM, *planned(tmp_path, folded), "--out", tmp_path / "traj")
    assert (done.code, "start-collides" in done.err) == (4, True), done.err
    assert not (tmp_path / "traj").exists()
