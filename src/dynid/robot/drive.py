"""The drive side of a robot: transmission, rotor inertia, and what the logged effort means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.robot.linkage import FourBar
from dynid.robot.servo import Servo

# Rows of N, scaled to unit length, that are closer than this to being dependent cannot be distinguished from it.
SINGULAR = 1e-9


class TorqueSide(StrEnum):
    """On which side of the transmission the logged effort was measured."""

    MOTOR = "motor"
    LINK = "link"


@dataclass(frozen=True, eq=False)
class Drive:
    """Motors and transmission: theta_m = N phi(q), tau_joint = J' tau_motor with J = N diag(dphi/dq).

    phi_j(q) = q_j, unless the joint is moved through a linkage of bars; then J depends on the position.

    transmission: N, (m, n), gear ratios on the diagonal when the joints are not coupled.
    rotor_inertia: motor-side prior, (m,), kg m^2; nan = unknown.
    torque_constant: motor-side, (m,), N m/A; nan = unknown.
    drive_gain: joint-side effort per ampere (or per raw unit), (m,), N m/A; nan = unknown.
    torque_side: the side on which a logged torque is measured.
    linkages: one a joint, None = none; () = none at all.
    stiffness, damping: of the transmission at the joint, (n,), N m/rad and N m s/rad; nan, or () for all, = unknown.
    servo: the position controllers, whose torque stands in for one that was not measured; None = unknown.

    Raises InputError if N is singular or not finite, an inertia or damping is negative, or a stiffness not positive.
    """

    transmission: Float
    rotor_inertia: Float
    torque_constant: Float
    drive_gain: Float
    torque_side: TorqueSide = TorqueSide.LINK
    linkages: tuple[FourBar | None, ...] = ()
    stiffness: Float = field(default_factory=lambda: np.zeros(0))
    damping: Float = field(default_factory=lambda: np.zeros(0))
    servo: Servo | None = None

    def __post_init__(self) -> None:
        n = np.shape(self.transmission)[0]
        object.__setattr__(self, "transmission", locked(self.transmission, (n, n), "transmission"))
        for name in ("rotor_inertia", "torque_constant", "drive_gain"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        for name in ("stiffness", "damping"):
            given = getattr(self, name) if len(getattr(self, name)) else np.full(n, np.nan)
            object.__setattr__(self, name, locked(given, (n,), name))
        if self.servo is not None and len(self.servo.kp) != n:
            raise UsageError(
                "servo-count", found=f"controllers of {len(self.servo.kp)} joints", expected=f"{n}"
            )
        if not any(self.linkages):
            object.__setattr__(self, "linkages", ())
        elif len(self.linkages) != n:
            raise UsageError(
                "linkage-count",
                found=f"{len(self.linkages)} linkages",
                expected=f"one, or None, for {n} joints",
            )
        fault = singular(self.transmission)
        if fault:
            raise InputError(
                "singular-transmission",
                found=fault,
                expected="an invertible matrix of finite gear ratios",
                do="give each motor a non-zero gear ratio and a combination of joints of its own",
            )
        if (self.rotor_inertia < 0).any():
            raise InputError(
                "negative-rotor-inertia",
                found=f"{self.rotor_inertia.tolist()} kg m^2",
                expected="values >= 0",
            )
        if (self.stiffness <= 0).any() or (self.damping < 0).any():
            raise InputError(
                "negative-stiffness",
                found=f"stiffness {self.stiffness.tolist()} N m/rad, damping {self.damping.tolist()} N m s/rad",
                expected="stiffness > 0, damping >= 0",
            )

    @staticmethod
    def direct(n: int) -> Drive:
        """A drive that is not described: ratio 1, everything else unknown, torque on the link side."""
        unknown = np.full(n, np.nan)
        return Drive(np.eye(n), unknown, unknown, unknown)

    def with_constants(
        self,
        gear_ratio: Mapping[int, float] | None = None,
        torque_constant: Mapping[int, float] | None = None,
        drive_gain: Mapping[int, float] | None = None,
    ) -> Drive:
        """The same drive with other constants of some motors, by their number from 0.

        What is known of the rotors is known at the joints: their inertia is kept there.
        Raises UsageError for the gear ratio of a coupled drive, InputError for one of 0.
        """
        N = np.array(self.transmission)
        if gear_ratio and self.coupled:
            raise UsageError(
                "coupled-drive",
                found="gear ratios beside a transmission in which a motor moves several joints",
                expected="the transmission of the robot file alone",
            )
        for j, ratio in (gear_ratio or {}).items():
            N[j, j] = ratio
        rotors = self.rotor_inertia
        if gear_ratio and np.diag(N).all():
            rotors = rotors * (np.diag(self.transmission) / np.diag(N)) ** 2
        return replace(
            self,
            transmission=N,
            rotor_inertia=rotors,
            torque_constant=_over(self.torque_constant, torque_constant or {}),
            drive_gain=_over(self.drive_gain, drive_gain or {}),
        )

    @property
    def gear_ratio(self) -> Float:
        """Diagonal of N, (n,)."""
        return locked(np.diag(self.transmission), (len(self.transmission),), "gear_ratio")

    @property
    def own_ratio(self) -> Float:
        """Gear ratio of each motor on its own joint, (n,): the diagonal of N, the row's largest where that is 0."""
        N = self.transmission
        largest = N[np.arange(len(N)), np.abs(N).argmax(axis=1)]
        return np.asarray(np.where(np.diag(N) != 0, np.diag(N), largest))

    @property
    def coupled(self) -> bool:
        """Whether a motor moves more than one joint."""
        return bool(np.any(self.transmission != np.diag(np.diag(self.transmission))))

    @property
    def reflected_rotor_inertia(self) -> Float:
        """Prior of the rotor inertia seen at the joints, diag(J' I_m J) at q = 0, (n,), kg m^2; nan = unknown."""
        ratio = self.jacobian(np.zeros((1, len(self.transmission))))[0]
        # An unknown rotor leaves only the joints unknown that it moves: 0 * nan is nan.
        terms = np.where(ratio == 0, 0.0, ratio**2 * self.rotor_inertia[:, None])
        return locked(terms.sum(axis=0), (len(ratio),), "reflected")

    def jacobian(self, q: Float) -> Float:
        """J = d theta_m / dq, (T, m, n), or (1, m, n) where it does not depend on the position; q: (T, n)."""
        if not self.linkages:
            return self.transmission[None]
        return np.asarray(self.transmission * self._slopes(q)[0][:, None, :])

    def motor_position(self, q: Float) -> Float:
        """theta_m = N phi(q), (T, m)."""
        return np.asarray(self._phi(q) @ self.transmission.T)

    def motor_motion(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """theta_m, its velocity N phi' dq and its acceleration N (phi' ddq + phi'' dq^2), each (T, m)."""
        theta, N = self.motor_position(q), self.transmission.T
        if not self.linkages:
            return theta, dq @ N, ddq @ N
        first, second = self._slopes(q)
        return theta, (first * dq) @ N, (first * ddq + second * dq**2) @ N

    def through_linkages(self, phi: Float) -> Float:
        """Q from the linkages' crank angles phi, (T, n); the same where a joint has no linkage."""
        q = np.array(phi)
        for j, linkage in enumerate(self.linkages):
            if linkage is not None:
                q[:, j] = linkage.joint(phi[:, j])
        return q

    def joint_torque(self, q: Float, tau: Float) -> Float:
        """tau_joint = J' tau_motor, (T, n)."""
        torque = tau @ self.transmission
        return np.asarray(torque * self._slopes(q)[0] if self.linkages else torque)

    def motor_torque(self, q: Float, tau: Float) -> Float:
        """tau_motor = J'^-1 tau_joint, (T, m)."""
        torque = tau / self._slopes(q)[0] if self.linkages else tau
        return np.asarray(torque @ np.linalg.inv(self.transmission))

    def linkage_slopes(self, q: Float) -> Float:
        """phi'(q), (T, n); one for joints without a linkage."""
        return self._slopes(q)[0]

    def linkage_bends(self, q: Float) -> Float:
        """phi''(q), (T, n); zero for joints without a linkage."""
        return self._slopes(q)[1]

    def _phi(self, q: Float) -> Float:
        phi = np.array(q)
        for j, linkage in enumerate(self.linkages):
            if linkage is not None:
                phi[:, j] = linkage.angle(q[:, j])
        return phi

    def _slopes(self, q: Float) -> tuple[Float, Float]:
        first, second = np.ones_like(q), np.zeros_like(q)
        for j, linkage in enumerate(self.linkages):
            if linkage is not None:
                first[:, j], second[:, j] = linkage.slopes(q[:, j])
        return first, second


def _over(known: Float, given: Mapping[int, float]) -> Float:
    return np.array([given.get(j, float(value)) for j, value in enumerate(known)])


def singular(N: Float) -> str:
    """Why a transmission matrix cannot be inverted, with the motors concerned; "" if it can."""
    if not np.isfinite(N).all():
        return f"transmission matrix {N.tolist()} with numbers that are not finite"
    length = np.linalg.norm(N, axis=1)
    if not length.all():
        return f"transmission matrix {N.tolist()}, whose motor {int(np.argmin(length)) + 1} moves nothing"
    U, s, _ = np.linalg.svd(N / length[:, None])
    if s[-1] > SINGULAR:
        return ""
    share = U[:, -1] / length
    involved = np.flatnonzero(np.abs(U[:, -1]) > 1e-6)
    text = " ".join(f"{share[i] / np.abs(share).max():+.4g} theta_{i + 1}" for i in involved)
    return f"transmission matrix {N.tolist()}, by which {text} = 0 in every position"
