"""Reverse engineering: what a model's mass matrix and gravity torque say of its parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import InputError, UnfitDataError, UsageError
from dynid.kernel import gravity_torque, mass_matrix, nonlinear_effects
from dynid.log import write_log
from dynid.papers import parameters_from_model, read_model_table
from dynid.robot import load_robot
from dynid.terms import RigidBody, RotorInertia
from dynid.testing import random_inertia, random_robot
from tests.command_line import Run
from tests.robot_files import ROBOTS


def test_panda_from_good_configurations(data_dir: Path) -> None:
    table = pq.read_table(data_dir / "panda_gaz" / "good_confs_1010.parquet")
    q = np.stack([table[f"q{j}"].to_numpy() for j in range(1, 8)], axis=1)
    robot = load_robot(ROBOTS / "panda_gaz.toml")
    pi = random_inertia(3, 7)
    M, g = mass_matrix(robot.tree, pi, q), gravity_torque(robot.tree, pi, q)
    found = parameters_from_model(robot, q, M, g)
    assert found.estimate.base.rank == found.structural.rank == 43
    beta = found.estimate.base.reduce(pi.ravel())
    assert np.abs(found.estimate.value - beta).max() < 1e-9 * np.abs(beta).max()
    assert max(found.mass_error, found.gravity_error) < 1e-9
    theta = found.estimate.full_vector
    rng = np.random.default_rng(0)
    q, dq = rng.uniform(-2, 2, (50, 7)), rng.normal(0, 1, (50, 7))
    np.testing.assert_allclose(
        nonlinear_effects(robot.tree, theta, q, dq), nonlinear_effects(robot.tree, pi, q, dq), atol=1e-7
    )
    assert parameters_from_model(robot, q, mass_matrix(robot.tree, pi, q)).estimate.base.rank == 39
    assert parameters_from_model(robot, q, gravity=gravity_torque(robot.tree, pi, q)).estimate.base.rank == 12


def test_either_triangle_says_the_same() -> None:
    robot = random_robot(4, 4, 0.3)
    q = np.random.default_rng(1).uniform(-2, 2, (200, 4))
    noise = np.random.default_rng(2).normal(0, 0.05, (200, 4, 4))
    M = mass_matrix(robot.tree, robot.inertia_prior, q) + noise + noise.transpose(0, 2, 1)
    M[:, np.tril_indices(4, -1)[0], np.tril_indices(4, -1)[1]] = np.nan
    upper, lower = (parameters_from_model(robot, q, one).estimate.value for one in (M, M.transpose(0, 2, 1)))
    np.testing.assert_allclose(lower, upper, rtol=1e-12, atol=1e-12)


def test_parts_and_rotors() -> None:
    robot = random_robot(4, 4, 0.3)
    q = np.random.default_rng(1).uniform(-2, 2, (200, 4))
    pi, rotor = robot.inertia_prior, np.array([0.1, 0.2, 0.3, 0.4])
    M = mass_matrix(robot.tree, pi, q) + np.diag(rotor)
    g = gravity_torque(robot.tree, pi, q)
    M[:, np.tril_indices(4, -1)[0], np.tril_indices(4, -1)[1]] = np.nan  # the upper triangle says it all
    M[::3, 0, 2] = np.nan
    g[:, 1] = np.nan
    found = parameters_from_model(robot, q, M, g, RigidBody() + RotorInertia())
    beta = found.estimate.base.reduce(np.append(pi.ravel(), rotor))
    np.testing.assert_allclose(found.estimate.value, beta, atol=1e-8)


def test_functions_of_position_and_bodies_that_can_exist() -> None:
    robot = random_robot(3, 3, 0.0)
    pi, bodies = robot.inertia_prior, replace(robot, inertia_prior=np.full((3, 10), np.nan))
    q = np.random.default_rng(1).uniform(-2, 2, (80, 3))
    found = parameters_from_model(
        bodies,
        q,
        lambda one: mass_matrix(robot.tree, pi, one[None])[0],
        lambda one: gravity_torque(robot.tree, pi, one[None])[0],
        feasible=True,
    )
    beta = found.estimate.base.reduce(pi.ravel())
    np.testing.assert_allclose(found.estimate.value, beta, atol=1e-4 * np.abs(beta).max())
    assert max(found.mass_error, found.gravity_error) < 1e-4
    theta = found.estimate.parameters.reshape(3, 10)
    assert all(is_consistent(one) for one in theta)
    plain = parameters_from_model(
        bodies, q, mass_matrix(robot.tree, pi, q), gravity_torque(robot.tree, pi, q)
    )
    assert not all(is_consistent(one) for one in plain.estimate.parameters.reshape(3, 10))


def is_consistent(ten: np.ndarray) -> bool:
    """Whether a body's pseudo-inertia is positive, from m, first moments and inertia."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = ten
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    pseudo = np.zeros((4, 4))
    pseudo[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    pseudo[:3, 3] = pseudo[3, :3] = x, y, z
    pseudo[3, 3] = m
    return bool(np.linalg.eigvalsh(pseudo)[0] > 0)


def test_refusals() -> None:
    robot = random_robot(1, 3, 0.0)
    q = np.random.default_rng(1).uniform(-2, 2, (60, 3))
    M = mass_matrix(robot.tree, robot.inertia_prior, q)
    with pytest.raises(UsageError, match="neither"):
        parameters_from_model(robot, q)
    with pytest.raises(UsageError, match="shape"):
        parameters_from_model(robot, q, M[:10])
    wrong = np.array(M)
    wrong[5] = -wrong[5]
    with pytest.raises(UnfitDataError, match="row 5"):
        parameters_from_model(robot, q, wrong)
    lost = np.array(q)
    lost[7, 1] = np.nan
    with pytest.raises(UnfitDataError, match="row 7"):
        parameters_from_model(robot, lost, M)


def test_reveal_on_the_command_line(run: Run, robot_file: Path, tmp_path: Path) -> None:
    robot = load_robot(robot_file)
    q = np.random.default_rng(1).uniform(-2, 2, (80, 2))
    M = mass_matrix(robot.tree, robot.inertia_prior, q)
    g = gravity_torque(robot.tree, robot.inertia_prior, q)
    a, b = robot.joint_names
    columns = {f"q_{a}": q[:, 0], f"q_{b}": q[:, 1], f"g_{a}": g[:, 0], f"g_{b}": g[:, 1]}
    columns |= {f"M_{a}_{a}": M[:, 0, 0], f"M_{a}_{b}": M[:, 0, 1], f"M_{b}_{b}": M[:, 1, 1]}
    table = write_log(tmp_path / "model.csv", np.arange(80.0), columns)
    found = run("reveal", robot_file, table, "--out", tmp_path / "found.csv")
    assert found.code == 0, found.err
    assert "coefficients from 80 samples" in found.out
    assert (tmp_path / "found.csv").read_text().startswith("formula,unit,value,half_width_95\n")
    text = (tmp_path / "found.csv").read_text()
    assert run("reveal", robot_file, table, "--out", tmp_path / "found.csv").code == 7
    (tmp_path / "found.csv").write_text("old")
    assert run("reveal", robot_file, table, "--out", tmp_path / "found.csv", "--force").code == 0
    assert (tmp_path / "found.csv").read_text() == text
    found = run("reveal", robot_file, table, "--feasible", "--bodies", tmp_path / "bodies.csv")
    assert found.code == 0, found.err
    lines = (tmp_path / "bodies.csv").read_text().splitlines()
    assert lines[0] == "parameter,unit,value"
    assert lines[1].startswith("m1,kg,")
    assert len(lines) == 21
    columns[f"M_{b}_{b}"] = np.where(np.arange(80) == 11, -M[:, 1, 1], M[:, 1, 1])
    wrong = run("reveal", robot_file, write_log(tmp_path / "bad.csv", np.arange(80.0), columns))
    assert wrong.code == 4
    assert "row 11" in wrong.err
    columns[f"M_{b}_{b}"], columns[f"M_{b}_{a}"] = M[:, 1, 1], M[:, 0, 1] + 0.1 * (np.arange(80) == 5)
    wrong = run("reveal", robot_file, write_log(tmp_path / "askew.csv", np.arange(80.0), columns))
    assert wrong.code == 4
    assert "row 5" in wrong.err
    assert "transpose" in wrong.err
    with pytest.raises(InputError, match="neither"):
        read_model_table(
            write_log(tmp_path / "q.csv", np.arange(2.0), {f"q_{a}": q[:2, 0], f"q_{b}": q[:2, 1]}), robot
        )
    with pytest.raises(InputError, match="no column q_"):
        read_model_table(write_log(tmp_path / "g.csv", np.arange(2.0), {f"g_{a}": q[:2, 0]}), robot)
