"""Quantities that a motion is to determine: torque elsewhere, or a payload on an arm that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.excitation.criteria import Information
from dynid.factor.base import STRUCTURAL_TOLERANCE, base_of_matrix, random_states
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms

STATES, RECORDED_TOLERANCE, BLIND = 256, 1e-12, 1e-6


def prediction_focus(information: Information, motions: Sequence[tuple[Float, Float, Float]]) -> Float:
    """Combinations (b, b) of the base parameters whose total variance is that of predicted torque.

    motions: q, dq, ddq, (T, n) each, on which torque is to be predicted. With the rows W_j of joint j and its expected
    deviation s_j, the mean over samples and joints of var(tau_j) / s_j^2 is tr(R P R') for R'R = mean W'W / s^2 and
    covariance P. Minimising it is I- or V-optimality.
    Raises UsageError without a motion.    Source: Fedorov 1972.
    """
    if not motions:
        raise UsageError("prediction", found="no motion to be predicted", expected="at least one")
    alone = replace(information, recorded=None, focus=None)
    rows = np.concatenate([alone.triangle(*motion) for motion in motions])
    return np.asarray(np.linalg.qr(rows / np.sqrt(len(motions) * information.robot.n), mode="r"))


def payload_information(information: Information) -> Information:
    """The criterion of a payload on the last body of an arm whose other parameters are known.

    The base parameters are those combinations of the ten of the load that torque depends on, in the columns of the
    last body; everything else counts as known.
    Raises UnfitDataError if the model has no rigid bodies, or something was recorded without the payload.
    """
    robot, terms = information.robot, information.terms
    own = payload_columns(robot, terms)
    if information.recorded is not None:
        raise UnfitDataError(
            "payload-recorded",
            found="a run without the payload as what was recorded",
            expected="a motion for the payload alone",
            do="leave out --after",
        )
    samples = random_states(robot, STATES, 0, terms.channels(), clock=terms.clock())
    panels = terms.torque_regressor(robot, samples)
    W = panels.dense(len(information.base.names)).reshape(-1, len(information.base.names))
    seen = np.zeros(W.shape[1], dtype=np.bool_)
    seen[own : own + 10] = True
    base = base_of_matrix(np.where(seen, W, 0.0), information.base.names, STRUCTURAL_TOLERANCE)
    return replace(information, base=base)


def payload_columns(robot: RobotModel, terms: Terms) -> int:
    """Index of the first of the ten columns of the last body; raises UnfitDataError where there is none."""
    first = 0
    for term in terms:
        if term.of_bodies:
            return first + 10 * (robot.n_bodies - 1)
        first += len(term.columns(robot))
    raise UnfitDataError(
        "payload-model", found="a model without rigid bodies", expected="one with the term rigid_body"
    )


def loaded(robot: RobotModel, terms: Terms, theta: Float, mass: float, centre: Float) -> Float:
    """Parameters (p,) with a point mass on the last body added; mass: kg, centre: (3,) in its joint frame, m.

    Raises UsageError for a mass below zero.
    """
    if not (np.isfinite(mass) and mass >= 0):
        raise UsageError("payload-mass", found=f"a payload of {mass} kg", expected="0 or more")
    x, y, z = centre
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    own = payload_columns(robot, terms)
    more = np.array(theta)
    more[own : own + 10] += mass * np.array([1.0, x, y, z, *inertia])
    return more


def shrinkage(information: Information, motion: tuple[Float, Float, Float], seconds: float) -> Float:
    """Deviations (b,) of the base parameters after a motion, as shares of those of what was recorded before it.

    motion: q, dq, ddq, (T, n) each, over `seconds`.    0 where the record determines nothing.
    Raises UsageError where nothing was recorded.
    """
    if information.recorded is None:
        raise UsageError("shrinkage", found="nothing recorded", expected="an earlier run")
    after = np.linalg.inv(information.triangle(*motion, seconds))
    now = np.linalg.norm(after, axis=1)
    _, s, Vt = np.linalg.svd(np.linalg.qr(np.asarray(information.recorded), mode="r"))
    seen = s > RECORDED_TOLERANCE * s[0]
    before = np.linalg.norm(Vt[seen].T / s[seen], axis=1)
    blind = np.abs(Vt[~seen]).max(axis=0, initial=0.0) > BLIND
    return np.where(blind | (before == 0), 0.0, now / np.where(before > 0, before, 1.0))
