"""What a model absorbs has to be told all the same: faults of the log that a term of the model explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.diagnosis.lag import WARN_SAMPLES, lag_in_words, tell_lag
from dynid.diagnosis.residual_analysis import Evidence
from dynid.diagnosis.traps import TILT_WARN, tell_lean
from dynid.terms.drift import SECONDS_AN_HOUR
from dynid.terms.term import Column

# Share by which a drive's torque may be off, and share of a joint's torque by which its offset may change.
GAIN_WARN, DRIFT_WARN = 0.03, 0.01


def tell_absorbed(evidence: Evidence, source_rate: float, diagnostics: Diagnostics) -> None:
    """Warns of a delay, a tilt, drive gains and drift that the model holds, where they matter.

    They do over one sample of the log, half a degree, 3 %, and 1 % of a joint's torque, 95 % intervals included.
    source_rate: of the log, Hz.
    Claims: a delay of all joints over five samples, a tilt over one degree, and a gain of the other sign.
    """
    _delay(evidence, source_rate, diagnostics)
    _tilt(evidence, diagnostics)
    _gain(evidence, diagnostics)
    _drift(evidence, diagnostics)


def _values(evidence: Evidence, term: str, prefix: str) -> Iterator[tuple[Column, float, float]]:
    """Columns, values and 95 % half widths of a term's base parameters."""
    estimate = evidence.estimate
    half = estimate.half_width()
    for k, i in enumerate(estimate.base.independent):
        column = estimate.columns[i]
        if column.term == term and column.name.startswith(prefix):
            yield column, float(estimate.value[k]), float(half[k])


def _delay(evidence: Evidence, rate: float, diagnostics: Diagnostics) -> None:
    for column, value, half in _values(evidence, "torque_delay", "delay"):
        if (abs(value) - half) * rate <= WARN_SAMPLES:
            continue
        if column.name == "delay":
            tell_lag(value, half, rate, "; the model contains it", diagnostics)
            continue
        diagnostics.warn(
            "torque-lag",
            f"{lag_in_words(value, half, rate)} on '{evidence.robot.joint_names[column.owner]}'; the model contains "
            "it: align this joint's effort in time (its drive's filter, another bus)",
        )


def _tilt(evidence: Evidence, diagnostics: Diagnostics) -> None:
    found = list(_values(evidence, "gravity_tilt", "tilt"))
    if not found:
        return
    degrees = float(np.degrees(np.linalg.norm([value for _, value, _ in found])))
    half = float(np.degrees(np.linalg.norm([half for _, _, half in found])))
    if degrees - half <= TILT_WARN:
        return
    turn = np.zeros(3)
    for column, value, _ in found:
        turn["xyz".index(column.name[-1])] = value
    leaning = evidence.robot.gravity + np.cross(turn, evidence.robot.gravity)
    tell_lean(degrees, half, leaning, ", which the model contains", diagnostics)


def _gain(evidence: Evidence, diagnostics: Diagnostics) -> None:
    # Bodies that nobody has described may be the ones that are wrong.
    described = bool(np.isfinite(evidence.robot.inertia_prior).all())
    for column, value, half in _values(evidence, "gain_error", "dg"):
        name = evidence.robot.joint_names[column.owner]
        if value + half < -1.0:
            diagnostics.claim(
                "torque-sign",
                found=f"effort that is {1.0 + value:.3g} +- {half:.2g} times what the other joints tell of the bodies",
                expected="effort that drives the motion",
                do=f"set effort.sign = {{ {name} = -1 }} under [log]",
                place=Place(joint=name),
            )
            continue
        if abs(value) - half <= GAIN_WARN:
            continue
        tell = diagnostics.warn if described else diagnostics.note
        tell(
            "drive-gain",
            f"torque of '{name}' that is {100 * abs(value):.3g} +- {100 * half:.2g} % too "
            f"{'large' if value > 0 else 'small'} for the bodies that the other joints' torque "
            "tells of; the model contains it: check this joint's torque constant, gear ratio and effort unit",
        )


def _drift(evidence: Evidence, diagnostics: Diagnostics) -> None:
    hours = _seconds(evidence.residuals.t) / SECONDS_AN_HOUR
    for column, value, half in _values(evidence, "drift", "fd"):
        torque = evidence.torque_rms[column.owner]
        if (abs(value) - half) * hours <= DRIFT_WARN * torque:
            continue
        unit = "N" if evidence.robot.prismatic[column.owner] else "N m"
        diagnostics.warn(
            "torque-drift",
            f"offset of '{evidence.robot.joint_names[column.owner]}' that changes by {value * hours:.3g} +- "
            f"{half * hours:.1g} {unit} over the log ({100 * abs(value) * hours / torque:.2g} % of its torque); the "
            "model contains it: warm up the robot and its sensors first, or identify in parts",
        )


def _seconds(t: Float) -> float:
    return float(np.ptp(t)) if len(t) else 0.0
