"""The questions that are left, asked one after the other; each answer may settle the next ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dynid.base.errors import UsageError
from dynid.layouts.decision import Decision
from dynid.layouts.proposal import Proposal
from dynid.layouts.propose import propose
from dynid.layouts.write import question_lines
from dynid.robot.model import RobotModel

Say = Callable[[str], None]
Read = Callable[[str], str]


def ask_all(
    robot: RobotModel,
    log: Path | Mapping[str, Path],
    proposal: Proposal,
    answers: dict[str, str],
    further: Sequence[Path],
    say: Say,
    read: Read,
) -> Proposal:
    """Asks what is open, until nothing is or the user leaves the rest open with an empty line.

    say, read: print a line; print a prompt and return the answer.
    """
    left_open: set[str] = set()
    while True:
        question = next((one for one in proposal.open if one.key not in left_open), None)
        if question is None:
            return proposal
        for line in question_lines(question):
            say(line)
        answer = _meant(question, read("answer (empty = leave it open): ").strip())
        if not answer:
            left_open.add(question.key)
            continue
        try:
            proposal = propose(robot, log, answers | {question.key: answer}, further)
        except UsageError as error:
            say(str(error))
            continue
        if question.key in {one.key for one in proposal.open}:
            say("that does not fit")
            continue
        answers[question.key] = answer


def _meant(question: Decision, answer: str) -> str:
    """An option by its first letters where only one begins so, else what was typed."""
    values = [one.value for one in question.options]
    if answer in values or not answer:
        return answer
    begin = [
        one for one in values if one.lower().replace(" ", "").startswith(answer.lower().replace(" ", ""))
    ]
    return begin[0] if len(begin) == 1 else answer
