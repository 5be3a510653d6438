"""Thresholds for reporting an effect, and helpers for the texts of findings."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Curve, Evidence, Finding, Level
from dynid.base.errors import Place
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.terms.residual_tests import ALARM, LEAST_SHARE

# An effect of at least this share of a joint's torque is a warning.
MATTERS = 0.01


def counts(share: float, p_value: float) -> bool:
    """Whether an effect is significant and large enough to report."""
    return p_value < ALARM and share >= LEAST_SHARE


def level(analysis: ResidualAnalysis, joint: int, share: float) -> Level:
    """Level of an effect on a joint: a warning for at least 1 % of the joint's torque, else a note."""
    return Level.WARNING if analysis.relevance(joint, share) >= MATTERS else Level.NOTE


def joint_finding(
    analysis: ResidualAnalysis, code: str, joint: int, title: str, text: str, advice: str, evidence: Evidence
) -> Finding:
    """Make the finding of an effect on one joint.

    Parameters
    ----------
    analysis : ResidualAnalysis
        The residuals that show it.
    code : str
        Code for `dynid explain`.
    joint : int
        Index of the joint.
    title : str
        Heading, without the name of the joint.
    text, advice : str
        What was found, and what to do.
    evidence : Evidence
        Its share of the residual sets the level.

    """
    name = analysis.robot.joint_names[joint]
    return Finding(
        level(analysis, joint, evidence.share),
        code,
        text,
        Place(joint=name),
        title=f"{name}: {title}",
        advice=advice,
        evidence=evidence,
    )


def figures(analysis: ResidualAnalysis, joint: int, share: float, p_value: float) -> str:
    """Share of residual and torque and the p-value, in words."""
    chance = "p < 1e-12" if p_value < 1e-12 else f"p = {p_value:.1g}"
    part = 100 * analysis.relevance(joint, share)
    return f"{100 * share:.2g} % of the residual, {part:.2g} % of the torque ({chance})"


def unit(analysis: ResidualAnalysis, joint: int) -> str:
    """Unit of a joint's effort."""
    return "N" if analysis.robot.prismatic[joint] else "N m"


def angle(analysis: ResidualAnalysis, joint: int) -> str:
    """Unit of a joint's position."""
    return "m" if analysis.robot.prismatic[joint] else "rad"


def binned_curve(
    x: Float, y: Float, beside: Float, x_title: str, y_title: str, beside_title: str, bins: int = 40
) -> Curve:
    """Average y and its explanation `beside` over bins of x with equal numbers of samples; all inputs are (N,)."""
    order = np.argsort(x, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    means = [np.array([values[part].mean() for part in parts]) for values in (x, y, beside)]
    return Curve(x_title, y_title, means[0], means[1], means[2], beside_title)
