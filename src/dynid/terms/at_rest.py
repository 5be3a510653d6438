"""Dry friction of joints that stand still: any value up to its limit, of which half is predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import WIDTH
from dynid.terms.term import Term, Terms

# Of the dry friction that a joint stopped with. A drive that lets go of the joint leaves none of it, one that holds on
# all of it, and no motion says which. The middle has the least mean square error where both are as likely, and the
# least greatest one whatever is.
KEPT = 0.5
# rad/s (m/s), on which a sign that is smoothed over WIDTH is one.
CREEP = 3.0 * WIDTH


def kept_friction(robot: RobotModel, terms: Terms, samples: Samples, theta: Float, direction: Float) -> Float:
    """What dry friction at rest is above that of the model at the samples' velocities, (T, n).

    direction: (T, n) signs of the joints' last motion, 0 = not known.    theta: (p,) of all terms.
    Friction with a memory says itself what is kept.
    """
    way = CREEP * direction
    creeping = replace(samples, dq=way, dtheta=None if samples.dtheta is None else way)
    more, first = np.zeros_like(way), 0
    for term in terms:
        own = theta[first : first + len(term.columns(robot))]
        first += len(own)
        if own.any() and _is_dry(term):
            more += KEPT * term.torque(robot, term.seen(creeping), own)
            more -= term.torque(robot, term.seen(samples), own)
    return more


def _is_dry(term: Term) -> bool:
    inner = getattr(term, "of", term)
    return isinstance(inner, Term) and (inner.steps or inner.loaded) and not inner.remembers
