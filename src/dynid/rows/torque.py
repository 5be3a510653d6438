"""Torque rows: the inverse dynamic model itself, one equation per joint and sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import Place, UnfitDataError
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.momentum import require_finite
from dynid.rows.rows import Equations, Rows
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms.forms import filtered_regressor, parameter_count, seen_by
from dynid.terms.term import Terms


@dataclass(frozen=True)
class TorqueRows:
    """Torque equations tau - tau_known = Y(q, dq, ddq) theta, grouped by joint."""

    name: str = "torque"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Names of the joints."""
        return robot.joint_names

    def equations(
        self,
        robot: RobotModel,
        terms: Terms,
        samples: Samples,
        wanted: Bool,
        joints: Bool | None = None,
        batches: Sequence[Samples] = (),
    ) -> Equations:
        """One panel per joint: its structurally non-zero columns and the measured torque.

        Parameters
        ----------
        robot : RobotModel
            Robot.
        terms : Terms
            Terms of the model.
        samples : Samples
            Samples.
        wanted : ndarray of bool, shape (p,)
            Columns to write.
        joints : ndarray of bool, shape (n,), optional
            Joints whose columns are written; None = all. Of the others only the torque is.
        batches : sequence of Samples
            Batches that the samples were joined from; () = one batch.

        Returns
        -------
        Equations
            Equations.

        """
        target = samples.tau - terms.known_torque(robot, samples, batches)
        panels = terms.torque_regressor(robot, samples, wanted, target, joints, batches)
        return Equations(columns=panels.columns, panels=panels.values)

    def filtered(
        self,
        robot: RobotModel,
        terms: Terms,
        samples: Samples,
        wanted: Bool,
        parallel: ParallelFilter,
        joints: Bool | None = None,
    ) -> Equations:
        """`equations` after the parallel filter, without storing unfiltered columns of links if these come first.

        Parameters
        ----------
        robot : RobotModel
            Robot.
        terms : Terms
            Terms of the model.
        samples : Samples
            Samples.
        wanted : ndarray of bool, shape (p,)
            Columns to write.
        parallel : ParallelFilter
            Filter of both sides of the equations.
        joints : ndarray of bool, shape (n,), optional
            Joints whose columns are written; None = all.

        Returns
        -------
        Equations
            Filtered and decimated equations.

        """
        if not terms.terms:
            panels = self.equations(robot, terms, samples, wanted, joints).panels
            nothing = (np.zeros(0, dtype=np.int64),) * len(panels)
            return Equations(nothing, tuple(parallel.apply(panel, samples)[0] for panel in panels))
        first, others = terms.terms[0], terms.after_first
        count = parameter_count(first, robot)
        target = samples.tau - terms.known_torque(robot, samples)
        further = others.torque_regressor(robot, samples, wanted[count:], target, joints)
        regressor = filtered_regressor(
            first, robot, seen_by(first, samples), wanted[:count], further.values, parallel, joints
        )
        columns = zip(regressor.columns, further.columns, strict=True)
        return Equations(tuple(np.append(a, b + count) for a, b in columns), regressor.values)

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, batches: Sequence[Samples] = ()
    ) -> Panels:
        """Columns without their target."""
        return terms.torque_regressor(robot, samples, wanted, batches=batches)


# Motor rows: inverse dynamics per motor, whose measurements are independent.


@dataclass(frozen=True)
class MotorRows:
    """Torque equations of the motors, J'^-1 (tau - tau_known) = J'^-1 Y theta, J = d theta_m / dq, grouped by motor.

    Torque is measured per motor. A coupled transmission would carry the noise of one motor into several joint
    equations; here it enters one equation, so weights per group are maximum likelihood weights.
    """

    name: str = "motor"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Motors, named after their joints."""
        return robot.joint_names

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per motor: the combination of joint panels that it drives."""
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        # tau_m = J'^-1 tau: column i of J^-1 over the joints.
        inverse = np.linalg.inv(robot.drive.jacobian(samples.q))
        size = np.abs(inverse).max(axis=0)
        columns, panels = [], []
        for motor in range(robot.n):
            used = np.flatnonzero(size[:, motor] > 1e-12 * size[:, motor].max())
            union = np.unique(np.concatenate([joints.columns[j] for j in used]))
            total = np.zeros((len(union) + 1, len(samples)))
            for j in used:
                place = np.append(np.searchsorted(union, joints.columns[j]), len(union))
                total[place] += inverse[:, j, motor] * joints.panels[j]
            columns.append(union)
            panels.append(total)
        return Equations(columns=tuple(columns), panels=tuple(panels))


# Static rows: torque at rest, where only gravity, springs and offsets act.


@dataclass(frozen=True)
class StaticRows:
    """Torque equations at rest, tau = Y(q, 0, 0) theta, grouped by joint, or by motor if motors move several joints.

    Parameters
    ----------
    still : float, rad/s (m/s)
        Greatest velocity of a pose. `equations` raises UnfitDataError for the first faster row.

    """

    still: float = option(
        2e-3, "greatest speed of a joint at rest; faster rows are an error", unit="rad/s or m/s", above=0
    )
    name: str = "static"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The joints, or the motors of a coupled drive, which is where friction at rest acts."""
        return self._motion_rows(robot).groups(robot)

    @staticmethod
    def _motion_rows(robot: RobotModel) -> Rows:
        return MotorRows() if robot.drive.coupled else TorqueRows()

    def posed(self, robot: RobotModel, samples: Samples) -> Samples:
        """The same positions at rest."""
        rest = np.zeros_like(samples.q)
        return replace(samples, dq=rest, ddq=rest)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """Torque equations of poses."""
        require_finite(samples, self.name, ("q", "tau"))
        moving = np.abs(np.nan_to_num(samples.dq)) > self.still
        bad = np.argwhere(moving & samples.keep[:, None])
        if len(bad):
            row, joint = (int(i) for i in bad[0])
            raise UnfitDataError(
                "pose-moves",
                found=f"a pose in motion, {abs(samples.dq[row, joint]):.3g} rad/s or m/s",
                expected=f"at most {self.still:g} at rest",
                do="remove this row, or choose rows for motion such as torque",
                place=Place(
                    row=samples.first + row, time=float(samples.t[row]), joint=robot.joint_names[joint]
                ),
            )
        return self._motion_rows(robot).equations(robot, terms, self.posed(robot, samples), wanted)
