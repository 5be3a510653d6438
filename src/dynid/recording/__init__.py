"""A recording: time, motion, torque and commands of a robot's joints in SI units, decoded once from the files of a log.

All code that works on measured motion reads a recording. It has no columns, units or files: these belong to the
package `log`, which creates recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.recording.chunk import RawChunk as RawChunk
    from dynid.recording.chunk import Trajectory as Trajectory
    from dynid.recording.chunk import in_order as in_order
    from dynid.recording.chunk import joined as joined
    from dynid.recording.chunk import pieces_of as pieces_of
    from dynid.recording.chunk import rows_only as rows_only
    from dynid.recording.chunk import taken as taken
    from dynid.recording.chunk import within as within
    from dynid.recording.commands import Commands as Commands
    from dynid.recording.commands import delayed as delayed
    from dynid.recording.commands import interpolated as interpolated
    from dynid.recording.commands import servo_torque as servo_torque
    from dynid.recording.commands import slopes as slopes
    from dynid.recording.commands import speed_of_law as speed_of_law
    from dynid.recording.missing import bridged as bridged
    from dynid.recording.recording import IMU_CHANNELS as IMU_CHANNELS
    from dynid.recording.recording import Channels as Channels
    from dynid.recording.recording import FloatingBase as FloatingBase
    from dynid.recording.recording import Recording as Recording
    from dynid.recording.recording import Support as Support
    from dynid.recording.recording import WrenchSensor as WrenchSensor
    from dynid.recording.slow_effort import SLOWER as SLOWER
    from dynid.recording.slow_effort import at_times_of_efforts as at_times_of_efforts

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "chunk": "RawChunk Trajectory in_order joined pieces_of rows_only taken within",
        "commands": "Commands delayed interpolated servo_torque slopes speed_of_law",
        "missing": "bridged",
        "recording": "Channels FloatingBase IMU_CHANNELS Recording Support WrenchSensor",
        "slow_effort": "SLOWER at_times_of_efforts",
    },
)
