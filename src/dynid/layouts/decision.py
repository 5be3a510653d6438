"""One thing that had to be decided about a log: what was taken and why, or what to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.units import is_multiple


@dataclass(frozen=True)
class Option:
    """One answer to a question: its value, and what it means."""

    value: str
    words: str


@dataclass(frozen=True)
class Refusal:
    """Why no answer helps: what was found, what is expected instead and what to do.

    code: "" = as the log is refused without an answer.    unfit: whether the data are understood, and are of no use.
    """

    found: str
    expected: str
    do: str
    code: str = ""
    unfit: bool = False


@dataclass(frozen=True)
class Decision:
    """What was found for one key of the experiment file.

    value: None = nothing there.    why: evidence, one sentence each.    question: "" = sure.
    options: possible answers; none = any text.    optional: the file works without it.
    likely: taken by its name alone, which nothing contradicts.
    refusal: of the log, where no answer helps.    example: an answer to one of its parts, KEY=VALUE, and what the
    others are.
    """

    key: str
    value: str | None
    why: tuple[str, ...] = ()
    question: str = ""
    options: tuple[Option, ...] = ()
    optional: bool = False
    likely: bool = False
    refusal: Refusal | None = None
    example: tuple[str, str] = ("", "")

    @property
    def sure(self) -> bool:
        """Whether nothing is left to ask."""
        return not self.question

    @property
    def grade(self) -> str:
        """How sure it is: "sure", "likely" or "asked"."""
        return "asked" if self.question else "likely" if self.likely else "sure"


Answers = Mapping[str, str]


def by_key(*decisions: Decision) -> dict[str, Decision]:
    """Decisions by their keys, in the order in which they are asked."""
    return {one.key: one for one in decisions}


# What questions are about: of a channel, of the log and of the drives.
_OF_CHANNELS = ("columns", "unit", "which", "calibration")
_OTHERS = (
    "log.time.column",
    "log.trajectory",
    "log.sort",
    "log.order",
    "log.position.offset",
    "log.position.side",
    "log.effort.side",
    "log.effort.sign",
    "robot.drive_gain",
    "robot.gear_ratio",
    "drive.kp",
    "drive.kd",
)
_OF_JOINTS = ("log.position.columns.", "log.velocity.columns.", "log.effort.columns.", "robot.lock.")


def require_questions(answers: Answers) -> None:
    """Raises UsageError for an answer to what is never asked."""
    known = [
        f"log.{kind}.{key}" for kind in ("time", "position", "velocity", "effort") for key in _OF_CHANNELS
    ]
    known += _OTHERS
    for key in answers:
        if key not in known and not key.startswith(_OF_JOINTS):
            near = get_close_matches(key, known, 1)
            raise UsageError(
                "unknown-answer",
                found=f"an answer to '{key}', which is no question",
                expected=f"'{near[0]}'" if near else f"one of {', '.join(known)}",
            )


AS_YOU_SAY = "as you say"


def without_effect(decisions: Iterable[Decision], answers: Answers) -> list[str]:
    """Keys of answers on which nothing of a log depends, such as what an ampere is worth where torques are logged."""
    found = by_key(*decisions)

    def counts(key: str, answer: str) -> bool:
        joints = next((one for one in _OF_JOINTS if key.startswith(one) and key not in found), key)
        one = found.get(joints.removesuffix("."))
        said = one is not None and (one.value == answer or any(AS_YOU_SAY in why for why in one.why))
        return said or key == "log.time.column"  # of counted rows the column is called as the log calls it

    return [key for key, answer in answers.items() if not counts(key, answer)]


def _joined(unit: str) -> str:
    """A product of units as one word: N m, N·m and Nm are the same."""
    return unit.replace(" ", "").replace("·", "")


def decided(decision: Decision, answers: Answers) -> Decision:
    """The decision as the user answers it; the one that was found without an answer.

    Raises UsageError for an answer that is none of the options.
    """
    if decision.key not in answers:
        return decision
    answer = answers[decision.key]
    allowed = [one.value for one in decision.options]
    if decision.key.endswith(".unit"):
        answer = next((one for one in allowed if _joined(one) == _joined(answer)), answer)
    if decision.question and allowed and answer not in allowed and not is_multiple(answer):
        raise UsageError(
            "unknown-answer",
            found=f"{decision.key} = {answer}",
            expected="one of " + ", ".join(f"'{one}'" for one in allowed),
        )
    return Decision(decision.key, answer, (AS_YOU_SAY,), optional=decision.optional)
