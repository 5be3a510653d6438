"""Friction curves: the same in C as in the model, and the closest straight lines where a format has no more."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import ExportModel, write_c
from dynid.exporters.model import beyond_robot_file, speeds_up_to, straight
from dynid.robot import load_robot
from dynid.signals import Samples
from dynid.terms import (
    AsymmetricCoulomb,
    Coulomb,
    Offset,
    OnMotor,
    PolynomialFriction,
    PositionFriction,
    Presliding,
    RigidBody,
    RotorInertia,
    Sigmoid,
    SmoothCoulomb,
    Stribeck,
    Terms,
    Viscous,
    ZolloFriction,
)
from dynid.terms.friction_curves import SaturatingViscous
from dynid.testing import random_robot
from tests.export.models import compiled, model_of, states
from tests.export.test_c_code import call, library
from tests.robot_files import ROBOTS

PUMA = load_robot(ROBOTS / "puma560.toml")
CURVES = [
    SmoothCoulomb((0.03, 0.05), ("j1", "j2")),
    AsymmetricCoulomb(0.02, ("j3",)),
    PolynomialFriction((2, 3), ("j1",)),
    PolynomialFriction((3, 2), ("j4",), limit=(9.0, 9.0, 9.0, 1.2, 9.0, 9.0)),
    SaturatingViscous((0.4,), ("j3",)),
    Stribeck((0.2,), width=0.01, joints=("j4",)),
    Sigmoid((12.0, 8.0), (0.04, -0.03), ("j5", "j6")),
    ZolloFriction((0.05,), (15.0,), joints=("j2",)),
]


def bent(curves: list[object] | None = None) -> tuple[ExportModel, Terms, np.ndarray]:
    terms = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02, ("j3", "j4", "j6")) + Offset()
    for term in CURVES if curves is None else curves:
        terms = terms + term  # type: ignore[operator] # any term
    columns = terms.columns(PUMA)
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.2, 1.0, len(columns))
    rigid = [i for i, column in enumerate(columns) if column.term == "rigid_body"]
    theta[rigid] = model_of(PUMA).inertia.ravel()
    return ExportModel.of_terms(PUMA, terms, theta), terms, theta


def test_the_exported_model_has_the_torque_of_the_terms() -> None:
    model, terms, theta = bent()
    assert model.left_out == ()
    q, dq, ddq = states(PUMA)
    wanted = terms.torque(PUMA, Samples.from_motion(q, dq, ddq, np.zeros_like(q)), theta)
    np.testing.assert_allclose(model.torque(q, dq, ddq), wanted, atol=1e-10)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_c_code_holds_them(tmp_path: Path) -> None:
    model, _, _ = bent()
    code = write_c(model, "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)
    found: ctypes.CDLL = library(model, tmp_path)
    for scale in (0.0, 1e-3, 0.05, 1.0, 30.0, -30.0, -0.01):
        dq = scale * np.array([1.0, -2.0, 0.5, 1.5, -1.0, 3.0])
        wanted = model.friction(dq[None])[0]
        np.testing.assert_allclose(call(found["puma560_friction"], 6, dq), wanted, rtol=0, atol=1e-11)


def test_speed_zero_is_rest() -> None:
    model, _, _ = bent()
    np.testing.assert_allclose(model.friction(np.zeros((1, 6)))[0], model.offset, atol=1e-15)


def test_straight_lines_come_back_exactly() -> None:
    v = speeds_up_to(2.0)
    torque = 0.7 * v + 0.3 * np.tanh(v / 0.02) - 0.2
    np.testing.assert_allclose(straight(v, torque, 0.02), [0.7, 0.3, -0.2, 0.0], atol=1e-8)
    # What would feed the motion is not written into a simulator's file.
    viscous, coulomb, _, left = straight(v, -0.1 * v, 0.02)
    assert viscous == coulomb == 0.0
    assert left > 0.05


def test_formats_without_curves_get_straight_lines_and_a_warning() -> None:
    model, _, _ = bent()
    diagnostics = Diagnostics()
    plain = replace(model, peak=np.full(6, 2.0)).straightened(diagnostics)
    assert plain.curves == ()
    (warning,) = diagnostics.warnings
    assert "'j1'" in warning.text
    # No curve is worth throwing away: the lines leave less than half of it.
    dq = np.outer(speeds_up_to(2.0), np.ones(6))
    whole, left = model.friction(dq), model.friction(dq) - plain.friction(dq)
    assert (np.linalg.norm(left, axis=0) < 0.5 * np.linalg.norm(whole, axis=0)).all()
    straight_already, _, _ = bent([])
    assert straight_already.straightened(quiet := Diagnostics()) is straight_already
    assert len(quiet) == 0


@pytest.mark.parametrize("share", [0.1, 3.0])
def test_of_several_signs_on_a_joint_the_greatest_says_over_which_speeds_they_change(share: float) -> None:
    robot = random_robot(3, 2)
    waves = PositionFriction(2.0, 0.3, positions=((0.0, 0.1), (0.0, 0.1)))
    terms = Terms((RigidBody(), Coulomb(0.001), waves))
    size = {"fc1": 1.0, "fc2": 1.0, "fqc1": share, "fqc2": share}
    theta = np.array([size.get(column.name, 0.0) for column in terms.columns(robot)])
    model = ExportModel.of_terms(robot, terms, theta)
    assert model.width.tolist() == [0.001 if share < 1.0 else 0.3] * 2
    # The mean of cos 2 q from 0 to 0.1.
    np.testing.assert_allclose(model.coulomb, 1.0 + share * np.sin(0.2) / 0.2)


def test_what_is_left_out_of_friction_at_motors_is_named() -> None:
    robot = random_robot(3, 2)
    waves = PositionFriction(2.0, positions=((0.0, 0.1), (0.0, 0.1)))
    terms = Terms((RigidBody(), OnMotor(waves)))
    model = ExportModel.of_terms(robot, terms, np.ones(len(terms.columns(robot))))
    assert model.left_out == ("position_friction except its mean over the positions of the log",)
    assert len(model.mixed) == 2


def test_presliding_becomes_coulomb_and_what_needs_more_than_speed_is_named() -> None:
    model, _, theta = bent([Presliding((0.001,), ("j1",)), PositionFriction(joints=("j2",))])
    assert model.left_out == ("position_friction",)
    assert model.distance.tolist() == [0.001, 0, 0, 0, 0, 0]
    assert model.coulomb[0] == theta[-3]
    assert model.width[0] > 0
    assert beyond_robot_file(model, rotor=False)[0] == "the memory of presliding friction"
    assert model.coulomb[1] == 0.0


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_c_code_has_the_memory_of_presliding_friction(tmp_path: Path) -> None:
    one = Presliding((0.01, 0.002), ("j1", "j5"))
    model, terms, theta = bent([one])
    rigid = np.array([column.term == "rigid_body" for column in terms.columns(PUMA)])
    t = np.linspace(0, 3, 400)
    # Starts, stops, reversals by less and by more than the distance.
    q = np.outer(0.01 * np.sin(4 * t) + 0.004 * np.sin(19 * t), np.ones(6)) * [1, 1, 1, 1, 0.5, 1]
    q[150:200] = q[150]
    dq = np.gradient(q, t, axis=0)
    friction = np.where(rigid, 0.0, theta)
    wanted = terms.torque(PUMA, Samples.from_motion(q, dq, np.zeros_like(q), np.zeros_like(q)), friction)
    code = write_c(model, "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)
    function, z = library(model, tmp_path)["puma560_friction_with_memory"], np.zeros(6)
    double = ctypes.POINTER(ctypes.c_double)
    tau = np.zeros(6)
    for k in range(len(t)):
        parts = (q[max(k - 1, 0)], q[k], dq[k], z, tau)
        function(*(np.ascontiguousarray(part).ctypes.data_as(double) for part in parts))
        np.testing.assert_allclose(tau, wanted[k], rtol=0, atol=1e-12)
    still = write_c(bent()[0], "model.h")
    assert "with_memory" not in still.source + still.header


def test_hostile_names_in_curves_stay_in_comments(tmp_path: Path) -> None:
    evil = "*/ int main(void) { return 1; } /*"
    names = tuple(f"{evil}{i}" for i in range(6))
    model, _, _ = bent()
    robot = replace(PUMA, joint_names=names, tree_joint_names=names)
    curves = tuple(replace(c, term=replace(c.term, joints=(names[c.joint],))) for c in model.curves)
    code = write_c(replace(model, robot=robot, curves=curves), "model.h")
    if shutil.which("gcc") is not None:
        compiled(code.source, code.header, tmp_path)
    assert evil not in code.source
