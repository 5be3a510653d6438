"""Torque that the log itself brings along: a counterbalance, a vendor's compensation, a disturbance."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Column, Term


@dataclass(frozen=True)
class ChannelTorque(Term):
    """Torque proportional to an extra log channel on one joint: tau_j = s u(t).

    channel_name: the extra channel u.    joint: its joint.
    free: whether the scale s is estimated (prior 1) or is 1.
    """

    channel_name: str
    joint: str
    free: bool = True
    name: str = "channel"

    def channels(self) -> tuple[str, ...]:
        """The one channel."""
        return (self.channel_name,)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column if the scale is estimated."""
        owner = self._joint(robot)
        return (Column(f"s_{self.channel_name}", "1", self.name, owner, prior=1.0),) if self.free else ()

    def balances(self, robot: RobotModel) -> Bool:
        """Its joint: what the log brings along may be a counterbalance."""
        return np.isin(np.arange(robot.n), self._joint(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The channel on its joint."""
        owner = self._joint(robot) if wanted.any() else -1
        line = np.array(channel(samples, self.channel_name)[None, :], dtype=np.float64)
        return Panels(
            columns=tuple(np.array([0] if j == owner else [], dtype=np.int64) for j in range(robot.n)),
            values=tuple(line if j == owner else line[:0] for j in range(robot.n)),
        )

    def known_torque(self, robot: RobotModel, samples: Samples) -> Float | None:
        """The channel itself when its scale is fixed."""
        if self.free:
            return None
        torque = np.zeros((len(samples), robot.n))
        torque[:, self._joint(robot)] = channel(samples, self.channel_name)
        return torque

    def _joint(self, robot: RobotModel) -> int:
        if self.joint not in robot.joint_names:
            raise UsageError(
                "unknown-joint",
                found=f"joint '{self.joint}' for channel '{self.channel_name}'",
                expected="one of " + ", ".join(robot.joint_names),
            )
        return robot.joint_names.index(self.joint)


def channel(samples: Samples, name: str) -> Float:
    """Returns an extra channel of the samples; raises UnfitDataError if the log does not hold it."""
    if name not in samples.extra:
        have = ", ".join(sorted(samples.extra)) or "none"
        raise UnfitDataError(
            "missing-channel",
            found=f"no extra channel '{name}' (extra channels: {have})",
            expected="the channel that a term of the model reads",
            do=f"map it under [log.extra] as {name} = {{ column = ..., unit = ... }}",
        )
    return samples.extra[name]
