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
from dynid.terms.rigid_body import RigidBody
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
        """`equations` after the parallel filter; those of bodies that come first are never stored before it."""
        bodies, others = terms.terms[:1], Terms(terms.terms[1:])
        if len(bodies) == 1 and type(bodies[0]) is RigidBody and not robot.has_mimic:
            count = len(bodies[0].columns(robot))
            target = samples.tau - terms.known_torque(robot, samples)
            further = others.torque_regressor(robot, samples, wanted[count:], target, joints)
            found = parallel.torque_panels(robot.tree, samples, wanted[:count], further.values, joints)
            if found is not None:
                columns = zip(found.columns, further.columns, strict=True)
                return Equations(tuple(np.append(a, b + count) for a, b in columns), found.values)
        equations = self.equations(robot, terms, samples, wanted, joints)
        return Equations(
            equations.columns, tuple(parallel.apply(panel, samples)[0] for panel in equations.panels)
        )

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, batches: Sequence[Samples] = ()
    ) -> Panels:
        """The same columns without their target."""
        return terms.torque_regressor(robot, samples, wanted, batches=batches)
