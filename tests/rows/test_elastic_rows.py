"""Rows of elastic joints: the contract, the two forms, and joints with one encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, InputError, UsageError
from dynid.factor import structural_base
from dynid.kernel import gravity_torque
from dynid.robot import RobotModel
from dynid.rows import (
    AutomaticRows,
    ElasticRows,
    Rows,
    TorqueRows,
    group_joints,
    rows_from_spec,
    rows_to_spec,
    two_encoders,
)
from dynid.signals import Samples
from dynid.terms import LinkOffset, Offset, RigidBody, RotorInertia, Stiffness, Terms, Viscous
from dynid.testing import RowsContract, random_robot, smooth_samples


class TestElasticRows(RowsContract):
    form = "total"
    joints: tuple[str, ...] = ()

    def rows(self) -> Rows:
        return ElasticRows(joints=self.joints, form=self.form)

    def terms(self) -> Terms:
        return RigidBody() + RotorInertia() + Viscous() + Offset() + Stiffness() + LinkOffset()

    def exact(self, robot: RobotModel) -> tuple[Samples, Float]:
        """Links move smoothly; motors hang on them by the springs that the link equations stretch."""
        links = smooth_samples(robot, 400, seed=2)
        p = len(self.terms().columns(robot))
        theta = np.random.default_rng(3).normal(0, 1, p)
        K = np.linspace(100, 200, robot.n)
        theta[-2 * robot.n : -robot.n] = K
        carried = (RigidBody() + LinkOffset()).torque(
            robot, links, np.concatenate([theta[: 10 * robot.n_bodies], theta[-robot.n :]])
        )
        apart = smooth_samples(robot, 400, seed=3)
        moving = replace(links, theta=links.q + carried / K, dtheta=apart.dq, ddtheta=apart.ddq)
        alone = [j for j, name in enumerate(robot.joint_names) if self.joints and name not in self.joints]
        for motor, link in ((moving.theta, links.q), (moving.dtheta, links.dq), (moving.ddtheta, links.ddq)):
            motor.setflags(write=True)
            motor[:, alone] = link[:, alone]
        return replace(moving, tau=self.terms().torque(robot, moving, theta)), theta


class TestLinkForm(TestElasticRows):
    form = "link"


class TestSomeJoints(TestElasticRows):
    joints = ("joint1", "joint2")


def test_groups_are_the_joints_and_second_equations() -> None:
    robot = random_robot(1, 3, 0.0)
    rows = ElasticRows(joints=("joint3", "joint1"))
    assert rows.groups(robot) == ("joint1", "joint2", "joint3", "joint1 motor", "joint3 motor")
    assert group_joints(rows, robot) == (0, 1, 2, 0, 2)
    assert two_encoders(rows, robot) == (0, 2)
    assert replace(rows, form="link").groups(robot)[3:] == ("joint1 link", "joint3 link")
    assert (group_joints(TorqueRows(), robot), two_encoders(TorqueRows(), robot)) == ((0, 1, 2), ())


def test_forms_have_the_same_base_parameters() -> None:
    robot = random_robot(5, 4, 0.4)
    terms = TestElasticRows().terms()
    total, link = (structural_base(robot, terms, ElasticRows(form=form)) for form in ("total", "link"))
    assert total.rank == link.rank
    np.testing.assert_allclose(total.B, link.B, atol=1e-7)


def test_two_encoders_determine_more_than_one() -> None:
    robot = random_robot(5, 3, 0.0)
    terms = RigidBody() + RotorInertia() + Viscous() + Offset() + Stiffness() + LinkOffset()
    rigid, elastic = structural_base(robot, terms, TorqueRows()), structural_base(robot, terms, ElasticRows())
    assert elastic.rank > rigid.rank
    alone = {
        name for name, kind in zip(elastic.names, elastic.categories(), strict=True) if kind == "identifiable"
    }
    assert {"K1", "K2", "K3", "Ia1", "Ia2", "Ia3", "fo1", "fol1"} <= alone
    silent = {
        name for name, kind in zip(rigid.names, rigid.categories(), strict=True) if kind == "not identifiable"
    }
    assert {"K1", "K2", "K3"} <= silent


def test_link_equations_alone_lose_the_scale() -> None:
    robot = random_robot(5, 3, 0.0)
    assert gravity_torque(robot.tree, robot.inertia_prior, np.zeros((1, 3))).any()
    samples, theta = TestLinkForm().exact(robot)
    terms = TestLinkForm().terms()
    found = ElasticRows(form="link").equations(robot, terms, samples, np.ones(len(theta), dtype=np.bool_))
    W = np.zeros((3, len(samples), len(theta)))
    for g in range(3):
        W[g][:, found.columns[3 + g]] = found.panels[3 + g][:-1].T
        assert not found.panels[3 + g][-1].any()
    W = W.reshape(-1, len(theta))
    np.testing.assert_allclose(W @ theta, 0, atol=1e-9 * np.abs(W * theta).max())


def test_experiments_name_rows() -> None:
    assert rows_from_spec("torque") == TorqueRows()
    for rows in (ElasticRows(), ElasticRows(joints=("j1",), form="link")):
        assert rows_from_spec(rows_to_spec(rows)["rows"]) == rows
    assert rows_to_spec(AutomaticRows()) == {}
    with pytest.raises(InputError, match="did you mean 'elastic'"):
        rows_from_spec("elastc")
    with pytest.raises(InputError, match="option 'joint' of rows 'elastic'"):
        rows_from_spec({"rows": "elastic", "joint": ["j1"]})
    with pytest.raises(UsageError, match="form 'both'"):
        ElasticRows(form="both")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(UsageError, match="joint 'j9'"):
        ElasticRows(joints=("j9",)).groups(random_robot(1, 3, 0.0))
