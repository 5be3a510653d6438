"""What an experiment says of a log whose columns nobody named, where names and motion leave nothing to ask."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place, UnfitDataError
from dynid.layouts.channels import NONE
from dynid.layouts.commands import GAINS_OF_DRIVES
from dynid.layouts.decision import Decision, without_effect
from dynid.layouts.effort import GAINS, knows_gains
from dynid.layouts.effort import UNIT as EFFORT_UNIT
from dynid.layouts.excerpt import excerpt
from dynid.layouts.gears import GEARS
from dynid.layouts.lacking import NO_EFFORT
from dynid.layouts.propose import COLUMNS, propose_logs
from dynid.layouts.write import answer_option, columns_in_words, experiment_text, files_of
from dynid.layouts.zero import OFFSET
from dynid.log.csv import refuse_unlike
from dynid.robot.model import RobotModel

_NAMES_OF_PARTS = (
    "where each file holds a joint or a signal of one recording, give them names that say so: "
    "joint1.csv, torque.csv"
)


def found_tables(
    model: RobotModel,
    source: str | Path,
    logs: Sequence[Path],
    answers: Mapping[str, str],
    unknown: InputError | None,
    with_effort: bool = True,
) -> tuple[dict[str, Any], Diagnostic]:
    """The tables of an experiment, [log] among them, as `dynid init` writes them, and the note that says so.

    logs: of one mapping, or parts of one recording.    source: of the robot's description.    answers: to questions,
    by key.    unknown: what stands against the log without a mapping. Raises it with the questions that are open.
    with_effort: whether a log without efforts is of no use.
    """
    proposal = propose_logs(model, logs, answers)
    look = excerpt(proposal.log, model.joint_names)
    place = Place(file=str(look.contents.path))
    given = "".join(f" --answer '{key}={value}'" for key, value in answers.items())
    call = f"dynid init {source} {files_of(proposal)}"
    # Gains that nobody knows are sought by the identification.
    asked = _first([one for one in proposal.open if one.key not in GAINS_OF_DRIVES])
    if asked:
        look.refuse_words(() if look.bag else [name for name in look.names if name not in look.numeric])
        if any(one.key in COLUMNS for one in asked):
            refuse_unlike(look.contents.table)
        refusals = [one for one in (proposal.refusal, *(one.refusal for one in proposal.decisions)) if one]
        refusal = next((one for one in refusals if with_effort or one.code != NO_EFFORT), None)
        questions = "; ".join(f"{one.key}: {_asked(one)} ({answer_option(one)})" for one in asked)
        if any(one.key == EFFORT_UNIT for one in asked) and not (GAINS in answers or knows_gains(model)):
            questions += f"; of currents and raw values {GAINS}, too: N m at the joint per A or per 1, from base to tip"
            questions += f" (--answer '{GAINS}=...')"
        error = unknown or InputError(
            "no-mapping",
            found=f"answers to {', '.join(answers)}",
            expected=f"answers to {', '.join(one.key for one in asked)}, too",
            place=place,
        )
        if refusal is not None:
            kind = UnfitDataError if refusal.unfit else InputError
            before = f"{unknown.found}; " if unknown and refusal.code in ("", unknown.identifier) else ""
            raise kind(
                refusal.code or error.identifier,
                found=before + refusal.found,
                expected=refusal.expected,
                do=refusal.do,
                place=error.place,
            ) from unknown
        # A table to fill in says less than what was found, where only some questions are open.
        nothing = "position" not in proposal.groups and not proposal["log.position.columns"].options
        answer = error.do if nothing else "answer what is open"
        parts = isinstance(proposal.log, Mapping)
        found = f"{len(logs)} files of one recording, the first with {error.found}" if parts else error.found
        do = answer if call in answer else f"{answer or 'answer the others, too'}, or let `{call}` ask"
        if len(logs) > 1 and not parts and any(one.key in COLUMNS for one in asked):
            do += f"; {_NAMES_OF_PARTS}"
        raise InputError(
            error.identifier,
            found=f"{found}; the names of the columns leave open: {questions}",
            expected=error.expected,
            do=do,
            place=place if parts else error.place,
        ) from unknown
    text = (
        f"columns, as their names and the motion say: {columns_in_words(proposal)}. "
        f"`{call}{given}` says why and writes them into a file that can be changed"
    )
    if idle := without_effect(proposal.decisions, answers):
        text += f". Nothing depends on the answers to {', '.join(idle)}: the log does not ask them"
    tables = tomllib.loads(experiment_text(proposal, call))
    return tables, Diagnostic(Severity.NOTE, "columns-found", text, place)


def _asked(one: Decision) -> str:
    """A question, with its evidence where any number may be the answer: of an effort's unit, and of a zero."""
    why = one.why[:1] if one.key == EFFORT_UNIT else one.why if one.key == OFFSET else ()
    return " ".join([one.question, "; ".join(why)]).strip()


def _first(asked: Sequence[Decision]) -> list[Decision]:
    """Questions but those that may have no need to be asked once others are answered: motion shows units of efforts."""
    keys = {one.key for one in asked}
    behind = {"log.time.unit"} if "log.time.column" in keys else set()
    if keys & {"log.time.column", "log.time.unit", "log.position.columns", "log.position.unit", OFFSET}:
        behind |= {EFFORT_UNIT, "log.order"}
    if GEARS in keys:
        behind |= {EFFORT_UNIT, "log.order", OFFSET}
    behind |= {
        one.key
        for one in asked
        if one.key == "log.effort.columns" and all(option.value == NONE for option in one.options)
        and "log.position.columns" in keys
    }  # fmt: skip
    if "log.effort.columns" in keys:
        behind |= {"log.order"}
    return [one for one in asked if one.key not in behind]
