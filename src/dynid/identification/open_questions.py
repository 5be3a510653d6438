"""Questions of `dynid init` that nobody answered: what the file asks in which line, and what to write there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.records import dataclass
from dynid.base.toml_file import Lines, line_of
from dynid.robot.model import RobotModel

_UNITS = {
    "time": "s, ms, us, ns or day",
    "position": "rad or deg, of slides m or mm",
    "velocity": "rad/s, deg/s or rpm, of slides m/s, mm/s, cm/s or in/s",
    "effort": "N m, mN m or kN m (of slides N), A or mA, or raw",
}


@dataclass(frozen=True)
class _Question:
    key: str
    text: str


def refuse_open_questions(log: Mapping[str, Any], robot: RobotModel, file: str, lines: Lines) -> None:
    """Raises InputErrors, one for each entry of [log] that holds a mark of an unanswered question.

    log: the table as it stands in the file.
    """
    text = Path(file).read_text(encoding="utf-8").splitlines() if Path(file).is_file() else []
    errors: list[DynidError] = []
    for name, entry in log.items():
        marked = (
            [key for key, value in entry.items() if _open(key, value)] if isinstance(entry, Mapping) else []
        )
        if not marked:
            continue
        line = line_of(("log", name), lines)
        asked = _asked_above(text, line)
        if "columns" in marked and not any(
            one.key.endswith((".order", ".columns", ".which")) for one in asked
        ):
            # The order of numbers is asked once, of the positions.
            asked = [one for one in _asked_in(text) if one.key == "log.order"] + asked
        about = (
            ": ".join(("asked there", " ".join(one.text for one in asked))) if asked else "an open question"
        )
        found = ", ".join(f"{key} = {_shown(entry[key])}" for key in marked)
        answers = [f"--answer '{one.key}={_answers(text, one)}'" for one in asked]
        errors.append(
            InputError(
                "open-question",
                found=f"{found} in {name}, {about}",
                expected="; ".join(_expected(name, key, robot) for key in marked),
                do="write it there, or let `dynid init` write the file again: "
                + " ".join(["--force", *(answers or ["--answer KEY=VALUE"])]),
                place=Place(file=file or None, line=line),
            )
        )
    if errors:
        raise InputErrors(errors)


def questions_of_effort(file: Path) -> list[str]:
    """What a file that `dynid init` wrote still asks of the effort."""
    from dynid.layouts.write import open_questions  # and with it all that proposes a mapping

    return [one for one in open_questions(file.read_text(encoding="utf-8")) if "effort" in one]


def _open(key: str, value: Any) -> bool:
    values = (
        list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    )
    return "?" in values or (key == "unit" and "unknown" in values)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else "a list or table with a question mark"


def _expected(name: str, key: str, robot: RobotModel) -> str:
    kind = name.removeprefix("command_").removeprefix("motor_")
    if key == "unit":
        return f"unit = {_UNITS.get(kind, 'the unit of the column')}"
    if key == "columns":
        first = ", ".join(f'{joint} = "COLUMN"' for joint in robot.joint_names[:2])
        return f"the column of every joint, columns = {{ {first}{', ...' if robot.n > 2 else ''} }}"
    if key == "offset":
        return f"numbers by joint, in the unit of the column, such as offset = {{ {robot.joint_names[0]} = 0.0 }}"
    return f"{key} = the name of a column" if key == "column" else f"a value of {key}"


def _asked_above(text: list[str], line: int | None) -> list[_Question]:
    """Questions in the comments above a line, with the keys by which `dynid init` takes the answers."""
    first = last = (line or 1) - 1
    while first > 0 and text[first - 1].startswith("#"):
        first -= 1
    return _asked_in(text[first:last])


def _asked_in(text: list[str]) -> list[_Question]:
    found, key = list[_Question](), ""
    for one in _joined([line for line in text if line.startswith("#")]):
        decision = re.match(r"([\w.]+) \((sure|likely|asked)\): ", one)
        if decision is not None:
            key = decision[1] if decision[1].startswith("robot.") else f"log.{decision[1]}"
        elif one.startswith("QUESTION: "):
            found.append(_Question(key, one.removeprefix("QUESTION: ")))
    return found


def _answers(text: list[str], question: _Question) -> str:
    """Values that the head of the file offers for a question, with bars between them."""
    begin = [k for k, line in enumerate(text) if line.startswith(f"#   {question.key}: ")]
    asked = [f"#{one[3:]}" for one in text[begin[0] :] if one.startswith("#")] if begin else []
    for line in list(_joined(asked))[1:]:
        if line.startswith("- answers: "):
            options = line.removeprefix("- answers: ").split("; ")
            return "|".join(one.split(" (", maxsplit=1)[0] for one in options)
        if not line.startswith("- "):
            break
    return "VALUE"


def _joined(lines: list[str]) -> Iterator[str]:
    """Comments with the lines that continue them, which are set in by two blanks more."""
    whole = ""
    for line in lines:
        inner = line.removeprefix("#").removeprefix(" ")
        if inner.startswith("  ") and whole:
            whole += f" {inner.strip()}"
            continue
        if whole:
            yield whole
        whole = inner.strip()
    if whole:
        yield whole
