"""Joints that stand still in some trajectories, held there by a brake or by friction: their equations are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.diagnostics import Diagnostics
from dynid.log.absent import STILL
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.signals.first_look import EVIDENCE_SAMPLES
from dynid.signals.resting_joints import unexplained_joints
from dynid.signals.samples import Samples

_NAMED = 5


@dataclass(frozen=True, eq=False)
class _Shut:
    """Batches without the equations of some joints, (n,) by trajectory."""

    batches: Iterable[Samples]
    shut: dict[str, Bool]

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch without them; all have gates then, or none."""
        closed = self.shut.get(samples.trajectory)
        open_ = np.ones(samples.n, dtype=np.bool_) if closed is None else ~closed
        measured = open_ if samples.measured is None else samples.measured & open_
        gate = np.broadcast_to(measured, samples.q.shape)
        return replace(
            samples, measured=measured, gate=np.array(gate) if samples.gate is None else samples.gate & gate
        )


def _evidence(batches: Iterable[Samples], names: Collection[str]) -> dict[str, list[Samples]]:
    # The first samples of some trajectories.
    found: dict[str, list[Samples]] = {name: [] for name in names}
    for samples in batches if names else ():
        own = found.get(samples.trajectory)
        if own is not None and sum(map(len, own)) < EVIDENCE_SAMPLES:
            own.append(samples)
    return found


def without_held_parts(
    batches: Iterable[Samples], summary: LogSummary, robot: RobotModel, diagnostics: Diagnostics
) -> Iterable[Samples]:
    """Batches without the equations of joints in trajectories in which a brake or friction holds them, with a warning.

    They move in other trajectories, stand still in these, and their effort here is not the torque of what they carry.
    """
    still = {one.name: one.upper - one.lower <= STILL for one in summary.trajectories}
    asked = {name for name, own in still.items() if (own & summary.moved).any() and not own.all()}
    shut = {
        name: found
        for name, parts in _evidence(batches, asked).items()
        if (found := unexplained_joints(robot, parts, ~still[name], still[name] & summary.moved)).any()
    }
    if not shut:
        return batches
    for j in np.flatnonzero(np.any(list(shut.values()), axis=0)).tolist():
        named = [f"'{name}'" for name, joints in shut.items() if joints[j]]
        shown = ", ".join(named[:_NAMED]) + (
            f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        )
        diagnostics.warn(
            "held-in-part",
            f"joint '{robot.joint_names[j]}' stands still in {shown}, and its effort there is not the torque of what "
            "it carries, as where a brake or friction holds it: its equation is left out there",
        )
    less = _Shut(batches, shut)
    return [less.of(samples) for samples in batches] if isinstance(batches, list) else less
