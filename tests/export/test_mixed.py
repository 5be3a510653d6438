"""Coupled drives, motors of several joints and a tilted base in the exported C code, against the terms themselves."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import ExportModel, new_mjcf, write_c
from dynid.exporters.model import beyond_robot_file, note_left_out
from dynid.robot import RobotModel, load_robot
from dynid.signals import Samples
from dynid.terms import (
    Coulomb,
    GravityTilt,
    JointCoupling,
    MotorInertia,
    Offset,
    OnMotor,
    RigidBody,
    RotorInertia,
    Stribeck,
    Term,
    Terms,
    Viscous,
)
from tests.export.models import AGREE, compiled, model_of, mujoco_torque, states
from tests.export.test_c_code import call, library
from tests.robot_files import ROBOTS

PUMA = load_robot(ROBOTS / "puma560.toml")
# Motors 5 and 6 drive the wrist together.
N = np.eye(6)
N[5, 4], N[4, 3] = -1.0, 0.25
COUPLED = replace(PUMA, drive=replace(PUMA.drive, transmission=N))
NOMINAL = tuple(model_of(PUMA, seed=3).inertia.ravel().tolist())
PLAIN = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02) + Offset()
TERMS: dict[str, Term] = {
    "coupling": JointCoupling(("j5", "j6", "j2"), ("j6", "j5", "j3"), 0.03),
    "neighbours": JointCoupling(),
    "plain sign": JointCoupling(("j2",), ("j3",), 0.0),
    "tilt": GravityTilt(NOMINAL),
    "motor inertia": MotorInertia(),
    "viscous": OnMotor(Viscous()),
    "dry": OnMotor(Coulomb(0.05, ("j4", "j5", "j6"))),
    "offset": OnMotor(Offset(("j6",))),
}


def exported(robot: RobotModel, *further: Term) -> tuple[ExportModel, Terms, np.ndarray]:
    terms = PLAIN
    for term in further:
        terms = terms + term
    columns = terms.columns(robot)
    theta = np.random.default_rng(5).uniform(0.1, 1.0, len(columns))
    rigid = [i for i, column in enumerate(columns) if column.term == "rigid_body"]
    theta[rigid] = model_of(robot).inertia.ravel()
    return ExportModel.of_terms(robot, terms, theta), terms, theta


def torque(robot: RobotModel, terms: Terms, theta: np.ndarray, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    return terms.torque(robot, Samples.from_motion(*motion, np.zeros_like(motion[0])), theta)


@pytest.mark.parametrize("name", TERMS)
def test_the_exported_model_has_the_torque_of_the_terms(name: str) -> None:
    model, terms, theta = exported(COUPLED, TERMS[name])
    plain = exported(COUPLED)[0]
    assert model.left_out == ()
    motion = states(COUPLED)
    wanted = torque(COUPLED, terms, theta, motion)
    np.testing.assert_allclose(model.torque(*motion), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())
    assert np.abs(plain.torque(*motion) - wanted).max() > 1e-2


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_c_code_has_the_torque_of_the_terms(tmp_path: Path) -> None:
    chosen = [TERMS[name] for name in ("coupling", "tilt", "motor inertia", "viscous", "dry")]
    model, terms, theta = exported(COUPLED, *chosen)
    code = write_c(model, "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)
    found = library(model, tmp_path)
    motion = states(COUPLED, 12)
    wanted = torque(COUPLED, terms, theta, motion)
    still = np.zeros_like(motion[0])
    weights = torque(COUPLED, terms, theta, (motion[0], still, still)) - model.offset
    other = np.random.default_rng(6).normal(size=len(theta))
    # As in the header: bodies, rotors, friction and offsets, couplings and motors, tilts.
    order = [i for i, c in enumerate(terms.columns(COUPLED)) if c.term != "gravity_tilt"]
    order += [i for i, c in enumerate(terms.columns(COUPLED)) if c.term == "gravity_tilt"]
    at_other = torque(COUPLED, terms, other, motion)
    for k in range(12):
        state = tuple(part[k] for part in motion)
        for got, expected in (
            (call(found["puma560_torque"], 6, *state), wanted[k]),
            (call(found["puma560_gravity"], 6, state[0]), weights[k]),
            (call(found["puma560_regressor_times"], 6, *state, other[order]), at_other[k]),
        ):
            np.testing.assert_allclose(got, expected, rtol=0, atol=AGREE * max(1.0, np.abs(expected).max()))


def test_the_code_of_a_level_model_says_nothing_of_tilts() -> None:
    source = write_c(exported(PUMA)[0], "model.h").source
    assert "tilt" not in source.split("#ifdef DYNID_TEST_MAIN")[0]


@pytest.mark.parametrize("which", [("motor inertia",), ("viscous",), ("motor inertia", "viscous", "dry")])
def test_mujoco_has_motors_of_several_joints_as_tendons(which: tuple[str, ...]) -> None:
    model, terms, theta = exported(COUPLED, *(TERMS[name] for name in which))
    text = new_mjcf(model)
    motion = states(COUPLED)
    # MuJoCo's inverse dynamics leave dry friction to its constraints.
    dry = np.array([column.name.startswith("fc") for column in terms.columns(COUPLED)])
    wanted = torque(COUPLED, terms, np.where(dry, 0.0, theta), motion) - model.offset
    np.testing.assert_allclose(mujoco_torque(text, model), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())
    if "dry" in which:
        mujoco = pytest.importorskip("mujoco")
        theirs = mujoco.MjModel.from_xml_string(text.decode())
        values = theta[[column.name.startswith("fcm") for column in terms.columns(COUPLED)]]
        for value, motor in zip(values, (3, 4, 5), strict=True):
            (own,) = [
                t
                for t in range(theirs.ntendon)
                if np.array_equal(coefficients(theirs, t), COUPLED.drive.transmission[motor])
            ]
            assert theirs.tendon_frictionloss[own] == value
    assert beyond_robot_file(model, rotor=False) == ["offset"]


def coefficients(theirs: Any, tendon: int) -> np.ndarray:
    row = np.zeros(6)
    first, count = int(theirs.tendon_adr[tendon]), int(theirs.tendon_num[tendon])
    for wrap in range(first, first + count):
        row[int(theirs.wrap_objid[wrap])] = theirs.wrap_prm[wrap]
    return row


def test_motors_that_cannot_exist_are_named() -> None:
    model, _, _ = exported(COUPLED, TERMS["motor inertia"])
    parts = [replace(part, value=-1.0 if i == 2 else 1.0) for i, part in enumerate(model.mixed)]
    assert model.unphysical() == ()
    assert replace(model, mixed=parts).unphysical() == ("motor 3: rotor inertia -1",)


def test_formats_of_single_joints_name_what_they_lack() -> None:
    model, _, _ = exported(COUPLED, TERMS["coupling"], TERMS["tilt"], TERMS["viscous"])
    diagnostics = Diagnostics()
    note_left_out(model, "URDF", beyond_robot_file(model, rotor=True), diagnostics)
    (warning,) = diagnostics.warnings
    for name in ("joint_coupling", "gravity_tilt", "on_motor"):
        assert name in warning.text


def test_curves_at_motors_are_left_out_whole() -> None:
    model, _, _ = exported(COUPLED, OnMotor(Stribeck((0.2,))))
    assert model.left_out == ("on_motor",)
    assert model.mixed == ()
