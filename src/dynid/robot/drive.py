"""The drive side of a robot: transmissions, linkages, rotor inertia, controllers and what the logged effort means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.robot.linkage import Linkage, groups_of, solved
from dynid.robot.options import PerJoint, ServoSettings

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
    """Motors and transmission: theta_m = N phi(q), tau_joint = J' tau_motor with J = N D, D = dphi/dq.

    phi_j(q) = q_j, unless a linkage moves the joint; then J depends on the position.

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
    linkages : tuple of Linkage or None
        That of each joint, the same object at each of its joints; None = no linkage; () = no linkage at any joint.
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
    linkages: tuple[Linkage | None, ...] = ()
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
        for joints, linkage in groups_of(self.linkages):
            if len(joints) != linkage.size:
                raise UsageError(
                    "linkage-count",
                    found=f"a linkage of {linkage.size} joints at {len(joints)} joints",
                    expected="the same linkage at each joint that it moves",
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
        if gear_ratio and np.any(np.diag(np.diag(N)) != N):
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

    def of(self, joints: Sequence[int] | Int) -> Drive:
        """Drive of some joints, by index, whose motors move no other joints."""
        index = np.asarray(joints, dtype=np.int64)
        return replace(
            self,
            transmission=self.transmission[np.ix_(index, index)],
            rotor_inertia=self.rotor_inertia[index],
            torque_constant=self.torque_constant[index],
            drive_gain=self.drive_gain[index],
            linkages=tuple(self.linkages[j] for j in index) if self.linkages else (),
            stiffness=self.stiffness[index],
            damping=self.damping[index],
            servo=None if self.servo is None else self.servo.of(index),
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
        """Whether a motor moves several joints, or a joint at a ratio that depends on the position."""
        N = self.transmission
        return bool(self.linkages) or bool(np.any(np.diag(np.diag(N)) != N))

    @property
    def moves(self) -> Bool:
        """Mask (m, n): whether a motor turns with a joint."""
        through = np.eye(len(self.transmission), dtype=np.bool_)
        for joints, _ in groups_of(self.linkages):
            through[np.ix_(joints, joints)] = True
        return np.asarray((self.transmission != 0).astype(int) @ through > 0)

    @property
    def linked(self) -> Bool:
        """Mask (m,): whether a motor moves a joint through a linkage."""
        behind = np.array([linkage is not None for linkage in self.linkages] or [False] * len(self.moves))
        return np.asarray((self.moves & behind).any(axis=1))

    @property
    def sliding(self) -> Bool:
        """Mask (m,): whether a motor is a cylinder, whose coordinate is a length."""
        slides = np.zeros(len(self.transmission), dtype=np.bool_)
        for joints, linkage in groups_of(self.linkages):
            slides[joints] = linkage.sliding
        return slides

    @property
    def reference(self) -> Float:
        """Joint positions (n,) at which all linkages close; 0 for joints without one."""
        q = np.zeros(len(self.transmission))
        for joints, linkage in groups_of(self.linkages):
            q[joints] = linkage.reference
        return q

    def within_reach(self, q: Float) -> Float:
        """Joint positions (T, n), moved towards `reference` where a linkage does not close."""
        near = np.array(q)
        for joints, linkage in groups_of(self.linkages):
            near[:, joints] = linkage.within_reach(q[:, joints])
        return near

    @property
    def reflected_rotor_inertia(self) -> Float:
        """Prior of the rotor inertia at the joints, diag(J' I_m J) at `reference`, (n,), kg m^2; nan = unknown."""
        ratio = self.jacobian(self.reference[None])[0]
        # 0 * nan is nan, but an unknown rotor inertia only affects the joints that its motor moves.
        terms = np.where(ratio == 0, 0.0, ratio**2 * self.rotor_inertia[:, None])
        return locked(terms.sum(axis=0), (len(ratio),), "reflected")

    def jacobian(self, q: Float) -> Float:
        """J = d theta_m / dq at positions q (T, n): (T, m, n), or (1, m, n) if it does not depend on q."""
        if not self.linkages:
            return self.transmission[None]
        D = np.tile(np.eye(q.shape[1]), (len(q), 1, 1))
        for joints, linkage in groups_of(self.linkages):
            D[:, np.array(joints)[:, None], joints] = linkage.evaluate(q[:, joints])[1]
        return np.asarray(self.transmission @ D)

    def motor_position(self, q: Float) -> Float:
        """Motor position theta_m = N phi(q), (T, m), rad."""
        phi = np.array(q)
        for joints, linkage in groups_of(self.linkages):
            phi[:, joints] = linkage.evaluate(q[:, joints])[0]
        return np.asarray(phi @ self.transmission.T)

    def motor_motion(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """Motor position theta_m, velocity N D dq and acceleration N (D ddq + dD/dt dq), each (T, m)."""
        phi, speed, acceleration = np.array(q), np.array(dq), np.array(ddq)
        for joints, linkage in groups_of(self.linkages):
            phi[:, joints], D, H = linkage.evaluate(q[:, joints])
            rate = dq[:, joints]
            speed[:, joints] = np.einsum("taj,tj->ta", D, rate)
            acceleration[:, joints] = np.einsum("taj,tj->ta", D, ddq[:, joints]) + np.einsum(
                "taij,ti,tj->ta", H, rate, rate
            )
        N = self.transmission.T
        return phi @ N, speed @ N, acceleration @ N

    def through_linkages(self, phi: Float, rate: Float | None = None) -> tuple[Float, Float | None]:
        """Joint position q and velocity (T, n) from those of the actuators behind the gears, phi and dphi/dt.

        Joints without a linkage are unchanged.
        """
        q, dq = np.array(phi), None if rate is None else np.array(rate)
        for joints, linkage in groups_of(self.linkages):
            q[:, joints] = linkage.inverse(phi[:, joints])
            if dq is not None and rate is not None:
                dq[:, joints] = solved(linkage.evaluate(q[:, joints])[1], rate[:, joints])
        return q, dq

    def pulled(self, q: Float, force: Float) -> Float:
        """Joint torque D' f (T, n) of the actuators behind the gears, f (T, n)."""
        torque = np.array(force)
        for joints, linkage in groups_of(self.linkages):
            D = linkage.evaluate(q[:, joints])[1]
            torque[:, joints] = np.einsum("taj,ta->tj", D, force[:, joints])
        return torque

    def joint_torque(self, q: Float, tau: Float) -> Float:
        """Joint torque J' tau_motor, (T, n)."""
        return self.pulled(q, tau @ self.transmission)

    def motor_torque(self, q: Float, tau: Float) -> Float:
        """Motor torque J'^-1 tau_joint, (T, m)."""
        force = np.array(tau)
        for joints, linkage in groups_of(self.linkages):
            D = linkage.evaluate(q[:, joints])[1]
            force[:, joints] = solved(D.transpose(0, 2, 1), tau[:, joints])
        return np.asarray(force @ np.linalg.inv(self.transmission))

    def jacobian_rate(self, q: Float, dq: Float) -> Float:
        """Rate dJ/dt of the Jacobian, (T, m, n); (1, m, n) zeros if it does not depend on q."""
        n = q.shape[1]
        if not self.linkages:
            return np.zeros((1, n, n))
        rate = np.zeros((len(q), n, n))
        for joints, linkage in groups_of(self.linkages):
            H = linkage.evaluate(q[:, joints])[2]
            rate[:, np.array(joints)[:, None], joints] = np.einsum("taij,ti->taj", H, dq[:, joints])
        return np.asarray(self.transmission @ rate)


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
