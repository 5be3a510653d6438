"""Simulated logs with one peculiarity each: it is found, its interval holds the truth, and nothing else is found."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.choose import Selection
from dynid.estimate import WLS, Estimator
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.signals import Preparation, Samples
from dynid.terms import (
    Compliance,
    Coulomb,
    JointCoupling,
    Offset,
    PolynomialFriction,
    RigidBody,
    RotorInertia,
    Terms,
    Viscous,
    torque_of,
)
from dynid.testing import random_inertia, random_robot
from dynid.trajectories import FourierTrajectory
from tests.unexamined import not_examined

ROBOT: RobotModel = random_robot(2, 3, 0.0)
PLAIN = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02)
RATE, SECONDS, NOISE = 200.0, 60.0, 0.01
AXES = ("friction", "rotors", "offsets")
TRUE_AXES = ("viscous + coulomb", "rotors", "none")


def truth(terms: Terms, seed: int = 0) -> Float:
    """Physical bodies and positive values of everything else, (p,)."""
    bodies = random_inertia(3, ROBOT.n_bodies).ravel()
    rest = len(terms.columns(ROBOT)) - len(bodies)
    return np.concatenate([bodies, np.random.default_rng(seed).uniform(0.5, 1.5, rest)])


@lru_cache
def motion(delay: float = 0.0) -> tuple[Float, Float, Float]:
    """q, dq, ddq at RATE, earlier by some delay."""
    planned = FourierTrajectory.random(ROBOT, SECONDS + 1.0, harmonics=10, seed=5, frequency=0.05, ramp=1.0)
    return planned.motion(np.arange(round(SECONDS * RATE)) / RATE + 0.5 - delay)


def write(path: Path, terms: Terms, theta: Float, robot: RobotModel = ROBOT, delay: float = 0.0) -> Path:
    """A log of the motion with its torque and correlated noise."""
    tau = terms.torque(robot, Samples.from_motion(*motion(delay), rate=RATE), theta)
    white = np.random.default_rng(11).normal(0, 1, (len(tau) + 19, robot.n))
    slow = np.array([np.convolve(w, np.ones(20) / np.sqrt(20), "valid") for w in white.T]).T
    tau = tau + NOISE * tau.std(axis=0) * slow
    t = np.arange(len(tau)) / RATE
    return write_log(path, t, canonical_columns(robot.joint_names, motion()[0], tau=tau))


def chosen(path: Path, examined: bool = False, estimator: Estimator | None = None) -> Identification:
    """The log identified with a model chosen by the data; without a prior in the final fit, unless it is given."""
    settings = Settings(automatic=True, estimator=estimator or WLS(), preparation=Preparation(cutoff=6.0))
    with nullcontext() if examined else not_examined():
        return identify(ROBOT, read_log(path, ROBOT), settings, threads=1, diagnostics=Diagnostics())


def options(found: Identification) -> dict[str, str]:
    """Chosen option by axis."""
    selection = found.selection
    assert isinstance(selection, Selection)
    return dict(zip(selection.axes, selection.chosen.options, strict=True))


def measurement_effects(found: Identification, name: str) -> tuple[float, float, bool]:
    """Value, half width and whether it is in the model."""
    assert found.selection is not None
    (one,) = [n for n in found.selection.measurement_effects if n.name == name]
    return one.value, one.half_width, one.adopted


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return chosen(write(tmp_path_factory.mktemp("plain") / "log.parquet", PLAIN, truth(PLAIN)))


def test_a_plain_robot_gets_the_plain_model(plain: Identification) -> None:
    found = options(plain)
    assert [found[axis] for axis in AXES] == list(TRUE_AXES)
    assert found.get("coupling", "none") == found.get("elasticity", "none") == "none"
    assert not {"base", "time", "gains"} & set(found)
    assert [term.name for term in plain.terms] == ["rigid_body", "rotor_inertia", "viscous", "coulomb"]
    beta = plain.estimate.base.reduce(truth(PLAIN))
    inside = np.abs(plain.estimate.value - beta) <= plain.estimate.half_width()
    assert inside.mean() > 0.85


def test_the_choice_is_reported_in_words(plain: Identification) -> None:
    (note,) = [one for one in plain.diagnostics if one.identifier == "model"]
    assert "friction: viscous + coulomb; rotor inertia: kept; offsets: none" in note.text


def test_the_table_holds_what_was_compared(plain: Identification) -> None:
    selection = plain.selection
    assert selection is not None
    options = [{m.options[k] for m in selection.models} for k in range(len(selection.axes))]
    assert selection.compared == len(selection.models) == np.prod([len(names) for names in options])
    assert len({m.options for m in selection.models}) == selection.compared
    best = min(selection.models, key=lambda m: m.relative)
    assert best.behind == 0.0
    assert selection.chosen.within
    simpler = [m for m in selection.models if m.parameters < selection.chosen.parameters]
    assert not any(m.within for m in simpler)
    assert {w.axis for w in selection.ablations} == set(selection.axes)
    rotors = next(w for w in selection.ablations if w.axis == "rotors")
    assert rotors.gain > 3 * rotors.gain_std


def test_the_choice_does_not_depend_on_threads(plain: Identification, tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.parquet", PLAIN, truth(PLAIN)), ROBOT)
    settings = Settings(automatic=True, estimator=WLS(), preparation=Preparation(cutoff=6.0))
    again = identify(ROBOT, log, settings, threads=3, diagnostics=Diagnostics())
    assert again.selection == plain.selection
    np.testing.assert_array_equal(again.estimate.value, plain.estimate.value)


def test_what_the_log_does_not_add_is_zero_within_its_interval(plain: Identification) -> None:
    assert plain.selection is not None
    small = [n for n in plain.selection.measurement_effects if n.kind in ("delay", "tilt", "gain", "offset")]
    assert len(small) == 1 + 2 + 2 + 3
    inside = [abs(n.value) <= 1.5 * n.half_width for n in small]
    assert np.mean(inside) >= 7 / 8
    assert not any(n.adopted for n in small)


def test_rotors_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    terms = RigidBody() + Viscous() + Coulomb(0.02) + Offset()
    found = chosen(write(tmp_path / "log.parquet", terms, truth(terms)))
    assert options(found)["rotors"] == "none"
    assert options(found)["offsets"] == "offsets"
    assert "rotor_inertia" not in [term.name for term in found.terms]
    for joint in range(3):
        value, half, adopted = measurement_effects(found, f"fo{joint + 1}")
        assert abs(value - truth(terms)[-3 + joint]) <= 1.5 * half
        assert adopted


def test_a_delay_is_reported_and_taken_out(tmp_path: Path) -> None:
    found = chosen(write(tmp_path / "log.parquet", PLAIN, truth(PLAIN), delay=0.02), examined=True)
    assert options(found)["time"] == "delayed"
    value, half, adopted = measurement_effects(found, "delay")
    assert adopted
    assert abs(value - 0.02) <= max(2 * half, 0.002)
    assert [w.identifier for w in found.diagnostics.warnings] == ["torque-lag"]


def test_a_long_delay_is_doubted_even_though_the_model_holds_it(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", PLAIN, truth(PLAIN), delay=0.05)
    found = chosen(path, examined=True)
    assert [one.identifier for one in found.diagnostics.doubts] == ["torque-lag"]
    assert "lags behind the motion" in found.diagnostics.doubts[0].text
    assert found.verdict.level == "doubtful"


@pytest.mark.parametrize("degrees", [0.8, 3.0])
def test_a_leaning_base_is_reported(tmp_path: Path, degrees: float) -> None:
    turn = np.radians(degrees) * np.array([0.6, -0.8, 0.0])
    leaning = replace(ROBOT, gravity=ROBOT.gravity + np.cross(turn, ROBOT.gravity))
    path = write(tmp_path / "log.parquet", PLAIN, truth(PLAIN), robot=leaning)
    found = chosen(path, examined=True)
    assert options(found)["base"] == "tilted"
    for name, value in zip(("tiltx", "tilty"), turn, strict=False):
        got, half, adopted = measurement_effects(found, name)
        assert adopted
        assert abs(got - value) <= 2 * half
        assert half < 0.3 * np.linalg.norm(turn)
    reported = found.diagnostics.doubts if degrees > 1.0 else found.diagnostics.warnings
    (one,) = [one for one in reported if one.identifier == "tilted-base"]
    assert "tilted by" in one.text


def test_friction_that_a_log_does_not_show_stays(tmp_path: Path) -> None:
    """Every drive has it: a log in which it drowns does not speak against it, and other motions would pay for it."""
    theta = truth(PLAIN)
    theta[[c.name[:2] in ("fv", "fc") for c in PLAIN.columns(ROBOT)]] = 1e-4
    found = chosen(write(tmp_path / "log.parquet", PLAIN, theta))
    assert options(found)["friction"] == "viscous + coulomb"
    assert (
        np.abs(
            [v for n, v in zip(found.estimate.names, found.estimate.value, strict=False) if n[:2] == "fc"]
        ).max()
        < 0.05
    )


def test_friction_is_chosen_by_joint(tmp_path: Path) -> None:
    cubic = PolynomialFriction((3,), joints=("joint2",))
    terms = Terms((*PLAIN.terms, cubic))
    found = chosen(write(tmp_path / "log.parquet", terms, truth(terms)))
    assert found.selection is not None
    assert options(found)["friction"] == "by joint"
    assert ("joint2", "cubic") in [(f.joint, f.form) for f in found.selection.friction]
    place = [c.name for c in found.estimate.columns].index("fvvv2")
    at = found.estimate.base.independent.tolist().index(place)
    assert abs(found.estimate.value[at] - truth(terms)[-1]) <= 2 * found.estimate.half_width()[at]


def test_a_coupled_pair_is_found(tmp_path: Path) -> None:
    coupled = JointCoupling(("joint2",), ("joint3",))
    terms = Terms((*PLAIN.terms, coupled))
    found = chosen(write(tmp_path / "log.parquet", terms, truth(terms)))
    assert options(found)["coupling"] == "1 coupled pair"
    (term,) = [t for t in found.terms if isinstance(t, JointCoupling)]
    assert (term.joints, term.others) == (("joint2",), ("joint3",))


def test_a_short_log_keeps_the_default_model(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", PLAIN, truth(PLAIN))
    settings = Settings(automatic=True, preparation=Preparation(cutoff=6.0), block_seconds=10.0)
    found = identify(ROBOT, read_log(path, ROBOT), settings, threads=1, diagnostics=Diagnostics())
    assert found.selection is None
    assert found.terms == Settings().model
    assert "too-short-to-choose" in [w.identifier for w in found.diagnostics.warnings]


def test_a_wrong_gain_is_reported_and_taken_out(tmp_path: Path) -> None:
    theta = truth(PLAIN)
    tau = PLAIN.torque(ROBOT, Samples.from_motion(*motion(), rate=RATE), theta) * np.array([1.0, 1.1, 1.0])
    tau = tau + NOISE * tau.std(axis=0) * np.random.default_rng(1).normal(0, 1, tau.shape)
    t = np.arange(len(tau)) / RATE
    path = write_log(tmp_path / "log.parquet", t, canonical_columns(ROBOT.joint_names, motion()[0], tau=tau))
    found = chosen(path)
    value, half, adopted = measurement_effects(found, "dg2")
    assert adopted
    assert abs(value - 0.1) <= 2 * half < 0.03


def test_a_soft_joint_is_found_behind_its_only_encoder(tmp_path: Path) -> None:
    """The encoder sits at the motor: it leads the link by what the joint's own torque winds up."""
    theta, softness = truth(PLAIN), 4e-4
    q, dq, ddq = motion()
    tau = PLAIN.torque(ROBOT, Samples.from_motion(q, dq, ddq, rate=RATE), theta)
    bodies = torque_of(RigidBody(), ROBOT, Samples.from_motion(q, dq, ddq, rate=RATE), theta[:30])
    motor = q + softness * bodies * np.array([0.0, 1.0, 0.0])
    extra = np.zeros_like(tau)
    wound = np.gradient(np.gradient(softness * bodies[:, 1]) * RATE) * RATE
    extra[:, 1] = theta[31] * wound  # the rotor follows the motor's angle
    tau = tau + extra + 0.2 * NOISE * tau.std(axis=0) * np.random.default_rng(1).normal(0, 1, tau.shape)
    t = np.arange(len(tau)) / RATE
    path = write_log(tmp_path / "log.parquet", t, canonical_columns(ROBOT.joint_names, motor, tau=tau))
    found = chosen(path)
    (term,) = [t for t in found.terms if isinstance(t, Compliance)]
    assert "joint2" in (term.joints or ROBOT.joint_names)
    place = [c.name for c in found.estimate.columns].index("cq2")
    at = found.estimate.base.independent.tolist().index(place)
    assert abs(found.estimate.value[at] / softness - 1.0) < 0.2
