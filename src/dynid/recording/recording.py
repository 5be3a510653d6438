"""Rows of a log in SI units, decoded once and kept in memory or, where they are many, in a temporary file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, SpilledRecords
from dynid.base.records import dataclass
from dynid.recording.chunk import RawChunk, Trajectory

# Bytes of rows kept in memory: a minute of seven joints at 1 kHz takes 10 MB. Longer recordings go to a file, so that
# the memory of a run does not grow with its log.
IN_MEMORY = 64_000_000


@dataclass(frozen=True)
class WrenchSensor:
    """A force/torque sensor of a recording.

    Parameters
    ----------
    name : str
    link : str
        Link at whose frame it measures.
    frame : str, optional
        "sensor", "base" or a link, whose axes the components have; None = unknown.

    """

    name: str
    link: str
    frame: str | None = None


@dataclass(frozen=True)
class Support:
    """A hook or clamp that carries a floating base in some trajectories.

    Parameters
    ----------
    link : str
        Link that it is attached to.
    point : tuple of float, m
        Where, in the frame of this link.
    moment : bool
        Whether it also transfers moments, as a clamp does and a rope does not.
    trajectories : tuple of str
        Names or patterns of the trajectories in which it is attached; () = all.

    """

    link: str
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moment: bool = False
    trajectories: tuple[str, ...] = ()


@dataclass(frozen=True)
class FloatingBase:
    """Sensors of a floating base. Their values are further channels, IMU_CHANNELS and `contact:` with a link's name.

    Parameters
    ----------
    imu : str
        Link at whose frame the IMU measures.
    feet : tuple of str
        Links that touch the ground; () = those at the ends of legs.
    measured : bool
        Whether the log contains the contacts; else they are found from forces and motion.
    force : bool
        Whether it contains normal forces, N, instead of flags.
    moment : bool, optional
        Whether feet transfer moments; None = as their shapes say.
    supports : tuple of Support
        Hooks and clamps.

    """

    imu: str
    feet: tuple[str, ...] = ()
    measured: bool = False
    force: bool = False
    moment: bool | None = None
    supports: tuple[Support, ...] = ()

    @property
    def weighs(self) -> bool:
        """Whether the normal forces of the feet are logged, which give equations without any effort."""
        return self.measured and self.force


# Further channels of an IMU: angular velocity (rad/s) and specific force (m/s^2) in its axes.
IMU_CHANNELS = tuple(f"imu:{kind}.{axis}" for kind in ("gyro", "acceleration") for axis in "xyz")


@dataclass(frozen=True)
class Channels:
    """Joints of each recorded signal, and names of further channels.

    Parameters
    ----------
    velocity, effort, motor_position, motor_velocity, temperature : frozenset of str
        Names of joints.
    command_position, command_velocity, command_effort : frozenset of str
        Names of joints; empty where the torque was measured, so that commands are not needed.
    wrench : tuple of WrenchSensor
        Force/torque sensors.
    extra : tuple of str
        Further channels that terms of a model read.
    base : FloatingBase, optional
        Sensors of a floating base.

    """

    velocity: frozenset[str] = frozenset()
    effort: frozenset[str] = frozenset()
    motor_position: frozenset[str] = frozenset()
    motor_velocity: frozenset[str] = frozenset()
    temperature: frozenset[str] = frozenset()
    command_position: frozenset[str] = frozenset()
    command_velocity: frozenset[str] = frozenset()
    command_effort: frozenset[str] = frozenset()
    wrench: tuple[WrenchSensor, ...] = ()
    extra: tuple[str, ...] = ()
    base: FloatingBase | None = None

    @property
    def commanded(self) -> bool:
        """Whether the torque is computed from commands, since no effort was measured."""
        return bool(self.command_position) and not self.effort

    @property
    def gives_torque(self) -> bool:
        """Whether there is a torque, measured or computed from commands; zero beside normal forces alone."""
        return bool(self.effort) or self.commanded or self.weighed

    @property
    def weighed(self) -> bool:
        """Whether the normal forces of a floating base's feet take the place of efforts."""
        return self.base is not None and self.base.weighs and not self.effort and not self.commanded

    @property
    def measures_motor_velocity(self) -> bool:
        """Whether there are motors with encoders, and they and the joints have a measured velocity."""
        motors = self.motor_position
        return bool(self.velocity) and bool(motors) and self.motor_velocity >= motors


class Recording:
    """Rows of trajectories in SI units at the joints.

    Parameters
    ----------
    joints : sequence of str
        Names of the joints, in the order of the chunks' columns.
    trajectories : sequence of Trajectory
    decode : callable
        Chunks of a trajectory, in the order of its rows.

    Raises
    ------
    DynidError
        What `decode` raises: rows that cannot be read.

    """

    def __init__(
        self,
        joints: Sequence[str],
        trajectories: Sequence[Trajectory],
        decode: Callable[[Trajectory], Iterable[RawChunk]],
    ) -> None:
        self.joints = tuple(joints)
        self._spilled = SpilledRecords[RawChunk](RawChunk)
        self._chunks: dict[Trajectory, list[RawChunk | int]] = {}
        size = 0
        for trajectory in trajectories:
            chunks = self._chunks.setdefault(trajectory, [])
            for chunk in decode(trajectory):
                size += _bytes_of(chunk)
                if size > IN_MEMORY:
                    self._spill()
                chunks.append(self._spilled.add(chunk) if size > IN_MEMORY else _read_only(chunk))

    def __contains__(self, trajectory: Trajectory) -> bool:
        return trajectory in self._chunks

    def chunks(self, trajectory: Trajectory, joints: Sequence[str]) -> Iterator[RawChunk]:
        """Yield the chunks of a trajectory with the columns of these joints."""
        columns = None if tuple(joints) == self.joints else [self.joints.index(joint) for joint in joints]
        for chunk in self._chunks[trajectory]:
            whole = self._spilled[chunk] if isinstance(chunk, int) else chunk
            yield whole if columns is None else of_columns(whole, columns, len(self.joints))

    def _spill(self) -> None:
        for chunks in self._chunks.values():
            chunks[:] = [chunk if isinstance(chunk, int) else self._spilled.add(chunk) for chunk in chunks]


def of_columns(chunk: RawChunk, columns: list[int], joint_count: int) -> RawChunk:
    """Return the chunk with some of its joints' columns."""

    def some(values: Float | None, where: list[int]) -> Float | None:
        # One contiguous line per joint, since later steps run along time.
        return None if values is None else np.ascontiguousarray(values.T[where]).T

    of_commands = [joint_count * kind + column for kind in range(3) for column in columns]
    return replace(
        chunk,
        q=np.ascontiguousarray(chunk.q.T[columns]).T,
        dq=some(chunk.dq, columns),
        tau=some(chunk.tau, columns),
        theta=some(chunk.theta, columns),
        dtheta=some(chunk.dtheta, columns),
        temperature=some(chunk.temperature, columns),
        commands=some(chunk.commands, of_commands),
        bridged={name: counts[columns] for name, counts in chunk.bridged.items()},
    )


def _arrays_of(chunk: RawChunk) -> Iterator[Float]:
    fields: Mapping[str, object] = vars(chunk)
    for value in (*fields.values(), *chunk.wrench.values(), *chunk.extra.values()):
        if isinstance(value, np.ndarray):
            yield value


def _bytes_of(chunk: RawChunk) -> int:
    return sum(array.nbytes for array in _arrays_of(chunk))


def _read_only(chunk: RawChunk) -> RawChunk:
    # All readers of the recording share these arrays.
    for array in _arrays_of(chunk):
        array.setflags(write=False)
    return chunk
