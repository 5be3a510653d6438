"""A load of known inertia that was mounted during some trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Column, Scale, Term


@dataclass(frozen=True)
class KnownPayload(Term):
    """Torque of a known load on a body, during the trajectories that match a pattern; it adds no unknown.

    inertia: ten parameters about the joint frame of the body.    body: name; "" = the last one.
    trajectories: shell pattern of trajectory names, "*" = all.
    """

    inertia: tuple[float, ...]
    body: str = ""
    trajectories: str = "*"
    name: str = "known_payload"
    of_log = True
    scale = Scale.FIXES

    def __post_init__(self) -> None:
        if len(self.inertia) != 10 or not np.isfinite(self.inertia).all():
            raise UsageError(
                "payload-inertia",
                found=f"{list(self.inertia)}",
                expected="ten finite numbers: m, mcx, ..., Izz",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """None: everything is known."""
        return ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Empty."""
        return Panels(
            columns=tuple(np.zeros(0, dtype=np.int64) for _ in range(robot.n)),
            values=tuple(np.zeros((0, len(samples))) for _ in range(robot.n)),
        )

    def known_torque(self, robot: RobotModel, samples: Samples) -> Float | None:
        """Inverse dynamics of the load alone."""
        inertia = self._inertia(robot, samples)
        if inertia is None:
            return None
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        return np.ascontiguousarray(inverse_dynamics(robot.tree, inertia, q, dq, ddq) @ robot.projection)

    def known_momentum(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
        """Momentum of the load alone, and the rest of its torque."""
        inertia = self._inertia(robot, samples)
        if inertia is None:
            return None
        columns = np.asarray(inertia.ravel() != 0)
        P, R = RigidBody().momentum_form(robot, samples, columns)
        return _applied(P, inertia.ravel()), _applied(R, inertia.ravel())

    def known_energy(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
        """Energy of the load alone."""
        inertia = self._inertia(robot, samples)
        if inertia is None:
            return None
        columns = np.asarray(inertia.ravel() != 0)
        h, _ = RigidBody().energy_form(robot, samples, columns)
        return inertia.ravel()[columns] @ h, np.zeros((len(samples), robot.n))

    def _inertia(self, robot: RobotModel, samples: Samples) -> Float | None:
        if not fnmatchcase(samples.trajectory, self.trajectories):
            return None
        if self.body and self.body not in robot.body_names:
            raise UsageError(
                "unknown-body", found=f"body '{self.body}'", expected="one of " + ", ".join(robot.body_names)
            )
        index = robot.body_names.index(self.body) if self.body else robot.n_bodies - 1
        inertia = np.zeros((robot.n_bodies, 10))
        inertia[index] = self.inertia
        return inertia


def _applied(panels: Panels, values: Float) -> Float:
    return np.stack(
        [values[c] @ lines for c, lines in zip(panels.columns, panels.values, strict=True)], axis=1
    )
