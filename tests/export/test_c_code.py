"""C code: no warning at the strictest settings, and the same torque as the kernel's."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import RefusedError
from dynid.exporters import ExportModel, write_c
from dynid.exporters.model import c_comment, c_identifier
from dynid.kernel import gravity_torque, mass_matrix
from dynid.robot import load_robot
from tests.export.models import AGREE, compiled, model_of, shipped, states
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")


@pytest.mark.parametrize(
    "name",
    [
        "ur10e_innopolis",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("puma560", "panda_gaz")),
        "kr300_rptu",
        "panda",
    ],
)
def test_the_test_main_agrees(name: str, tmp_path: Path) -> None:
    path = shipped("panda_description/urdf/panda.urdf") if name == "panda" else ROBOTS / f"{name}.toml"
    code = write_c(model_of(load_robot(path)), "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)


def library(model: ExportModel, folder: Path) -> ctypes.CDLL:
    code = write_c(model, "model.h")
    (folder / "model.c").write_text(code.source)
    (folder / "model.h").write_text(code.header)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "model.c", "-o", "model.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "model.so"))


def call(function: object, size: int, *arguments: np.ndarray) -> np.ndarray:
    double = ctypes.POINTER(ctypes.c_double)
    result = np.zeros(size)
    function(*(np.ascontiguousarray(a).ctypes.data_as(double) for a in (*arguments, result)))
    return result


@pytest.mark.parametrize("name", ["ur10e", "panda"])
def test_each_function_against_the_kernel(name: str, tmp_path: Path) -> None:
    path = (
        shipped("panda_description/urdf/panda.urdf") if name == "panda" else ROBOTS / "ur10e_innopolis.toml"
    )
    model = model_of(load_robot(path))
    robot, n, nb = model.robot, model.robot.n, model.robot.n_bodies
    found = library(model, tmp_path)
    q, dq, ddq = states(robot, 5)
    rest = np.zeros_like(q)
    J, tree_q = robot.projection, robot.tree_motion(q, dq, ddq)[0]
    masses = J.T @ mass_matrix(robot.tree, model.inertia, tree_q) @ J + np.diag(model.rotor)
    weights = gravity_torque(robot.tree, model.inertia, tree_q) @ J
    rigid, friction = model.rigid_torque(q, dq, ddq), model.friction(dq)
    coriolis = model.rigid_torque(q, dq, rest) - model.rigid_torque(q, rest, rest)
    rng = np.random.default_rng(4)
    pi = rng.normal(size=10 * nb + 4 * n)
    parts = np.split(pi[10 * nb :], 4)
    other = ExportModel(robot, pi[: 10 * nb].reshape(nb, 10), *parts, width=model.width)
    p = robot.name
    for k in range(len(q)):
        state = (q[k], dq[k], ddq[k])
        for got, wanted in (
            (call(found[f"{p}_mass_matrix"], n * n, q[k]).reshape(n, n), masses[k]),
            (call(found[f"{p}_gravity"], n, q[k]), weights[k]),
            (call(found[f"{p}_coriolis"], n, q[k], dq[k]), coriolis[k]),
            (call(found[f"{p}_friction"], n, dq[k]), friction[k]),
            (call(found[f"{p}_inverse_dynamics"], n, *state), rigid[k]),
            (call(found[f"{p}_torque"], n, *state), rigid[k] + friction[k]),
            (call(found[f"{p}_regressor_times"], n, *state, pi), other.torque(*(s[None] for s in state))[0]),
        ):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=AGREE * max(1.0, np.abs(wanted).max()))


def test_constants_are_folded() -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    source = write_c(model_of(robot), "model.h").source
    body = source[source.index("_inverse_dynamics(") : source.index("_gravity(")]
    assert not re.search(r"(?<![\d.e-])(0\.0|1\.0) \*|\+ 0\.0\b(?!\d)", body)
    # A general recursion takes more than 800 multiplications for six joints.
    assert body.count("*") < 400


HOSTILE = [
    "*/ int main(void) { return 1; } /*",
    "x\n#include </etc/passwd>",
    "??/\n??)",
    "\\",
    'a"; system("true"); //',
    "名前\u202e",
    "int",
    "",
    "3dof",
    "__reserved",
    "a" * 5000,
]


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names_end_up_in_comments_alone(evil: str, tmp_path: Path) -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    names = tuple(f"{evil}{i}" for i in range(robot.n))
    named = replace(robot, name=evil, body_names=names, tree_joint_names=names, joint_names=names)
    code = write_c(model_of(named), "model.h")
    assert code.source.isascii()
    assert re.fullmatch(r"[a-z][a-z0-9_]*", c_identifier(evil))
    compiled(code.source, code.header, tmp_path, optimise="-O0")


def test_comments_hold_nothing_but_plain_characters() -> None:
    assert c_comment("joint_1 (left)") == "joint_1 (left)"
    assert c_comment("*/") == "\\u002a\\u002f"
    assert len(c_comment("x" * 9999)) < 200


def test_very_large_robots_are_refused() -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    model = model_of(robot)
    many = 65
    big = replace(
        robot,
        body_names=tuple(f"b{i}" for i in range(many)),
        tree_joint_names=tuple(f"j{i}" for i in range(many)),
        joint_types=(robot.joint_types[0],) * many,
        parent=np.arange(many) - 1,
        T_parent_joint=np.tile(np.eye(4), (many, 1, 1)),
        axis=np.tile(robot.axis[:1], (many, 1)),
        inertia_prior=np.ones((many, 10)),
        joint_names=tuple(f"j{i}" for i in range(robot.n)),
        projection=np.eye(many, robot.n),
        projection_offset=np.zeros(many),
        merged=(),
    )
    with pytest.raises(RefusedError, match="65 links"):
        write_c(replace(model, robot=big, inertia=np.ones((many, 10))), "model.h")
