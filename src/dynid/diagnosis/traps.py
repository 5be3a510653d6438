"""Wrong inputs that look like a robot: what a finished fit gives away."""

from __future__ import annotations

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.adopted_effects import report
from dynid.diagnosis.description import Load, common_scale, find_load, heaviness, size_against_description
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.tilt import find_tilt
from dynid.terms.gravity_tilt import WARN, lean_notice

SIZE_WARN, SIZE_DOUBT = 5.0, 30.0
# kg/m^3: what real arms weigh for their reach, see `heaviness`.
USUAL, HEAVY = 10.0, 100.0
MISSES_MUCH = 0.3
# Descriptions know masses to some 15 %: a common factor of 1.4 is beyond that, if it explains the difference and the
# joints agree on it.
SCALE_DOUBT, SCALE_EXPLAINED, SCALE_SPREAD = 1.4, 0.8, 0.25
LOAD_CHANCE, LOAD_EXPLAINED, LOAD_SIGNIFICANCE = 1e-6, 0.5, 2.0
# A load leaves next to nothing of the distance from the description; a factor on all bodies looks like one by half.
LOAD_ALONE = 0.9


def compare_with_description(
    evidence: ResidualAnalysis, diagnostics: Diagnostics, trusted: bool = True
) -> None:
    """Holds identified bodies against the described ones, and the direction of gravity against the declared one.

    trusted: whether accelerations are; what residuals say of gravity is looked for only then.
    Warns of torque of another size, of a base that leans and of a load that the description lacks.
    Claims: unit-suspicion over a factor of 30, torque-scale, tilted-base over one degree.
    """
    load = find_load(evidence)
    scaled = _size(evidence, load, diagnostics)
    if float(np.median(evidence.rms / np.maximum(evidence.torque_rms, 1e-300))) > MISSES_MUCH:
        # Bodies of a model that misses so much stand for what it lacks.
        return
    if trusted:
        _tilt(evidence, diagnostics)
    if load is not None and not scaled:
        _tell_load(load, diagnostics)


def _size(evidence: ResidualAnalysis, load: Load | None, diagnostics: Diagnostics) -> bool:
    """Tells of torque of another size than the described bodies'; whether torque-scale is claimed."""
    sizes = size_against_description(evidence)
    if sizes is None or not np.isfinite(sizes).any():
        heavy = heaviness(evidence)
        if heavy is not None and heavy > HEAVY:
            diagnostics.warn(
                "unit-suspicion",
                f"gravity's torque would need an arm about {heavy / USUAL:.2g} times as heavy as robots of this reach "
                "are: declare unit and side of the effort under [log] (mA, N mm, motor side)",
            )
        return False
    middle = float(np.nanmedian(sizes))
    names = ", ".join(
        f"{name} {size:.3g}"
        for name, size in zip(evidence.robot.joint_names, sizes, strict=True)
        if np.isfinite(size)
    )
    found = f"identified bodies whose torque is {middle:.3g} times that of the described ones ({names})"
    do = "declare unit and side of the effort under [log] (mA, N mm, motor side), or correct the description"
    if not 1 / SIZE_DOUBT < middle < SIZE_DOUBT:
        diagnostics.claim("unit-suspicion", found=found, expected="a ratio near 1", do=do)
    elif not 1 / SIZE_WARN < middle < SIZE_WARN:
        diagnostics.warn("unit-suspicion", f"{found}; {do}")
    else:
        return _scale(evidence, load, diagnostics)
    return False


def _scale(evidence: ResidualAnalysis, load: Load | None, diagnostics: Diagnostics) -> bool:
    scale = common_scale(evidence)
    if scale is None or scale.factor <= 0 or abs(np.log(scale.factor)) < np.log(SCALE_DOUBT):
        return False
    if scale.explained < SCALE_EXPLAINED or scale.spread > SCALE_SPREAD:
        return False
    if load is not None and _sure(load) and load.explained > LOAD_ALONE:
        return False
    diagnostics.claim(
        "torque-scale",
        found=f"gravity torque {scale.factor:.3g} times that of the description on every joint that carries weight "
        f"(one factor explains {100 * scale.explained:.3g} % of the difference)",
        expected="the masses of the description, or a scale of torque that is known",
        do="check torque constants, gear ratios and the unit and side of the effort under [log], or the description's "
        "masses; weigh a known payload (dynid payload) to find out which",
    )
    return True


def _tilt(evidence: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    tilt = find_tilt(evidence)
    if tilt is None or not tilt.certain or tilt.degrees - 2 * tilt.std < WARN:
        return
    report(evidence, lean_notice(evidence.robot, 2 * tilt.std, tilt.gravity, ""), diagnostics)


def _sure(load: Load) -> bool:
    return load.p_value < LOAD_CHANCE and load.mass > LOAD_SIGNIFICANCE * load.std


def _tell_load(load: Load, diagnostics: Diagnostics) -> None:
    if not _sure(load) or load.explained < LOAD_EXPLAINED:
        return
    diagnostics.warn(
        "payload",
        f"body '{load.body}' carries about {load.mass:.2g} +- {2 * load.std:.1g} kg more than its description: a tool "
        "or a load? The identified model holds it. If it is not to, take it off, or add known_payload or a [[fixed]] "
        "part",
    )
