"""What to do after an identification, with the commands that do it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from dynid.base.diagnostics import Diagnostic
from dynid.base.explanation import plain
from dynid.base.records import dataclass
from dynid.choose.consistency_cause import NAMED
from dynid.estimate.physical import LIKELY_CAUSE
from dynid.run.explanations import explanation
from dynid.run.result import Identification
from dynid.run.verdict import CAUSES, CONDITION_HIGH
from dynid.terms.term import Of

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
