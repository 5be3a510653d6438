"""Write the experiment file of a proposal, with the result, confidence and evidence of every line."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from glob import escape
from typing import Any

import numpy as np

from dynid.layouts.channels import DATA_SHEET, DELAY, GAINS_OF_DRIVES, LOOP, NONE, SERVO
from dynid.layouts.clock import SORT
from dynid.layouts.cylinders import KEY as LEVERS
from dynid.layouts.effort import GAINS, GEARS, RATED_TORQUE, RAW, SIGN, TURNED
from dynid.layouts.joints import KEY as ORDER
from dynid.layouts.joints import LOCK
from dynid.layouts.physics import OFFSET, answered_offsets
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.proposal import Decision, Group, Proposal
from dynid.log.mapping import imu_columns, wrench_groups
from dynid.robot.model import RobotModel

WIDTH = 116


# Start of a comment in an experiment file that asks the user for a value.
QUESTION = "QUESTION:"


def experiment_text(
    proposal: Proposal,
    call: str,
    robot_options: Mapping[str, Any] | None = None,
    train: Sequence[str] = (),
    held_out: Sequence[str] = (),
) -> str:
    """Text of the experiment file.

    Parameters
    ----------
    proposal : Proposal
        The proposal.
    call : str
        Command line that created the file.
    robot_options : dict or None
        Keys of the table [robot].
    train, held_out : sequence of str
        Names of trajectories for the table [data].

    """
    p = proposal
    lines = [
        f"# Written by {call}.",
        "# Above each line: the result, its confidence (sure, likely or asked) and the evidence.",
    ]
    if p.open:
        lines += [
            "#",
            f"# Open questions: {len(p.open)}. Fill in the lines below and remove the #, or run again with",
            "# --force --answer KEY=VALUE:",
        ]
        lines += [line for decision in p.open for line in question_lines(decision, "#   ")]
    lines += _robot(p, dict(robot_options or {}))
    lines += ["", "[log]"]
    topics = [_quoted(topic) for topic in p.topics]
    lines += [f"topic = {topics[0] if len(topics) == 1 else '[' + ', '.join(topics) + ']'}"] if topics else []
    lines += [
        *_time(p),
        *_trajectory(p),
        *_channel(p, "position"),
        *_channel(p, "velocity"),
        *_channel(p, "effort"),
        *_temperature(p),
    ]
    lines += _commands(p)
    sensors = wrench_groups(p.unused)
    of_sensors = {column for columns in sensors.values() for column in columns}
    imu = imu_columns(p.unused)
    of_sensors |= {column for columns in imu or () for column in columns}
    unused = [column for column in p.unused if column not in of_sensors]
    if unused:
        lines += ["", *_comment(f"not used: {', '.join(unused)}")]
    lines += _wrenches(p, sensors)
    lines += _imu(p.robot, imu) if imu is not None else []
    lines += _drive(p)
    data = [("train", train), ("validate", held_out)]
    chosen = [
        f"{key} = [{', '.join(_quoted(escape(name)) for name in names)}]" for key, names in data if names
    ]
    lines += ["", "[data]", *chosen] if chosen else []
    return "\n".join(lines) + "\n"


def _wrenches(p: Proposal, sensors: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines for force-torque sensors, each on a link of the last body that is named after one, or on the last link."""
    lines: list[str] = []
    for name, columns in sensors.items():
        listed = ", ".join(_quoted(column) for column in columns)
        lines += [
            "",
            *_comment(
                "wrench (likely): six columns, detected by name; only needed for dynid payload --wrench"
            ),
        ]
        lines += _comment("else. Check the link of the sensor frame, and the unit.")
        lines += [f"[log.wrench.{name}]", f"link = {_quoted(sensor_link(p.robot))}", f"columns = [{listed}]"]
        lines += ['unit = "N"']
    return lines


def _imu(robot: RobotModel, imu: tuple[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    """Lines for the IMU of a floating base; commented out for a robot without legs."""
    gyro, acceleration = (", ".join(_quoted(column) for column in columns) for columns in imu)
    link, moves = imu_link(robot)
    text = (
        "imu (likely): six columns, detected by name. This table makes the base float: check "
        "the link and the units"
    )
    lines = _comment(text if moves else f"{text}, and remove the # if the base moves.")
    table = [
        "[log.imu]",
        f"link = {_quoted(link)}",
        f"gyro = [{gyro}]",
        f"acceleration = [{acceleration}]",
        'unit = { gyro = "rad/s", acceleration = "m/s^2" }',
    ]
    return ["", *lines, *(table if moves else [f"# {line}" for line in table])]


def imu_link(robot: RobotModel) -> tuple[str, bool]:
    """Base link named after an IMU, or the base link itself, and whether the robot looks like a walking one.

    A robot counts as walking if it has an IMU in its base, or several limbs attached to the base.
    """
    if not robot.base_links:
        return robot.body_names[0], False
    named = [link for link in robot.base_links if "imu" in link.lower()]
    limbs = int(np.sum(np.asarray(robot.parent) < 0))
    return (named or list(robot.base_links))[0], bool(named) or limbs > 1


def sensor_link(robot: RobotModel) -> str:
    """Link on the last body that is named after a force-torque sensor, or the last link."""
    last = robot.n_bodies - 1
    fixed = [name for name, (body, _) in robot.frames.items() if body == last]
    named = [name for name in fixed if re.search(r"(^|[^a-z])ft|force|wrench|sensor", name.lower())]
    return named[0] if named else robot.body_names[last]


def open_questions(text: str) -> tuple[str, ...]:
    """Questions in the text of an experiment file, including those already answered by hand."""
    questions: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(f"# {QUESTION} "):
            questions.append(line.removeprefix(f"# {QUESTION} "))
        elif inside and line.startswith("#   "):
            questions[-1] += f" {line.removeprefix('#').strip()}"
        inside = line.startswith((f"# {QUESTION} ", "#   ")) and bool(questions)
    return tuple(questions)


def question_lines(decision: Decision, margin: str = "  ") -> list[str]:
    """Question with its evidence and its possible answers."""
    asked = f"{decision.key}: {decision.question}"
    answers = [
        f"{option.value} ({option.words})" if option.words != option.value else option.value
        for option in decision.options
    ]
    text = [asked, *(f"- {why}" for why in decision.why)]
    text += [f"- answers: {'; '.join(answers)}"] if answers else []
    return [line for line in text for line in _wrapped(line, margin)]


def answer_option(decision: Decision) -> str:
    """Command-line option that answers a question, with the possible values; or the advice if no answer helps."""
    if decision.refusal is not None and not decision.options:
        return decision.refusal.do
    part, others = decision.example
    shown = [f"--answer '{part}'{others}"] if part else []
    if decision.options or not part:
        values = "|".join(option.value for option in decision.options) or "..."
        shown.append(f"--answer '{decision.key}={values}'")
    return ", or ".join(shown)


def files_of(proposal: Proposal) -> str:
    """The log as on the command line."""
    return (
        " ".join(map(str, proposal.log.values())) if isinstance(proposal.log, Mapping) else str(proposal.log)
    )


def columns_in_words(proposal: Proposal) -> str:
    """Summary of the columns in one line."""
    p, parts = proposal, []
    for kind in ("time", "position", "velocity", "effort", "command_position", "command_velocity"):
        unit = _unit(p, kind.removeprefix("command_"))
        shown = " ".join(filter(None, (_columns_in_words(p, kind), unit)))
        title = kind.replace("command_", "commanded ")
        if kind == "position" and p[OFFSET].value not in (None, "0"):
            shown += f" with {p[OFFSET].value} added"
        slides = p.groups[kind].slides.values() if kind in p.groups else ()
        shown = ", ".join([shown, *(f"{column} {of_slide or unit}" for column, of_slide in slides)])
        parts += [f"{title} {shown}"] if shown and (kind == "time" or kind in p.groups) else []
        columns = p[f"log.{kind}.columns"]
        if columns.likely and columns.value is None:
            parts.append(f"no {title} ({'; '.join(columns.why)})")
    fixed = [decision.key.removeprefix(LOCK) for decision in p.decisions if decision.key.startswith(LOCK)]
    parts += [f"fixed: {', '.join(fixed)}"] if fixed else []
    return "; ".join(parts)


def summary_lines(proposal: Proposal) -> list[str]:
    """Summary of the proposal for the terminal."""
    p, lines, seen = proposal, list[str](), set[str]()
    for kind in ("time", "position", "velocity", "effort"):
        decisions = [decision for decision in p.decisions if decision.key.startswith(f"log.{kind}.")]
        if kind == "position":
            decisions.append(p[ORDER])
        shown = " ".join(filter(None, (_columns_in_words(p, kind), _unit(p, kind))))
        grade = _grade(decisions)
        lines.append(f"{kind:<10}{shown or 'none':<44} {grade}")
        reasons = [
            why
            for decision in decisions
            for why in decision.why
            if decision.value is not None or decision.grade != "sure"
        ]
        for why in dict.fromkeys(reasons):
            lines += _wrapped(_cited_once(why, p.cited, seen), " " * 12)
    for name, columns in wrench_groups(p.unused).items():
        lines.append(f"{'wrench':<10}{f'{name}: {columns[0]} ... {columns[-1]} N':<44} likely")
    if "temperature" in p.groups:
        lines.append(f"{'temperat.':<10}{_columns_in_words(p, 'temperature') + ' degC':<44} likely")
    imu = imu_columns(p.unused)
    if imu is not None:
        lines.append(f"{'imu':<10}{f'{imu[0][0]} ... {imu[1][-1]} rad/s, m/s^2':<44} likely")
    for key in (SERVO, *DATA_SHEET, *GAINS_OF_DRIVES):
        if p[key].value is not None:
            lines.append(f"{key.removeprefix('drive.'):<14}{p[key].value:<40} {p[key].grade}")
            new = [why for why in p[key].why if why not in seen]
            seen |= set(new)
            lines += [line for why in new for line in _wrapped(why, " " * 12)]
    if p[GAINS].value is not None:
        current = p["log.effort.unit"].value != RAW
        lines.append(f"{'N m per A' if current else 'N m per 1':<10}{p[GAINS].value}")
        lines += [line for why in p[GAINS].why for line in _wrapped(why, " " * 12)]
    for decision in p.decisions:
        if decision.key.startswith(LOCK):
            shown = f"{decision.key.removeprefix(LOCK)} {decision.value or '?'}"
            lines.append(f"{'held':<10}{shown:<44} {decision.grade}")
            lines += [line for why in decision.why for line in _wrapped(why, " " * 12)]
    return lines


def _cited_once(why: str, cited: Mapping[str, str], seen: set[str]) -> str:
    """The reason without sources that were cited earlier."""
    for source, recorder in cited.items():
        if source in why:
            why = why.replace(source, f"{recorder}, as above") if source in seen else why
            seen.add(source)
    return why


def _grade(decisions: list[Decision]) -> str:
    grades = [decision.grade for decision in decisions]
    return "asked" if "asked" in grades else "likely" if "likely" in grades else "sure" if grades else ""


def _robot(p: Proposal, options: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    locks = dict(options.pop("lock", {})) | p.locked
    for name, value in options.items():
        lines.append(f"{name} = {_toml(value)}")
    fixed = [decision for decision in p.decisions if decision.key.startswith(LOCK)]
    for decision in fixed:
        lines += _comment(f"{decision.key} ({decision.grade}): {'; '.join(decision.why)}")
        lines += _comment(f"{QUESTION} {decision.question}") if decision.question else []
    if locks:
        lines.append(f"lock = {_table({k: _number(v) for k, v in locks.items()})}")
    gears = p[GEARS]
    if gears.value is not None:
        ratios = dict(zip(p.robot.joint_names, p.robot.drive.gear_ratio.tolist(), strict=True))
        lines += _comment(f"motor turns per joint turn ({gears.grade}): {'; '.join(gears.why)}")
        lines.append(f"gear_ratio = {_table({joint: _number(ratio) for joint, ratio in ratios.items()})}")
    elif gears.question:
        lines += _comment(f"{QUESTION} {gears.question}")
        lines.append(f"# gear_ratio = {_table(dict.fromkeys(p.robot.joint_names, '?'))}")
    levers = p[LEVERS]
    lines += _comment(f"{LEVERS} ({levers.grade}): {'; '.join(levers.why)}") if levers.why else []
    lines += _comment(f"{QUESTION} {levers.question}") if levers.question else []
    for joint, lever in p.tables.items():
        entries = {"position": str([*lever.position]), "actuator": str([*lever.actuator]), "cylinder": "true"}
        lines.append(f"table.{_quoted(joint)} = {_table(entries)}")
    gains = p[GAINS]
    if p.gains or not gains.sure:
        lines += _comment(f"joint torque in N m per unit of current ({gains.grade}): {'; '.join(gains.why)}")
        lines += _comment("All estimated masses and friction parameters scale with them.")
        table = {k: _number(v) for k, v in p.gains.items()} or dict.fromkeys(p.groups["effort"].columns, "?")
        lines.append(("" if p.gains else "# ") + f"drive_gain = {_table(table)}")
    return ["", "[robot]", *lines] if lines else []


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return _table({str(k): _toml(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return _number(value) if isinstance(value, int | float) else _quoted(str(value))


def _time(p: Proposal) -> list[str]:
    column, unit = p["log.time.column"], p["log.time.unit"]
    lines = _reasons("time", (column, unit))
    doubt = not column.sure or not unit.sure or column.value is None
    line = f"time = {{ column = {_quoted(column.value or '?')}, unit = {_quoted(unit.value or UNKNOWN)} }}"
    return [*lines, f"# {line}" if doubt else line]


def _trajectory(p: Proposal) -> list[str]:
    label, sort = p["log.trajectory"], p[SORT]
    if sort.value == "true":
        return [*_reasons("order of rows", (sort,)), "sort = true"]
    if label.value is None and label.sure:
        return []
    lines = _reasons("motions", (label,))
    return [*lines, f"trajectory = {_quoted(label.value)}" if label.value else '# trajectory = "?"']


def _channel(p: Proposal, kind: str) -> list[str]:
    columns, unit, side = p[f"log.{kind}.columns"], p[f"log.{kind}.unit"], p[f"log.{kind}.side"]
    which, calibration = p[f"log.{kind}.which"], p[f"log.{kind}.calibration"]
    order = p[ORDER] if kind == "position" else Decision(ORDER, None)
    zero = p[OFFSET] if kind == "position" else Decision(OFFSET, None)
    sign = p[SIGN] if kind == "effort" else Decision(SIGN, None)
    rated = p[RATED_TORQUE] if kind == "effort" else Decision(RATED_TORQUE, None)
    decided = tuple(
        decision
        for decision in (columns, which, order, unit, zero, calibration, side, sign, rated)
        if decision.why and (decision.value is not None or decision.question)
    )
    if kind == "velocity" and (columns.value is None or unit.value is None):
        return _comment(f"no velocity: {'; '.join([*columns.why, *unit.why])}")
    if columns.value == NONE:
        return ["", *_comment(f"no {kind}: {'; '.join(columns.why)}")]
    lines = _reasons(kind, decided)
    group = p.groups.get(kind)
    shaky = not p[ORDER].sure or not which.sure
    where = _columns(group, p.groups.get("position")) if group is not None and not shaky else '"?"'
    entry = [f"columns = {where}", f"unit = {_units(group, unit.value or UNKNOWN)}"]
    entry += [f"side = {_quoted(side.value)}"] if side.value else []
    if rated.value or rated.question:
        torques = {joint: _number(value) for joint, value in p.rated_torque.items()}
        entry += [
            f"rated_torque = {_table(torques or dict.fromkeys([*group.columns, *group.slides] if group else (), '?'))}"
        ]
    if calibration.question or calibration.value:
        entry += [f"calibration = {_quoted(calibration.value or '?')}"]
    if zero.question:
        entry += ['offset = "?"']
    elif group is not None and (offsets := _offsets(zero, group)):
        entry += [f"offset = {_table({joint: _number(offset) for joint, offset in offsets.items()})}"]
    if sign.value == TURNED and group is not None:
        turned = dict.fromkeys([*group.columns, *group.slides], TURNED)
        entry += [f"sign = {_table(turned)}"]
    if group is not None and group.apart:
        clock = f"column = {_quoted(p['log.time.column'].value)}, unit = {_quoted(p['log.time.unit'].value)}"
        entry += [f"time = {{ {clock} }}"]
    line = f"{kind} = {{ {', '.join(entry)} }}"
    if kind == "position":
        # Without this line, positions would be read under dynid's standard names; a line with "?" or
        # "unknown" stops instead.
        return [*lines, line]
    doubt = (
        not all(decision.sure for decision in (columns, unit, side, sign, rated, which, p[ORDER]))
        or group is None
    )
    return [*lines, f"# {line}" if doubt else line]


def _temperature(p: Proposal) -> list[str]:
    """Lines for drive temperatures, on which friction may depend."""
    group = p.groups.get("temperature")
    if group is None:
        return []
    text = (
        "temperature (likely): detected by name; used to estimate viscous friction that "
        "depends on temperature"
    )
    entry = f'columns = {_columns(group, p.groups.get("position"))}, unit = "degC"'
    line = f"temperature = {{ {entry} }}"
    return ["", *_comment(text), line if p[ORDER].sure else f"# {line}"]


def _commands(p: Proposal) -> list[str]:
    """Lines for commands that replace an effort, in the units of the measured signals."""
    return [
        f"command_{kind} = {{ columns = {_columns(p.groups[f'command_{kind}'])}, "
        f"unit = {_units(p.groups[f'command_{kind}'], p[f'log.{kind}.unit'].value or UNKNOWN)} }}"
        for kind in ("position", "velocity")
        if f"command_{kind}" in p.groups
    ]


def _drive(p: Proposal) -> list[str]:
    gains = [
        decision for decision in p.decisions if decision.key in (SERVO, *DATA_SHEET, *GAINS_OF_DRIVES, DELAY)
    ]
    if not gains:
        return []
    lines = ["", "[drive]"]
    for decision in gains:
        name = decision.key.removeprefix("drive.")
        lines += _comment(f"{name} ({decision.grade}): {decision.question or '; '.join(decision.why)}")
        if decision.key == SERVO:
            options = "; ".join(f"{option.value} ({option.words})" for option in decision.options)
            lines += _comment(f"servo = {decision.value or '?'}: {options}")
            continue
        values = [float(x) for x in (decision.value or "").replace(",", " ").split()]
        joints = [j for j in p.robot.joint_names if j not in p.locked]
        if len(values) == 1:
            lines.append(f"{name} = {_number(values[0])}")
        elif values:
            lines.append(f"{name} = {_table({j: _number(v) for j, v in zip(joints, values, strict=False)})}")
        else:
            lines.append(f"# {name} = ?")
    lines += [
        f"{LOOP.removeprefix('drive.')} = {_quoted(decision.value)}"
        for decision in p.decisions
        if decision.key == LOOP and decision.value
    ]
    return lines


def _units(group: Group | None, unit: str) -> str:
    """A single unit for all joints, or a table of units per joint."""
    if group is not None and "," in unit:
        own_units = [text.strip() for text in unit.split(",")]
        return _table(
            {
                joint: _quoted(unit_of_joint)
                for joint, unit_of_joint in zip(group.columns, own_units, strict=True)
            }
        )
    if group is None or not group.slides:
        return _quoted(unit)
    units_of_slides = {joint: of_slide or unit for joint, (_, of_slide) in group.slides.items()}
    return _table(
        {
            joint: _quoted(unit_of_joint)
            for joint, unit_of_joint in (dict.fromkeys(group.columns, unit) | units_of_slides).items()
        }
    )


def _offsets(zero: Decision, group: Group) -> dict[str, float]:
    """Nonzero offsets of the positions per joint, in the position unit."""
    given = answered_offsets(list(group.columns), {OFFSET: zero.value}) if zero.value is not None else {}
    return {joint: offset for joint, offset in given.items() if offset}


def _columns(group: Group, position: Group | None = None) -> str:
    """Template if it names the columns of all joints that have a position, otherwise a table."""
    columns = group.columns
    if position is not None and not set(position.columns) <= set(columns):
        return _table({joint: _quoted(column) for joint, column in columns.items()})
    if group.slides:
        column_of = {joint: column for joint, (column, _) in group.slides.items()}
        return _table({joint: _quoted(column) for joint, column in (columns | column_of).items()})
    if group.family.labels:
        # A table keeps the assignment by name; a template would use a number that only happens to match the
        # joint.
        return _table({joint: _quoted(column) for joint, column in columns.items()})
    for template in (group.family.template, group.family.template.replace("{index}", "{number}")):
        made = {
            j: template.replace("{joint}", j).replace("{number}", str(k + 1)) for k, j in enumerate(columns)
        }
        if (
            made == columns
            and len({"{joint}", "{number}"} & {"{joint}" if "{joint}" in template else "{number}"})
            and "{" in template
        ):
            return _quoted(template)
    return _table({joint: _quoted(column) for joint, column in columns.items()})


def _columns_in_words(p: Proposal, kind: str) -> str:
    if kind == "time":
        return p["log.time.column"].value or ""
    group = p.groups.get(kind)
    names = list(group.columns.values()) if group is not None else []
    return f"{names[0]} ... {names[-1]}" if len(names) > 1 else "".join(names)


def _unit(p: Proposal, kind: str) -> str:
    decision = p[f"log.{kind}.unit"]
    side = p[f"log.{kind}.side"].value
    unit = decision.value or ("?" if decision.question else "")
    return f"{unit} ({side})" if unit and side else unit


def _reasons(title: str, decisions: tuple[Decision, ...]) -> list[str]:
    lines = [""]
    for decision in decisions:
        if not decision.why:
            continue
        name = decision.key.removeprefix("log.")
        lines += _comment(f"{name} ({decision.grade}): {'; '.join(decision.why)}")
        if decision.question:
            lines += _comment(f"{QUESTION} {decision.question}")
    return lines if len(lines) > 1 else ["", f"# {title}"]


def _comment(text: str) -> list[str]:
    return _wrapped(text, "# ")


def _wrapped(text: str, margin: str) -> list[str]:
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return textwrap.wrap(
        plain, WIDTH, initial_indent=margin, subsequent_indent=margin + "  ", break_on_hyphens=False
    )


def _quoted(text: str | None) -> str:
    return json.dumps(text or "", ensure_ascii=False)


def _number(value: float) -> str:
    text = f"{value:.6g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _table(values: Mapping[str, str]) -> str:
    plain = {
        k: k if k.replace("_", "").replace("-", "").isalnum() and k.isascii() else _quoted(k) for k in values
    }
    return "{ " + ", ".join(f"{plain[k]} = {v}" for k, v in values.items()) + " }"
