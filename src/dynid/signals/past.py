"""What joints and motors did before a batch of samples: effects with a memory start right, however a log is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dynid.base.records import dataclass
from dynid.robot.drive import Drive
from dynid.signals.samples import Samples
from dynid.signals.turning_points import Past


@dataclass(frozen=True)
class WithPast:
    """Batches of samples in the order of the log, each with the turning points of the (motors') motion before it.

    drive: of the robot, for the turning points of motors that do not turn as the joints do; None = they all do.
    """

    batches: Iterable[Samples]
    drive: Drive | None = None

    def __iter__(self) -> Iterator[Samples]:
        latest: Samples | None = None
        past = Past(())
        for samples in self.batches:
            if latest is None or latest.segment != samples.segment:
                past = Past.none(samples.n, self.drive)
            else:
                past = past.after(latest.motor.q[: max(samples.first - latest.first, 0)])
            latest = samples
            yield replace(samples, past=past)
