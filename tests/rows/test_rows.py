"""Row schemes: the built-in one keeps the contract and writes the plain inverse dynamics."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.rows import Equations, Rows, TorqueRows
from dynid.terms import ChannelTorque, DriveGain, Offset, RigidBody, Terms, Viscous
from dynid.testing import RowsContract, random_robot, smooth_samples


class TestTorqueRows(RowsContract):
    def rows(self) -> Rows:
        return TorqueRows()


class TestTorqueRowsWithKnownTorque(RowsContract):
    def rows(self) -> Rows:
        return TorqueRows()

    def terms(self) -> Terms:
        return RigidBody() + Viscous() + DriveGain()

    def exact(self, robot):  # type: ignore[no-untyped-def]  # fixtures
        # tau = Y theta - dk tau: the torque itself stands on both sides.
        samples, theta = super().exact(robot)
        theta = np.append(theta[: -robot.n], np.random.default_rng(0).uniform(-0.2, 0.2, robot.n))
        model = Terms((RigidBody(), Viscous())).torque(robot, samples, theta[: -robot.n])
        tau = model / (1 + theta[-robot.n :])
        return type(samples).from_motion(samples.q, samples.dq, samples.ddq, tau, samples.rate), theta


def test_panels_are_regressor_and_measured_less_known_torque() -> None:
    robot = random_robot(2, 5, 0.6)
    terms = RigidBody() + Offset() + ChannelTorque("u", "joint2", free=False)
    samples = smooth_samples(robot, 80, channels=["u"])
    p = len(terms.columns(robot))
    found = TorqueRows().equations(robot, terms, samples, np.ones(p, dtype=np.bool_))
    assert TorqueRows().groups(robot) == robot.joint_names
    Y = terms.torque_regressor(robot, samples).dense(p)
    for j, (columns, panel) in enumerate(zip(found.columns, found.panels, strict=True)):
        np.testing.assert_array_equal(panel[:-1].T, Y[:, j, columns])
        known = samples.extra["u"] if j == 1 else 0.0
        np.testing.assert_allclose(panel[-1], samples.tau[:, j] - known, rtol=0, atol=1e-14)
        assert not np.delete(Y[:, j], columns, axis=1).any()


def test_panels_of_another_height_are_refused() -> None:
    with pytest.raises(UsageError, match="3 lines for 3 columns"):
        Equations((np.arange(3),), (np.zeros((3, 10)),))
