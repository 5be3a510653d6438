"""Whether a recording is enough, how well each base parameter is known against what was asked for, and what is left."""

from __future__ import annotations

import numpy as np

from dynid.base import Bool, Float, UsageError, dataclass
from dynid.excitation.criteria import Information
from dynid.excitation.plan import information_known
from dynid.fleet.watch import Watcher

# Standard deviations of a 95 % interval.
WIDE = 1.96


@dataclass(frozen=True, eq=False)
class Precision:
    """How well the base parameters (b,) are known.

    share: half width of the 95 % interval over what was asked for.    asked: deviations that were asked for.
    """

    names: tuple[str, ...]
    share: Float
    asked: Float

    @property
    def known(self) -> Bool:
        """Which ones are known as well as asked."""
        return np.asarray(self.share <= 1.0)

    @property
    def enough(self) -> bool:
        """Whether all are."""
        return bool(self.known.all())

    @property
    def weakest(self) -> str:
        """The one that is farthest from it."""
        return self.names[int(self.share.argmax())]


def precision_of(watcher: Watcher, asked: float) -> Precision:
    """How well the last estimate knows the base parameters.

    A parameter theta with deviation s and a column of size c in usual motion is known where
        1.96 s <= asked max(|theta|, tau / c)
    for the usual torque tau: what hardly matters need not be known to a share of itself.
    Raises UsageError for a precision that is not positive.
    """
    if not (np.isfinite(asked) and asked > 0):
        raise UsageError("precision", found=f"a precision of {asked}", expected="above 0")
    track = watcher.trajectory
    size = watcher.base.scale[watcher.base.independent]
    with np.errstate(divide="ignore"):
        least = watcher.usual_torque / np.where(size > 0, size, np.inf)
    room = asked * np.maximum(np.abs(track.value[-1]), least)
    with np.errstate(divide="ignore"):
        share = np.where(room > 0, WIDE * track.std[-1] / np.maximum(room, 1e-300), np.inf)
    return Precision(watcher.names, np.asarray(share), np.asarray(room / WIDE))


def information_left(watcher: Watcher, asked: float) -> tuple[Information, Float]:
    """The criterion of the motion to record next, and the estimate (p,) so far, dependent parameters as 0.

    Raises UnfitDataError where the base parameters are not those of torque rows.
    """
    robot, base = watcher.robot, watcher.base
    spread = watcher.spread if len(watcher.spread) == robot.n else np.full(robot.n, watcher.variance**0.5)
    information = information_known(
        robot,
        watcher.settings.terms,
        base,
        watcher.estimate.root[:-1, :-1] / watcher.variance**0.5,
        spread,
        watcher.rows_a_second,
        precision_of(watcher, asked).asked,
    )
    theta = np.zeros(len(base.names))
    theta[base.independent] = watcher.trajectory.value[-1]
    return information, theta
