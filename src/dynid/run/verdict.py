"""The verdict: whether the model is good, what is weak, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import (
    CLAIMS,
    LEVELS,
    Diagnostics,
    ExpectedError,
    Finding,
    Level,
    Use,
    Verdict,
    plain,
)
from dynid.base.records import dataclass, listed
from dynid.choose.search import Choice
from dynid.choose.selection import Selection, selection_findings
from dynid.diagnosis.proof import feature_groups
from dynid.estimate.estimator import PRIOR_DECIDES, Estimate
from dynid.estimate.scores import RANGE_MARGIN, Origin, Scores
from dynid.factor.base import BaseMap, Category
from dynid.log.recording_faults import ONE_SIDED
from dynid.robot.model import FLOATING_JOINTS
from dynid.run.explanations import explanation
from dynid.run.result import Identification, Validation
from dynid.terms.exports import Of
from dynid.terms.spring import is_spring_stiffness
from dynid.terms.term import CATALOGUE, Term

# Lower bounds of R² of every joint on held-out data for a good and for a usable model.
GOOD_R2, USABLE_R2 = 0.95, 0.80
# Held-out error over training error above which the model counts as overfitted.
OVERFIT_RATIO = 1.5
# Share of a joint's effort limit, or of the largest joint torque if that is unknown, below which an error is of no
# account: sensors and current loops of drives are no more exact.
LITTLE = 0.01
# Share of its effort limit that the strongest joint of a log uses at least. Drives are chosen for their motion, so a
# higher limit is a placeholder and does not say how exact a sensor is.
LEAST_USED = 0.1
# Torque errors over all joints from which on a model is only usable, and from which on it is not: the usual errors of
# fits to real logs end at the first (docs/is-my-model-good.md), and a model with a torque error of 25 % is no
# better than hand-tuned gravity and friction.
USABLE_ERROR, POOR_ERROR = 0.10, 0.25
TORQUE, SIMULATION, MASSES = "torque feed-forward and observers", "simulation", "link masses"
# Condition number above which intervals are wide, and above which the parameters are hardly identifiable.
CONDITION_HIGH, CONDITION_BAD = 300.0, 1e4
# Share of base parameters that the prior alone may determine; fewest independent values per parameter.
PRIOR_MANY, VALUES_FEW = 0.25, 5.0
# An effect biases the parameters if it explains at least SYSTEMATIC of a joint's residual and more than BENDS of its
# torque. For effects that friction imitates the limit is FRICTION_BENDS, because they bias friction parameters first.
SYSTEMATIC, BENDS, FRICTION_BENDS = 0.5, 0.02, 0.1
MOTION_REPEATS, PARTS_HELD_OUT, SAME_MOTION = "motion-repeats", "parts-held-out", "same-motion"
MOVES_IN_STEP = "moves-in-step"
# Warnings that cap the verdict at usable: the model is known to fit worse than it could, or the log does not determine
# the friction of a joint or the error on other motions. Torque that is rebuilt by a loop that nobody declared misses
# viscous friction by up to kp times the lag, and so does the torque that it is compared with.
SPOILING = (
    "command-loop",
    "large-misfit",
    "constraints-cost",
    "consistency-costs",
    "negative-friction",
    "undeclared-coupling",
    "zero-offset",
    "joint-at-rest",
    MOVES_IN_STEP,
)
# Findings that speak about parameters and not about predicted torque, which held-out and expected errors measure: they
# limit the use of link masses, and as warnings cap the verdict at usable.
OF_LINKS = ("mass-not-said", "description-contradicted", "floating-base", "scale-not-shown")
OF_PARAMETERS = ("from-description", "ill-conditioned")
# Warnings that name the cause of a bias in the whole model and its remedy, or what the log lacks.
CAUSES = ("undeclared-coupling", "floating-base")
# Warnings of the log and findings of the verdict that name the cause of a large error, beside the codes of doubts, the
# effects that residuals show.
NAMING = (
    "undeclared-coupling",
    *("command-delay", "command-loop", "friction-drift", "two-clocks", "velocity-differs", "rows-misplaced"),
    *("saturated", "quantised-effort", "stiffness-disputed", "contact-missed", "drift", "mixed-rates"),
    *("extrapolation", "overfit", "little-data"),
)
# Share of the squared error that joints with a named cause carry at least.
EXPLAINED = 0.5
# Standard deviations below zero from which a negative stiffness is beyond doubt.
FRICTION_SIGNIFICANCE = 4.0
# Causes of a model that cannot be exported that are listed in its finding; and findings named as limits of a use.
FAULTS_SHOWN, NAMED_LIMITS = 3, 3


def check_negative_springs(estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Claim negative-stiffness for every identifiable spring whose stiffness is significantly below zero."""
    alone = estimate.base.categories()
    for index, value, std in zip(estimate.base.independent, estimate.value, estimate.std, strict=True):
        column = estimate.columns[index]
        if (
            not CATALOGUE.get(column.term, Term).traits.passive
            or column.lower < 0
            or alone[index] is not Category.IDENTIFIABLE
        ):
            continue
        if value < -FRICTION_SIGNIFICANCE * std:
            diagnostics.claim(
                "negative-stiffness",
                found=f"{column.name} = {value:.4g} {column.unit}, standard deviation {std:.2g}",
                expected="a value >= 0",
                do="check the geometry of the spring (joint, points, angle and its unit) and the sign of the effort",
            )


# Findings of logs whose torque is rebuilt from commands: by drives whose timing or loop nobody declared.
REBUILT = ("command-delay", "command-loop")


def judge(
    estimate: Estimate,
    structural: BaseMap,
    training: Validation,
    validations: tuple[Validation, ...],
    diagnostics: Diagnostics,
    choices: Sequence[Choice] = (),
    residual_findings: Sequence[Finding] = (),
    selection: Selection | None = None,
    bandwidth: float | None = None,
    faults: Sequence[str] = (),
    masses: Sequence[Finding] = (),
    effort_limit: Float | None = None,
    masses_determined: tuple[int, int] | None = None,
    expected: tuple[ExpectedError, ...] = (),
) -> Verdict:
    """Judge a model by held-out scores, identifiability, model choices, residuals and diagnostics of the log.

    Parameters
    ----------
    estimate : Estimate
        The fitted estimate.
    structural : BaseMap
        Base parameters that any motion could determine.
    training : Validation
        Scores on the fitted data.
    validations : tuple of Validation
        Scores on held-out data.
    diagnostics : Diagnostics
        Collects warnings and notes.
    choices : sequence of Choice
        Comparisons of friction forms.
    residual_findings : sequence of Finding
        Effects visible in the residuals.
    selection : Selection, optional
        How the model was chosen.
    bandwidth : float, Hz, optional
        Highest frequency of torque that was kept; None = unknown.
    faults : sequence of str
        Violations of physical consistency.
    masses : sequence of Finding
        Findings about single masses.
    effort_limit : ndarray, shape (n,), N m (N), optional
        Effort limits of the joints; None or inf = unknown.
    masses_determined : tuple of two int, optional
        Number of links whose mass the log determines, and of all.
    expected : tuple of ExpectedError
        Errors to be expected on other motions.

    Returns
    -------
    Verdict

    """
    findings: list[Finding] = []
    held_out_sets = [v for v in validations if v.scores.origin is not Origin.TRAINING]
    # Levels that the use of the torque is capped at, each with the code of the finding that caps it.
    caps: list[tuple[str, str]] = []
    one_sided = {item.place.joint: item.text for item in diagnostics if item.code == ONE_SIDED}
    of_joints = set(training.scores.joint_names).difference(FLOATING_JOINTS)
    if of_joints and of_joints <= set(training.scores.unmeasured):
        caps.append(("poor", "unscored-joint"))
        _add(
            findings,
            Level.PROBLEM,
            "unscored-joint",
            "No joint torque is measured",
            "Forces of the feet show sums of masses only, and nothing of friction and rotors.",
            "Log the torques of the joints.",
        )
    slight = [_of_no_account(v.scores, effort_limit) for v in held_out_sets]
    headline_scores = min(
        (
            _worst(np.where(small, np.nan, v.scores.judged_r2))
            for v, small in zip(held_out_sets, slight, strict=True)
        ),
        default=float("nan"),
    )
    for validation, small in zip(held_out_sets, slight, strict=True):
        caps += _score_findings(validation, training, one_sided, small, effort_limit, findings)
    if not held_out_sets:
        caps.append(("usable", "not-validated"))
        _add(
            findings,
            Level.WARNING,
            "not-validated",
            "Not validated",
            "No data was held out.",
            "Score the model on a second log: dynid validate.",
        )
    in_step = any(warning.code == MOVES_IN_STEP for warning in diagnostics.warnings)
    _identifiability(estimate, structural, training.scores, in_step, findings)
    thin = _thin_findings(estimate, training, bandwidth)
    findings += thin
    # A model that the data hardly determine must prove on held-out data that it predicts. Few values prove little.
    caps += [
        ("usable" if held_out_sets else "poor", finding.code)
        for finding in thin
        if not held_out_sets or finding.code not in OF_PARAMETERS
    ]
    if faults or any(column.of is Of.BODY for column in estimate.columns):
        findings.append(_export_finding(faults, estimate, held_out_sets))
    findings += masses
    findings += selection_findings(selection)
    findings += choice_findings(choices)
    of_verdict = list(findings)
    for finding in residual_findings:
        if finding.level is Level.WARNING:
            _add(findings, Level.WARNING, finding.code, finding.title, finding.text, finding.advice)
    caps += [("usable", finding.code) for finding in residual_findings if _bends(finding, training.scores)]
    if not estimate.status.ok:
        caps.append(("usable", "not-converged"))
        _add(findings, Level.WARNING, "not-converged", "The fit did not converge", estimate.status.text)
    repeated = [note for note in diagnostics if note.code in (MOTION_REPEATS, SAME_MOTION)]
    for note in repeated:
        _add(findings, Level.NOTE, note.code, "Held-out motion repeats the training motion", note.text)
    for warning in diagnostics.warnings:
        caps += [("usable", warning.code)] if warning.code in SPOILING else []
        _add(findings, Level.WARNING, warning.code, f"Log: {warning.code}", warning.placed)
    for doubt in diagnostics.doubts:
        caps.append(("doubtful", doubt.code))
        _add(findings, Level.DOUBT, doubt.code, f"Doubt: {doubt.code}", doubt.placed)
    unnamed = [index for index, item in enumerate(findings) if item.code == "large-error"]
    if unnamed and not _cause_named(held_out_sets, residual_findings, [*of_verdict, *diagnostics]):
        caps.append(("poor", "large-error"))
        for index in unnamed:
            text = findings[index].text + " No finding names the cause of most of this error."
            findings[index] = replace(findings[index], level=Level.PROBLEM, text=text)
    level = max((level for level, _ in caps), key=LEVELS.index, default="good")
    of_links = [finding.code for finding in findings if finding.code in OF_LINKS]
    of_links += [finding.code for finding in thin if finding.code in OF_PARAMETERS]
    # Simulators reject a physically inconsistent model, however well it predicts.
    if faults or of_links:
        level = max(level, "usable", key=LEVELS.index)
    held_out = "held-out blocks of a motion that repeats" if repeated else "held-out data"
    if any(note.code == SAME_MOTION for note in repeated):
        held_out = "a repetition of the training motion"
    held_out = "held-out blocks of strongly correlated joint motions" if in_step else held_out
    if any(item.code in REBUILT for item in diagnostics):
        held_out += ", compared with torque computed from commands (not measured)"
    causes = [item for item in diagnostics.warnings if level == "poor" and item.code in CAUSES]
    headline = _headline(level, held_out_sets, held_out, headline_scores, diagnostics.doubts or causes)
    if level != "poor":
        headline += _other_motions(expected)
    only_recorded = bool(expected) and not any(item.served for item in expected)
    uses = _uses(caps, of_links, bool(faults), masses_determined, only_recorded)
    return Verdict(level, headline, tuple(findings), diagnostics.accepted, uses, expected)


def _other_motions(expected: Sequence[ExpectedError]) -> str:
    """Sentence on the motions for which the log supports the model, and those for which it does not."""
    shown, others = (
        [f"{100 * item.error:.2g} % {item.motion}" for item in expected if item.served == served]
        for served in (True, False)
    )
    parts = [listed(shown)] if shown else []
    parts += [f"not supported by the log: {listed(others)}"] if others else []
    return f" Expected on other motions: {'; '.join(parts)}." if parts else ""


def _uses(
    caps: Sequence[tuple[str, str]],
    of_links: Sequence[str],
    inconsistent: bool,
    determined: tuple[int, int] | None,
    only_recorded: bool,
) -> tuple[Use, ...]:
    """Ratings per purpose.

    caps: levels that predicted torque is capped at, and codes of their findings.    of_links: codes of findings that
    limit the masses alone.    inconsistent: whether exports contain another model.    determined: number of links
    whose mass the log determines, and of all; None = there are none.    only_recorded: whether the log supports the
    model on no other motion.
    """
    worst_first = sorted(caps, key=lambda cap: -LEVELS.index(cap[0]))
    answer = (
        "no" if caps and worst_first[0][0] == "poor" else "with limits" if caps or only_recorded else "yes"
    )
    limits = ["motions like the recorded ones only"] if only_recorded and answer != "no" else []
    why = ", ".join([*limits, *dict.fromkeys(code for _, code in worst_first)][:NAMED_LIMITS])
    uses = [Use(TORQUE, answer, why)]
    if determined is None:
        return tuple(uses)
    if inconsistent and answer != "no":
        uses.append(Use(SIMULATION, "with limits", "not-exportable"))
    else:
        uses.append(Use(SIMULATION, answer, why))
    known, links = determined
    text = ", ".join([f"the log determines {known} of {links}", *dict.fromkeys(of_links)])
    if answer == "no" or not known:
        uses.append(Use(MASSES, "no", text))
    elif known < links or of_links or answer != "yes":
        uses.append(Use(MASSES, "with limits", text))
    else:
        uses.append(Use(MASSES, "yes"))
    return tuple(uses)


def _judged_error(scores: Scores) -> float:
    """Relative torque error over the joints that are judged."""
    judged = np.isfinite(scores.judged_r2)
    error, torque = (np.sum(scores.count[judged] * x[judged] ** 2) for x in (scores.rms, scores.torque_rms))
    return float(np.sqrt(error / torque)) if torque > 0 else 0.0


def _cause_named(
    held_out_sets: Sequence[Validation], effects: Sequence[Finding], findings: Sequence[Finding]
) -> bool:
    """Whether the joints with a named cause carry most of the squared error of every held-out set.

    `effects` are findings of the residual tests, `findings` come from the verdict and from the log.
    """
    codes = {*CLAIMS, *NAMING}
    causes = (*effects, *(finding for finding in findings if finding.code in codes))
    named = {finding.joint for finding in causes if finding.level is Level.WARNING}
    for scores in (validation.scores for validation in held_out_sets):
        missed = np.where(np.isfinite(scores.judged_r2), scores.count * scores.rms**2, 0.0)
        explained = [not named.isdisjoint(("", name)) for name in scores.joint_names]
        if missed[explained].sum() < EXPLAINED * missed.sum():
            return False
    return True


def _of_no_account(scores: Scores, effort_limit: Float | None) -> Bool:
    """Joints (n,) with a small error relative to their effort limit, or to the largest joint torque without one."""
    largest = np.nanmax(scores.torque_rms, initial=0.0)
    limit = np.full(len(scores.rms), np.nan) if effort_limit is None else np.asarray(effort_limit)
    limit = np.where(np.isfinite(limit), np.minimum(limit, largest / LEAST_USED), largest)
    return np.asarray(scores.rms <= LITTLE * limit)


def _add(findings: list[Finding], level: Level, code: str, title: str, text: str, advice: str = "") -> None:
    findings.append(Finding(level, code, text, title=title, advice=advice))


def _advice_on_supply_current(seen: str | None) -> str:
    """Advice for an effort that may be a supply current; "" if nothing suggests it."""
    if seen is None:
        return ""
    return (
        f"This joint has {seen}: a supply current or an absolute value? Log the motor current with its sign."
    )


def _headline(
    level: str, held_out_sets: list[Validation], held_out: str, worst_r2: float, doubts: Sequence[Finding]
) -> str:
    # The first doubt is closest to the raw log; later ones may follow from it.
    reason = f"{doubts[0].code}: {doubts[0].placed}." if doubts else ""
    further = list(dict.fromkeys(doubt.code for doubt in doubts if doubt.code != doubts[0].code))
    reason += f" Further doubts: {', '.join(further)}." if further else ""
    if not held_out_sets:
        if level == "poor":
            return f"Do not use this model yet. Its training data contain too little information. {reason}".strip()
        if doubts:
            return f"A doubt could invalidate this model. {reason} Its error on other motions is unknown."
        return "The model fits its training data. Its error on other motions is unknown."
    worst = max((v.scores for v in held_out_sets), key=lambda scores: scores.total_relative)
    text = f"Torque error on {held_out}: {100 * worst.total_relative:.2g} %"
    if worst.all_samples is not None:
        whole = worst.all_samples.total_relative
        text += f", {100 * whole:.2g} % including samples left out ({', '.join(worst.left_out)})"
    if worst.exported is not None:
        text += f", {100 * worst.exported:.2g} % for the exported model"
    text += f"; worst joint R² = {worst_r2:.4f}." if np.isfinite(worst_r2) else "."
    return {
        "good": f"This model can be trusted on motions like the recorded ones. {text}",
        "usable": f"This model is usable, with weak spots named below. {text}",
        "doubtful": f"A doubt could invalidate this model. {reason} {text}",
        "poor": f"Do not use this model yet. {reason} {text}"
        if reason
        else f"Do not use this model yet. {text}",
    }[level]


def _score_findings(
    validation: Validation,
    training: Validation,
    one_sided: Mapping[str | None, str],
    small: Bool,
    effort_limit: Float | None,
    findings: list[Finding],
) -> list[tuple[str, str]]:
    """Add the findings about the score of each joint; levels that they cap the use of the torque at, with their codes.

    one_sided: doubtful efforts, by joint.    small: (n,) joints whose error is too small to count.
    effort_limit: (n,) of the joints; None or inf = unknown.
    """
    scores = validation.scores
    caps: list[tuple[str, str]] = []
    unknown = [True] * len(scores.rms) if effort_limit is None else np.isinf(effort_limit)
    state_limit = [
        f" If {rms:.2g} r.m.s. is small compared with its effort limit, add that limit to the robot file."
        if open_
        else ""
        for rms, open_ in zip(scores.rms, unknown, strict=True)
    ]
    error = _judged_error(scores)
    if error > USABLE_ERROR:
        poor = error > POOR_ERROR
        caps.append(("poor" if poor else "usable", "large-error"))
        _add(
            findings,
            Level.PROBLEM if poor else Level.WARNING,
            "large-error",
            f"Torque error of {100 * error:.2g} % on {scores.origin}",
            f"Models of real robots usually have errors below {100 * USABLE_ERROR:.0f} %.",
            "Look for missing effects in the residual plots and among the other findings.",
        )
    silent = [name for name in scores.unmeasured if name not in FLOATING_JOINTS]
    # If no joint has a measured torque, a problem says so.
    if silent and len(silent) < len(set(scores.joint_names).difference(FLOATING_JOINTS)):
        text = "Friction and rotor inertia of a joint cannot be identified without a logged effort that is its torque."
        advice = "Log the effort of these joints if their torque matters."
        _add(findings, Level.NOTE, "unscored-joint", f"{listed(silent)}: effort not measured", text, advice)
    for j, name in enumerate(scores.joint_names):
        r2 = scores.r2[j]
        if name in scores.unmeasured:
            continue
        if name in scores.at_rest:
            text = (
                f"R² = {r2:.3f} on {scores.origin} does not count: at rest, friction or a brake may carry part of the "
                "load, so the motor effort is not the torque of the links."
            )
            advice = "Hold out a motion in which this joint moves if its model matters."
            _add(findings, Level.NOTE, "joint-not-judged", f"{name}: at rest, not judged", text, advice)
            continue
        if name in scores.moved_once:
            caps.append(("usable", "joint-not-judged"))
            text = (
                "It moves in only one part of the log. A fit without that part cannot determine its friction, so its "
                "motion cannot be held out."
            )
            advice = "Move it several times in the log, or hold out another log."
            _add(findings, Level.WARNING, "joint-not-judged", f"{name}: moved once, not judged", text, advice)
            continue
        if not np.isfinite(r2):
            text = "The torque is constant, so R² and relative error have no meaning."
            _add(findings, Level.WARNING, "unscored-joint", f"{name}: no torque variation", text)
            continue
        text = f"relative error {100 * scores.relative[j]:.3g} %, R² = {r2:.3f} on {scores.origin}."
        if small[j]:
            if name in scores.useless or r2 < GOOD_R2:
                reference = "the largest joint torque" if unknown[j] else "its effort limit"
                text += (
                    f" Its r.m.s. error of {scores.rms[j]:.2g} does not count: it is at most {100 * LITTLE:.0f} % of "
                    f"{reference}."
                )
                _add(findings, Level.NOTE, "small-error", f"{name}: negligible error", text)
        elif name in scores.useless:
            caps.append(("poor", "useless-joint"))
            text += " Predicting a constant torque gives a significantly smaller error."
            advice = (
                "Do not use the model of this joint, or inspect its residuals over velocity and position."
            )
            advice = _advice_on_supply_current(one_sided.get(name)) or advice
            title = f"{name}: worse than a constant torque"
            _add(findings, Level.PROBLEM, "useless-joint", title, text, advice + state_limit[j])
        elif r2 < USABLE_R2:
            caps.append(("poor", "poor-joint"))
            advice = "Inspect its residuals over velocity and position; try another friction model."
            advice = _advice_on_supply_current(one_sided.get(name)) or advice
            title = f"{name}: poorly predicted"
            _add(findings, Level.PROBLEM, "poor-joint", title, text, advice + state_limit[j])
        elif r2 < GOOD_R2:
            caps.append(("usable", "weak-joint"))
            advice = (
                "Look for missing effects in its residual plot: friction at low speed, elasticity or a cable."
            )
            _add(findings, Level.WARNING, "weak-joint", f"{name}: weakly predicted", text, advice)
    if scores.beyond_text:
        _add(
            findings,
            Level.WARNING,
            "extrapolation",
            f"Motion outside the training range on {scores.origin}",
            f"Beyond the range by more than {100 * RANGE_MARGIN:.0f} % of its width: {scores.beyond_text}.",
            "The model extrapolates there. Train on motion as far and as fast as the intended use.",
        )
    if (
        scores.total_relative > OVERFIT_RATIO * training.scores.total_relative
        and scores.total_relative > 0.03
    ):
        caps.append(("usable", "overfit"))
        _add(
            findings,
            Level.WARNING,
            "overfit",
            f"Larger error on {scores.origin} than in training",
            f"{100 * scores.total_relative:.3g} %, in training {100 * training.scores.total_relative:.3g} %.",
            "Record a longer or richer motion, or use a prior (method = 'ridge').",
        )
    return caps


def _thin_findings(estimate: Estimate, training: Validation, bandwidth: float | None) -> list[Finding]:
    """Signs that the log hardly determines the parameters, however well it is fitted."""
    base, findings = estimate.base, list[Finding]()
    more = "Record a longer motion in which every joint moves through its range; dynid excite plans one."
    if base.condition > CONDITION_BAD:
        text = "Relative torque errors may be amplified by up to this factor in some parameters."
        title = f"Ill-conditioned: condition number {base.condition:.2g}"
        _add(findings, Level.WARNING, "ill-conditioned", title, text, more)
    borrowed = _borrowed(estimate)
    if borrowed > PRIOR_MANY * base.rank:
        title = f"{_by_prior(estimate)} of {base.rank} base parameters are set mainly by the prior"
        _add(
            findings,
            Level.WARNING,
            "from-description",
            title,
            "The log hardly determines them: the motion excites them too little, or the model error is too large.",
            more,
        )
    r = training.residuals
    if r is not None and bandwidth is not None:
        seconds = len(r.t) / r.rate
        # Nyquist: two independent values a period of the highest frequency kept.
        values = 2.0 * bandwidth * seconds * len(r.joint_names) / base.rank
        if values < VALUES_FEW:
            text = f"{seconds:.2g} s of motion below {bandwidth:.2g} Hz give {values:.2g} independent torques for each "
            _add(
                findings,
                Level.WARNING,
                "little-data",
                "Little data",
                f"{text}of {base.rank} parameters.",
                more,
            )
    return findings


def _export_finding(
    faults: Sequence[str], estimate: Estimate, held_out_sets: Sequence[Validation]
) -> Finding:
    if not faults:
        sprung = any(
            is_spring_stiffness(column) and value > 0
            for column, value in zip(estimate.columns, estimate.parameters, strict=True)
        )
        text = "All links are physically consistent: URDF, MJCF, SDF and C contain exactly these links"
        text += ". Joint springs are written to MJCF, SDF and C, but not to URDF." if sprung else "."
        return Finding(Level.GOOD, "exportable", text, title="Can be exported")
    shown = "; ".join(faults[:FAULTS_SHOWN])
    shown += f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
    borrowed = _borrowed(estimate)
    cause = "effects missing in the model have biased the links"
    if borrowed or not estimate.base.condition <= CONDITION_HIGH:
        cause = f"the log hardly determines these links (condition number {estimate.base.condition:.3g}), or {cause}"
    exported_errors = [
        f" (torque error on {v.scores.origin}: {100 * v.scores.exported:.3g} % instead of "
        f"{100 * v.scores.total_relative:.3g} %)"
        for v in held_out_sets
        if v.scores.exported is not None
    ]
    return Finding(
        Level.WARNING,
        "not-exportable",
        f"{shown}. Likely cause: {cause}. URDF, MJCF and SDF contain the best-fitting physically consistent links"
        f"{''.join(exported_errors[:1])}; dynid export lists the torque difference per joint.",
        title="Not physically consistent: exports contain a different model",
        advice="Look for effects missing in the model or errors in the robot file.",
    )


def _by_prior(estimate: Estimate) -> int:
    # As the tables of parameters count them.
    return int(np.sum(estimate.prior_share > PRIOR_DECIDES))


def _borrowed(estimate: Estimate) -> int:
    # A strong prior may dominate values that the log alone would determine, which is no fault of the log.
    return int(np.sum(estimate.weakly_informed > PRIOR_DECIDES))


def _bends(finding: Finding, scores: Scores) -> bool:
    """Whether an effect left in the residuals is large enough to have biased the parameters."""
    if finding.evidence.masked or finding.level != Level.WARNING or finding.evidence.share < SYSTEMATIC:
        return False
    names = scores.joint_names
    error = (
        scores.relative[names.index(finding.joint)] if finding.joint in names else np.nanmax(scores.relative)
    )
    like_friction = {
        group.identifier
        for group in feature_groups()
        if group.friction or (group.imitated_by is not None and group.imitated_by.friction)
    }
    most = FRICTION_BENDS if finding.code in like_friction else BENDS
    return bool(np.sqrt(finding.evidence.share) * error > most)


def _identifiability(
    estimate: Estimate, structural: BaseMap, scores: Scores, in_step: bool, findings: list[Finding]
) -> None:
    base = estimate.base
    silent = [j for j, name in enumerate(scores.joint_names) if name in scores.unmeasured]
    lost = [
        k
        for k in sorted(set(structural.independent.tolist()) - set(base.independent.tolist()))
        if not (estimate.columns[k].of is Of.JOINT and estimate.columns[k].owner in silent)
    ]
    if base.rank < structural.rank and lost:
        names = ", ".join(estimate.columns[j].name for j in lost)
        _add(
            findings,
            Level.WARNING,
            "not-excited",
            f"{len(lost)} of {structural.rank} base parameters are not excited",
            f"The motion does not separate {names} from the other parameters.",
            "Move every joint through its range, several at a time, with changing acceleration.",
        )
    elif base.condition <= CONDITION_BAD:
        title, count = f"All {base.rank} base parameters are excited", _by_prior(estimate)
        if count:
            verb = "is" if count == 1 else "are"
            text = f"But {count} of them {verb} set mainly by the prior (robot file)."
            _add(findings, Level.NOTE, "from-description", title, text)
        else:
            text = "" if in_step else "The motion has information on each of them."
            _add(findings, Level.GOOD, "excited", title, text)
    if CONDITION_HIGH < base.condition <= CONDITION_BAD:
        _add(
            findings,
            Level.WARNING,
            "ill-conditioned",
            f"Condition number {base.condition:.3g}",
            "Some parameters are only weakly identifiable and have wide intervals.",
            "Record a richer motion: dynid excite plans one.",
        )


def choice_findings(choices: Sequence[Choice]) -> list[Finding]:
    """Findings about the forms of friction that were compared on held-out blocks: which were chosen and which not."""
    findings: list[Finding] = []
    for subject in dict.fromkeys(choice.subject for choice in choices):
        of_subject = [choice for choice in choices if choice.subject == subject]
        kept = [c for c in of_subject if c.chosen == c.candidates[0].name]
        better = [c for c in of_subject if c not in kept]
        simple = ", ".join(c.joint for c in kept)
        if better:
            text = "; ".join(_gain_text(c) for c in better) + "."
            text += f" No gain on {simple}." if kept else ""
            title = (
                "Friction chosen per joint" if subject == "friction" else f"{subject} improves the prediction"
            )
            _add(
                findings,
                Level.GOOD,
                "friction-chosen",
                title + f" on {len(better)} of {len(of_subject)} joints",
                text,
            )
        elif subject == "friction":
            text = "No other form reduces the held-out error by more than one standard error."
            _add(findings, Level.GOOD, "friction-chosen", "Viscous and Coulomb friction suffice", text)
        else:
            text = f"On held-out blocks it is not better than '{kept[0].chosen}' by more than one standard error."
            _add(
                findings,
                Level.WARNING,
                "friction-chosen",
                f"{subject} does not improve the prediction",
                text,
                "Leave it out.",
            )
    return findings


def _gain_text(choice: Choice) -> str:
    winner = choice.winner
    return f"{choice.joint} {winner.name} (held-out mean square error {100 * winner.gain:.2g} % lower)"


def _worst(values: Float) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.min()) if len(finite) else float("nan")


# What to do after an identification, with the commands that do it.

# Largest number of findings whose advice is listed as a next step; a longer list would hide the commands.
_STEPS_OF_FINDINGS = 3
_UNSOLVED = (Level.PROBLEM, Level.WARNING)


@dataclass(frozen=True)
class Step:
    """One recommended step in words, with the commands for it (possibly none)."""

    text: str
    commands: tuple[str, ...] = ()


def next_steps(identification: Identification) -> tuple[Step, ...]:
    """Recommended next steps, most urgent first; commands are for a terminal in the folder of the run."""
    return (
        *_settle_doubts(identification),
        *_declare_causes(identification),
        *_fix_findings(identification),
        *_record(identification),
        *_validate(identification),
        *_use(identification),
    )


def _fix_findings(identification: Identification) -> Iterable[Step]:
    findings = [
        f for level in _UNSOLVED for f in identification.verdict.findings if f.level == level and f.advice
    ]
    # Findings that differ only in the joint have the same advice.
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        kinds.setdefault((finding.code, finding.title.rpartition(": ")[2]), []).append(finding)
    steps = []
    for (_, title), members in list(kinds.items())[:_STEPS_OF_FINDINGS]:
        joints = [finding.title.rpartition(": ")[0] for finding in members]
        named = f"{', '.join(dict.fromkeys(joints))}: {title}" if joints[0] else members[0].title
        steps.append(Step(f"{named}: {members[0].advice}"))
    return steps


def _settle_doubts(identification: Identification) -> Iterable[Step]:
    # A doubt affects all joints, so it comes before errors of single joints.
    for code in dict.fromkeys(doubt.code for doubt in identification.diagnostics.doubts):
        known = explanation(code)
        if known is not None:
            yield Step(f"{code}: {plain(known.do).replace('`', '')}")
        # A run from Python names no robot file: then no command can be given.
        again = _again(identification.files, "--accept", code)
        text = f"If your robot is right about '{code}', accept it. The verdict then lists it as accepted."
        yield Step(text, again)


def _declare_causes(identification: Identification) -> Iterable[Step]:
    # An effect missing in the whole model causes errors of single joints.
    for warning in identification.diagnostics.warnings:
        if warning.code in CAUSES:
            yield Step(f"{warning.code}: {warning.text}")


def _again(files: Mapping[str, object], *further: str) -> tuple[str, ...]:
    robot, logs, held_out = files.get("robot"), files.get("logs"), files.get("validate")
    if not isinstance(robot, str) or not isinstance(logs, list):
        return ()
    words = ["dynid", "identify", robot, *map(str, logs)]
    if files.get("config"):
        words += ["--config", str(files["config"])]
    for log in held_out if isinstance(held_out, list) else ():
        words += ["--validate", str(log)]
    return (shlex.join([*words, *further, "--out", "../again"]),)


def _record(identification: Identification) -> Iterable[Step]:
    base, robot = identification.estimate.base, identification.files.get("robot")
    if identification.robot.floats:  # its motion is not planned; `floating-base` names what to record
        return ()
    if base.rank >= identification.structural.rank and base.condition <= CONDITION_HIGH:
        return ()
    words = ("dynid", "excite", str(robot), "--after", ".", "--out", "../next-motion")
    return (
        Step(
            "Record a motion that determines the missing parameters. The plan uses the joint limits of the robot file.",
            (shlex.join(words),) if isinstance(robot, str) else (),
        ),
    )


def _validate(identification: Identification) -> Iterable[Step]:
    known = "another log" if identification.validations else "a held-out log: no data was held out so far"
    return (Step(f"Score the model on {known}.", ("dynid validate . OTHER_LOG",)),)


def _use(identification: Identification) -> Iterable[Step]:
    if not any(column.of is Of.BODY for column in identification.estimate.columns):
        return
    yield Step(
        "Export the model for simulation, planning or control. Meshes and other parts of a URDF or MJCF are kept.",
        tuple(f"dynid export . --to model.{suffix}" for suffix in ("urdf", "xml", "c")),
    )
    if identification.robot.floats:  # nothing replays the forces of the ground
        return
    logs = identification.files.get("validate") or identification.files.get("logs")
    if isinstance(logs, list) and logs:
        yield Step(
            "Compare the exported robot with the real one in MuJoCo and Pinocchio.",
            (shlex.join(["dynid", "replay", ".", *map(str, logs)]),),
        )
    yield Step(
        "Use the model in Python: torque, mass matrix, forward dynamics, Jacobians, external torque.",
        ("python -i -c \"import dynid; model = dynid.load('.').model; print(model)\"",),
    )
