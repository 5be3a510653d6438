"""Position controllers of drives: the torque that a command makes, for logs in which no torque was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.robot.servo_settings import PerJoint, ServoSettings

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
        values = np.array(_by_joint(given, joints, name))
        return np.where(np.isnan(values), before, values)

    def time(name: str) -> float:
        given: float | str | None = getattr(settings, name)
        if given is None:
            return float(getattr(servo, name))
        return np.nan if isinstance(given, str) else float(given)

    kp, limit, back_emf = _of_voltage(settings, joints)
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


def _of_voltage(settings: ServoSettings, joints: Sequence[str]) -> tuple[Float | None, Float, Float | None]:
    """Stiffness, limit of the torque and damping by back-EMF of drives that apply a voltage; None = not said."""
    none = np.full(len(joints), np.nan)

    def given(name: str) -> Float:
        value: PerJoint | None = getattr(settings, name)
        return none if value is None else np.array(_by_joint(value, joints, name))

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


def _by_joint(values: PerJoint, joints: Sequence[str], name: str) -> list[float]:
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
