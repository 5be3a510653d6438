"""Position controllers of drives: the torque that a command makes, for logs in which no torque was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import InputError, UsageError
from dynid.robot.servo_settings import PerJoint, ServoSettings


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

    return Servo(
        kp=gains("kp"),
        kd=gains("kd"),
        effort_limit=gains("effort_limit"),
        dead_band=gains("dead_band"),
        delay=time("delay"),
        hold=time("hold"),
    )


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
    delay: s, from a command and the measurement beside it to their torque; nan = unknown, sought in the log.
    hold: s, for which a command acts; nan = from row to row of the log.

    Raises InputError for negative or infinite gains, bands and delays, or limits that are not positive.
    """

    kp: Float
    kd: Float
    effort_limit: Float
    dead_band: Float
    delay: float = float("nan")
    hold: float = float("nan")

    def __post_init__(self) -> None:
        n = len(self.kp)
        for name in ("kp", "kd", "effort_limit", "dead_band"):
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
        )

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
