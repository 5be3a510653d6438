"""Torque rows: the inverse dynamic model itself, one equation a joint and sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
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
        count = first.parameter_count(robot)
        target = samples.tau - terms.known_torque(robot, samples)
        further = others.torque_regressor(robot, samples, wanted[count:], target, joints)
        found = first.filtered_regressor(
            robot, first.seen(samples), wanted[:count], further.values, parallel, joints
        )
        columns = zip(found.columns, further.columns, strict=True)
        return Equations(tuple(np.append(a, b + count) for a, b in columns), found.values)

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, batches: Sequence[Samples] = ()
    ) -> Panels:
        """The same columns without their target."""
        return terms.torque_regressor(robot, samples, wanted, batches=batches)
