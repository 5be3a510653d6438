"""Residual against velocity: which form of friction the model lacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.diagnosis.residual_analysis import Effect, Evidence
from dynid.diagnosis.symptom import Symptom
from dynid.diagnosis.wording import angle, binned_curve, counts, figures, level, unit
from dynid.robot.model import RobotModel
from dynid.terms.curve import CurveTerm
from dynid.terms.term import Terms, joint_indices

STEP_TERMS = {"coulomb", "coulomb_sides", "coulomb_tanh", "stribeck", "sigmoid", "zollo", "presliding"}
# Where the steep part ends and the low-speed part fades, as shares of a joint's usual top speed.
STEEP, LOW = 0.02, 0.15


@dataclass(frozen=True)
class FrictionForm:
    """Tries a step, a rise towards standstill, a bend and a difference between the directions on every joint."""

    identifier: str = "friction-form"
    looks_at: str = "residual against velocity"

    def look(self, evidence: Evidence) -> list[Symptom]:
        """At most one symptom a joint: the form that explains most."""
        found = []
        for joint in evidence.joints:
            forms = features(evidence.motion.dq[:, joint])
            tried = {name: evidence.alone(joint, column[:, None]) for name, column in forms.items()}
            known = {name: effect for name, effect in tried.items() if effect is not None}
            if not known:
                continue
            name = max(known, key=lambda one: known[one].share[joint])
            effect = known[name]
            p_value = min(effect.p_value * len(forms) * len(evidence.joints), 1.0)
            if counts(effect.share[joint], p_value):
                found.append(self._symptom(evidence, joint, name, forms[name], effect, p_value))
        return found

    def _symptom(
        self, evidence: Evidence, joint: int, name: str, column: Float, effect: Effect, p_value: float
    ) -> Symptom:
        share, size = float(effect.share[joint]), float(effect.coefficient[0])
        joint_name = evidence.robot.joint_names[joint]
        has_step = any(term.name in STEP_TERMS for term in evidence.terms)
        seen, advice = _words(name, size, has_step)
        if own := _own_form(evidence, joint):
            advice = f"{own} leaves this: record more of such motion, or compare it with further forms."
        dq = evidence.motion.dq[:, joint]
        return Symptom(
            self.identifier,
            level(evidence, joint, share),
            joint_name,
            f"{joint_name}: friction that the model lacks",
            f"{seen}: {figures(evidence, joint, share, p_value)}; size {abs(size) * np.abs(column).max():.3g} "
            f"{unit(evidence, joint)}.",
            advice,
            share,
            p_value,
            curve=binned_curve(
                dq,
                evidence.error[:, joint],
                effect.fitted[0],
                f"velocity, {angle(evidence, joint)}/s",
                f"residual, {unit(evidence, joint)}",
                seen.lower(),
            ),
        )


def _own_form(evidence: Evidence, joint: int) -> str | None:
    """Name of the form with a shape of its own that the model gives this joint's friction, None for plain friction."""
    for term in evidence.terms:
        if isinstance(term, CurveTerm) and joint in joint_indices(evidence.robot, term.joints):
            return term.name
    return None


def features(dq: Float) -> dict[str, Float]:
    """Forms of friction as functions of velocity (N,), each of size 1 at the usual top speed or at its peak."""
    top = max(float(np.quantile(np.abs(dq), 0.95)), 1e-12)
    x = dq / top
    step = np.tanh(x / STEEP)
    return {
        "step": step,
        "low": step * np.exp(-((x / LOW) ** 2)),
        "bend": x * np.abs(x),
        "sides": np.abs(step),
        "sides-viscous": np.abs(x),
    }


def friction_columns(terms: Terms, robot: RobotModel) -> Bool:
    """Mask (p,) of the columns of joint friction, of whatever form."""
    return np.array(
        [
            isinstance(term, CurveTerm) or term.name in ("viscous", *STEP_TERMS)
            for term in terms
            for _ in term.columns(robot)
        ],
        dtype=np.bool_,
    )


def _words(name: str, size: float, has_step: bool) -> tuple[str, str]:
    choose = 'or let { term = "friction" } choose by held-out blocks'
    if name == "step" and not has_step:
        return "A step where the velocity changes its sign", f"Add the term coulomb, {choose}."
    if name == "step":
        return "A step where the velocity changes its sign", f"Change the width of coulomb, {choose}."
    if name == "low":
        way = "more" if size > 0 else "less"
        return f"{way.capitalize()} friction at low speed than at high", f"Try stribeck, {choose}."
    if name == "bend":
        return "Friction that bends at high speed", f"Try polynomial or sigmoid, {choose}."
    return "Friction that differs between the two directions", f"Try coulomb_sides, {choose}."
