"""Limits of bodies from the geoms in an MJCF file, against MuJoCo's own kinematics and meshes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.feasible import CentreHalfSpaces, limits_from_description
from dynid.robot import load_robot
from dynid.robot.shapes import ball_points, box_points, capsule_points, cylinder_points
from tests.command_line import Run
from tests.feasible.test_mesh import BOX, binary

mujoco: Any = pytest.importorskip("mujoco")

ARM = """<mujoco model="arm"><compiler angle="radian" meshdir="meshes"/>
<default><mesh scale="0.5 0.5 0.5"/><default class="small"><mesh scale="0.1 0.2 0.3"/></default></default>
<asset>
  <mesh name="plain" file="box.stl"/>
  <mesh name="turned" class="small" file="box.stl" refpos="0.2 -0.1 0.3" refquat="0.5 0.5 -0.5 0.5"/>
  <mesh file="one.stl" scale="2 1 1"/>
</asset>
<worldbody><geom type="plane" size="1 1 1"/>
  <body name="upper" pos="0.1 0.2 0.3" euler="0.2 0.3 0.4">
    <joint name="j1" axis="0 1 0" pos="0.05 0.02 -0.01" ref="0.4" range="-1 1"/>
    <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.1 0.2"/>
    <geom type="mesh" mesh="turned" pos="0.1 0 0.2" euler="0.1 -0.7 0.3"/>
    <geom type="box" size="3 3 3" contype="0" conaffinity="0"/>
    <body name="plate" pos="0.4 0 0" euler="0 0 1"><geom type="ellipsoid" size="0.1 0.05 0.02"/></body>
    <body name="fore" pos="0 0 0.5"><joint name="j2" type="slide" axis="1 0 0"/>
      <geom type="mesh" mesh="plain" euler="1 0 0"/><geom type="cylinder" size="0.04 0.1" pos="0.2 0 0"/>
      <geom type="mesh" mesh="one" pos="0 0 0.4"/></body>
  </body>
</worldbody></mujoco>
"""


def file(folder: Path, text: str = ARM) -> Path:
    (folder / "meshes").mkdir()
    (folder / "meshes" / "box.stl").write_bytes(binary(BOX))
    (folder / "meshes" / "one.stl").write_bytes(binary(BOX + np.array([0.1, 0.2, 0.3])))
    path = folder / "arm.xml"
    path.write_text(text)
    return path


def world_points(path: Path, body: str) -> np.ndarray:
    """Surface points of a body's own and welded geoms that may touch, where MuJoCo puts them at qpos = 0."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    solids = {
        mujoco.mjtGeom.mjGEOM_CAPSULE: lambda s: capsule_points(s[0] / 1.03, 2 * s[1]),
        mujoco.mjtGeom.mjGEOM_CYLINDER: lambda s: cylinder_points(s[0] * np.cos(np.pi / 12), 2 * s[1]),
        mujoco.mjtGeom.mjGEOM_ELLIPSOID: lambda s: ball_points(1 / 1.03) * s,
        mujoco.mjtGeom.mjGEOM_BOX: box_points,
    }
    found = []
    for geom in range(model.ngeom):
        if (
            model.body(model.body_weldid[model.geom_bodyid[geom]]).name != body
            or not model.geom_contype[geom]
        ):
            continue
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = int(model.geom_dataid[geom])
            first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
            points = np.array(model.mesh_vert[first : first + count], dtype=np.float64)
        else:
            points = solids[mujoco.mjtGeom(model.geom_type[geom])](np.array(model.geom_size[geom]))
        found.append(points @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom])
    return np.concatenate(found)


def hull_in_world(path: Path, entry: dict[str, Any]) -> np.ndarray:
    robot = load_robot(path)
    T, i = np.eye(4), entry["body"] - 1
    while i >= 0:
        T, i = robot.T_parent_joint[i] @ T, int(robot.parent[i])
    return np.array(entry["hull"]) @ T[:3, :3].T + T[:3, 3]


def outside(hull: np.ndarray, points: np.ndarray) -> float:
    planes = CentreHalfSpaces.hull(1, hull)
    return float((points @ np.array(planes.normals).T - np.array(planes.limits)).max())


def test_hulls_lie_where_mujoco_puts_the_geoms(tmp_path: Path) -> None:
    path, diagnostics = file(tmp_path), Diagnostics()
    entries = limits_from_description(path, diagnostics=diagnostics)
    assert len(diagnostics) == 0
    assert [entry["body"] for entry in entries] == [1, 2]
    # Of round shapes a polytope with few faces is kept; corners of meshes stay as they are.
    for entry, body, room in zip(entries, ("upper", "fore"), (0.05, 0.002), strict=True):
        truth, hull = world_points(path, body), hull_in_world(path, entry)
        assert outside(hull, truth) < 1e-6
        assert outside(truth, hull) < room


def test_geoms_that_touch_nothing_are_the_visual_ones(tmp_path: Path) -> None:
    (only,) = limits_from_description(file(tmp_path), geometry="visual")
    assert only["body"] == 1
    assert np.ptp(np.array(only["hull"]), axis=0).max() == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file="one.stl"', 'file="none.stl"', "mesh 'one' without a file"),
        ('<mesh name="plain" file="box.stl"/>', '<mesh name="plain" file="gone.stl"/>', "no such file"),
        ('<mesh name="plain" file="box.stl"/>', '<mesh name="plain" file="box.msh"/>', "box.msh"),
    ],
)
def test_bodies_with_a_mesh_that_cannot_be_read_are_left_out(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in ARM
    diagnostics = Diagnostics()
    path = file(tmp_path, ARM.replace(old, new))
    (tmp_path / "meshes" / "box.msh").write_bytes(b"x")
    entries = limits_from_description(path, diagnostics=diagnostics)
    assert [entry["body"] for entry in entries] == [1]
    (warning,) = diagnostics.warnings
    assert "fore" in warning.text
    assert message in warning.text


def test_meshes_outside_the_folder_are_refused(tmp_path: Path) -> None:
    path = file(tmp_path, ARM.replace('file="one.stl"', 'name="one" file="../../one.stl"'))
    with pytest.raises(Exception, match="outside"):
        limits_from_description(path)


def test_included_files_count(tmp_path: Path) -> None:
    path = file(tmp_path)
    (tmp_path / "asset.xml").write_text(
        "<mujocoinclude>" + ARM[ARM.index("<asset>") : ARM.index("<worldbody>")] + "</mujocoinclude>"
    )
    text = ARM[: ARM.index("<asset>")] + '<include file="asset.xml"/>' + ARM[ARM.index("<worldbody>") :]
    whole = limits_from_description(path)
    path.write_text(text)
    assert limits_from_description(path) == whole


def test_the_command(run: Run, tmp_path: Path) -> None:
    printed = run("limits", file(tmp_path))
    assert printed.code == 0
    assert printed.out.count("[[estimate.limits]]") == 2
    assert "# fore" in printed.out
