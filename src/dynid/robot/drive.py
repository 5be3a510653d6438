"""The drive side of a robot: transmission, rotor inertia, and what the logged effort means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import InputError


class TorqueSide(StrEnum):
    """On which side of the transmission the logged effort was measured."""

    MOTOR = "motor"
    LINK = "link"


@dataclass(frozen=True, eq=False)
class Drive:
    """Motors and transmission: theta_m = N q, tau_joint = N' tau_motor.

    transmission: N, (m, n), gear ratios on the diagonal when the joints are not coupled.
    rotor_inertia: motor-side prior, (m,), kg m^2; nan = unknown.
    torque_constant: motor-side, (m,), N m/A; nan = unknown.
    drive_gain: joint-side effort per ampere (or per raw unit), (m,), N m/A; nan = unknown.
    torque_side: the side on which a logged torque is measured.

    Raises InputError if N is singular or not finite, or a rotor inertia is negative.
    """

    transmission: Float
    rotor_inertia: Float
    torque_constant: Float
    drive_gain: Float
    torque_side: TorqueSide = TorqueSide.LINK

    def __post_init__(self) -> None:
        n = np.shape(self.transmission)[0]
        object.__setattr__(self, "transmission", locked(self.transmission, (n, n), "transmission"))
        for name in ("rotor_inertia", "torque_constant", "drive_gain"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        if not np.isfinite(self.transmission).all() or np.linalg.matrix_rank(self.transmission) < n:
            raise InputError(
                "singular-transmission",
                found=f"transmission matrix {self.transmission.tolist()}",
                expected="an invertible matrix of finite gear ratios",
                do="give each motor a non-zero gear ratio",
            )
        if (self.rotor_inertia < 0).any():
            raise InputError(
                "negative-rotor-inertia",
                found=f"{self.rotor_inertia.tolist()} kg m^2",
                expected="values >= 0",
            )

    @staticmethod
    def direct(n: int) -> Drive:
        """A drive that is not described: ratio 1, everything else unknown, torque on the link side."""
        unknown = np.full(n, np.nan)
        return Drive(np.eye(n), unknown, unknown, unknown)

    @property
    def gear_ratio(self) -> Float:
        """Diagonal of N, (n,)."""
        return locked(np.diag(self.transmission), (len(self.transmission),), "gear_ratio")

    @property
    def coupled(self) -> bool:
        """Whether a motor moves more than one joint."""
        return bool(np.any(self.transmission != np.diag(np.diag(self.transmission))))

    @property
    def reflected_rotor_inertia(self) -> Float:
        """Prior of the rotor inertia seen at the joints, diag(N' I_m N), (n,), kg m^2; nan = unknown."""
        ratio = self.transmission
        # An unknown rotor leaves only the joints unknown that it moves: 0 * nan is nan.
        terms = np.where(ratio == 0, 0.0, ratio**2 * self.rotor_inertia[:, None])
        return locked(terms.sum(axis=0), (len(ratio),), "reflected")
