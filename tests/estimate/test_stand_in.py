"""Which estimates without constraints may stand in for consistent bodies, on an arm that pinocchio simulates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS, Estimate, FeasibleFit, may_stand_in, project_to_physical
from dynid.estimate import physical as room
from dynid.identification import default_estimator
from dynid.robot import RobotModel, load_robot
from dynid.signals import Samples
from tests.estimate.test_partial_prior import PLAIN, ROTORS, arm, regression, torque


@pytest.fixture
def robot(tmp_path: Path) -> RobotModel:
    path = tmp_path / "arm.urdf"
    path.write_text(arm())
    return load_robot(path, diagnostics=Diagnostics())


def truth(robot: RobotModel) -> Float:
    """The arm's parameters: those of the description, and its rotors."""
    columns = PLAIN.columns(robot)
    known = np.array([0.0 if np.isnan(one.prior) else one.prior for one in columns])
    for k, one in enumerate(columns):
        if one.term == "rotor_inertia":
            known[k] = ROTORS[one.owner]
    return known


def motion(robot: RobotModel, count: int = 300) -> Samples:
    rng = np.random.default_rng(4)
    q, dq, ddq = (rng.uniform(-2, 2, (count, robot.n)) for _ in range(3))
    return Samples.from_motion(q, dq, ddq, torque(q, dq, ddq, np.zeros(robot.n)))


def test_mass_matrices_are_those_of_pinocchio(robot: RobotModel) -> None:
    samples, model = motion(robot, 20), pin.buildModelFromXML(arm())
    found, data = room._mass_matrices(robot, PLAIN, truth(robot), samples), model.createData()
    for M, q in zip(found, samples.q, strict=True):
        upper = np.triu(pin.crba(model, data, q))
        wanted = upper + np.triu(upper, 1).T + np.diag(ROTORS)
        np.testing.assert_allclose(M, wanted, atol=1e-10 * np.abs(wanted).max())


def test_what_moves_as_a_robot_does_stands_in(robot: RobotModel, tmp_path: Path) -> None:
    case, samples = regression(tmp_path, arm()), motion(robot)
    free = WLS().fit(case)
    right = replace(free, parameters=truth(robot))
    light = right.parameters.copy()
    wrist = [k for k, one in enumerate(PLAIN.columns(robot)) if one.owner == robot.n - 1]
    light[wrist] *= -1.0
    impossible = replace(free, parameters=light)

    def stands_in(one: Estimate, real: Estimate) -> bool:
        return may_stand_in(robot, PLAIN, one, real, [samples.part(0, 120), samples.part(120, 300)])

    assert stands_in(right, right)
    # The friction that `truth` leaves out is a small part of what the joints that carry much take.
    well = replace(right, parameters=free.parameters)
    assert not stands_in(impossible, well)
    badly = replace(right, parameters=np.where(np.arange(len(light)) < 10, 1.0, 0.1) * light)
    assert stands_in(impossible, badly)


def test_consistent_bodies_are_kept_where_nothing_can_stand_in(tmp_path: Path) -> None:
    """Without rotors in the model a drive that cancels inertia is explained by an impossible wrist alone."""
    case = regression(tmp_path, arm(), PLAIN, lost=np.array([0.0, 0.0, 0.05, 0.01]))
    free = WLS().fit(case)
    # Of a given strength: its choice takes dozens of solutions, and test_partial_prior.py has it on this very case.
    estimator = replace(default_estimator(), strength=1.0)
    for stands_in, identifier, method in (
        (True, "not-consistent", "wls"),
        (False, "consistency-costs", "feasible"),
    ):
        said = Diagnostics()
        kept, _ = project_to_physical(
            estimator, case, free, False, said, stands_in=lambda real, answer=stands_in: answer
        )
        assert [one.identifier for one in said.warnings] == [identifier]
        assert kept.method == method


@pytest.mark.parametrize("light", [True, False])
def test_a_light_joint_alone_gives_no_bodies_up(
    light: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the weights of joints each counts as much; of the torque in N m one of small errors has next to no part."""
    case = regression(tmp_path, arm(), PLAIN, lost=np.array([0.0, 0.0, 0.05, 0.01]))
    free = WLS().fit(case)
    weights = np.asarray(free.weights)
    worse = np.full(len(weights), 0.9)
    worse[np.argmax(weights) if light else np.argmin(weights)] = 25.0

    def unseen(*_: object) -> Callable[[float | None], Float]:
        return lambda strength: np.tile((1.0 if strength is None else worse) / weights, (5, 1))

    monkeypatch.setattr(FeasibleFit, "unseen", unseen)
    said = Diagnostics()
    kept, _ = project_to_physical(replace(default_estimator(), strength=1.0), case, free, False, said)
    (warning,) = said.warnings
    assert (warning.identifier, kept.method) == (
        ("consistency-costs", "feasible") if light else ("not-consistent", "wls")
    )
    assert ("over all joints" in warning.text) == light
