"""Rows of a known model: samples of its mass matrix and gravity torque, from a controller or simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

MASS_MATRIX, GRAVITY_TORQUE = "mass_matrix", "gravity_torque"
# Relative asymmetry of a mass matrix that counts as rounding of a table.
ASYMMETRY = 1e-6


@dataclass(frozen=True)
class InertiaRows:
    """Equations M(q)_ij = P_i(q, e_j) theta and g(q) = R(q, 0) theta, one group per entry of M and joint of g.

    Samples contain M as extra channel "mass_matrix", (T, n, n), and g as "gravity_torque", (T, n). Entries that are nan
    are ignored; of M the upper triangle is used. Velocity, acceleration and torque are ignored. M e_j is the momentum
    at unit velocity of joint j.

    Parameters
    ----------
    mass, gravity : bool
        Which of the two to use.

    Raises
    ------
    UsageError
        If neither is used. `equations` raises UnfitDataError if a channel is missing.

    References
    ----------
    Gaz et al. 2019, reverse engineering.

    """

    mass: bool = True
    gravity: bool = True
    name: str = "inertia"

    def __post_init__(self) -> None:
        if not (self.mass or self.gravity):
            raise UsageError("inertia-rows", found="neither mass nor gravity", expected="at least one")

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Joints of g, then entries of M."""
        names = robot.joint_names
        gravity = tuple(f"g {name}" for name in names) if self.gravity else ()
        return gravity + tuple(f"M {names[i]} {names[j]}" for i, j in self._entries(robot))

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """-1 for all groups: samples of a model are not gated by the speed of a joint."""
        return (-1,) * len(self.groups(robot))

    def posed(self, robot: RobotModel, samples: Samples) -> Samples:
        """The same positions with some M and g."""
        extra = {
            MASS_MATRIX: np.tile(np.eye(robot.n), (len(samples), 1, 1)),
            GRAVITY_TORQUE: np.zeros((len(samples), robot.n)),
        }
        return replace(samples, extra={**samples.extra, **extra})

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per group; an equation with unknown left side is 0 = 0."""
        columns: list[Int] = []
        panels: list[Float] = []
        rest = np.zeros_like(samples.q)
        if self.gravity:
            g = _channel(samples, GRAVITY_TORQUE)
            still = replace(samples, dq=rest, ddq=rest)
            R, known = terms.momentum_form(robot, still, wanted)[1], terms.known_momentum(robot, still)[1]
            for j in range(robot.n):
                columns.append(R.columns[j])
                panels.append(_panel(R.values[j], g[:, j] - known[:, j]))
        if self.mass:
            M = _channel(samples, MASS_MATRIX)
            for j in range(robot.n):
                unit = np.array(rest)
                unit[:, j] = 1.0
                moving = replace(samples, dq=unit, ddq=rest)
                P, known = (
                    terms.momentum_form(robot, moving, wanted)[0],
                    terms.known_momentum(robot, moving)[0],
                )
                for i in range(j + 1):
                    columns.append(P.columns[i])
                    panels.append(_panel(P.values[i], M[:, i, j] - known[:, i]))
        return Equations(tuple(columns), tuple(panels))

    def _entries(self, robot: RobotModel) -> tuple[tuple[int, int], ...]:
        return tuple((i, j) for j in range(robot.n) for i in range(j + 1)) if self.mass else ()


def check_mass_matrices(M: Float) -> None:
    """Raise UnfitDataError for the first matrix that is not symmetric, or, if complete, not positive definite.

    M: (T, n, n), nan where unknown. An entry known on one side of the diagonal only is assumed symmetric.
    """
    for row, matrix in enumerate(M):
        both = np.isfinite(matrix) & np.isfinite(matrix.T)
        size = float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0))
        gap = float(np.abs(np.where(both, matrix - matrix.T, 0.0)).max(initial=0.0))
        if gap > ASYMMETRY * size:
            raise UnfitDataError(
                "mass-matrix-asymmetric",
                found=f"a mass matrix that differs from its transpose by {gap:.3g}",
                expected="a symmetric one",
                do="check which column holds which entry",
                place=Place(row=row),
            )
        whole = np.where(np.isfinite(matrix), matrix, matrix.T)
        if np.isfinite(whole).all() and float(np.linalg.eigvalsh(whole)[0]) <= 0:
            raise UnfitDataError(
                "mass-matrix-indefinite",
                found=f"a mass matrix with the eigenvalue {float(np.linalg.eigvalsh(whole)[0]):.3g}",
                expected="a positive definite one",
                place=Place(row=row),
            )


def _panel(lines: Float, target: Float) -> Float:
    known = np.isfinite(target)
    return np.concatenate([lines * known, np.where(known, target, 0.0)[None, :]])


def _channel(samples: Samples, name: str) -> Float:
    if name not in samples.extra:
        raise UnfitDataError(
            "missing-channel",
            found=f"samples without '{name}'",
            expected="mass matrices or gravity torques of a model",
            do="use dynid reveal, which reads them from a table",
        )
    return samples.extra[name]
