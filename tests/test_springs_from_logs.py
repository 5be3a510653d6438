"""Springs and transmissions on whole logs: geometry estimated, friction's side found, wrong drive data refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynid_studies.nini_arm import GEOMETRY, MODEL, PRELOAD, SPRINGS, STIFFNESS, arm, motion, truth

from dynid.base import Float, UnfitDataError, UsageError
from dynid.estimate import WLS
from dynid.identification import Settings, default_estimator, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, TorqueSide
from dynid.signals import Preparation
from dynid.terms import Coulomb, MotorInertia, OnMotor, Points, RigidBody, Spring, Terms, Triangle, Viscous
from dynid.verbs import search_geometry
from dynid.verbs.schemes import compare_sides, friction_on

WITHOUT = RigidBody() + MotorInertia() + OnMotor(Viscous()) + OnMotor(Coulomb(width=3.0))
PREPARATION = Preparation(cutoff=10.0)
SETTINGS = Settings(terms=WITHOUT + SPRINGS, preparation=PREPARATION, estimator=WLS())


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    found = arm()
    # What is known of the bodies is left out: the search must not lean on it.
    drive = replace(found.drive, torque_side=TorqueSide.LINK)
    return replace(found, drive=drive, inertia_prior=np.full((6, 10), np.nan))


def log_of(
    folder: Path, robot: RobotModel, terms: Terms, theta: Float, seed: int = 0, scale: float = 1.0
) -> Log:
    t, samples = motion(robot, 5000, seed)
    tau = terms.torque(robot, samples, theta)
    tau = scale * (tau + 0.01 * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape))
    path = write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, samples.q, tau=tau))
    return read_log(path, robot)


def values(terms: Terms, spring: dict[str, float]) -> Float:
    robot = arm()
    known = dict(zip([c.name for c in MODEL.columns(robot)], truth(robot), strict=True)) | spring
    return np.array([known.get(column.name, column.prior) for column in terms.columns(robot)])


@pytest.fixture(scope="module")
def log(robot: RobotModel, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return log_of(tmp_path_factory.mktemp("springs"), robot, SETTINGS.terms, values(SETTINGS.terms, {}))


def test_the_geometry_of_a_lever_is_found(robot: RobotModel, log: Log) -> None:
    # Only angle and ratio of the two lengths are distinguishable from stiffness: the anchor is known.
    guess = replace(SPRINGS, geometry=replace(GEOMETRY, crank=0.25, angle=GEOMETRY.angle - 0.35))
    bounds = {"crank": (0.1, 0.8), "angle": (GEOMETRY.angle - 1.35, GEOMETRY.angle + 1.15)}
    found = search_geometry(robot, log, replace(SETTINGS, terms=WITHOUT), guess, bounds, starts=3)
    assert found.values == pytest.approx([GEOMETRY.crank, GEOMETRY.angle], abs=0.05)
    assert (np.abs(found.values - [GEOMETRY.crank, GEOMETRY.angle]) < 6 * found.std + 1e-3).all()
    assert found.at_bound == (False, False)
    assert found.agreeing >= 1 / 3
    assert found.misfit < 0.7 * found.misfit_without
    refined = identify(
        robot, log, replace(SETTINGS, terms=WITHOUT + found.term, estimator=default_estimator())
    )
    assert refined.verdict.level == "good"


def test_points_between_bodies_are_found(robot: RobotModel, tmp_path: Path) -> None:
    true = Points(("j1_link", "j3_link"), ((-0.3, 0.5, 0.0), (0.2, -0.15, 0.0)))
    spring = Spring(true, label="springs")
    terms = WITHOUT + spring
    theta = values(terms, {"k_springs": 4 * STIFFNESS, "c_springs": PRELOAD})
    log = log_of(tmp_path, robot, terms, theta)
    guess = replace(spring, geometry=replace(true, points=((-0.2, 0.4, 0.0), (0.1, -0.1, 0.0))))
    bounds = {"a.x": (-0.6, 0.0), "b.y": (-0.3, 0.0)}
    start = replace(guess, geometry=replace(true, points=((-0.2, 0.5, 0.0), (0.2, -0.1, 0.0))))
    found = search_geometry(robot, log, replace(SETTINGS, terms=WITHOUT), start, bounds, starts=2)
    assert found.values == pytest.approx([-0.3, -0.15], abs=0.03)
    assert found.term == replace(spring, geometry=found.term.geometry)  # type: ignore[attr-defined]  # a spring


@pytest.mark.parametrize(
    ("bounds", "text"),
    [({}, "no bounds"), ({"length": (0.0, 1.0)}, "bounds length"), ({"crank": (0.5, 0.1)}, "bounds crank")],
)
def test_bounds_must_make_sense(
    robot: RobotModel, log: Log, bounds: dict[str, tuple[float, float]], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        search_geometry(robot, log, replace(SETTINGS, terms=WITHOUT), SPRINGS, bounds)
    with pytest.raises(
        UsageError, match=r"found term 'spring', which is already in the model; .*the search adds it"
    ):
        search_geometry(robot, log, SETTINGS, SPRINGS, {"crank": (0.1, 0.5)})


def test_friction_is_found_at_the_motors(robot: RobotModel, log: Log) -> None:
    settings = replace(
        SETTINGS, terms=RigidBody() + MotorInertia() + Viscous() + Coulomb(width=0.03) + SPRINGS
    )
    found = compare_sides(robot, log, settings)
    assert found.side == "motor"
    assert "friction acts at the motors" in found.text
    assert found.difference > 3 * found.std
    assert found.relative[1, 1] < found.relative[0, 1]


def test_friction_is_found_at_the_joints(robot: RobotModel, tmp_path: Path) -> None:
    terms = RigidBody() + MotorInertia() + Viscous() + Coulomb(width=0.03)
    log = log_of(tmp_path, robot, terms, values(terms, {}), seed=1)
    found = compare_sides(robot, log, replace(SETTINGS, terms=terms))
    assert found.side == "joint"
    assert "friction acts at the joints" in found.text


def test_without_coupling_both_sides_are_one(robot: RobotModel, tmp_path: Path) -> None:
    plain = replace(arm(coupled=False), inertia_prior=robot.inertia_prior)
    plain = replace(plain, drive=replace(plain.drive, torque_side=TorqueSide.LINK))
    terms = RigidBody() + MotorInertia() + Viscous() + Coulomb()
    found = compare_sides(
        plain, log_of(tmp_path, plain, terms, values(terms, {})), replace(SETTINGS, terms=terms)
    )
    assert found.side == "undecided"
    assert "the same model" in found.text
    assert np.abs(found.relative[0] - found.relative[1]).max() < 1e-6


def test_a_log_too_short_to_hold_blocks_out_is_reported_with_what_to_do(robot: RobotModel, log: Log) -> None:
    terms = RigidBody() + MotorInertia() + Viscous() + SPRINGS
    with pytest.raises(UnfitDataError, match=r"at least 6, to hold 3 parts out .*shorter block_seconds"):
        compare_sides(robot, log, replace(SETTINGS, terms=terms, block_seconds=20.0))


def test_only_friction_changes_sides() -> None:
    terms = RigidBody() + MotorInertia() + Viscous() + Coulomb(width=0.1)
    at_motors = friction_on(terms, "motor")
    assert [term.name for term in at_motors] == ["rigid_body", "motor_inertia", "on_motor", "on_motor"]
    assert friction_on(at_motors, "joint") == terms
    with pytest.raises(UsageError, match="side 'left'"):
        friction_on(terms, "left")


def test_a_negative_spring_is_doubted_with_its_evidence(robot: RobotModel, tmp_path: Path) -> None:
    terms = WITHOUT + SPRINGS
    theta = values(terms, {"k_springs": -30 * STIFFNESS, "c_springs": 3e5})
    found = identify(robot, log_of(tmp_path, robot, terms, theta), SETTINGS)
    (doubt,) = [one for one in found.diagnostics.doubts if one.identifier == "negative-stiffness"]
    assert re.search(r"k_springs = -\S+ N/m, standard deviation", doubt.text)


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        (150.0, 'gear ratio RATIO;.*effort.side = "link"'),
        (1 / 150.0, 'inverse of the gear ratio RATIO;.*effort.side = "motor"'),
        (150.0**2, "gear ratio RATIO squared.*motor turns per joint turn"),
    ],
)
def test_the_wrong_side_of_the_gear_is_determined_by_the_prior(
    scale: float, says: str, tmp_path: Path
) -> None:
    robot = arm(coupled=False)
    robot = replace(robot, drive=replace(robot.drive, torque_side=TorqueSide.LINK))
    terms = RigidBody() + MotorInertia()
    log = log_of(tmp_path, robot, terms, values(terms, {}), scale=scale)
    # No consistent bodies are 150 times too heavy or too light: the fit without constraints is what is compared.
    found = identify(robot, log, replace(SETTINGS, terms=terms))
    doubts = [one for one in found.diagnostics.doubts if one.identifier == "gear-ratio-side"]
    # Each joint is compared with its own ratio (80 to 180), which a factor of 150 meets within a factor of two.
    assert len(doubts) >= 3
    ratios = dict(zip(robot.joint_names, np.abs(robot.drive.gear_ratio), strict=True))
    for doubt in doubts:
        assert re.search(says.replace("RATIO", f"{ratios[doubt.place.joint]:.3g}"), doubt.text), doubt.text
    assert found.verdict.level in ("doubtful", "poor")


def test_a_spring_that_carries_gravity_is_no_wrong_sign(tmp_path: Path) -> None:
    # A strong spring reverses the slope of torque against gravity, but neither inertia nor the wrists beyond it.
    robot = replace(arm(coupled=False), drive=replace(arm(coupled=False).drive, torque_side=TorqueSide.LINK))
    strong = Spring(Triangle("j2", 0.9, 0.45, -1.3), label="springs")
    terms = RigidBody() + MotorInertia() + strong
    log = log_of(tmp_path, robot, terms, values(terms, {"k_springs": 1.2e4, "c_springs": 0.0}))
    lacking = identify(robot, log, replace(SETTINGS, terms=RigidBody() + MotorInertia()))
    assert not any(doubt.code == "torque-sign" for doubt in lacking.diagnostics.doubts)
    assert lacking.verdict.level != "good"
    assert identify(robot, log, replace(SETTINGS, terms=terms)).verdict.level == "good"
