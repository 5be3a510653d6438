"""USD: the inverse dynamics of a URDF that is written as a stage, in other units and frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, InputError, RefusedError, ResourceError
from dynid.exporters.mjcf import quaternion
from dynid.robot import LinkTree, load_robot
from dynid.spatial import inverse, placement, rotation_about, to_com, transformed
from tests.robot.shipped import shipped
from tests.robot.test_held_joints import states, torque
from tests.robot.test_sdf import by_name, frames_of, random_placement, tree_of

# Positions, turns, masses and limits of UsdPhysics are single precision.
SINGLE = 2e-6


def axes(axis: Float) -> Float:
    """A rotation whose x axis is the given one."""
    x = np.array([1.0, 0.0, 0.0])
    turn, angle = np.cross(x, axis), np.arccos(np.clip(axis[0], -1, 1))
    size = np.linalg.norm(turn)
    return rotation_about(turn / size if size > 1e-12 else np.array([0.0, 0.0, 1.0]), float(angle))


def stage_of(tree: LinkTree, path: Path, metre: float = 0.01, kilogram: float = 0.5) -> None:
    """The tree as a stage: lengths in other units, link frames anywhere, axes along x, y up."""
    pxr = pytest.importorskip("pxr")
    from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

    del pxr
    rng, at = np.random.default_rng(5), frames_of(tree)
    off = {name: random_placement(rng) for name in tree.links}
    up = placement(rotation_about(np.array([1.0, 0.0, 0.0]), -np.pi / 2), np.zeros(3))  # z to y
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageMetersPerUnit(stage, metre)
    UsdGeom.SetStageUpAxis(stage, "Y")
    UsdPhysics.SetStageKilogramsPerUnit(stage, kilogram)
    stage.SetDefaultPrim(stage.DefinePrim("/robot", "Xform"))
    UsdPhysics.Scene.Define(stage, "/scene")

    def quat(R: Float) -> Any:
        w, x, y, z = quaternion(R)
        return Gf.Quatf(float(w), Gf.Vec3f(float(x), float(y), float(z)))

    for name, link in tree.links.items():
        prim = UsdGeom.Xform.Define(stage, f"/robot/{name}")
        frame = up @ at[name] @ off[name]
        matrix = frame.copy()
        matrix[:3, 3] /= metre
        prim.AddTransformOp().Set(Gf.Matrix4d(*matrix.T.ravel().tolist()))
        UsdPhysics.RigidBodyAPI.Apply(prim.GetPrim())
        if link.inertial is None or not link.inertial.mass:
            continue
        mass, com, inertia = to_com(transformed(link.inertial.parameters, inverse(off[name])))
        moments, turn = np.linalg.eigh(inertia)
        turn = turn * np.sign(np.linalg.det(turn))
        api = UsdPhysics.MassAPI.Apply(prim.GetPrim())
        api.CreateMassAttr(mass / kilogram)
        api.CreateCenterOfMassAttr(Gf.Vec3f(*(com / metre).tolist()))
        api.CreateDiagonalInertiaAttr(Gf.Vec3f(*(moments / kilogram / metre**2).tolist()))
        api.CreatePrincipalAxesAttr(quat(turn))
    UsdPhysics.FixedJoint.Define(stage, "/robot/to_world").CreateBody1Rel().SetTargets(
        [f"/robot/{tree.root}"]
    )
    root = stage.GetPrimAtPath("/robot/to_world")
    held = up @ at[tree.root] @ off[tree.root]
    UsdPhysics.Joint(root).CreateLocalPos0Attr(Gf.Vec3f(*(held[:3, 3] / metre).tolist()))
    UsdPhysics.Joint(root).CreateLocalRot0Attr(quat(held[:3, :3]))
    kinds = {
        "revolute": UsdPhysics.RevoluteJoint, "continuous": UsdPhysics.RevoluteJoint,
        "prismatic": UsdPhysics.PrismaticJoint, "fixed": UsdPhysics.FixedJoint,
    }  # fmt: skip
    for name, joint in tree.joints.items():
        made = kinds[joint.kind].Define(stage, f"/robot/{joint.parent}/{name}")
        frame = at[joint.child] @ placement(axes(joint.axis), np.zeros(3))
        made.CreateBody0Rel().SetTargets([f"/robot/{joint.parent}"])
        made.CreateBody1Rel().SetTargets([f"/robot/{joint.child}"])
        for side, link in ((0, joint.parent), (1, joint.child)):
            T = inverse(at[link] @ off[link]) @ frame
            getattr(made, f"CreateLocalPos{side}Attr")(Gf.Vec3f(*(T[:3, 3] / metre).tolist()))
            getattr(made, f"CreateLocalRot{side}Attr")(quat(T[:3, :3]))
        if joint.kind in ("revolute", "prismatic"):
            unit = np.degrees(1.0) if joint.kind == "revolute" else 1.0 / metre
            made.CreateLowerLimitAttr(float(joint.lower * unit))
            made.CreateUpperLimitAttr(float(joint.upper * unit))
            made.CreateAxisAttr("X")
            prim = made.GetPrim()
            prim.CreateAttribute("physxJoint:armature", Sdf.ValueTypeNames.Float).Set(
                0.3 / kilogram / (metre**2 if joint.kind == "revolute" else 1.0)
            )
            drive = UsdPhysics.DriveAPI.Apply(prim, "angular" if joint.kind == "revolute" else "linear")
            drive.CreateMaxForceAttr(7.0 / kilogram / metre / (metre if joint.kind == "revolute" else 1.0))
    stage.GetRootLayer().Save()


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
@pytest.mark.parametrize(
    "name", ["panda_description/urdf/panda.urdf", "g1_description/urdf/g1_29dof_rev_1_0.urdf"]
)
def test_a_stage_of_a_urdf_has_its_inverse_dynamics(name: str, suffix: str, tmp_path: Path) -> None:
    path = shipped(name)
    described = load_robot(path)
    tree = tree_of(path)
    stage_of(tree, tmp_path / f"robot{suffix}")
    said = Diagnostics()
    robot = load_robot(tmp_path / f"robot{suffix}", diagnostics=said)
    # USD has no mimic joints: the second finger of the Panda is a joint of its own there.
    leaders = [name for name in robot.joint_names if name in described.joint_names]
    assert set(leaders) == set(described.joint_names)
    followers = {name: 0.0 for name in robot.joint_names if name not in leaders}
    if followers:
        robot = load_robot(tmp_path / f"robot{suffix}", lock=followers)
        described = load_robot(path, lock={described.joint_names[-1]: 0.0})
        robot = load_robot(tmp_path / f"robot{suffix}", lock=followers | {"panda_finger_joint1": 0.0})
    order = by_name(described, robot)
    q, dq, ddq = states(robot.n)
    back = np.argsort(order)
    wanted = torque(described, q[:, back], dq[:, back], ddq[:, back])[:, order]
    np.testing.assert_allclose(torque(robot, q, dq, ddq), wanted, atol=SINGLE * np.abs(wanted).max())
    np.testing.assert_allclose(robot.limits.lower, described.limits.lower[order], rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(robot.limits.effort, 7.0, rtol=SINGLE)
    np.testing.assert_allclose(robot.drive.reflected_rotor_inertia, 0.3, rtol=SINGLE)
    np.testing.assert_allclose(robot.gravity, [0, -9.81, 0], atol=1e-12)
    assert not said.warnings


HEAD = '#usda 1.0\n(defaultPrim = "r"\nmetersPerUnit = 1\nupAxis = "Z")\ndef Xform "r" {\n'
BODY = 'def Xform "{}" (prepend apiSchemas = ["PhysicsRigidBodyAPI"{}]) {{\n{}\n}}\n'
MASS = "float physics:mass = 2\nfloat3 physics:diagonalInertia = (1, 1, 1)\npoint3f physics:centerOfMass = (0, 0, 0.1)"
JOINT = 'def {} "j" {{\nrel physics:body0 = </r/a>\nrel physics:body1 = </r/b>\n{}\n}}\n'
WHOLE = HEAD + BODY.format("a", "", "") + BODY.format("b", ', "PhysicsMassAPI"', MASS) + JOINT.format(
    "PhysicsRevoluteJoint", 'uniform token physics:axis = "Z"'
)  # fmt: skip


def read(folder: Path, text: str, **reported: Any) -> tuple[Any, Diagnostics]:
    pytest.importorskip("pxr")
    (folder / "r.usda").write_text(text + "}\n")
    said = Diagnostics()
    return load_robot(folder / "r.usda", diagnostics=said, **reported), said


def test_a_base_that_nothing_holds_stands_still(tmp_path: Path) -> None:
    robot, said = read(tmp_path, WHOLE)
    assert robot.joint_names == ("j",)
    assert robot.inertia_prior[0].tolist()[:4] == pytest.approx([2, 0, 0, 0.2])
    assert [one.identifier for one in said.warnings] == ["free-base"]
    assert [str(kind) for kind in robot.joint_types] == ["continuous"]


def test_masses_from_shapes_are_unknown(tmp_path: Path) -> None:
    robot, said = read(tmp_path, WHOLE.replace("float physics:mass = 2", "float physics:density = 3"))
    assert np.isnan(robot.inertia_prior).all()
    assert "inertial-missing" in {one.identifier for one in said.warnings}


@pytest.mark.parametrize(
    ("old", "new", "identifier", "says"),
    [
        ("PhysicsRevoluteJoint", "PhysicsDistanceJoint", "joint-type", "'PhysicsDistanceJoint'"),
        ("PhysicsRevoluteJoint", "PhysicsSphericalJoint", "no-joints", "moving"),
        ("rel physics:body1 = </r/b>", "", "joint-ends", "body1"),
        ("physics:mass = 2", "physics:mass = -2", "negative-mass", "'b'"),
        (
            '"Z"\n}',
            '"Z"\nfloat physics:lowerLimit = 5\nfloat physics:upperLimit = 1\n}',
            "limits-swapped",
            "'j'",
        ),
        ('def Xform "r" {', 'def Xform "r" { {', "usd", "does not open"),
    ],
)
def test_what_is_wrong_in_a_stage_is_named(
    old: str, new: str, identifier: str, says: str, tmp_path: Path
) -> None:
    assert old in WHOLE
    with pytest.raises(InputError) as stopped:
        read(tmp_path, WHOLE.replace(old, new))
    assert f"[{identifier}]" in str(stopped.value)
    assert says in str(stopped.value)
    assert "r.usda" in str(stopped.value)


def test_layers_stay_within_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    read(tmp_path, WHOLE)
    (tmp_path / "a" / "r.usda").write_text("#usda 1.0\n(subLayers = [@../r.usda@])\n")
    with pytest.raises(RefusedError, match="outside-root"):
        load_robot(tmp_path / "a" / "r.usda")
    assert load_robot(tmp_path / "a" / "r.usda", packages=tmp_path).joint_names == ("j",)


def test_without_its_package_a_stage_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pxr", None)
    (tmp_path / "r.usda").write_text("#usda 1.0\n")
    with pytest.raises(ResourceError, match=r"pip install 'dynid\[usd\]'"):
        load_robot(tmp_path / "r.usda")
