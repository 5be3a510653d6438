"""Whether held-out data go through the motion that a model was fitted on."""

from __future__ import annotations

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.overview import listed
from dynid.estimate.residuals import Residuals
from dynid.estimate.scores import Origin
from dynid.run.result import Validation
from dynid.run.verdict import SAME_MOTION
from dynid.signals.repetition import Motion, same_motion


def note_same_motion(training: Validation, unseen: Validation, diagnostics: Diagnostics) -> None:
    """Notes held-out trajectories that go through a motion of the training; scores without residuals are left alone."""
    if training.residuals is None or unseen.residuals is None or unseen.scores.origin is Origin.TRAINING:
        return
    found = same_motion(_motions(training.residuals), _motions(unseen.residuals))
    if found:
        held_out, fitted = (
            listed([f"'{name}'" for name in dict.fromkeys(names)]) for names in (found, found.values())
        )
        diagnostics.note(
            SAME_MOTION,
            f"What is held out ({held_out}) goes through the motion that the model was fitted on ({fitted}): what it "
            "misses of another motion is not seen there; validate on another (--validate) to see it.",
        )


def _motions(residuals: Residuals) -> dict[str, Motion]:
    found: dict[str, Motion] = {}
    for k, name in enumerate(residuals.trajectories):
        own = np.flatnonzero(residuals.trajectory == k)
        if len(own):
            # Of one segment alone: the clock runs on without a gap there.
            own = own[residuals.segment[own] == residuals.segment[own[0]]]
            found[name] = Motion(residuals.t[own], residuals.q[own], residuals.dq[own], residuals.rate)
    return found
