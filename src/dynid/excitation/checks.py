"""What of a planned motion was checked, and what could not be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.records import dataclass
from dynid.excitation.collision import CollisionModel, has_coal
from dynid.excitation.left_out import RATE, Whole
from dynid.excitation.plan import Sheet
from dynid.excitation.torque_plan import TorquePlan
from dynid.excitation.verify import Verified

NOT_CHECKED = "NOT CHECKED: "
EXTRA = "pip install 'dynid[collision]'"
_LISTED = 8
# Of the line that stands before everything else: how many things, names of each, and letters of a reason it may have.
THINGS, NAMES, REASON = 5, 3, 40
WHERE = "; all of it: not_checked in plan.json"


@dataclass(frozen=True)
class Checks:
    """What was checked.    missing: what could not be, in words.    notes: how the rest was."""

    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def in_full(self) -> str:
        """What could not be checked, with reasons and every name, or how all of it was."""
        return NOT_CHECKED + "; ".join(self.missing) if self.missing else "; ".join(self.notes)

    @property
    def headline(self) -> str:
        """The first line of every output: what could not be checked, in short, or how all of it was."""
        if not self.missing:
            return self.in_full
        short = [_short(one) for one in self.missing[:THINGS]]
        more = len(self.missing) - len(short)
        rest = f"; {more} more" if more else ""
        return NOT_CHECKED + "; ".join(short) + rest + ("" if (*short,) == self.missing else WHERE)


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
        missing.append(f"torque of {', '.join(robot.joint_names[j] for j in unlimited)} (no limit is given)")
    if isinstance(plan, TorquePlan):
        missing.append("the end, where the arm still moves: hold it with its controller")
    return Checks(tuple(missing), tuple(_notes(collision, plan.verified) + _left_out(plan)))


def _left_out(plan: Sheet) -> list[str]:
    whole = Whole(plan.information.terms)
    if not whole.names:
        return []
    said = f"the search leaves out what differentiates along time: {', '.join(whole.names)}"
    if whole.checked and plan.bounds.theta is not None and not isinstance(plan, TorquePlan):
        said += f"; the final motion keeps torque limits with {', '.join(whole.checked)} at {RATE:g} Hz"
    return [said]


def _short(text: str) -> str:
    # Without a long reason in brackets, and of a list of names the first.
    what, bracket, reason = text.partition(" (")
    first, *names = what.split(", ")
    if len(names) >= NAMES + 1:
        what = f"{', '.join([first, *names[: NAMES - 1]])} and {len(names) + 1 - NAMES} more"
    return what + (bracket + reason if len(reason) <= REASON else "")


def _unsure(collision: CollisionModel) -> list[str]:
    shapes, found = collision.shapes, []
    if shapes is not None:
        if shapes.derived:
            radius = max(one.size[0] for one in shapes.shapes if one.link in shapes.derived)
            which = "none could be read: its links" if shapes.kind == "derived" else ", ".join(shapes.derived)
            found.append(
                f"the robot's own shapes ({which} are taken as capsules from joint to joint, of {radius:.3f} m radius)"
            )
        found += list(shapes.faults)
    if collision.overlapping:
        found.append(
            f"{', '.join(collision.overlapping)} (they overlap in the zero pose and all others tried)"
        )
    if collision.closer:
        found.append(f"the clearance of {', '.join(collision.closer)} (they stand closer by themselves)")
    if collision.coarse:
        derived = shapes is not None and bool(shapes.derived)
        why = "" if derived else f"; {EXTRA} for their own shapes"
        found.append(f"{', '.join(collision.coarse)} (their capsules come too close in most poses{why})")
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
