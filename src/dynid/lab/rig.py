"""The sensors of a robot, read from a TOML file, and the log columns that they make of a motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dynid.base import Float, Strict, UsageError, dataclass, read_toml, validate
from dynid.robot import RobotModel, TorqueSide
from dynid.simulation import (
    Chain,
    Dropout,
    Encoder,
    Gain,
    Latency,
    Noise,
    NoiseRatio,
    Ripple,
    Sensor,
    SimulatedMotion,
    warming,
)

NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Each = NotNegative | list[NotNegative]


class Channel(Strict):
    """Errors of a sensor, applied in this order: latency, noise, resolution, lost samples."""

    noise: Each = 0.0
    snr_db: float | None = None
    resolution: Each = 0.0
    latency: NotNegative = 0.0
    dropped: Share = 0.0
    held: bool = False


class PositionChannel(Channel):
    """An encoder, with counts per turn instead of a resolution."""

    counts: Positive | None = None


class MotorChannel(PositionChannel):
    """An encoder on the motor, or one that reports the motor angle divided by the gear ratio."""

    side: Literal["motor", "joint"] = "motor"


class EffortChannel(Channel):
    """Torque or current, from the drive or from a sensor behind the gear."""

    quantity: Literal["torque", "current"] = "torque"
    source: Literal["drive", "joint"] = "drive"
    ripple: Each = 0.0
    ripple_cycles: Each = 1.0
    ripple_of: Literal["motor", "joint"] = "motor"


class TemperatureChannel(Channel):
    """Temperature of the drives, warmed by their friction."""

    ambient: float = 25.0
    rise: Each = 0.1
    time_constant: Positive = 600.0


class RowsSection(Strict):
    """Errors of the log itself: lost rows and jitter of the time stamps."""

    dropped: Share = 0.0
    jitter: NotNegative = 0.0


class SensorFile(Strict):
    """A sensor file. Sensors without a table are not logged, except position and effort, which always are."""

    rate: Positive = 1000.0
    position: PositionChannel = PositionChannel()
    motor_position: MotorChannel | None = None
    velocity: Channel | None = None
    effort: EffortChannel = EffortChannel()
    temperature: TemperatureChannel | None = None
    rows: RowsSection = RowsSection()


@dataclass(frozen=True)
class Rig:
    """Sensors of a robot. Each channel has its own random stream, so that one does not change another.

    Parameters
    ----------
    content : SensorFile
        The sensor file; exact sensors at 1 kHz without it.

    """

    content: SensorFile = field(default_factory=SensorFile)

    @staticmethod
    def read(path: str | Path) -> Rig:
        """Read a sensor file; raises InputErrors with the line of every error."""
        data, lines = read_toml(path)
        return Rig(validate(SensorFile, data, lines, str(path)))

    @property
    def rate(self) -> float:
        """Rate of the log, Hz."""
        return self.content.rate

    def check(self, robot: RobotModel) -> None:
        """Raise UsageError for lists without one number per joint, and for current without a known gain."""
        for name in ("position", "motor_position", "velocity", "effort", "temperature"):
            channel = getattr(self.content, name)
            for key, value in [] if channel is None else channel:
                if isinstance(value, list) and len(value) != robot.n:
                    raise UsageError(
                        "sensor",
                        found=f"{name}.{key} of {len(value)} numbers",
                        expected=f"one number, or {robot.n} (one per joint)",
                    )
            if (
                isinstance(channel, PositionChannel)
                and channel.counts is not None
                and np.any(channel.resolution)
            ):
                raise UsageError(
                    "sensor", found=f"{name}: both counts and a resolution", expected="only one of them"
                )
        self._effort_matrix(robot)

    def measure(
        self, robot: RobotModel, motion: SimulatedMotion, seed: tuple[int, ...]
    ) -> tuple[Float, dict[str, Float]]:
        """Measure a motion that was sampled at the rate of the rig.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        motion : SimulatedMotion
            The true motion.
        seed : tuple of int
            Seed of the random streams.

        Returns
        -------
        t : ndarray, shape (n_samples,), s
            Time stamps.
        columns : dict of str to ndarray, shape (n_samples,)
            Log columns: q_, dq_, theta_m_ (or theta_ if reflected), tau_ (or i_ for current), temperature_ and the
            joint's name.

        """
        content = self.content
        motor = robot.drive.motor_position(motion.theta)
        signals: dict[str, tuple[Channel, Float, tuple[Sensor, ...]]] = {
            "q": (content.position, motion.q, ())
        }
        if content.velocity is not None:
            signals["dq"] = (content.velocity, motion.dq, ())
        if content.motor_position is not None:
            on_motor = content.motor_position.side == "motor"
            signals["theta_m" if on_motor else "theta"] = (
                content.motor_position,
                motor if on_motor else motion.theta,
                (),
            )
        effort = content.effort
        true = motion.tau if effort.source == "drive" else motion.load
        turning = motor if effort.ripple_of == "motor" else motion.q
        ripple = Ripple(turning, np.atleast_1d(effort.ripple), np.atleast_1d(effort.ripple_cycles))
        scaled, gains = self._logged_effort(robot, motion, true)
        key = "i" if effort.quantity == "current" else "tau"
        signals[key] = (effort, scaled, (ripple, *gains))
        if content.temperature is not None:
            t = content.temperature
            power = np.abs(motion.friction * motion.dtheta)
            warm = warming(power, self.rate, t.ambient, np.atleast_1d(t.rise), t.time_constant)
            signals["temperature"] = (t, warm, ())
        columns: dict[str, Float] = {}
        for key, (channel, values, before) in signals.items():
            chain = Chain((*before, *_sensors(channel, self.rate)))
            measured = chain.measure(values, _stream(seed, key))
            columns |= {f"{key}_{joint}": measured[:, j] for j, joint in enumerate(robot.joint_names)}
        return self._rows(motion.t, columns, _stream(seed, "rows"))

    def _rows(
        self, t: Float, columns: Mapping[str, Float], rng: np.random.Generator
    ) -> tuple[Float, dict[str, Float]]:
        rows = self.content.rows
        # Jitter is limited to half a sample so that stamps increase.
        half = 0.499 / self.rate
        stamps = t + np.clip(rows.jitter * rng.standard_normal(len(t)), -half, half)
        kept = rng.random(len(t)) >= rows.dropped
        kept[0] = kept[-1] = True
        return stamps[kept], {name: values[kept] for name, values in columns.items()}

    def _logged_effort(
        self, robot: RobotModel, motion: SimulatedMotion, tau: Float
    ) -> tuple[Float, tuple[Sensor, ...]]:
        kind, gain = self._effort_matrix(robot)
        at_motor = kind == "motor"
        values = robot.drive.motor_torque(motion.theta, tau) if at_motor else tau
        return values, () if gain is None else (Gain(gain),)

    def _effort_matrix(self, robot: RobotModel) -> tuple[str, Float | None]:
        # Side on which effort is logged, and the gain by which it is divided.
        effort, drive = self.content.effort, robot.drive
        if effort.source == "joint":
            if effort.quantity == "current" or drive.torque_side is TorqueSide.MOTOR:
                raise UsageError(
                    "sensor",
                    found="effort of source 'joint' together with current or torque_side 'motor'",
                    expected="torque at the joint",
                )
            return "joint", None
        if effort.quantity == "torque":
            return ("motor" if drive.torque_side is TorqueSide.MOTOR else "joint"), None
        if np.isfinite(drive.drive_gain).all():
            return "joint", drive.drive_gain
        if np.isfinite(drive.torque_constant).all():
            return "motor", drive.torque_constant
        raise UsageError(
            "drive-gain",
            found="effort as current, but joints without drive_gain or torque_constant",
            expected="joint torque per ampere, or motor torque per ampere and gear ratio",
            do="add them to the robot file",
        )


def _sensors(channel: Channel, rate: float) -> tuple[Sensor, ...]:
    resolution = np.atleast_1d(np.asarray(channel.resolution, dtype=np.float64))
    if isinstance(channel, PositionChannel) and channel.counts is not None:
        resolution = np.array([2.0 * np.pi / channel.counts])
    sensors: list[Sensor] = []
    if channel.latency > 0:
        sensors.append(Latency(channel.latency, rate))
    if channel.snr_db is not None:
        sensors.append(NoiseRatio(np.array([channel.snr_db])))
    if np.any(channel.noise):
        sensors.append(Noise(np.atleast_1d(np.asarray(channel.noise, dtype=np.float64))))
    if resolution.any():
        sensors.append(Encoder(resolution))
    if channel.dropped > 0:
        sensors.append(Dropout(channel.dropped, channel.held))
    return tuple(sensors)


_STREAMS = ("q", "dq", "theta", "tau", "i", "temperature", "rows", "theta_m")


def _stream(seed: tuple[int, ...], key: str) -> np.random.Generator:
    return np.random.default_rng([*seed, _STREAMS.index(key)])
