"""Dry friction of joints that stand still: any value up to its limit, as the terms have it for the last motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import WIDTH
from dynid.terms.term import Term, Terms

# Of the dry friction that a joint stopped with, what it keeps where no stop says more. A drive that lets go of the
# joint leaves none of it, one that holds on all of it. The middle has the least mean square error where both are as
# likely, and the least greatest one whatever is.
HALF = 0.5
# Widths of a smoothed sign, on which it is one.
CREEP = 3.0


def dry_friction(
    robot: RobotModel, terms: Terms, samples: Samples, theta: Float, direction: Float
) -> tuple[Float, Float]:
    """Dry friction of joints that have just stopped, and what the model has in its place, both (T, n).

    The first is that of a creeping motion in `direction`, the second that of the samples' velocities.
    direction: (T, n) signs of the joints' last motion, 0 = not known.    theta: (p,) of all terms.
    Friction with a memory says itself what is kept, and is in neither.
    """
    widths = [w for term in terms if isinstance(w := getattr(term, "width", None), float) and w > 0]
    way = CREEP * min([WIDTH, *widths]) * direction
    creeping = replace(samples, dq=way, dtheta=None if samples.dtheta is None else way)
    stopped, smooth = np.zeros_like(way), np.zeros_like(way)
    for term, own in terms.with_values(robot, theta):
        if own.any() and _is_dry(term):
            stopped += term.torque(robot, term.seen(creeping), own)
            smooth += term.torque(robot, term.seen(samples), own)
    return stopped, smooth


def _is_dry(term: Term) -> bool:
    inner = getattr(term, "of", term)
    return isinstance(inner, Term) and (inner.steps or inner.loaded) and not inner.remembers
