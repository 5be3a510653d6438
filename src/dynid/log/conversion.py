"""Convert the columns of a log to motion and torque of the joints in SI units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import LARGEST_VALUE, Bool, Float
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import line_ranges
from dynid.log.log import Channel, ChannelMap
from dynid.recording import RawChunk, Trajectory
from dynid.robot.model import RobotModel


@dataclass(frozen=True, eq=False)
class Conversion:
    """Converts numeric columns to joint motion and torque.

    The conversion applies units, signs, offsets, gear ratios, linkages and drive gains.

    Parameters
    ----------
    robot : RobotModel
    mapping : ChannelMap

    """

    robot: RobotModel
    mapping: ChannelMap

    def chunk(self, trajectory: Trajectory, row: int, data: Mapping[str, Float]) -> RawChunk:
        """Convert rows of a trajectory.

        Parameters
        ----------
        trajectory : Trajectory
            Trajectory of the rows.
        row : int
            Number of the first row in the file.
        data : mapping of str to ndarray, shape (n_samples,)
            Values of each column.

        """
        m, drive = self.mapping, self.robot.drive
        t = self._time(data)
        q, dq, effort = self._stacks(data, (m.position, m.velocity, m.effort))
        if q is None:
            raise UsageError(
                "no-position", found="a mapping without positions", expected="a position per joint"
            )
        q, dq = self._at_joints(q, dq, m.position_side, m.position_sign, m.position_offset)
        theta, dtheta = self._motors(data, q, dq)
        if effort is not None:
            effort[:, self._unmeasured] = 0.0  # nan would mark every row as incomplete
            self._require_gains(effort)
        tau = _times_matrix(effort, self._effort_matrix) if effort is not None else None
        if tau is None and m.channels.weighed:
            tau = np.zeros_like(q)
        if tau is not None and drive.linkages and self._effort_at_motors:
            tau = drive.pulled(q, tau)
        return RawChunk(
            trajectory=trajectory,
            first_row=row,
            t=t,
            q=q,
            dq=dq,
            tau=tau,
            theta=theta,
            dtheta=dtheta,
            temperature=self._stack(data, m.temperature),
            extra={name: self._scaled(data, channel) for name, channel in m.extra.items()},
            commands=self._commands(data) if m.commanded else None,
            wrench={
                name: np.stack([self._scaled(data, channel) for channel in sensor.channels], axis=1)
                for name, sensor in m.wrench.items()
            },
        )

    def _time(self, data: Mapping[str, Float]) -> Float:
        return self._scaled(data, self.mapping.time)

    @staticmethod
    def _scaled(data: Mapping[str, Float], channel: Channel) -> Float:
        return _without_unphysical_values(data[channel.column] * channel.factor)

    def _commands(self, data: Mapping[str, Float]) -> Float:
        """Commanded positions, velocities and feed-forward torques (T, 3 n); missing commands are zero."""
        m = self.mapping
        q_des, dq_des = self._stack(data, m.command_position), self._stack(data, m.command_velocity)
        if q_des is None:
            raise UsageError("no-command", found="no commanded positions", expected="one per joint")
        q_des, dq_des = self._at_joints(q_des, dq_des, m.position_side, m.position_sign, m.position_offset)
        tau_ff = self._stack(data, m.command_effort)
        nothing = np.zeros_like(q_des)
        return np.concatenate(
            [q_des, nothing if dq_des is None else dq_des, nothing if tau_ff is None else tau_ff], axis=1
        )

    def _motors(
        self, data: Mapping[str, Float], q: Float, dq: Float | None
    ) -> tuple[Float | None, Float | None]:
        # A motor without a second encoder is assumed to move with the link.
        m = self.mapping
        theta, dtheta = self._stack(data, m.motor_position), self._stack(data, m.motor_velocity)
        if theta is None:
            return None, None
        sign = m.position_sign if m.motor_sign is None else m.motor_sign
        offset = m.position_offset if m.motor_offset is None else m.motor_offset
        complete = dq is not None and set(m.motor_velocity) >= set(m.motor_position)
        theta, dtheta = self._at_joints(theta, dtheta if complete else None, m.motor_side, sign, offset)
        alone = np.array([name not in m.motor_position for name in self.robot.joint_names])
        theta = np.where(alone, q, theta)
        return theta, np.where(alone, dq, dtheta) if dq is not None and dtheta is not None else None

    def _at_joints(
        self,
        q: Float,
        dq: Float | None,
        side: str,
        signs: Mapping[str, float],
        offsets: Mapping[str, float],
    ) -> tuple[Float, Float | None]:
        drive, names = self.robot.drive, self.robot.joint_names
        if side == "motor":
            back = np.linalg.inv(drive.transmission).T
            q = _times_matrix(q, back)
            dq = _times_matrix(dq, back) if dq is not None else None
        if signs or offsets:
            sign = np.array([signs.get(j, 1.0) for j in names])
            q = q * sign + np.array([offsets.get(j, 0.0) for j in names])
            dq = dq * sign if dq is not None else None
        if side == "motor" and drive.linkages:
            q, dq = drive.through_linkages(q, dq)
        return q, dq

    def _stack(self, data: Mapping[str, Float], channels: Mapping[str, Channel]) -> Float | None:
        if not channels:
            return None
        T = len(data[self.mapping.time.column])
        return self._filled(np.empty((self.robot.n, T)), data, channels)

    def _stacks(
        self, data: Mapping[str, Float], groups: Sequence[Mapping[str, Channel]]
    ) -> list[Float | None]:
        # One block for all groups, so that later steps need not copy them into one.
        n = self.robot.n
        block = iter(np.empty((sum(map(bool, groups)), n, len(data[self.mapping.time.column]))))
        return [self._filled(next(block), data, channels) if channels else None for channels in groups]

    def _filled(self, lines: Float, data: Mapping[str, Float], channels: Mapping[str, Channel]) -> Float:
        # Store each joint contiguously, because later steps run along time; the returned view has the shape (T, n).
        for j, name in enumerate(self.robot.joint_names):
            if name in channels:
                with np.errstate(
                    invalid="ignore", over="ignore"
                ):  # damaged files may have such values; the checks report them
                    np.multiply(data[channels[name].column], channels[name].factor, out=lines[j])
            else:
                lines[j] = np.nan
        if lines.shape[1]:
            low, high = line_ranges(lines).T
            sound = (low >= -LARGEST_VALUE) & (high <= LARGEST_VALUE)
            for values in (line for line, fine in zip(lines, sound, strict=True) if not fine):
                _without_unphysical_values(values)
        return lines.T

    @cached_property
    def _unmeasured(self) -> Bool:
        return np.array([joint not in self.mapping.effort for joint in self.robot.joint_names])

    @property
    def _effort_at_motors(self) -> bool:
        if self.mapping.effort_quantity == "torque":
            return self.mapping.effort_side == "motor"
        return self._uses_torque_constants

    @property
    def _uses_torque_constants(self) -> bool:
        # Drive gains at the joints take precedence over the torque constants of the motors.
        drive = self.robot.drive
        known = np.isfinite(drive.torque_constant).all() and not np.isfinite(drive.drive_gain).all()
        return self.mapping.effort_quantity == "current" and bool(known)

    @cached_property
    def _without_gain(self) -> Bool:
        # Mask (n,) of joints whose effort cannot be converted to a torque.
        if self.mapping.effort_quantity == "torque" or self._uses_torque_constants:
            return np.zeros(self.robot.n, dtype=np.bool_)
        return np.asarray(~np.isfinite(self.robot.drive.drive_gain) & ~self._unmeasured)

    def _require_gains(self, effort: Float) -> None:
        """Raise InputError if a joint without a gain has a nonzero effort (T, n); zero effort needs no gain."""
        if not self._without_gain.any():
            return
        used = self._without_gain & ((effort != 0.0) & np.isfinite(effort)).any(axis=0)
        if not used.any():
            return
        missing = [name for name, is_used in zip(self.robot.joint_names, used, strict=True) if is_used]
        raise InputError(
            "drive-gain",
            found=f"effort in {self.mapping.effort_quantity} but no drive_gain for {', '.join(missing)}",
            expected="joint torque per ampere (or per raw unit) of every joint",
            do="set drive_gain (or gear_ratio and torque_constant) under [robot] in the experiment file, "
            "or under drive in the robot file",
        )

    @cached_property
    def _effort_matrix(self) -> Float:
        # tau_joint = effort @ matrix
        m, drive, names = self.mapping, self.robot.drive, self.robot.joint_names
        sign = np.diag([m.effort_sign.get(j, 1.0) for j in names])
        if m.effort_quantity == "torque":
            return sign if m.effort_side == "link" else sign @ drive.transmission
        if self._uses_torque_constants:
            return sign @ np.diag(drive.torque_constant) @ drive.transmission
        gains: Float = np.diag(np.where(np.isfinite(drive.drive_gain), drive.drive_gain, 1.0))
        return sign @ gains


def _without_unphysical_values(values: Float) -> Float:
    """Replace infinite and unphysically large values (T,) by nan, in place."""
    if not -LARGEST_VALUE <= values.min(initial=0.0) <= values.max(initial=0.0) <= LARGEST_VALUE:
        values[np.abs(values) > LARGEST_VALUE] = np.nan
    return values


def _times_matrix(values: Float, matrix: npt.NDArray[np.floating[Any]]) -> Float:
    """Product values (T, n) @ matrix with 0 * nan = 0, so that nan affects only the results that depend on it."""
    if np.array_equal(matrix, np.eye(len(matrix))):
        return values
    with np.errstate(invalid="ignore"):
        mapped = np.asarray((matrix.T @ values.T).T, dtype=np.float64)
        complete = np.isfinite(mapped.sum())
    if not complete:
        missing = ~np.isfinite(values)
        mapped = np.asarray((matrix.T @ np.where(missing, 0.0, values).T).T, dtype=np.float64)
        mapped[missing.astype(np.float64) @ (matrix != 0) > 0] = np.nan
    return mapped
