"""The drive side of a robot: transmissions, linkages, rotor inertia, controllers and what the logged effort means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.errors import InputError, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.robot.options import PerJoint, ServoSettings

# Four-bar linkages between motor and joint: a transmission whose ratio depends on the position.


@dataclass(frozen=True)
class FourBar:
    """A four-bar linkage: a crank drives a joint through a coupler, with crank angle phi(q) at joint position q.

    Seen along the joint axis, the crank turns about a point at the distance `ground` from the axis. The rocker is
    fixed to the joint's link and makes the angle b = q + zero with the line from that point to the axis:

        |g + r e(b) - c e(a)| = l,    phi(q) = q + (a - b) - (a - b at q = 0),    e(x) = (cos x, sin x)

    A parallelogram, g = l and c = r, has phi = q.

    Parameters
    ----------
    ground, crank, coupler, rocker : float, m
        Lengths g, c, l, r > 0.
    zero : float, rad
        Angle of the rocker at q = 0; neither 0 nor pi, where the bars are collinear.
    crossed : bool
        Whether coupler and ground line cross.

    Raises
    ------
    UsageError
        If a length is not positive, or the bars are collinear or do not close at q = 0.

    """

    ground: float
    crank: float
    coupler: float
    rocker: float
    zero: float = math.pi / 2
    crossed: bool = False

    def __post_init__(self) -> None:
        lengths = (self.ground, self.crank, self.coupler, self.rocker)
        if not all(math.isfinite(x) and x > 0 for x in lengths):
            raise UsageError("linkage", found=f"bar lengths {lengths} m", expected="four lengths > 0")
        if abs(math.sin(self.zero)) < 1e-6:
            raise UsageError(
                "linkage",
                found=f"zero = {self.zero:.3g} rad, where the bars are collinear",
                expected="an angle other than 0 and pi",
            )
        self._crank_angle(np.zeros(1))

    def angle(self, q: Float) -> Float:
        """Crank angle phi(q), rad, of any shape; raises UnfitDataError where the bars do not close."""
        return self._unwrapped(q, self._crank_angle(q))

    def slopes(self, q: Float) -> tuple[Float, Float]:
        """First and second derivative of phi(q), from the velocity and acceleration of the loop."""
        a, b = self._crank_angle(q), q + self.zero
        c, r, g = self.crank, self.rocker, self.ground
        ux, uy = g + r * np.cos(b) - c * np.cos(a), r * np.sin(b) - c * np.sin(a)
        along_rocker = r * (uy * np.cos(b) - ux * np.sin(b))
        along_crank = c * (uy * np.cos(a) - ux * np.sin(a))
        first = along_rocker / along_crank
        # d/dq of u . (r e'(b) - c e'(a) phi') = 0.
        vx = -r * np.sin(b) + c * np.sin(a) * first
        vy = r * np.cos(b) - c * np.cos(a) * first
        turning = ux * (-r * np.cos(b) + c * np.cos(a) * first**2) + uy * (
            -r * np.sin(b) + c * np.sin(a) * first**2
        )
        return first, (vx**2 + vy**2 + turning) / along_crank

    def joint(self, phi: Float) -> Float:
        """Joint position q(phi), rad, the inverse of `angle`; raises UnfitDataError where the bars do not close."""
        a = phi + float(self._crank_angle(np.zeros(1))[0])
        x, y = self.crank * np.cos(a) - self.ground, self.crank * np.sin(a)
        distance = np.hypot(x, y)
        with np.errstate(invalid="ignore"):
            opening = np.arccos(
                (self.rocker**2 + distance**2 - self.coupler**2) / (2 * self.rocker * distance)
            )
        best, far = np.full(np.shape(phi), np.nan), np.full(np.shape(phi), np.inf)
        # The bars close in two ways. Of two solutions with this crank angle, the one closest to q = phi is right.
        for side in (1.0, -1.0):
            q = phi + _wrapped(np.arctan2(y, x) + side * opening - self.zero - phi)
            with np.errstate(invalid="ignore"):
                closes = np.abs(self._unwrapped(q, self._closed(q)) - phi) < 1e-6
            better = closes & (np.abs(q - phi) < far)
            best, far = np.where(better, q, best), np.where(better, np.abs(q - phi), far)
        self._refuse(phi, np.isnan(best), "phi")
        return best

    def _unwrapped(self, q: Float, crank: Float) -> Float:
        start = float(self._crank_angle(np.zeros(1))[0])
        return np.asarray(q + _wrapped(crank - q - start))

    def _crank_angle(self, q: Float) -> Float:
        angle = self._closed(q)
        self._refuse(q, np.isnan(angle), "q")
        return angle

    def _closed(self, q: Float) -> Float:
        # The crank's angle a; nan where the bars do not close.
        b = q + self.zero
        x, y = self.ground + self.rocker * np.cos(b), self.rocker * np.sin(b)
        distance = np.hypot(x, y)
        side = math.copysign(1.0, math.sin(self.zero)) * (-1.0 if self.crossed else 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (self.crank**2 + distance**2 - self.coupler**2) / (2 * self.crank * distance)
            return np.asarray(np.arctan2(y, x) + side * np.arccos(cosine))

    def _refuse(self, given: Float, apart: Bool, symbol: str) -> None:
        apart = apart & np.isfinite(given)
        if apart.any():
            raise UnfitDataError(
                "linkage-apart",
                found=f"a four-bar linkage that does not close at {symbol} = {float(given[apart].flat[0]):.3g} rad",
                expected="positions within reach of the bars",
                do="check the bar lengths, `zero`, and the offset and unit of the position",
            )


def _wrapped(angle: Float) -> Float:
    return np.asarray(np.remainder(angle + np.pi, 2 * np.pi) - np.pi)


# Position controllers of drives: the torque of a position command, for logs without measured torque.

# Where the position loop is closed.
COMPUTER, DRIVE = "computer", "drive"


def servo_over(settings: ServoSettings, known: Servo | None, joints: Sequence[str]) -> Servo | None:
    """Position controllers of the robot file, overridden by the user's settings.

    Parameters
    ----------
    settings : ServoSettings
        Values of the user; None keeps that of the robot file.
    known : Servo or None
        Controllers of the robot file.
    joints : sequence of str
        Names of the joints.

    Returns
    -------
    Servo or None
        None if nothing is known of any controller.

    Raises
    ------
    InputError
        For unknown joints, and for values that are not valid gains.

    """
    if all(value is None for value in vars(settings).values()):
        return known
    servo = known or Servo.unknown(len(joints))

    def gains(name: str) -> Float:
        before: Float = getattr(servo, name)
        given: PerJoint | None = getattr(settings, name)
        if given is None:
            return before
        values = np.array(_per_joint(given, joints, name))
        return np.where(np.isnan(values), before, values)

    def time(name: str) -> float:
        given: float | str | None = getattr(settings, name)
        if given is None:
            return float(getattr(servo, name))
        return np.nan if isinstance(given, str) else float(given)

    kp, limit, back_emf = _voltage_drive(settings, joints)
    if kp is not None and settings.kp is not None:
        raise InputError(
            "servo",
            found="drive.kp and drive.duty_gain, which both set the stiffness",
            expected="one of them",
        )
    return Servo(
        kp=gains("kp") if kp is None else np.where(np.isnan(kp), servo.kp, kp),
        kd=gains("kd"),
        effort_limit=np.fmin(gains("effort_limit"), limit),
        dead_band=gains("dead_band"),
        delay=time("delay"),
        hold=time("hold"),
        loop=servo.loop if settings.loop is None else settings.loop,
        back_emf=servo.back_emf
        if back_emf is None
        else np.where(np.isnan(back_emf), servo.back_emf, back_emf),
    )


def _voltage_drive(
    settings: ServoSettings, joints: Sequence[str]
) -> tuple[Float | None, Float, Float | None]:
    """Stiffness, torque limit and back-EMF damping of voltage-controlled drives; None = not given."""
    none = np.full(len(joints), np.nan)

    def given(name: str) -> Float:
        value: PerJoint | None = getattr(settings, name)
        return none if value is None else np.array(_per_joint(value, joints, name))

    stall, speed, duty = (given(name) for name in ("stall_torque", "no_load_speed", "duty_gain"))
    for name, values in (("stall_torque", stall), ("no_load_speed", speed), ("duty_gain", duty)):
        if (values <= 0).any() or np.isinf(values).any():
            raise InputError(
                "servo", found=f"drive.{name} = {values.tolist()}", expected="positive finite numbers"
            )
        lone = np.flatnonzero(np.isfinite(values) & np.isnan(stall))
        if len(lone):
            raise InputError(
                "servo",
                found=f"drive.{name} of joint '{joints[lone[0]]}' without drive.stall_torque",
                expected="both; stall_torque in N m is Kt V / R of the data sheet",
            )
    stiffness = None if settings.duty_gain is None else duty * stall
    return stiffness, stall, None if settings.no_load_speed is None else stall / speed


def _per_joint(values: PerJoint, joints: Sequence[str], name: str) -> list[float]:
    if isinstance(values, Mapping):
        strange = [joint for joint in values if joint not in joints]
        if strange:
            raise InputError(
                "unknown-joint",
                found=f"drive.{name} of unknown joint '{strange[0]}'",
                expected="one of " + ", ".join(joints),
            )
        return [float(values.get(joint, np.nan)) for joint in joints]
    if isinstance(values, Sequence):
        if len(values) != len(joints):
            raise InputError(
                "joint-count",
                found=f"drive.{name} with {len(values)} numbers",
                expected=f"{len(joints)}, in the order {', '.join(joints)}",
            )
        return [float(value) for value in values]
    return [float(values)] * len(joints)


@dataclass(frozen=True, eq=False)
class Servo:
    """Position controllers of n joints: tau = sat(kp e(q_des - q) + kd (dq_des - dq) + tau_ff), delayed by `lag`.

    A command acts `delay` after it was logged and is held for `hold`, so that its torque is late by
    delay + hold / 2 on average.

    Parameters
    ----------
    kp : ndarray, shape (n,), N m/rad (N/m)
        Stiffness; nan = unknown.
    kd : ndarray, shape (n,), N m s/rad (N s/m)
        Damping.
    effort_limit : ndarray, shape (n,), N m (N)
        Saturation of the torque; inf = none.
    dead_band : ndarray, shape (n,), rad (m)
        e(x) = 0 for abs(x) <= dead_band, else x.
    delay : float, s
        From a logged command and measurement to their torque; nan = unknown, estimated from the log.
    hold : float, s
        How long a command acts; nan = from row to row of the log.
    back_emf : ndarray, shape (n,), N m s/rad (N s/m)
        Torque per speed that a voltage-controlled drive loses. It is counted as viscous friction, not as part of the
        control law.
    loop : {"computer", "drive", ""}
        Where the position loop is closed. In a computer, the whole torque is late; in the drive, only commands are
        late and the motion is current. "" = unknown, treated as a computer.

    Raises
    ------
    InputError
        For gains, dead bands and delays that are negative or infinite, and limits that are not positive.

    """

    kp: Float
    kd: Float
    effort_limit: Float
    dead_band: Float
    delay: float = float("nan")
    hold: float = float("nan")
    back_emf: Float = field(default_factory=lambda: np.zeros(0))
    loop: str = ""

    def __post_init__(self) -> None:
        n = len(self.kp)
        if not len(self.back_emf):
            object.__setattr__(self, "back_emf", np.zeros(n))
        for name in ("kp", "kd", "effort_limit", "dead_band", "back_emf"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        wrong = [
            name
            for name in ("kp", "kd", "dead_band", "delay", "hold")
            if np.isinf(getattr(self, name)).any() or (np.asarray(getattr(self, name)) < 0).any()
        ]
        wrong += ["effort_limit"] if not (self.effort_limit > 0).all() else []
        if wrong:
            raise InputError(
                "servo",
                found=f"drive.{wrong[0]} = {np.asarray(getattr(self, wrong[0])).tolist()}",
                expected="limits > 0; finite gains, dead bands and delays >= 0",
            )

    @staticmethod
    def unknown(n: int) -> Servo:
        """Controllers of n joints with unknown stiffness, and no damping, limit or dead band."""
        return Servo(np.full(n, np.nan), np.zeros(n), np.full(n, np.inf), np.zeros(n))

    def of(self, joints: Sequence[int] | Int) -> Servo:
        """Controllers of some joints, by index."""
        index = np.asarray(joints, dtype=np.int64)
        return Servo(
            self.kp[index],
            self.kd[index],
            self.effort_limit[index],
            self.dead_band[index],
            self.delay,
            self.hold,
            self.back_emf[index],
            self.loop,
        )

    @property
    def on_board(self) -> bool:
        """Whether the position loop is closed in the drive, where commands are late and measurements are not."""
        return self.loop == DRIVE

    @property
    def lag(self) -> float:
        """Mean delay from command to torque, s; 0 if unknown."""
        return self.delay + 0.5 * self.hold if np.isfinite(self.delay + self.hold) else 0.0

    @property
    def known(self) -> bool:
        """Whether the stiffness of every joint is known."""
        return bool(np.isfinite(self.kp).all())

    def torque(
        self,
        q: Float,
        dq: Float,
        q_des: Float,
        dq_des: Float | None = None,
        tau_ff: Float | None = None,
    ) -> Float:
        """Torque of the control law, without delay.

        Parameters
        ----------
        q, dq : ndarray, shape (T, n), rad (m) and rad/s (m/s)
            Measured motion.
        q_des : ndarray, shape (T, n), rad (m)
            Commanded position.
        dq_des : ndarray, shape (T, n), rad/s (m/s), optional
            Commanded velocity; None = zero.
        tau_ff : ndarray, shape (T, n), N m (N), optional
            Feed-forward torque; None = zero.

        Returns
        -------
        ndarray, shape (T, n), N m (N)

        Raises
        ------
        UsageError
            If a stiffness is unknown.

        """
        if not self.known:
            raise UsageError(
                "no-gains", found="position controllers with unknown gains", expected="kp of every joint"
            )
        error = q_des - q
        error = np.where(np.abs(error) <= self.dead_band, 0.0 * error, error)
        speed = -dq if dq_des is None else dq_des - dq
        torque = self.kp * error + self.kd * speed
        torque = torque if tau_ff is None else torque + tau_ff
        return np.asarray(np.clip(torque, -self.effort_limit, self.effort_limit))


# The drive side of a robot: transmission, rotor inertia, and the side on which effort is logged.

# Least singular value of N with rows of unit length; below it the rows are dependent up to rounding.
SINGULAR = 1e-9


class TorqueSide(StrEnum):
    """Side of the transmission on which the logged effort was measured."""

    MOTOR = "motor"
    LINK = "link"


@dataclass(frozen=True, eq=False)
class Drive:
    """Motors and transmission: theta_m = N phi(q), tau_joint = J' tau_motor with J = N diag(dphi/dq).

    phi_j(q) = q_j, unless a four-bar linkage moves the joint; then J depends on the position.

    Parameters
    ----------
    transmission : ndarray, shape (m, n)
        N; gear ratios on the diagonal if the joints are not coupled.
    rotor_inertia : ndarray, shape (m,), kg m^2
        Prior on the motor side; nan = unknown.
    torque_constant : ndarray, shape (m,), N m/A
        On the motor side; nan = unknown.
    drive_gain : ndarray, shape (m,), N m/A
        Joint-side effort per ampere (or per raw unit); nan = unknown.
    torque_side : TorqueSide
        Side on which logged torque is measured.
    linkages : tuple of FourBar or None
        One per joint, None = no linkage; () = no linkage at any joint.
    stiffness, damping : ndarray, shape (n,), N m/rad and N m s/rad
        Of the transmission, at the joint; nan, or an empty array, = unknown.
    servo : Servo or None
        Position controllers, which give the torque of logs without measured torque; None = unknown.

    Raises
    ------
    InputError
        If N is singular or not finite, an inertia or damping is negative, or a stiffness is not positive.

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
                "servo-count",
                found=f"position controllers of {len(self.servo.kp)} joints",
                expected=f"{n} joints",
            )
        if not any(self.linkages):
            object.__setattr__(self, "linkages", ())
        elif len(self.linkages) != n:
            raise UsageError(
                "linkage-count",
                found=f"{len(self.linkages)} linkages",
                expected=f"a linkage or None for each of {n} joints",
            )
        fault = singular(self.transmission)
        if fault:
            raise InputError(
                "singular-transmission",
                found=fault,
                expected="an invertible matrix of finite gear ratios",
                do="give each motor a non-zero gear ratio and a different combination of joints",
            )
        if (self.rotor_inertia < 0).any():
            raise InputError(
                "negative-rotor-inertia",
                found=f"rotor inertia {self.rotor_inertia.tolist()} kg m^2",
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
        """Drive of n joints with gear ratio 1, logged torque on the link side and everything else unknown."""
        unknown = np.full(n, np.nan)
        return Drive(np.eye(n), unknown, unknown, unknown)

    def with_constants(
        self,
        gear_ratio: Mapping[int, float] | None = None,
        torque_constant: Mapping[int, float] | None = None,
        drive_gain: Mapping[int, float] | None = None,
    ) -> Drive:
        """Copy of the drive with other constants of some motors.

        Rotor inertias reflected to the joints are kept when a gear ratio changes.

        Parameters
        ----------
        gear_ratio, torque_constant, drive_gain : mapping of int to float, optional
            New values by index of the motor, from 0.

        Returns
        -------
        Drive

        Raises
        ------
        UsageError
            For the gear ratio of a coupled drive.
        InputError
            For a gear ratio of 0.

        """
        N = np.array(self.transmission)
        if gear_ratio and self.coupled:
            raise UsageError(
                "coupled-drive",
                found="gear ratios for a transmission in which a motor moves several joints",
                expected="no gear ratios: the transmission of the robot file is used",
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
            torque_constant=_overridden(self.torque_constant, torque_constant or {}),
            drive_gain=_overridden(self.drive_gain, drive_gain or {}),
        )

    @property
    def gear_ratio(self) -> Float:
        """Diagonal of N, (n,)."""
        return locked(np.diag(self.transmission), (len(self.transmission),), "gear_ratio")

    @property
    def own_ratio(self) -> Float:
        """Gear ratio of each motor at its own joint, (n,): diagonal of N, or the row's largest entry if that is 0."""
        N = self.transmission
        largest = N[np.arange(len(N)), np.abs(N).argmax(axis=1)]
        return np.asarray(np.where(np.diag(N) != 0, np.diag(N), largest))

    @property
    def coupled(self) -> bool:
        """Whether a motor moves more than one joint."""
        return bool(np.any(self.transmission != np.diag(np.diag(self.transmission))))

    @property
    def reflected_rotor_inertia(self) -> Float:
        """Prior of the rotor inertia reflected to the joints, diag(J' I_m J) at q = 0, (n,), kg m^2; nan = unknown."""
        ratio = self.jacobian(np.zeros((1, len(self.transmission))))[0]
        # 0 * nan is nan, but an unknown rotor inertia only affects the joints that its motor moves.
        terms = np.where(ratio == 0, 0.0, ratio**2 * self.rotor_inertia[:, None])
        return locked(terms.sum(axis=0), (len(ratio),), "reflected")

    def jacobian(self, q: Float) -> Float:
        """J = d theta_m / dq at positions q (T, n): (T, m, n), or (1, m, n) if it does not depend on q."""
        if not self.linkages:
            return self.transmission[None]
        return np.asarray(self.transmission * self._slopes(q)[0][:, None, :])

    def motor_position(self, q: Float) -> Float:
        """Motor position theta_m = N phi(q), (T, m), rad."""
        return np.asarray(self._phi(q) @ self.transmission.T)

    def motor_motion(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """Motor position theta_m, velocity N phi' dq and acceleration N (phi' ddq + phi'' dq^2), each (T, m)."""
        theta, N = self.motor_position(q), self.transmission.T
        if not self.linkages:
            return theta, dq @ N, ddq @ N
        first, second = self._slopes(q)
        return theta, (first * dq) @ N, (first * ddq + second * dq**2) @ N

    def through_linkages(self, phi: Float) -> Float:
        """Joint position q (T, n) from crank angles phi (T, n); unchanged for joints without a linkage."""
        q = np.array(phi)
        for j, linkage in enumerate(self.linkages):
            if linkage is not None:
                q[:, j] = linkage.joint(phi[:, j])
        return q

    def joint_torque(self, q: Float, tau: Float) -> Float:
        """Joint torque J' tau_motor, (T, n)."""
        torque = tau @ self.transmission
        return np.asarray(torque * self._slopes(q)[0] if self.linkages else torque)

    def motor_torque(self, q: Float, tau: Float) -> Float:
        """Motor torque J'^-1 tau_joint, (T, m)."""
        torque = tau / self._slopes(q)[0] if self.linkages else tau
        return np.asarray(torque @ np.linalg.inv(self.transmission))

    def linkage_slopes(self, q: Float) -> Float:
        """First derivative phi'(q), (T, n); 1 for joints without a linkage."""
        return self._slopes(q)[0]

    def linkage_bends(self, q: Float) -> Float:
        """Second derivative phi''(q), (T, n); 0 for joints without a linkage."""
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


def _overridden(known: Float, given: Mapping[int, float]) -> Float:
    return np.array([given.get(j, float(value)) for j, value in enumerate(known)])


def singular(N: Float) -> str:
    """Return why a transmission matrix cannot be inverted, with the motors concerned; "" if it can."""
    if not np.isfinite(N).all():
        return f"transmission matrix {N.tolist()}, which is not finite"
    length = np.linalg.norm(N, axis=1)
    if not length.all():
        return f"transmission matrix {N.tolist()}, whose motor {int(np.argmin(length)) + 1} moves nothing"
    U, s, _ = np.linalg.svd(N / length[:, None])
    if s[-1] > SINGULAR:
        return ""
    share = U[:, -1] / length
    involved = np.flatnonzero(np.abs(U[:, -1]) > 1e-6)
    text = " ".join(f"{share[i] / np.abs(share).max():+.4g} theta_{i + 1}" for i in involved)
    return f"transmission matrix {N.tolist()}, which makes {text} = 0 in every position"
