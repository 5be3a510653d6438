"""The verdict in plain words: is this model good, what is weak, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import LEVELS, Diagnostic, Diagnostics, Finding, Verdict, plain
from dynid.base.records import dataclass
from dynid.choose.consistency_cause import NAMED
from dynid.choose.search import Choice
from dynid.choose.selection import Selection, selection_findings
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.proof import feature_groups
from dynid.estimate.estimator import PRIOR_DECIDES, Estimate
from dynid.estimate.physical import LIKELY_CAUSE
from dynid.estimate.scores import RANGE_MARGIN, Origin, Scores
from dynid.factor.base import BaseMap, Category
from dynid.log.recording_faults import ONE_SIDED
from dynid.run.explanations import explanation
from dynid.run.result import Identification, Validation
from dynid.terms.exports import Of
from dynid.terms.spring import is_spring_stiffness
from dynid.terms.term import CATALOGUE, Term

GOOD_R2, USABLE_R2 = 0.95, 0.80
OVERFIT_RATIO = 1.5
# Of the greatest joint's torque: sensors' noise and drift are about as large on every joint, and lie below this share.
LITTLE = 0.01
CONDITION_HIGH, CONDITION_BAD = 300.0, 1e4
# Of the base parameters, the share that may come from the description alone; and independent values a parameter.
PRIOR_MANY, VALUES_FEW = 0.25, 5.0
# An effect that makes up most of what a joint misses, and so much of its torque, has bent the parameters; another form
# of friction bends those of friction first.
SYSTEMATIC, BENDS, FRICTION_BENDS = 0.5, 0.02, 0.1
MOTION_REPEATS, PARTS_HELD_OUT, SAME_MOTION = "motion-repeats", "parts-held-out", "same-motion"
MOVES_IN_STEP = "moves-in-step"
# Warnings about the model itself: it is known to fit worse than it could, or knows nothing of a joint's friction, or of
# other motion.
SPOILING = (
    "large-misfit",
    "constraints-cost",
    "negative-friction",
    "undeclared-coupling",
    "zero-offset",
    "joint-at-rest",
    MOVES_IN_STEP,
)
# Those of them that name what bends the whole model, and how to mend it.
CAUSES = ("undeclared-coupling",)
FRICTION_SIGNIFICANCE = 4.0
FAULTS_SHOWN = 3


def check_negative_springs(estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Claims negative-stiffness of a spring that can be determined and would push when drawn, beyond doubt."""
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
                do="check the spring's geometry (joint, points, angle and its unit) and the sign of the effort",
            )


def judge(
    estimate: Estimate,
    structural: BaseMap,
    training: Validation,
    validations: tuple[Validation, ...],
    diagnostics: Diagnostics,
    choices: Sequence[Choice] = (),
    residual_findings: Sequence[ResidualFinding] = (),
    selection: Selection | None = None,
    bandwidth: float | None = None,
    faults: Sequence[str] = (),
    masses: Sequence[Finding] = (),
) -> Verdict:
    """Verdict from held-out scores, identifiability, choices of the model, residuals and what the log checks found.

    bandwidth: Hz, up to which torque was kept; None = unknown.    faults: what no real robot has of the estimate.
    masses: what is to be said of single ones; a warning caps the verdict at usable.
    """
    findings: list[Finding] = []
    unseen = [v for v in validations if v.scores.origin is not Origin.TRAINING]
    level = "good"
    one_sided = {one.place.joint: one.text for one in diagnostics if one.identifier == ONE_SIDED}
    headline_scores = min((_worst(v.scores.judged_r2) for v in unseen), default=float("nan"))
    for validation in unseen:
        level = _worse(level, _score_findings(validation, training, one_sided, findings))
    if not unseen:
        level = "usable"
        findings.append(
            Finding(
                "warning",
                "Not validated",
                "No data was held out.",
                "Pass a second log to dynid validate.",
                "not-validated",
            )
        )
    in_step = any(warning.identifier == MOVES_IN_STEP for warning in diagnostics.warnings)
    _identifiability(estimate, structural, training.scores, in_step, findings)
    thin = _thin_findings(estimate, training, bandwidth)
    if thin:
        # What the data hardly determine has to be shown to predict.
        level = _worse(level, "usable" if unseen else "poor")
        findings += thin
    if faults:
        # What simulators refuse is no model to be trusted, whatever it predicts.
        level = _worse(level, "usable")
    if faults or any(column.of is Of.BODY for column in estimate.columns):
        findings.append(_export_finding(faults, estimate, unseen))
    findings += masses
    if any(finding.level == "warning" for finding in masses):
        level = _worse(level, "usable")
    findings += selection_findings(selection)
    findings += choice_findings(choices)
    findings += [
        Finding("warning", s.title, s.text, s.advice, s.identifier)
        for s in residual_findings
        if s.level == "warning"
    ]
    if any(_bends(finding, training.scores) for finding in residual_findings):
        level = _worse(level, "usable")
    if not estimate.status.ok:
        level = _worse(level, "usable")
        findings.append(
            Finding("warning", "The fit did not converge", estimate.status.text, code="not-converged")
        )
    repeated = [note for note in diagnostics if note.identifier in (MOTION_REPEATS, SAME_MOTION)]
    findings += [
        Finding("note", "Held out, but not unseen", note.text, code=note.identifier) for note in repeated
    ]
    for warning in diagnostics.warnings:
        level = _worse(level, "usable" if warning.identifier in SPOILING else "good")
        if warning.identifier == LIKELY_CAUSE:
            title, text = "What keeps the bodies from being physically consistent", _placed(warning)
            findings.append(Finding("warning", title, text, code=warning.identifier))
        else:
            title = f"Log: {warning.identifier}"
            findings.append(Finding("warning", title, _placed(warning), code=warning.identifier))
    for doubt in diagnostics.doubts:
        level = _worse(level, "doubtful")
        findings.append(Finding("doubt", f"Doubt: {doubt.identifier}", _placed(doubt), code=doubt.identifier))
    held_out = "blocks held out of a motion that repeats" if repeated else "data it has not seen"
    if any(note.identifier == SAME_MOTION for note in repeated):
        held_out = "a repetition of the motion that it was fitted on"
    held_out = "blocks held out of joints that move in step" if in_step else held_out
    causes = [one for one in diagnostics.warnings if level == "poor" and one.identifier in CAUSES]
    headline = _headline(level, unseen, held_out, headline_scores, diagnostics.doubts or causes)
    return Verdict(level, headline, tuple(findings), diagnostics.accepted)


def _of_supply(seen: str | None) -> str:
    """What is to be done about an effort that may be a supply current; "" = nothing is odd about it."""
    if seen is None:
        return ""
    return (
        f"It has {seen}: a supply current, or the size of one? Log the current of the motor, with its sign."
    )


def _placed(item: Diagnostic) -> str:
    where = str(item.place)
    return f"{where}: {item.text}" if where else item.text


def _headline(
    level: str, unseen: list[Validation], held_out: str, worst_r2: float, doubts: Sequence[Diagnostic]
) -> str:
    # What was claimed first was seen nearest to the log: what is claimed after it may follow from it.
    reason = f"{doubts[0].identifier}: {_placed(doubts[0])}." if doubts else ""
    further = list(dict.fromkeys(one.identifier for one in doubts if one.identifier != doubts[0].identifier))
    reason += f" Doubts besides: {', '.join(further)}." if further else ""
    if not unseen:
        if level == "poor":
            return f"Do not use this model yet. It fits its training data, which hardly determine it. {reason}".strip()
        if doubts:
            return f"One claim could overturn this model. {reason} Nothing is known about other motions."
        return "The model fits its training data; nothing is known about other motions."
    worst = max((v.scores for v in unseen), key=lambda scores: scores.total_relative)
    text = f"On {held_out} the model misses {100 * worst.total_relative:.2g} % of the torque"
    if worst.all_samples is not None:
        text += f", {100 * worst.all_samples.total_relative:.2g} % with the samples that this leaves out"
    if worst.exported is not None:
        text += f", {100 * worst.exported:.2g} % as it is exported"
    text += f" (worst joint R² = {worst_r2:.4f})."
    return {
        "good": f"This model can be trusted on motions like the ones recorded. {text}",
        "usable": f"This model is usable, with weak spots named below. {text}",
        "doubtful": f"One claim could overturn this model. {reason} {text}",
        "poor": f"Do not use this model yet. {reason} {text}"
        if reason
        else f"Do not use this model yet. {text}",
    }[level]


def _score_findings(
    validation: Validation,
    training: Validation,
    one_sided: Mapping[str | None, str],
    findings: list[Finding],
) -> str:
    """Adds what is to be said of each joint's score.    one_sided: what is odd about efforts, by joint."""
    scores = validation.scores
    level = "good"
    for j, name in enumerate(scores.joint_names):
        r2 = scores.r2[j]
        if name in scores.unmeasured:
            text = "Its effort was not logged, or is not its torque: friction and rotor inertia are not the data's."
            advice = "Log its effort, if its torque matters."
            findings.append(Finding("note", f"{name}: effort not measured", text, advice, "unscored-joint"))
            continue
        if name in scores.at_rest:
            text = (
                f"R² = {r2:.3f} on {scores.origin} says nothing of the model: friction at rest or a brake may hold any "
                "part of the load, and what the motor gives besides is no property of the bodies."
            )
            advice = "Hold out a motion in which this joint moves, if its model matters."
            findings.append(Finding("note", f"{name}: at rest, not judged", text, advice, "joint-not-judged"))
            continue
        if name in scores.moved_once:
            level = _worse(level, "usable")
            text = (
                "It moves in one part of the log alone: a fit to the others knows nothing of its friction, so that its "
                "motion is not held out."
            )
            advice = "Move it at several times, or hold out another log."
            findings.append(
                Finding("warning", f"{name}: moved once, not judged", text, advice, "joint-not-judged")
            )
            continue
        if not np.isfinite(r2):
            text = "Its score has no meaning."
            findings.append(Finding("warning", f"{name}: no torque variation", text, code="unscored-joint"))
            continue
        text = f"relative error {100 * scores.relative[j]:.3g} %, R² = {r2:.3f} on {scores.origin}."
        if name in scores.useless:
            level = "poor"
            text += " A constant torque misses less, block by block beyond chance."
            advice = "Leave this joint's model out, or look at its residuals against velocity and position."
            advice = _of_supply(one_sided.get(name)) or advice
            findings.append(
                Finding("problem", f"{name}: worse than a constant torque", text, advice, "useless-joint")
            )
        elif r2 < USABLE_R2:
            level = "poor"
            largest = float(np.nanmax(scores.torque_rms))
            advice = "Look at its residuals against velocity and position; try another friction model."
            if scores.rms[j] < LITTLE * largest:
                advice = (
                    f"What it misses, {scores.rms[j]:.2g} r.m.s., is {100 * scores.rms[j] / largest:.2g} % of the "
                    "greatest joint's torque: noise and drift of its sensor may be most of its torque, which no "
                    "other friction mends. Judge it by what it misses, or move it faster or with a load."
                )
            advice = _of_supply(one_sided.get(name)) or advice
            findings.append(Finding("problem", f"{name}: poorly predicted", text, advice, "poor-joint"))
        elif r2 < GOOD_R2:
            level = _worse(level, "usable")
            advice = "Its residual plot shows what is missing: friction at low speed, elasticity or a cable."
            findings.append(Finding("warning", f"{name}: weakly predicted", text, advice, "weak-joint"))
    if scores.beyond_text:
        findings.append(
            Finding(
                "warning",
                f"Scored outside the training's range on {scores.origin}",
                f"Outside it, by more than {100 * RANGE_MARGIN:.0f} % of its width: {scores.beyond_text}.",
                "There the model extrapolates; train on motion as far and as fast as the model is for.",
                "extrapolation",
            )
        )
    if (
        scores.total_relative > OVERFIT_RATIO * training.scores.total_relative
        and scores.total_relative > 0.03
    ):
        level = _worse(level, "usable")
        findings.append(
            Finding(
                "warning",
                f"Worse on {scores.origin} than in training",
                f"{100 * scores.total_relative:.3g} % against {100 * training.scores.total_relative:.3g} %.",
                "Record a longer or richer motion, or draw the fit towards the prior (method = 'ridge').",
                "overfit",
            )
        )
    return level


def _thin_findings(estimate: Estimate, training: Validation, bandwidth: float | None) -> list[Finding]:
    """Signs that the log says little of the parameters, whatever it fits."""
    base, found = estimate.base, []
    more = "Record a longer motion in which every joint moves through its range; dynid excite plans one."
    if base.condition > CONDITION_BAD:
        text = "Errors of the torque come out of the fit up to so many times as large in some parameters."
        title = f"Hardly identifiable: condition {base.condition:.2g}"
        found.append(Finding("warning", title, text, more, "ill-conditioned"))
    borrowed = _borrowed(estimate)
    if borrowed > PRIOR_MANY * base.rank:
        title = f"{borrowed} of {base.rank} base parameters come from the description"
        found.append(
            Finding(
                "warning",
                title,
                "It says more of them than the log, for want of motion or since the model misses too much.",
                more,
                "from-description",
            )
        )
    r = training.residuals
    if r is not None and bandwidth is not None:
        seconds = len(r.t) / r.rate
        # Nyquist: two independent values a period of the highest frequency kept.
        values = 2.0 * bandwidth * seconds * len(r.joint_names) / base.rank
        if values < VALUES_FEW:
            text = f"{seconds:.2g} s of motion below {bandwidth:.2g} Hz hold {values:.2g} independent torques for each "
            found.append(
                Finding("warning", "Little data", f"{text}of {base.rank} parameters.", more, "little-data")
            )
    return found


def _export_finding(faults: Sequence[str], estimate: Estimate, unseen: Sequence[Validation]) -> Finding:
    if not faults:
        sprung = any(
            is_spring_stiffness(column) and value > 0
            for column, value in zip(estimate.columns, estimate.parameters, strict=True)
        )
        return Finding(
            "good",
            "Can be exported",
            "All bodies are physically consistent: URDF, MJCF, SDF and C hold these very bodies"
            + ("; URDF has no place for springs, MJCF, SDF and C have." if sprung else "."),
            code="exportable",
        )
    shown = "; ".join(faults[:FAULTS_SHOWN])
    shown += f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
    borrowed = _borrowed(estimate)
    cause = "effects that the model lacks have bent the bodies"
    if borrowed or not estimate.base.condition <= CONDITION_HIGH:
        cause = (
            f"the log hardly determines these bodies (condition {estimate.base.condition:.3g}), or {cause}"
        )
    missed = [
        f", which miss {100 * v.scores.exported:.3g} % of the torque on {v.scores.origin}, not "
        f"{100 * v.scores.total_relative:.3g} %"
        for v in unseen
        if v.scores.exported is not None
    ]
    return Finding(
        "warning",
        "Can be exported, but as another model: this one is not physically consistent",
        f"{shown}. Likely, {cause}. URDF, MJCF and SDF hold the physically consistent bodies that the data like best"
        f"{''.join(missed[:1])}; dynid export says by how much their torque differs, joint by joint.",
        "Look for what the model lacks or the description has wrong.",
        "not-exportable",
    )


def _borrowed(estimate: Estimate) -> int:
    # A prior that unseen blocks chose to be strong may decide what the log determines well enough by itself.
    return int(np.sum(estimate.weakly_informed > PRIOR_DECIDES))


def _bends(finding: ResidualFinding, scores: Scores) -> bool:
    """Whether an effect that the fit still contains is large enough to have bent the parameters."""
    if finding.masked or finding.level != "warning" or finding.share < SYSTEMATIC:
        return False
    names = scores.joint_names
    missed = (
        scores.relative[names.index(finding.joint)] if finding.joint in names else np.nanmax(scores.relative)
    )
    like_friction = {
        one.identifier
        for one in feature_groups()
        if one.friction or (one.imitated_by is not None and one.imitated_by.friction)
    }
    most = FRICTION_BENDS if finding.identifier in like_friction else BENDS
    return bool(np.sqrt(finding.share) * missed > most)


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
        findings.append(
            Finding(
                "warning",
                f"{len(lost)} of {structural.rank} base parameters were not excited",
                f"The motion does not separate {names} from the others.",
                "Move every joint through its range, several at a time, with changing acceleration.",
                "not-excited",
            )
        )
    elif base.condition <= CONDITION_BAD:
        title, borrowed = f"All {base.rank} base parameters were excited", _borrowed(estimate)
        if borrowed:
            hang, them = ("hangs", "it") if borrowed == 1 else ("hang", "them")
            text = (
                f"Yet {borrowed} of them {hang} on the description, which says more of {them} than the log."
            )
            findings.append(Finding("note", title, text, code="from-description"))
        else:
            text = "" if in_step else "The motion informs every direction."
            findings.append(Finding("good", title, text, code="excited"))
    if CONDITION_HIGH < base.condition <= CONDITION_BAD:
        findings.append(
            Finding(
                "warning",
                f"Condition number {base.condition:.3g}",
                "Some parameters are only weakly identifiable; their intervals are wide.",
                "Design a richer motion.",
                "ill-conditioned",
            )
        )


def choice_findings(choices: Sequence[Choice]) -> list[Finding]:
    """What each comparison on held-out blocks said: which forms of friction earned their place, and which did not."""
    findings = []
    for subject in dict.fromkeys(choice.subject for choice in choices):
        own = [choice for choice in choices if choice.subject == subject]
        kept = [c for c in own if c.chosen == c.candidates[0].name]
        better = [c for c in own if c not in kept]
        simple = ", ".join(c.joint for c in kept)
        if better:
            text = "; ".join(_gain_text(c) for c in better) + "."
            text += f" Nothing to gain on {simple}." if kept else ""
            title = "Friction chosen by joint" if subject == "friction" else f"{subject} earned its place"
            findings.append(
                Finding(
                    "good", title + f" on {len(better)} of {len(own)} joints", text, code="friction-chosen"
                )
            )
        elif subject == "friction":
            text = "No other form predicts held-out blocks better by more than one standard error."
            findings.append(
                Finding("good", "Viscous and Coulomb friction suffice", text, code="friction-chosen")
            )
        else:
            text = f"On held-out blocks it is no better than '{kept[0].chosen}', beyond one standard error."
            findings.append(
                Finding(
                    "warning", f"{subject} did not earn its place", text, "Leave it out.", "friction-chosen"
                )
            )
    return findings


def _gain_text(choice: Choice) -> str:
    winner = choice.winner
    return f"{choice.joint} {winner.name} ({100 * winner.gain:.2g} % less held-out mean square error of all joints)"


def _worse(a: str, b: str) -> str:
    return max(a, b, key=LEVELS.index)


def _worst(values: Float) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.min()) if len(finite) else float("nan")


# What to do after an identification, with the commands that do it.

_MENDED = 3
_OPEN = ("problem", "warning")


@dataclass(frozen=True)
class Step:
    """One thing to do, in words, and the commands for it, which may be none."""

    text: str
    commands: tuple[str, ...] = ()


def next_steps(one: Identification) -> tuple[Step, ...]:
    """What is to be done next, the most urgent first; commands are for a terminal in the folder of the run."""
    return (*_settle(one), *_declare(one), *_mend(one), *_record(one), *_validate(one), *_use(one))


def _mend(one: Identification) -> Iterable[Step]:
    found = [f for level in _OPEN for f in one.verdict.findings if f.level == level and f.advice]
    return [Step(f"{finding.title}: {finding.advice}") for finding in found[:_MENDED]]


def _settle(one: Identification) -> Iterable[Step]:
    # What a doubt says bends all joints, so that it comes before what a joint misses.
    for code in dict.fromkeys(doubt.identifier for doubt in one.diagnostics.doubts):
        known = explanation(code)
        if known is not None:
            yield Step(f"{code}: {plain(known.do).replace('`', '')}")
        # A run from Python names no robot file: then the code is said and the command is not.
        again = _again(one.files, "--accept", code)
        text = f"If what '{code}' doubts is right on your robot, accept it; the verdict then names it as accepted."
        yield Step(text, again)


def _declare(one: Identification) -> Iterable[Step]:
    # What the whole model is known to lack is the cause of what single joints miss.
    for warning in one.diagnostics.warnings:
        if _names_a_cause(warning):
            yield Step(warning.text)  # it begins with what it is
        elif warning.identifier in CAUSES:
            yield Step(f"{warning.identifier}: {warning.text}")


def _names_a_cause(warning: Diagnostic) -> bool:
    return warning.identifier == LIKELY_CAUSE and warning.text.startswith(NAMED)


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


def _record(one: Identification) -> Iterable[Step]:
    base, robot = one.estimate.base, one.files.get("robot")
    if base.rank >= one.structural.rank and base.condition <= CONDITION_HIGH:
        return ()
    words = ("dynid", "excite", str(robot), "--after", ".", "--out", "../next-motion")
    return (
        Step(
            "Record a motion that determines what this log does not; its joint limits are the description's.",
            (shlex.join(words),) if isinstance(robot, str) else (),
        ),
    )


def _validate(one: Identification) -> Iterable[Step]:
    known = "another log" if one.validations else "a log that it has not seen: nothing was held out"
    return (Step(f"Score the model on {known}.", ("dynid validate . OTHER_LOG",)),)


def _use(one: Identification) -> Iterable[Step]:
    if not any(column.of is Of.BODY for column in one.estimate.columns):
        return
    yield Step(
        "Export it for simulation, planning or control; meshes and all else of a URDF or MJCF stay as they are.",
        tuple(f"dynid export . --to model.{suffix}" for suffix in ("urdf", "xml", "c")),
    )
    logs = one.files.get("validate") or one.files.get("logs")
    if isinstance(logs, list) and logs:
        yield Step(
            "See how far the exported robot moves from the real one, in MuJoCo and pinocchio.",
            (shlex.join(["dynid", "replay", ".", *map(str, logs)]),),
        )
    yield Step(
        "Compute with it in Python: torque, mass matrix, forward dynamics, Jacobians, external torque.",
        ("python -i -c \"import dynid; model = dynid.load('.').model; print(model)\"",),
    )
