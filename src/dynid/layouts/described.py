"""A proposal as plain data, for programs that let a user look it over and answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynid.base.errors import NOWHERE
from dynid.base.records import dataclass
from dynid.base.units import factor
from dynid.layouts.proposal import Proposal
from dynid.log.contents import contents


@dataclass(frozen=True)
class NamedMotion:
    """Rows of one name of a log.

    seconds: None where they have no unit yet, or time runs back.    runs_back: whether it does between rows, so that
    they cannot be read as one motion.
    """

    name: str
    rows: int
    seconds: float | None
    runs_back: bool


def proposal_data(proposal: Proposal) -> dict[str, Any]:
    """Decisions with grade, evidence and options; the column of every joint; other columns; the named motions."""
    return {
        "decisions": [vars(one) | {"grade": one.grade} for one in proposal.decisions],
        "joints": proposal.robot.joint_names,
        "columns": {kind: group.columns for kind, group in proposal.groups.items()},
        "unused": proposal.unused,
        "motions": named_motions(proposal),
    }


def named_motions(proposal: Proposal) -> tuple[NamedMotion, ...]:
    """The motions that a column of the log names, in the order in which they begin; none without such a column."""
    label, clock = proposal["log.trajectory"].value, proposal["log.time.column"].value
    if label is None or clock is None:
        return ()
    found = contents(proposal.log)
    streams = [one for one in found.streams if {label, clock} <= {column.name for column in one.columns}]
    if not streams:
        return ()
    read = found.read([label, clock])
    names, t = np.array([str(one) for one in read[label]]), np.asarray(read[clock], dtype=np.float64)
    unit = proposal["log.time.unit"].value
    scale = None if unit is None else factor(unit, ("time",), NOWHERE)[1]
    unique, first = np.unique(names, return_index=True)
    motions = []
    for name in unique[np.argsort(first)]:
        own = t[names == name]
        back = bool((np.diff(own) < 0).any())
        seconds = None if scale is None or back else scale * float(own[-1] - own[0])
        motions.append(NamedMotion(str(name), len(own), seconds, back))
    return tuple(motions)
