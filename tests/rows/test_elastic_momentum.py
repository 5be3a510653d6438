"""Momentum rows of elastic joints: the contract, and column by column the filtered equations of ElasticRows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.factor import structural_base
from dynid.robot import RobotModel
from dynid.rows import CausalFilter, ElasticMomentumRows, ElasticRows, Rows, rows_from_spec, rows_to_spec
from dynid.signals import Samples
from dynid.terms import LinkOffset, RigidBody, SpinningRotor, Stiffness, Terms, Viscous
from dynid.testing import RowsContract, random_robot, smooth_samples

TERMS = RigidBody() + SpinningRotor() + Viscous() + Stiffness() + LinkOffset()
EDGE = 40
CENTRAL = np.array([-1 / 280, 4 / 105, -1 / 5, 4 / 5, 0, -4 / 5, 1 / 5, -4 / 105, 1 / 280])


def slope(x: Float, rate: float) -> Float:
    """Central differences of eighth order along time; the first and last four are cut short."""
    return rate * np.apply_along_axis(np.convolve, 0, x, CENTRAL, mode="same")


def hung(robot: RobotModel, theta: Float, count: int = 1500) -> Samples:
    """Links that move smoothly, and motors where the springs pull the links along."""
    K = theta[-2 * robot.n : -robot.n]
    links = smooth_samples(robot, count + 2 * EDGE, seed=2)
    every = np.ones(len(theta), dtype=np.bool_)
    moving = replace(links, theta=links.q, dtheta=links.dq, ddtheta=links.ddq)
    for _ in range(4):  # a rotor's pull on its carrying link depends on the motors' motion
        total = TERMS.torque_regressor(robot, moving, every).dense(len(theta)) @ theta
        motor = TERMS.motor_regressor(robot, moving, every).dense(len(theta)) @ theta
        at = moving.theta + (total - motor) / K
        rate = slope(at, links.rate)
        moving = replace(moving, theta=at, dtheta=rate, ddtheta=slope(rate, links.rate))
    tau = TERMS.torque(robot, moving, theta)
    inner = slice(EDGE, -EDGE)
    names = ("t", "q", "dq", "ddq", "theta", "dtheta", "ddtheta", "keep")
    return replace(moving, tau=tau[inner], **{name: getattr(moving, name)[inner] for name in names})


class TestElasticMomentumRows(RowsContract):
    tolerance = 5e-5
    form = "total"
    joints: tuple[str, ...] = ()

    def rows(self) -> Rows:
        return ElasticMomentumRows(joints=self.joints, form=self.form)

    def terms(self) -> Terms:
        return TERMS

    def exact(self, robot: RobotModel) -> tuple[Samples, Float]:
        theta = np.random.default_rng(3).normal(0, 1, len(TERMS.columns(robot)))
        theta[-2 * robot.n : -robot.n] = np.linspace(3e3, 5e3, robot.n)
        return hung(robot, theta), theta


class TestLinkForm(TestElasticMomentumRows):
    form = "link"


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("form", ["total", "link"])
def test_columns_are_the_filtered_columns_of_the_equations(form: str, degree: int) -> None:
    robot = random_robot(2, 5, 0.6)
    samples, theta = TestElasticMomentumRows().exact(robot)
    every = np.ones(len(theta), dtype=np.bool_)
    rows = ElasticMomentumRows(form=form, cutoff=3.0, degree=degree)
    found = rows.equations(robot, TERMS, samples, every)
    plain = ElasticRows(form=form).equations(robot, TERMS, samples, every)
    f = CausalFilter(3.0, degree, samples.rate)
    for columns, panel, of, lines in zip(
        found.columns, found.panels, plain.columns, plain.panels, strict=True
    ):
        np.testing.assert_array_equal(columns, of)
        wanted = f.low(lines)
        # Both filters begin at rest; the momentum at the first sample differs from it by f1[P - P(0)].
        size = np.abs(wanted).max(axis=1, keepdims=True)
        assert (np.abs(panel - wanted) <= 2e-4 * np.maximum(size, 1e-6)).all()


def test_base_parameters_are_those_of_the_plain_equations() -> None:
    robot = random_robot(5, 4, 0.4)
    plain, momentum = (structural_base(robot, TERMS, rows) for rows in (ElasticRows(), ElasticMomentumRows()))
    assert plain.rank == momentum.rank
    np.testing.assert_allclose(plain.B, momentum.B, atol=1e-6)


def test_options() -> None:
    rows = ElasticMomentumRows(joints=("joint1",), cutoff=3.0, degree=1)
    assert rows_from_spec(rows_to_spec(rows)["rows"]) == rows
    assert rows.groups(random_robot(1, 3, 0.0))[-1] == "joint1 motor"
    with pytest.raises(UsageError, match="degree = 3"):
        ElasticMomentumRows(degree=3)
    with pytest.raises(UsageError, match="form 'both'"):
        ElasticMomentumRows(form="both")  # type: ignore[arg-type]  # wrong on purpose
