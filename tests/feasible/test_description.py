"""Limits of bodies from the shapes in a URDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, RefusedError, UsageError
from dynid.estimate import OLS, Estimator, FeasibleFit
from dynid.feasible import (
    CentreHalfSpaces,
    limits_from_description,
    limits_of_body,
    limits_of_robot,
    limits_text,
)
from dynid.identification import Experiment
from dynid.robot import load_robot, lock_joints
from dynid.spatial import rotation_rpy
from dynid.terms import RigidBody
from tests.command_line import Run
from tests.export.models import shipped
from tests.feasible.test_estimator import half
from tests.feasible.test_mesh import BOX, binary

ARM = """<robot name="arm"><link name="base"><collision><geometry><sphere radius="9"/></geometry></collision></link>
<link name="upper">
  <collision><origin xyz="0.1 0 0" rpy="0 1.2 0.3"/>
    <geometry><cylinder radius="0.05" length="0.3"/></geometry></collision>
  <collision><origin xyz="0.3 0 0"/><geometry><sphere radius="0.06"/></geometry></collision>
  <visual><geometry><box size="1 1 1"/></geometry></visual>
</link>
<link name="plate"><collision><geometry><box size="0.2 0.1 0.02"/></geometry></collision></link>
<link name="fore"><collision><origin xyz="0 0 0.1"/><geometry>MESH</geometry></collision></link>
<joint name="j1" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="fix" type="fixed"><origin xyz="0.4 0 0" rpy="0 0 1"/><parent link="upper"/><child link="plate"/></joint>
<joint name="j2" type="continuous"><parent link="plate"/><child link="fore"/><axis xyz="0 1 0"/></joint>
</robot>
"""
MESH = '<mesh filename="package://my_arm/meshes/fore.stl" scale="0.001 0.001 0.002"/>'


def package(folder: Path, mesh: str = MESH) -> Path:
    """A URDF in a package with a mesh in millimetres."""
    for name in ("urdf", "meshes"):
        (folder / "my_arm" / name).mkdir(parents=True)
    (folder / "my_arm" / "meshes" / "fore.stl").write_bytes(binary(1000 * BOX))
    (folder / "my_arm" / "meshes" / "fore.dae").write_text("<COLLADA/>")
    path = folder / "my_arm" / "urdf" / "arm.urdf"
    path.write_text(ARM.replace("MESH", mesh))
    return path


def outside(hull: list[list[float]], points: np.ndarray) -> float:
    """By how much the farthest of some points lies outside a hull, m."""
    planes = CentreHalfSpaces.hull(1, np.array(hull))
    return float((points @ np.array(planes.normals).T - np.array(planes.limits)).max())


def test_hulls_hold_their_shapes_and_little_more(tmp_path: Path) -> None:
    first, second = limits_from_description(package(tmp_path))
    assert (first["body"], second["body"]) == (1, 2)
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(2000, 3))
    ball *= 0.06 / np.linalg.norm(ball, axis=1, keepdims=True)
    turn = rng.uniform(0, 2 * np.pi, 2000)
    can = np.column_stack([0.05 * np.cos(turn), 0.05 * np.sin(turn), rng.choice([-0.15, 0.15], 2000)])
    tilted = can @ rotation_rpy(np.array([0.0, 1.2, 0.3])).T + [0.1, 0.0, 0.0]
    plate = rng.choice([-0.5, 0.5], (100, 3)) * [0.2, 0.1, 0.02]
    carried = plate @ rotation_rpy(np.array([0.0, 0.0, 1.0])).T + [0.4, 0.0, 0.0]
    whole = np.concatenate([ball + np.array([0.3, 0.0, 0.0]), tilted, carried])
    assert outside(first["hull"], whole) <= 1e-9
    assert outside(whole.tolist(), np.array(first["hull"])) < 0.006
    expected = BOX * [1.0, 1.0, 2.0] + [0.0, 0.0, 0.1]
    np.testing.assert_allclose(sorted(second["hull"]), sorted(expected.tolist()), atol=1e-6)


def test_bodies_are_those_of_the_robot_as_it_is_held(tmp_path: Path) -> None:
    # A log without j1 holds it: what was the second body is the first.
    robot = lock_joints(load_robot(package(tmp_path)), {"j1": 0.0}).robot
    (only,) = limits_of_robot(robot)
    assert only["body"] == 1
    expected = BOX * [1.0, 1.0, 2.0] + [0.0, 0.0, 0.1]
    np.testing.assert_allclose(sorted(only["hull"]), sorted(expected.tolist()), atol=1e-6)


def test_visual_shapes_are_other_shapes(tmp_path: Path) -> None:
    (only,) = limits_from_description(package(tmp_path), geometry="visual")
    assert np.ptp(np.array(only["hull"]), axis=0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ('<mesh filename="package://my_arm/meshes/none.stl"/>', "no such file"),
        ('<mesh filename="package://other/fore.stl"/>', "package-missing"),
        ('<mesh filename="package://my_arm/meshes/fore.stl"/>', r"0\.001"),
        ('<mesh filename="package://my_arm/meshes/fore.dae"/>', "fore.dae"),
        ("<box/>", "without a size"),
        ('<cylinder radius="0.1"/>', "without a size"),
        ("<cone/>", "cone"),
        ("", "without a shape"),
    ],
)
def test_bodies_with_a_shape_that_cannot_be_read_are_left_out(
    tmp_path: Path, mesh: str, message: str
) -> None:
    diagnostics = Diagnostics()
    entries = limits_from_description(package(tmp_path, mesh), diagnostics=diagnostics)
    assert [entry["body"] for entry in entries] == [1]
    (warning,) = diagnostics.warnings
    assert "fore" in warning.text
    assert warning.text.find(message.replace("\\", "")) >= 0


@pytest.mark.parametrize(
    "mesh", [MESH, '<mesh filename="../../fore.stl"/>', '<mesh filename="file://TMP/fore.stl"/>']
)
def test_meshes_outside_their_package_are_not_read(tmp_path: Path, mesh: str) -> None:
    (tmp_path / "fore.stl").write_bytes(binary())
    path = package(tmp_path, mesh.replace("TMP", str(tmp_path)))
    (tmp_path / "my_arm" / "meshes" / "fore.stl").unlink()
    (tmp_path / "my_arm" / "meshes" / "fore.stl").symlink_to(tmp_path / "fore.stl")
    with pytest.raises(RefusedError, match="outside-root"):
        limits_from_description(path)
    # What is not asked for need not be there.
    visual = Diagnostics()
    limits_from_description(path, geometry="visual", diagnostics=visual)
    assert not list(visual)


def test_mjcf_meshes_outside_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.stl").write_bytes(binary())
    path = tmp_path / "robot" / "robot.xml"
    path.parent.mkdir()
    path.write_text(
        """<mujoco><asset><mesh name="m" file="../x.stl"/></asset><worldbody><body name="a"><joint/>
        <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    )
    with pytest.raises(RefusedError, match="outside-root"):
        limits_from_description(path)
    assert limits_from_description(path, geometry="visual") == []


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<sdf/>")
    with pytest.raises(UsageError, match="mesh ="):
        limits_from_description(path)


def test_the_text_is_an_experiment_file(tmp_path: Path) -> None:
    entries = limits_from_description(package(tmp_path))
    path = tmp_path / "experiment.toml"
    path.write_text('[estimate]\nmethod = "feasible"\n' + limits_text(entries, ["up\nper", "fore"]))
    fit = Experiment.read(path).settings().estimator
    assert isinstance(fit, FeasibleFit)
    assert len(fit.limits) == 2
    np.testing.assert_allclose(fit.limits[1]["hull"], entries[1]["hull"], atol=1e-6)


def test_the_command(run: Run, tmp_path: Path) -> None:
    path, out = package(tmp_path), tmp_path / "limits.toml"
    printed = run("limits", path)
    assert printed.code == 0
    assert printed.out.count("[[estimate.limits]]") == 2
    assert run("limits", path, "--out", out).code == 0
    assert out.read_text().strip() == printed.out.strip()
    assert run("limits", path, "--out", out).code == 7
    assert run("limits", path, "--geometry", "both").code == 2
    assert run("limits", tmp_path / "none.urdf").code == 3
    path.write_text(ARM.replace("collision", "nothing").replace("MESH", ""))
    assert run("limits", path).code == 4


def error_of(estimator: Estimator, log: Path) -> float:
    found = half(estimator, log, True).validations[0].scores
    return float(found.total_relative)


@pytest.mark.parametrize("held", [(4, 6), pytest.param(range(1, 8), marks=pytest.mark.slow)], ids=str)
def test_panda_bodies_fit_into_their_shapes_at_no_cost(held: Sequence[int], data_dir: Path) -> None:
    path = shipped("panda_description/urdf/panda.urdf")
    robot = load_robot(path)
    entries = tuple(entry for entry in limits_from_description(path) if entry["body"] <= 7)
    assert len(entries) == 7
    # The file holds the published feasible set: of seven bodies one has a mass distribution that fits into its link.
    columns = RigidBody().columns(robot)
    spread = np.tile([2.5, *(0.75,) * 3, *(0.225,) * 6], robot.n_bodies)
    fitted = [
        max(
            condition.violation(robot.inertia_prior.ravel())
            for constraint in limits_of_body(entry)
            for condition in constraint.conditions(columns, spread)
        )
        < 1e-9
        for entry in entries
    ]
    assert fitted == [False] * 5 + [True, False]
    log = data_dir / "panda_gaz" / "data.parquet"
    limits = tuple(entry for entry in entries if entry["body"] in held)
    bounded = FeasibleFit(prior="euclidean", weights="equal", limits=limits, total_mass=(16, 20))
    assert error_of(bounded, log) <= error_of(OLS(), log)
