"""What of a planned motion was checked, and what could not be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.records import dataclass
from dynid.excitation.collision import CollisionModel, has_coal
from dynid.excitation.plan import Sheet
from dynid.excitation.torque_plan import TorquePlan
from dynid.excitation.verify import Verified

NOT_CHECKED = "NOT CHECKED: "
EXTRA = "pip install 'dynid[collision]'"
_LISTED = 8


@dataclass(frozen=True)
class Checks:
    """What was checked.    missing: what could not be, in words.    notes: how the rest was."""

    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The first line of every output: what could not be checked, or how all of it was."""
        return NOT_CHECKED + "; ".join(self.missing) if self.missing else "; ".join(self.notes)


def checks_of(plan: Sheet) -> Checks:
    """What of a plan was checked."""
    bounds, robot = plan.bounds, plan.information.robot
    missing = []
    collision = bounds.collision
    if collision is None:
        missing.append("whether the arm hits itself")
    else:
        missing += _unsure(collision)
    walls = bounds.workspace is not None and bool(bounds.workspace.names)
    if not walls and (collision is None or not collision.obstacles):
        missing.append("surroundings (no floor, wall or obstacle is given)")
    if walls and bounds.workspace is not None and not bounds.workspace.whole_links:
        missing.append("the links between the joints against the surroundings")
    if collision is not None and plan.verified is None:
        missing.append(
            f"the final motion by an independent library ({EXTRA})" if not has_coal() else "at 1 kHz"
        )
    if bounds.theta is None:
        missing.append("torque (the description holds no masses)")
    elif not np.isfinite(bounds.limits.torque).all():
        unlimited = np.flatnonzero(~np.isfinite(bounds.limits.torque))
        missing.append(
            "torque of " + _listed([robot.joint_names[j] for j in unlimited]) + " (no limit is given)"
        )
    if isinstance(plan, TorquePlan):
        missing.append("the end, where the arm still moves: hold it with its controller")
    return Checks(tuple(missing), tuple(_notes(collision, plan.verified)))


def _unsure(collision: CollisionModel) -> list[str]:
    shapes, found = collision.shapes, []
    if shapes is not None:
        if shapes.derived:
            radius = max(one.size[0] for one in shapes.shapes if one.link in shapes.derived)
            which = "none could be read: its links" if shapes.kind == "derived" else _listed(shapes.derived)
            found.append(
                f"the robot's own shapes ({which} are taken as capsules from joint to joint, of {radius:.3f} m radius)"
            )
        found += list(shapes.faults)
    if collision.overlapping:
        found.append(f"{_listed(collision.overlapping)} (they overlap in the zero pose and all others tried)")
    if collision.closer:
        found.append(f"the clearance of {_listed(collision.closer)} (they stand closer by themselves)")
    if collision.coarse:
        derived = shapes is not None and bool(shapes.derived)
        why = "" if derived else f"; {EXTRA} for their own shapes"
        found.append(f"{_listed(collision.coarse)} (their capsules come too close in most poses{why})")
    return found


def _notes(collision: CollisionModel | None, verified: Verified | None) -> list[str]:
    if collision is None:
        return []
    found = []
    if collision.shapes is not None:
        kind, made_up = collision.shapes.kind, collision.shapes.derived
        beside = f" and capsules in place of {_listed(made_up)}" if made_up and kind != "derived" else ""
        found.append(f"checked on the robot's {kind} shapes{beside}")
    if verified is not None and verified.nearest is not None:
        found.append(
            f"the final motion again at {verified.rate:g} Hz by {verified.library}: "
            f"least distance {1000 * verified.nearest.distance:.1f} mm ({verified.nearest.pair})"
        )
    return found


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
