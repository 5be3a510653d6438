"""Two encoders a joint: the motor's reading, brought to the joint, must follow the link's."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.log.log import ChannelMap, RawChunk
from dynid.robot.model import RobotModel

FOLLOWS = 0.8
SLOPE = (0.5, 2.0)
RATIO_MATCHES = 0.1
FAR_APART = 0.5
STRIDE = 8


class EncoderWatch:
    """Compares motor with link positions while the chunks of a log pass by."""

    def __init__(self, robot: RobotModel, mapping: ChannelMap) -> None:
        self.robot, self.mapping = robot, mapping
        n = robot.n
        self.origin: Float | None = None
        self.count = 0
        self.sums = np.zeros((2, n))
        self.squares = np.zeros((3, n))

    def see(self, chunk: RawChunk) -> None:
        """Takes a chunk into the sums."""
        if chunk.theta is None:
            return
        q, theta = chunk.q[::STRIDE], chunk.theta[::STRIDE]
        good = np.isfinite(q).all(axis=1) & np.isfinite(theta).all(axis=1)
        if not good.any():
            return
        pair = np.stack([q[good], theta[good]])
        if self.origin is None:
            self.origin = pair[:, 0].copy()
        pair = pair - self.origin[:, None]
        self.count += pair.shape[1]
        self.sums += pair.sum(axis=1)
        self.squares += np.stack([(pair[0] ** 2).sum(0), (pair[0] * pair[1]).sum(0), (pair[1] ** 2).sum(0)])

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Judges what was seen of the joints that moved.

        Claims: motor positions that are off by the gear ratio or another factor, run against the link's or belong to
        another joint.
        """
        if self.origin is None:
            return
        mean = self.sums / self.count
        qq, qt, tt = self.squares / self.count - np.stack([mean[0] ** 2, mean[0] * mean[1], mean[1] ** 2])
        for joint in np.flatnonzero(moved).tolist():
            name = self.robot.joint_names[joint]
            if name not in self.mapping.motor_position:
                continue
            with np.errstate(invalid="ignore", divide="ignore"):
                self._judge(joint, qt[joint] / qq[joint], qt[joint] / np.sqrt(qq[joint] * tt[joint]), sink)
            apart = float((self.origin + mean)[1, joint] - (self.origin + mean)[0, joint])
            if abs(apart) > FAR_APART:
                sink.warn(
                    "encoders-apart",
                    f"motor and link position differ by {apart:.4g} on average: set log.motor_position.offset "
                    "if it is the encoders' zero",
                    Place(joint=name),
                )

    def _judge(self, joint: int, slope: float, correlation: float, sink: Diagnostics) -> None:
        place = Place(joint=self.robot.joint_names[joint])
        if not abs(correlation) > FOLLOWS:
            sink.claim(
                "motor-position",
                found=f"a motor position that does not follow the joint (correlation {correlation:.2g})",
                expected="motor and link position of the same joint",
                do="check the columns under [log] motor_position",
                place=place,
            )
            return
        if slope < 0:
            sink.claim(
                "motor-position-sign",
                found=f"a motor position that runs against the joint (slope {slope:.4g})",
                expected="the same direction",
                do="set log.motor_position.sign of this joint, or the sign of its gear_ratio",
                place=place,
            )
            return
        if SLOPE[0] < slope < SLOPE[1]:
            return
        ratio = abs(float(self.robot.drive.gear_ratio[joint]))
        found = f"a motor position that moves {slope:.4g} times as far as the joint"
        if abs(slope / ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{found}: its gear ratio is {ratio:.4g}",
                expected="a motor position divided by the gear ratio, or one that is declared to be the motor's own",
                do='set log.motor_position.side = "motor"',
                place=place,
            )
        elif abs(slope * ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{found}: the gear ratio, {ratio:.4g}, was applied although the column is reflected already",
                expected="the gear ratio applied once",
                do='set log.motor_position.side = "link"',
                place=place,
            )
        else:
            sink.claim(
                "unit-suspicion",
                found=found,
                expected=f"a ratio of 1, or the gear ratio of {ratio:.4g}",
                do="declare unit (57.3 = degrees) and side of log.motor_position, and the gear ratio",
                place=place,
            )
