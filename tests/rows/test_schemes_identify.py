"""Every scheme through the whole job: the same parameters, judged on torque."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.identification import Settings, identify, settings_to_experiment
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, PowerRows, Rows, StaticRows, TorqueRows
from dynid.signals import Preparation
from dynid.simulation.open_loop import open_loop
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import random_robot, smooth_samples
from dynid.verbs import compare_schemes, scheme_lines
from dynid.verbs.schemes import compare_on_unseen
from tests.command_line import Run

pytestmark = pytest.mark.usefixtures("unexamined")

TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02) + Offset()


@pytest.mark.parametrize("rows", [MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows(2.0)])
def test_schemes_agree_and_are_judged_on_torque(rows: Rows, robot_file: Path, train_log: Path) -> None:
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(train_log, robot)
    plain = identify(robot, log, Settings(terms=TERMS))
    found = identify(robot, log, Settings(terms=TERMS, rows=rows))
    assert found.estimate.base.rank == plain.estimate.base.rank
    assert found.validations[0].scores.joint_names == robot.joint_names
    np.testing.assert_allclose(
        found.validations[0].scores.torque_rms, plain.validations[0].scores.torque_rms, rtol=1e-9
    )
    assert found.validations[0].scores.total_relative < 3.0 * plain.validations[0].scores.total_relative
    assert settings_to_experiment(Settings(terms=TERMS, rows=rows))["model"]["rows"]["rows"] == rows.name


def test_open_loop_follows_the_true_model_and_reports_divergence() -> None:
    robot = random_robot(1, 2, 0.0)
    terms = RigidBody() + Viscous()
    theta = np.concatenate([robot.inertia_prior.ravel(), [0.3, 0.2]])
    motion = smooth_samples(robot, 400, seed=3, rate=400.0)
    motion = replace(motion, tau=terms.torque(robot, motion, theta))
    run = open_loop(robot, terms, theta, motion)
    assert run.diverged_at is None
    assert run.norm.max() < 1e-2
    assert "q_error" in run.lines()[0]
    wrong = np.array(theta)
    wrong[-2:] = -50.0
    run = open_loop(robot, terms, wrong, motion)
    assert run.diverged_at is not None
    assert np.isinf(run.norm).all()
    assert "diverges" in run.lines()[0]
    assert open_loop(robot, terms, -theta, motion).diverged_at is not None


def test_rows_on_the_command_line(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    found = run("identify", robot_file, train_log, "--rows", "all", "--out", tmp_path / "all")
    assert found.code == 0, found.err
    table = found.out[found.out.index("rows  ") :]
    for name in ("torque", "momentum", "energy", "power", "filtered_power"):
        assert f"\n{name} " in table
    assert "base parameter" in table
    assert "open loop" in table.splitlines()[0]
    by_joint = table[table.index("||q_error||_2 per joint") :].splitlines()
    assert "shoulder" in by_joint[1]
    norms = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in by_joint[2:7]}
    assert set(norms) == {"torque", "momentum", "energy", "power", "filtered_power"}
    assert all(len(values) == 2 and min(values) > 0 for values in norms.values())
    found = run("identify", robot_file, train_log, "--rows", "momentum", "--out", tmp_path / "momentum")
    assert found.code == 0, found.err
    stored = json.loads((tmp_path / "momentum" / "run.json").read_text())
    assert stored["experiment"]["model"]["rows"] == "momentum"
    assert run("identify", robot_file, train_log, "--rows", "moment", "--out", tmp_path / "x").code == 3
    stored = tmp_path / "momentum"
    found = run("validate", stored, train_log, "--open-loop", "0.5", "--picture", tmp_path / "run.html")
    assert found.code == 0, found.err
    assert "elbow: ||q_error|| = " in found.out
    assert "measured torque" in (tmp_path / "run.html").read_text()
    assert run("validate", stored, train_log, "--open-loop", "0").code == 2
    again = run("validate", stored, train_log, "--open-loop", "1", "--picture", tmp_path / "run.html")
    assert again.code == 7


def test_schemes_are_compared_on_a_held_out_log(robot_file: Path, train_log: Path) -> None:
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(train_log, robot)
    settings = Settings(terms=TERMS, preparation=Preparation(cutoff=10.0))
    schemes = (TorqueRows(), MomentumRows(10.0))
    results = compare_schemes(robot, log, settings, validation=log, schemes=schemes)
    found = compare_on_unseen(results)
    assert found is not None
    assert [one.name for one in found.candidates] == ["torque", "momentum"]
    total = [one.squares.sum() for one in found.candidates]
    assert found.best == int(np.argmin(total))
    missed = [one.identification.validations[0].scores.rms for one in results if one.identification]
    worse = np.square(missed) / np.min(np.square(missed), axis=0)
    np.testing.assert_allclose(total[0] / total[1], worse[0].sum() / worse[1].sum(), rtol=1e-9)
    assert any("within one standard error of the best" in line for line in scheme_lines(results))
    assert compare_on_unseen(results[:1]) is None


def test_a_scheme_that_fails_is_reported(robot_file: Path, train_log: Path) -> None:
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(train_log, robot)
    results = compare_schemes(robot, log, Settings(terms=TERMS), schemes=(StaticRows(), MomentumRows()))
    assert results[0].identification is None
    assert "a pose in motion" in results[0].failure
    assert results[1].identification is not None
    assert any("a pose in motion" in line for line in scheme_lines(results))
