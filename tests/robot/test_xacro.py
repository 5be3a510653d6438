"""xacro: expanded as its package does it, within the folders that may be read; packages of ROS by name."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, RefusedError, ResourceError
from dynid.feasible.description import limits_from_description
from dynid.robot import Reading, load_robot
from dynid.robot.shapes import described_shapes
from tests.robot.texts import ARM

HEAD = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">'
MACRO = (
    HEAD + '<xacro:macro name="link" params="name mass">'
    '<link name="${name}"><inertial><mass value="${mass}"/>'
    '<inertia ixx="${0.1 * mass}" iyy="${0.1 * mass}" izz="${0.1 * mass}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="${name}_joint" type="continuous"><parent link="base"/><child link="${name}"/>'
    '<axis xyz="0 0 1"/></joint>'
    "</xacro:macro></robot>"
)
MAIN = (
    HEAD + '<xacro:arg name="mass" default="2"/>{include}<link name="base"/>'
    '<xacro:link name="l1" mass="$(arg mass)"/>'
    '<xacro:if value="$(arg tool)"><xacro:link name="tool" mass="${{sqrt(4) / 4}}"/></xacro:if></robot>'
)


def written(folder: Path, include: str = '<xacro:include filename="parts/link.xacro"/>') -> Path:
    pytest.importorskip("xacro")
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    (folder / "parts" / "link.xacro").write_text(MACRO)
    (folder / "arm.urdf.xacro").write_text(MAIN.format(include=include))
    return folder / "arm.urdf.xacro"


def test_a_xacro_is_expanded_with_its_arguments(tmp_path: Path) -> None:
    path = written(tmp_path)
    robot = load_robot(path, xacro={"mass": 3, "tool": True})
    assert robot.joint_names == ("l1_joint", "tool_joint")
    assert robot.inertia_prior[:, 0].tolist() == [3.0, 0.5]
    assert robot.source == str(path)
    assert robot.reading.xacro == {"mass": "3", "tool": "true"}
    assert load_robot(path, xacro={"tool": "false"}).inertia_prior[:, 0].tolist() == [2.0]
    # A file is known by what is in it, whatever it is called.
    (tmp_path / "arm.urdf").write_text(path.read_text())
    assert load_robot(tmp_path / "arm.urdf", xacro={"tool": "0"}).n == 1


def test_a_stored_name_of_a_xacro_runs_no_expression(tmp_path: Path) -> None:
    """Whoever opens a run did not name the file that the run names."""
    path = written(tmp_path)
    robot = load_robot(path, xacro={"tool": "0"})
    shape = '<visual><geometry><box size="0.1 0.1 ${length}"/></geometry></visual>'
    shaped = path.with_name("shaped.urdf.xacro")
    shaped.write_text(
        HEAD + '<xacro:property name="length" value="0.3"/>'
        f'<link name="base"/><link name="l1">{shape}</link><joint name="l1_joint" type="continuous">'
        '<parent link="base"/><child link="l1"/><axis xyz="0 0 1"/></joint></robot>'
    )
    stranger = replace(robot, source=str(shaped), reading=Reading())
    with pytest.raises(InputError, match="run as Python"):
        described_shapes(stranger)
    assert [one.link for one in described_shapes(load_robot(shaped))] == ["l1"]


def test_what_is_expanded_already_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    (tmp_path / "a.urdf").write_text(ARM.replace("<robot ", '<robot xmlns:xacro="x" '))
    assert load_robot(tmp_path / "a.urdf").n == 1
    (tmp_path / "b.xacro").write_text(HEAD + '<xacro:arm mass="1"/></robot>')
    with pytest.raises(ResourceError, match=r"pip install 'dynid\[xacro\]'"):
        load_robot(tmp_path / "b.xacro")


@pytest.mark.parametrize(
    ("include", "reported", "error", "identifier", "says"),
    [
        (None, {}, InputError, "xacro", "--xacro tool=VALUE"),
        (None, {"tool": "0", "mas": "1"}, InputError, "xacro-argument", "mass, tool"),
        ("${undefined}", {"tool": "0"}, InputError, "xacro", "undefined"),
        ("${1 +}", {"tool": "0"}, InputError, "xacro", "1 +"),
        ("${().__class__}", {"tool": "0"}, InputError, "xacro", "__class__"),
        ('<xacro:include filename="none.xacro"/>', {"tool": "0"}, InputError, "file-missing", "none.xacro"),
        ('<xacro:include filename="../out.xacro"/>', {"tool": "0"}, RefusedError, "outside-root", "--packages"),
        ('<xacro:include filename="/etc/passwd"/>', {"tool": "0"}, RefusedError, "outside-root", "/etc/passwd"),
        ('<xacro:include filename="$(find nowhere)/a"/>', {"tool": "0"}, InputError, "package-missing", "nowhere"),
        ('<xacro:include filename="bomb.xacro"/>', {"tool": "0"}, RefusedError, "xml-doctype", "bomb.xacro:1"),
        ('<xacro:property name="p" value="${xacro.load_yaml(\'/etc/hosts\')}"/><link name="${p}"/>', {"tool": "0"},
         RefusedError, "outside-root", "/etc/hosts"),
    ],
)  # fmt: skip
def test_what_does_not_expand_is_named(
    include: str | None,
    reported: dict[str, str],
    error: type[DynidError],
    identifier: str,
    says: str,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "robot"
    path = written(folder) if include is None else written(folder, include)
    (tmp_path / "out.xacro").write_text(MACRO)
    (folder / "bomb.xacro").write_text('<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>')
    with pytest.raises(error) as stopped:
        load_robot(path, xacro=reported)
    assert f"[{identifier}]" in str(stopped.value)
    assert says in str(stopped.value)
    assert str(folder) in str(stopped.value)
    # Nothing of what was replaced for the expansion stays.
    import xacro

    assert not hasattr(xacro, "open")


def test_a_package_is_found_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    path = written(tmp_path / "robot", '<xacro:include filename="$(find parts_description)/link.xacro"/>')

    def package(folder: Path, name: str = "parts_description") -> None:
        folder.mkdir(parents=True)
        (folder / "link.xacro").write_text(MACRO)
        (folder / "package.xml").write_text(f"<package>\n <name> {name} </name></package>")

    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    package(tmp_path / "named" / "any_folder")
    assert load_robot(path, xacro={"tool": "0"}, packages=tmp_path / "named").n == 1
    assert load_robot(path, xacro={"tool": "0"}, packages=[tmp_path / "named" / "any_folder"]).n == 1
    package(tmp_path / "ros1" / "stack" / "parts_description")
    monkeypatch.setenv("ROS_PACKAGE_PATH", os.pathsep.join(["/nowhere", str(tmp_path / "ros1")]))
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    package(tmp_path / "ros2" / "share" / "parts_description")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros2"))
    assert load_robot(path, xacro={"tool": "0"}).n == 1


def test_meshes_of_a_xacro_are_found_by_their_package(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    package = tmp_path / "arm_description"
    (package / "urdf").mkdir(parents=True)
    (package / "package.xml").write_text("<package><name>arm_description</name></package>")
    mesh = '<collision><geometry><mesh filename="file://$(find {})/x.obj"/></geometry></collision></link>\n</robot>'
    text = ARM.replace('<robot name="arm">', HEAD).replace("</link>\n</robot>", mesh)
    path = package / "urdf" / "arm.xacro"
    path.write_text(text.format("arm_description"))
    said = Diagnostics()
    load_robot(path, diagnostics=said)
    assert [(one.severity, one.identifier) for one in said] == [("note", "mesh-missing")]
    (package / "x.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n")
    (entry,) = limits_from_description(path, Reading())
    assert sorted(entry["hull"]) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    # A mesh of a package that is not here is no more needed than any other.
    path.write_text(text.format("elsewhere"))
    assert load_robot(path).n == 1


def test_files_of_a_renamed_package_are_found_where_they_lie_in_it(tmp_path: Path) -> None:
    """A download of a repository has another name than its package, or is a part of it without package.xml."""
    include = '<xacro:include filename="$(find parts_description)/urdf/parts/macro.xacro"/>'
    path = written(tmp_path / "parts-main" / "urdf", include)
    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    beside = tmp_path / "parts-main" / "urdf" / "parts" / "macro.xacro"
    further = tmp_path / "parts_description" / "urdf" / "parts" / "macro.xacro"
    for one in (beside, further):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text(MACRO)
        assert load_robot(path, xacro={"tool": "0"}).n == 1
        one.unlink()
    # What such a file includes of another package, which is no more there by its name.
    (tmp_path / "parts-main" / "resources").mkdir()
    (tmp_path / "parts-main" / "resources" / "link.xacro").write_text(MACRO)
    inner = '<xacro:include filename="$(find resources)/link.xacro"/>'
    beside.write_text(f'<robot xmlns:xacro="http://www.ros.org/wiki/xacro">{inner}</robot>')
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    # By its name in the package.xml of a folder above, whatever that is called.
    (tmp_path / "parts-main" / "package.xml").write_text("<package><name>parts_description</name></package>")
    beside.write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1


@pytest.mark.parametrize(
    "within",
    ["../../secret.xacro", "urdf/../../secret.xacro", "secret.txt", "/secret.xacro", "link/secret.xacro"],
)
def test_what_lies_elsewhere_is_no_file_of_a_package(within: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c" / "d" / "urdf"
    path = written(folder, f'<xacro:include filename="$(find parts_description)/{within}"/>')
    for one in (
        tmp_path / "secret.xacro",
        tmp_path / "a" / "b" / "secret.xacro",
        folder.parent / "secret.txt",
    ):
        one.write_text(MACRO)
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(DynidError) as stopped:
        load_robot(path, xacro={"tool": "0"})
    assert stopped.value.identifier in ("package-missing", "outside-root", "xacro", "file-missing")


def test_no_package_is_looked_for_in_a_folder_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a description in the user's own folder, or in one of the file system's root."""
    path = written(
        tmp_path / "own" / "robot", '<xacro:include filename="$(find parts_description)/x/link.xacro"/>'
    )
    (tmp_path / "own" / "x").mkdir()
    (tmp_path / "own" / "x" / "link.xacro").write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    monkeypatch.setenv("HOME", str(tmp_path / "own" / "robot"))  # the description's folder is no other one's
    (path.parent / "x").mkdir()
    (path.parent / "x" / "link.xacro").write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1
