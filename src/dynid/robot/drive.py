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

# Four-bar linkages between a motor and its joint: a transmission whose ratio depends on the position.


@dataclass(frozen=True)
class FourBar:
    """A crank drives a joint through a coupler: the crank's angle phi as a function of the joint's position q.

    Seen along the joint axis: the crank turns about a point at the distance `ground` from the axis, the rocker
    is fixed to the joint's body and makes the angle b = q + zero with the line from that point to the axis.

        |g + r e(b) - c e(a)| = l,    phi(q) = q + (a - b) - (a - b at q = 0),    e(x) = (cos x, sin x)

    ground, crank, coupler, rocker: lengths g, c, l, r > 0 in m.    zero: rad, neither 0 nor pi, where the bars
    lie in line.    crossed: whether coupler and ground line cross.
    A parallelogram, g = l and c = r, has phi = q.

    Raises UsageError for lengths that are not positive, or bars in line or apart at q = 0.
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
            raise UsageError("linkage", found=f"bars of {lengths} m", expected="four lengths > 0")
        if abs(math.sin(self.zero)) < 1e-6:
            raise UsageError(
                "linkage",
                found=f"zero = {self.zero:g} rad: bars in line",
                expected="an open linkage at q = 0",
            )
        self._crank_angle(np.zeros(1))

    def angle(self, q: Float) -> Float:
        """Crank angle phi(q), of any shape, rad; raises UnfitDataError where the bars do not reach each other."""
        return self._unwrapped(q, self._crank_angle(q))

    def slopes(self, q: Float) -> tuple[Float, Float]:
        """First and second derivative of phi, from the loop's velocity and acceleration."""
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
        """The inverse, q(phi), from the triangle at the joint; raises UnfitDataError where there is none."""
        a = phi + float(self._crank_angle(np.zeros(1))[0])
        x, y = self.crank * np.cos(a) - self.ground, self.crank * np.sin(a)
        distance = np.hypot(x, y)
        with np.errstate(invalid="ignore"):
            opening = np.arccos(
                (self.rocker**2 + distance**2 - self.coupler**2) / (2 * self.rocker * distance)
            )
        best, far = np.full(np.shape(phi), np.nan), np.full(np.shape(phi), np.inf)
        # The bars close in two ways; where both have this crank angle, the joint turned about as far as the crank.
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
        # The crank's angle, nan where the bars are apart.
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
                found=f"a four-bar linkage that does not close at {symbol} = {float(given[apart].flat[0]):.4g} rad",
                expected="positions that the bars can reach",
                do="check the bars' lengths, `zero`, and the offset and unit of the position",
            )


def _wrapped(angle: Float) -> Float:
    return np.asarray(np.remainder(angle + np.pi, 2 * np.pi) - np.pi)


# Position controllers of drives: the torque that a command makes, for logs in which no torque was measured.

# Where position loops are closed.
COMPUTER, DRIVE = "computer", "drive"


def servo_over(settings: ServoSettings, known: Servo | None, joints: Sequence[str]) -> Servo | None:
    """The controllers of a description with a user's values put over them; None = nothing is known of any.

    Raises InputError for joints that do not exist, or numbers that are no gains.
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
            found="drive.kp beside drive.duty_gain, which says the same",
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
    """Stiffness, limit of the torque and damping by back-EMF of drives that apply a voltage; None = not said."""
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
                found=f"drive.{name} of joint '{joints[lone[0]]}' without its stall_torque",
                expected="drive.stall_torque in N m beside it: Kt V / R of the data sheet",
            )
    stiffness = None if settings.duty_gain is None else duty * stall
    return stiffness, stall, None if settings.no_load_speed is None else stall / speed


def _per_joint(values: PerJoint, joints: Sequence[str], name: str) -> list[float]:
    if isinstance(values, Mapping):
        strange = [joint for joint in values if joint not in joints]
        if strange:
            raise InputError(
                "unknown-joint",
                found=f"drive.{name} of joint '{strange[0]}'",
                expected="one of " + ", ".join(joints),
            )
        return [float(values.get(joint, np.nan)) for joint in joints]
    if isinstance(values, Sequence):
        if len(values) != len(joints):
            raise InputError(
                "joint-count",
                found=f"drive.{name} of {len(values)} numbers",
                expected=f"{len(joints)}, in the order {', '.join(joints)}",
            )
        return [float(value) for value in values]
    return [float(values)] * len(joints)


@dataclass(frozen=True, eq=False)
class Servo:
    """Position controllers of n joints, tau = sat(kp e(q_des - q) + kd (dq_des - dq) + tau_ff), later by `lag`.

    A command acts `delay` after it was logged and is held until the next one takes over, so that its torque comes on
    average by half of that later.

    kp: (n,) N m/rad, nan = unknown.    kd: (n,) N m s/rad.    effort_limit: (n,) N m, inf = none; sat cuts off there.
    dead_band: (n,) rad; e(x) = 0 up to it, x beyond.
    delay: s, from a command and the measurement beside it to their torque; nan = unknown, estimated in the log.
    hold: s, for which a command acts; nan = from row to row of the log.
    back_emf: (n,) N m s/rad, by which the torque of a drive that applies a voltage falls with speed. It is no part of
        the law: like friction it counts to what the joint loses.
    loop: where the position loop is closed: by a "computer", whose whole torque is late, or on board of the "drive",
        which compares late commands with the motion of the moment; "" = unknown, and as by a computer.

    Raises InputError for negative or infinite gains, bands and delays, or limits that are not positive.
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
                expected="positive limits; gains, bands and delays that are finite and not negative",
            )

    @staticmethod
    def unknown(n: int) -> Servo:
        """Controllers of which nothing is known: no damping, no limit, no dead band."""
        return Servo(np.full(n, np.nan), np.zeros(n), np.full(n, np.inf), np.zeros(n))

    def of(self, joints: Sequence[int] | Int) -> Servo:
        """Those of some joints, by number."""
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
        """Whether commands alone are late, and the measured motion is not."""
        return self.loop == DRIVE

    @property
    def lag(self) -> float:
        """S, by which the torque comes later than its command on average; 0 where that is unknown."""
        return self.delay + 0.5 * self.hold if np.isfinite(self.delay + self.hold) else 0.0

    @property
    def known(self) -> bool:
        """Whether the gains of every joint are."""
        return bool(np.isfinite(self.kp).all())

    def torque(
        self,
        q: Float,
        dq: Float,
        q_des: Float,
        dq_des: Float | None = None,
        tau_ff: Float | None = None,
    ) -> Float:
        """The torque (T, n) of commands and measured motion, (T, n) each, without the delay.

        dq_des, tau_ff: None = zero.    Raises UsageError where a gain is unknown.
        """
        if not self.known:
            raise UsageError(
                "no-gains", found="position controllers of unknown gains", expected="kp of every joint"
            )
        error = q_des - q
        error = np.where(np.abs(error) <= self.dead_band, 0.0 * error, error)
        speed = -dq if dq_des is None else dq_des - dq
        torque = self.kp * error + self.kd * speed
        torque = torque if tau_ff is None else torque + tau_ff
        return np.asarray(np.clip(torque, -self.effort_limit, self.effort_limit))


# The drive side of a robot: transmission, rotor inertia, and what the logged effort means.

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
            torque_constant=_overridden(self.torque_constant, torque_constant or {}),
            drive_gain=_overridden(self.drive_gain, drive_gain or {}),
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


def _overridden(known: Float, given: Mapping[int, float]) -> Float:
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
