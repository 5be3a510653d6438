"""Characteristic sizes of parameters: the metric in which a prior is near or far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.estimate import parameter_spread, typical_length
from dynid.estimate.prior import guessed_links
from dynid.feasible import body_columns
from dynid.robot import RobotModel
from dynid.spatial import to_com
from dynid.terms import Offset, RigidBody, Viscous
from dynid.testing import random_robot

TERMS = RigidBody() + Viscous() + Offset()


def with_mass(robot: RobotModel, masses: list[float]) -> RobotModel:
    prior = np.full((robot.n_bodies, 10), np.nan)
    prior[:, 0] = masses
    return replace(robot, inertia_prior=prior)


def spread(robot: RobotModel, influence: Float | None = None) -> dict[str, float]:
    columns = TERMS.columns(robot)
    found = parameter_spread(
        robot, columns, np.full(len(columns), np.nan) if influence is None else influence
    )
    assert (found > 0).all()
    return {column.name: float(value) for column, value in zip(columns, found, strict=True)}


def test_bodies_scale_with_mass_and_length() -> None:
    robot = with_mass(random_robot(1, 3, 0.0), [2.0, 5.0, 1.0])
    L = typical_length(robot)
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    np.testing.assert_allclose(L, np.sqrt(np.mean(distance**2)))
    found = spread(robot)
    assert found["m2"] == 5.0
    np.testing.assert_allclose([found["mcx2"], found["Ixz2"], found["Izz3"]], [5 * L, 5 * L**2, L**2])


def test_unknown_and_absurd_masses_take_the_typical_one() -> None:
    robot = with_mass(random_robot(1, 4, 0.0), [2.0, np.nan, 0.0, 4.0])
    found = spread(robot)
    assert found["m2"] == found["m3"] == 3.0


def test_without_any_mass_the_torque_sets_the_size() -> None:
    robot = with_mass(random_robot(1, 2, 0.0), [np.nan, np.nan])
    columns = TERMS.columns(robot)
    influence = np.full(len(columns), 0.5)
    found = spread(robot, influence)
    assert found["fv1"] == found["fo2"] == 2.0
    np.testing.assert_allclose(found["m1"], 2.0 / typical_length(robot) / np.sqrt(2))
    # Of each body its best direction counts, of all bodies the one that needs most; first moments do, by gravity.
    influence[[column.name == "mcx1" for column in columns]] = 0.8
    influence[[column.name in ("mcx2", "mcy2") for column in columns]] = 0.6
    influence[[column.name == "Izz1" for column in columns]] = 1e-3
    assert spread(robot, influence)["m1"] == pytest.approx(1 / 0.6 / typical_length(robot) / np.sqrt(2))
    assert found["m2"] == found["m1"]


def test_a_body_of_unknown_inertia_reaches_halfway_to_the_next_joint() -> None:
    robot = with_mass(random_robot(3, 3, 0.0), [np.nan] * 3)
    columns = TERMS.columns(robot)
    size = parameter_spread(robot, columns, np.full(len(columns), 0.5))
    guessed = guessed_links(robot, columns, size)
    for i, ten in enumerate(body_columns(columns)):
        mass, centre, inertia = to_com(guessed[ten])
        assert mass == pytest.approx(size[ten[0]])
        end = robot.T_parent_joint[i + 1, :3, 3] if i < 2 else np.zeros(3)
        np.testing.assert_allclose(centre, end / 2, atol=1e-12)
        assert np.linalg.eigvalsh(0.5 * np.trace(inertia) * np.eye(3) - inertia)[0] > 0


def test_other_parameters_take_their_prior_or_the_whole_torque() -> None:
    robot = random_robot(1, 2, 0.0)
    robot = replace(robot, friction_prior=np.array([[3.0, np.nan], [np.nan, np.nan]]))
    columns = TERMS.columns(robot)
    influence = np.full(len(columns), np.nan)
    influence[-3] = 0.25
    found = spread(robot, influence)
    assert (found["fv1"], found["fv2"], found["fo1"]) == (3.0, 4.0, 1.0)


def test_a_robot_whose_frames_coincide() -> None:
    robot = random_robot(1, 2, 0.0)
    placement = np.array(robot.T_parent_joint)
    placement[:, :3, 3] = 0.0
    assert typical_length(replace(robot, T_parent_joint=placement)) == 0.3
