"""Torque rows: the inverse dynamic model itself, one equation a joint and sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
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
    """tau - tau_known = Y(q, dq, ddq) theta, grouped by joint."""

    name: str = "torque"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The joints."""
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
        """One panel a joint: its structurally non-zero columns and the measured torque.

        joints: (n,) whose columns are written, None = all; of the others the torque alone is.
        batches: that the samples were joined from; () = one batch.
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
        """`equations` after the parallel filter; columns of bodies, if they come first, are never stored before it."""
        if not terms.terms:
            panels = self.equations(robot, terms, samples, wanted, joints).panels
            nothing = (np.zeros(0, dtype=np.int64),) * len(panels)
            return Equations(nothing, tuple(parallel.apply(panel, samples)[0] for panel in panels))
        first, others = terms.terms[0], terms.after_first
        count = parameter_count(first, robot)
        target = samples.tau - terms.known_torque(robot, samples)
        further = others.torque_regressor(robot, samples, wanted[count:], target, joints)
        found = filtered_regressor(
            first, robot, seen_by(first, samples), wanted[:count], further.values, parallel, joints
        )
        columns = zip(found.columns, further.columns, strict=True)
        return Equations(tuple(np.append(a, b + count) for a, b in columns), found.values)

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, batches: Sequence[Samples] = ()
    ) -> Panels:
        """The same columns without their target."""
        return terms.torque_regressor(robot, samples, wanted, batches=batches)


# Motor rows: the inverse dynamic model seen from the motors, whose measurements are independent of each
# other.


@dataclass(frozen=True)
class MotorRows:
    """J'^-1 (tau - tau_known) = J'^-1 Y theta, grouped by motor, J = d theta_m / dq.

    Torque is measured motor by motor. Mapped to the joints by a coupled transmission, the noise of one motor enters
    several equations; in these rows it enters one, so that weights by group are those of maximum likelihood.
    """

    name: str = "motor"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The motors, called after their joints."""
        return robot.joint_names

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel a motor: the combination of the joints' panels that it drives."""
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        # tau_m = N'^-1 tau / phi': row i of N'^-1 over the joints.
        mix = np.linalg.inv(robot.drive.transmission).T
        slopes = robot.drive.linkage_slopes(samples.q) if robot.drive.linkages else None
        columns, panels = [], []
        for motor in range(robot.n):
            used = np.flatnonzero(np.abs(mix[motor]) > 1e-12 * np.abs(mix[motor]).max())
            union = np.unique(np.concatenate([joints.columns[j] for j in used]))
            total = np.zeros((len(union) + 1, len(samples)))
            for j in used:
                factor: Float | float = mix[motor, j] if slopes is None else mix[motor, j] / slopes[:, j]
                place = np.append(np.searchsorted(union, joints.columns[j]), len(union))
                total[place] += factor * joints.panels[j]
            columns.append(union)
            panels.append(total)
        return Equations(columns=tuple(columns), panels=tuple(panels))


# Static rows: torque at rest, where only gravity, springs and offsets act.


@dataclass(frozen=True)
class StaticRows:
    """tau = Y(q, 0, 0) theta, grouped by joint, or by motor where motors move several joints.

    still: rad/s (m/s), the greatest velocity of a pose.
    `equations` raises UnfitDataError that names the first row in which a joint moves faster.
    """

    still: float = option(2e-3, "motion above this is an error", unit="rad/s or m/s", above=0)
    name: str = "static"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The joints, or the motors of a coupled drive: friction at rest sits there."""
        return self._moving(robot).groups(robot)

    @staticmethod
    def _moving(robot: RobotModel) -> Rows:
        return MotorRows() if robot.drive.coupled else TorqueRows()

    def posed(self, robot: RobotModel, samples: Samples) -> Samples:
        """The same positions at rest."""
        rest = np.zeros_like(samples.q)
        return replace(samples, dq=rest, ddq=rest)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """The torque equations of poses."""
        require_finite(samples, self.name, ("q", "tau"))
        moving = np.abs(np.nan_to_num(samples.dq)) > self.still
        bad = np.argwhere(moving & samples.keep[:, None])
        if len(bad):
            row, joint = (int(i) for i in bad[0])
            raise UnfitDataError(
                "pose-moves",
                found=f"a pose in motion, {abs(samples.dq[row, joint]):.3g} rad/s or m/s",
                expected=f"at most {self.still:g} at rest",
                do="leave this row out, or use rows of motion",
                place=Place(
                    row=samples.first + row, time=float(samples.t[row]), joint=robot.joint_names[joint]
                ),
            )
        return self._moving(robot).equations(robot, terms, self.posed(robot, samples), wanted)
