"""The experiment file of a proposal: every line with what was found, how sure it is, and why."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from glob import escape
from typing import Any

import numpy as np

from dynid.layouts.channels import DELAY, GAINS_OF_DRIVES, LOOP, NONE
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


# Begins a line of an experiment file that asks for something.
QUESTION = "QUESTION:"


def experiment_text(
    proposal: Proposal,
    call: str,
    robot_options: Mapping[str, Any] | None = None,
    train: Sequence[str] = (),
    held_out: Sequence[str] = (),
) -> str:
    """The file.

    call: the command line that made it.    robot_options: keys of [robot] that it was made with.    train, held_out:
    names of trajectories for [data].
    """
    p = proposal
    lines = [
        f"# Written by {call}.",
        "# Above each line: what was found, how sure it is (sure, likely or asked), and why.",
    ]
    if p.open:
        lines += [
            "#",
            f"# Left to ask: {len(p.open)}. Fill in what stands for it below and take the # away, or call again with",
            "# --force --answer KEY=VALUE:",
        ]
        lines += [one for decision in p.open for one in question_lines(decision, "#   ")]
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
    chosen = [f"{key} = [{', '.join(_quoted(escape(one)) for one in names)}]" for key, names in data if names]
    lines += ["", "[data]", *chosen] if chosen else []
    return "\n".join(lines) + "\n"


def _wrenches(p: Proposal, sensors: Mapping[str, Sequence[str]]) -> list[str]:
    """Force/torque sensors, at a fixed link of the last body that is named after one, else at the last link."""
    lines: list[str] = []
    for name, columns in sensors.items():
        listed = ", ".join(_quoted(column) for column in columns)
        lines += [
            "",
            *_comment("wrench (likely): the names of six columns; for dynid payload --wrench, not needed"),
        ]
        lines += _comment("else. Check the link at whose frame the sensor measures, and the unit.")
        lines += [f"[log.wrench.{name}]", f"link = {_quoted(sensor_link(p.robot))}", f"columns = [{listed}]"]
        lines += ['unit = "N"']
    return lines


def _imu(robot: RobotModel, imu: tuple[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    """The IMU of a base that may float; commented out for a robot without legs, whose base it would let float."""
    gyro, acceleration = (", ".join(_quoted(column) for column in columns) for columns in imu)
    link, moves = imu_link(robot)
    text = "imu (likely): the names of six columns. With this table the base floats: check the link and the units"
    lines = _comment(text if moves else f"{text}, and take the # away if the base moves.")
    table = [
        "[log.imu]",
        f"link = {_quoted(link)}",
        f"gyro = [{gyro}]",
        f"acceleration = [{acceleration}]",
        'unit = { gyro = "rad/s", acceleration = "m/s^2" }',
    ]
    return ["", *lines, *(table if moves else [f"# {line}" for line in table])]


def imu_link(robot: RobotModel) -> tuple[str, bool]:
    """Link of the base that is named after an IMU, else the base link; and whether the robot looks like one that walks.

    It does with an IMU in its base, or with several limbs from the base.
    """
    if not robot.base_links:
        return robot.body_names[0], False
    named = [link for link in robot.base_links if "imu" in link.lower()]
    limbs = int(np.sum(np.asarray(robot.parent) < 0))
    return (named or list(robot.base_links))[0], bool(named) or limbs > 1


def sensor_link(robot: RobotModel) -> str:
    """The link of the last body that is named after a force/torque sensor, else the last link."""
    last = robot.n_bodies - 1
    fixed = [name for name, (body, _) in robot.frames.items() if body == last]
    named = [name for name in fixed if re.search(r"(^|[^a-z])ft|force|wrench|sensor", name.lower())]
    return named[0] if named else robot.body_names[last]


def open_questions(text: str) -> tuple[str, ...]:
    """What the text of an experiment file still asks for; a question that was answered by hand stands there, too."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(f"# {QUESTION} "):
            found.append(line.removeprefix(f"# {QUESTION} "))
        elif inside and line.startswith("#   "):
            found[-1] += f" {line.removeprefix('#').strip()}"
        inside = line.startswith((f"# {QUESTION} ", "#   ")) and bool(found)
    return tuple(found)


def question_lines(decision: Decision, margin: str = "  ") -> list[str]:
    """A question with its evidence and its answers."""
    asked = f"{decision.key}: {decision.question}"
    answers = [
        f"{one.value} ({one.words})" if one.words != one.value else one.value for one in decision.options
    ]
    text = [asked, *(f"- {why}" for why in decision.why)]
    text += [f"- answers: {'; '.join(answers)}"] if answers else []
    return [line for one in text for line in _wrapped(one, margin)]


def answer_option(decision: Decision) -> str:
    """The option that answers a question, with the values that it takes; or what to do where no answer helps."""
    if decision.refusal is not None and not decision.options:
        return decision.refusal.do
    part, others = decision.example
    shown = [f"--answer '{part}'{others}"] if part else []
    if decision.options or not part:
        values = "|".join(option.value for option in decision.options) or "..."
        shown.append(f"--answer '{decision.key}={values}'")
    return ", or ".join(shown)


def files_of(proposal: Proposal) -> str:
    """The log as it is given on the command line."""
    return (
        " ".join(map(str, proposal.log.values())) if isinstance(proposal.log, Mapping) else str(proposal.log)
    )


def columns_in_words(proposal: Proposal) -> str:
    """What was found, in a line."""
    p, said = proposal, []
    for kind in ("time", "position", "velocity", "effort", "command_position", "command_velocity"):
        unit = _unit(p, kind.removeprefix("command_"))
        shown = " ".join(filter(None, (_columns_in_words(p, kind), unit)))
        title = kind.replace("command_", "commanded ")
        if kind == "position" and p[OFFSET].value not in (None, "0"):
            shown += f" with {p[OFFSET].value} added"
        slides = p.groups[kind].slides.values() if kind in p.groups else ()
        shown = ", ".join([shown, *(f"{column} {of_slide or unit}" for column, of_slide in slides)])
        said += [f"{title} {shown}"] if shown and (kind == "time" or kind in p.groups) else []
        columns = p[f"log.{kind}.columns"]
        if columns.likely and columns.value is None:
            said.append(f"no {title} ({'; '.join(columns.why)})")
    held = [one.key.removeprefix(LOCK) for one in p.decisions if one.key.startswith(LOCK)]
    said += [f"held: {', '.join(held)}"] if held else []
    return "; ".join(said)


def summary_lines(proposal: Proposal) -> list[str]:
    """What was found, for the terminal."""
    p, lines, seen = proposal, list[str](), set[str]()
    for kind in ("time", "position", "velocity", "effort"):
        decisions = [one for one in p.decisions if one.key.startswith(f"log.{kind}.")]
        if kind == "position":
            decisions.append(p[ORDER])
        shown = " ".join(filter(None, (_columns_in_words(p, kind), _unit(p, kind))))
        grade = _grade(decisions)
        lines.append(f"{kind:<10}{shown or 'none':<44} {grade}")
        reasons = [
            why for one in decisions for why in one.why if one.value is not None or one.grade != "sure"
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
    for key in GAINS_OF_DRIVES:
        if p[key].value is not None:
            lines.append(f"{key.removeprefix('drive.'):<10}{p[key].value:<44} {p[key].grade}")
            lines += [line for why in p[key].why for line in _wrapped(why, " " * 12)]
    if p[GAINS].value is not None:
        current = p["log.effort.unit"].value != RAW
        lines.append(f"{'N m per A' if current else 'N m per 1':<10}{p[GAINS].value}")
        lines += [line for why in p[GAINS].why for line in _wrapped(why, " " * 12)]
    for one in p.decisions:
        if one.key.startswith(LOCK):
            shown = f"{one.key.removeprefix(LOCK)} {one.value or '?'}"
            lines.append(f"{'held':<10}{shown:<44} {one.grade}")
            lines += [line for why in one.why for line in _wrapped(why, " " * 12)]
    return lines


def _cited_once(why: str, cited: Mapping[str, str], seen: set[str]) -> str:
    """A reason whose sources are left out where they were named before."""
    for source, recorder in cited.items():
        if source in why:
            why = why.replace(source, f"{recorder}, as above") if source in seen else why
            seen.add(source)
    return why


def _grade(decisions: list[Decision]) -> str:
    grades = [one.grade for one in decisions]
    return "asked" if "asked" in grades else "likely" if "likely" in grades else "sure" if grades else ""


def _robot(p: Proposal, options: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    locks = dict(options.pop("lock", {})) | p.locked
    for name, value in options.items():
        lines.append(f"{name} = {_toml(value)}")
    held = [one for one in p.decisions if one.key.startswith(LOCK)]
    for one in held:
        lines += _comment(f"{one.key} ({one.grade}): {'; '.join(one.why)}")
        lines += _comment(f"{QUESTION} {one.question}") if one.question else []
    if locks:
        lines.append(f"lock = {_table({k: _number(v) for k, v in locks.items()})}")
    gears = p[GEARS]
    if gears.value is not None:
        ratios = dict(zip(p.robot.joint_names, p.robot.drive.gear_ratio.tolist(), strict=True))
        lines += _comment(f"motor turns per joint turn ({gears.grade}): {'; '.join(gears.why)}")
        lines.append(f"gear_ratio = {_table({joint: _number(one) for joint, one in ratios.items()})}")
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
        lines += _comment(f"N m at the joint per unit of current ({gains.grade}): {'; '.join(gains.why)}")
        lines += _comment("They scale every mass and every friction that is found.")
        table = {k: _number(v) for k, v in p.gains.items()} or dict.fromkeys(p.groups["effort"].columns, "?")
        lines.append(("" if p.gains else "# ") + f"drive_gain = {_table(table)}")
    return ["", "[robot]", *lines] if lines else []


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return _table({str(k): _toml(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return _number(value) if isinstance(value, int | float) else _quoted(str(value))


def _time(p: Proposal) -> list[str]:
    column, unit = p["log.time.column"], p["log.time.unit"]
    lines = _reasons("time", (column, unit))
    doubt = not column.sure or not unit.sure or column.value is None
    line = f"time = {{ column = {_quoted(column.value or '?')}, unit = {_quoted(unit.value or UNKNOWN)} }}"
    return [*lines, f"# {line}" if doubt else line]


def _trajectory(p: Proposal) -> list[str]:
    found, sort = p["log.trajectory"], p[SORT]
    if sort.value == "true":
        return [*_reasons("order of rows", (sort,)), "sort = true"]
    if found.value is None and found.sure:
        return []
    lines = _reasons("motions", (found,))
    return [*lines, f"trajectory = {_quoted(found.value)}" if found.value else '# trajectory = "?"']


def _channel(p: Proposal, kind: str) -> list[str]:
    columns, unit, side = p[f"log.{kind}.columns"], p[f"log.{kind}.unit"], p[f"log.{kind}.side"]
    which, calibration = p[f"log.{kind}.which"], p[f"log.{kind}.calibration"]
    order = p[ORDER] if kind == "position" else Decision(ORDER, None)
    zero = p[OFFSET] if kind == "position" else Decision(OFFSET, None)
    sign = p[SIGN] if kind == "effort" else Decision(SIGN, None)
    rated = p[RATED_TORQUE] if kind == "effort" else Decision(RATED_TORQUE, None)
    decided = tuple(
        one
        for one in (columns, which, order, unit, zero, calibration, side, sign, rated)
        if one.why and (one.value is not None or one.question)
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
        entry += [f"offset = {_table({joint: _number(one) for joint, one in offsets.items()})}"]
    if sign.value == TURNED and group is not None:
        turned = dict.fromkeys([*group.columns, *group.slides], TURNED)
        entry += [f"sign = {_table(turned)}"]
    if group is not None and group.apart:
        clock = f"column = {_quoted(p['log.time.column'].value)}, unit = {_quoted(p['log.time.unit'].value)}"
        entry += [f"time = {{ {clock} }}"]
    line = f"{kind} = {{ {', '.join(entry)} }}"
    if kind == "position":
        # Left out, positions would be looked for under dynid's own names: a line with "?" or "unknown" stops instead.
        return [*lines, line]
    doubt = not all(one.sure for one in (columns, unit, side, sign, rated, which, p[ORDER])) or group is None
    return [*lines, f"# {line}" if doubt else line]


def _temperature(p: Proposal) -> list[str]:
    """Temperatures of the drives, which friction may follow."""
    group = p.groups.get("temperature")
    if group is None:
        return []
    text = "temperature (likely): the names say so; viscous friction that follows it is found"
    entry = f'columns = {_columns(group, p.groups.get("position"))}, unit = "degC"'
    line = f"temperature = {{ {entry} }}"
    return ["", *_comment(text), line if p[ORDER].sure else f"# {line}"]


def _commands(p: Proposal) -> list[str]:
    """Commands that stand in for an effort, in the units of what was measured."""
    return [
        f"command_{kind} = {{ columns = {_columns(p.groups[f'command_{kind}'])}, "
        f"unit = {_units(p.groups[f'command_{kind}'], p[f'log.{kind}.unit'].value or UNKNOWN)} }}"
        for kind in ("position", "velocity")
        if f"command_{kind}" in p.groups
    ]


def _drive(p: Proposal) -> list[str]:
    gains = [one for one in p.decisions if one.key in (*GAINS_OF_DRIVES, DELAY)]
    if not gains:
        return []
    lines = ["", "[drive]"]
    for one in gains:
        name = one.key.removeprefix("drive.")
        lines += _comment(f"{name} ({one.grade}): {one.question or '; '.join(one.why)}")
        values = [float(x) for x in (one.value or "").replace(",", " ").split()]
        joints = [j for j in p.robot.joint_names if j not in p.locked]
        if len(values) == 1:
            lines.append(f"{name} = {_number(values[0])}")
        elif values:
            lines.append(f"{name} = {_table({j: _number(v) for j, v in zip(joints, values, strict=False)})}")
        else:
            lines.append(f"# {name} = ?")
    lines += [
        f"{LOOP.removeprefix('drive.')} = {_quoted(one.value)}"
        for one in p.decisions
        if one.key == LOOP and one.value
    ]
    return lines


def _units(group: Group | None, unit: str) -> str:
    """One unit for all joints, or by joint where some slide or each has its own."""
    if group is not None and "," in unit:
        own_units = [one.strip() for one in unit.split(",")]
        return _table({joint: _quoted(one) for joint, one in zip(group.columns, own_units, strict=True)})
    if group is None or not group.slides:
        return _quoted(unit)
    own = {joint: of_slide or unit for joint, (_, of_slide) in group.slides.items()}
    return _table({joint: _quoted(one) for joint, one in (dict.fromkeys(group.columns, unit) | own).items()})


def _offsets(zero: Decision, group: Group) -> dict[str, float]:
    """What is added to the positions of joints, in their unit, where it is not 0."""
    given = answered_offsets(list(group.columns), {OFFSET: zero.value}) if zero.value is not None else {}
    return {joint: one for joint, one in given.items() if one}


def _columns(group: Group, position: Group | None = None) -> str:
    """A template where it names the columns of all joints with a position, else a table."""
    columns = group.columns
    if position is not None and not set(position.columns) <= set(columns):
        return _table({joint: _quoted(column) for joint, column in columns.items()})
    if group.slides:
        own = {joint: column for joint, (column, _) in group.slides.items()}
        return _table({joint: _quoted(column) for joint, column in (columns | own).items()})
    if group.family.labels:
        # By name, as the log says it: a template would say it by a number that happens to be the joint's.
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
    for one in decisions:
        if not one.why:
            continue
        name = one.key.removeprefix("log.")
        lines += _comment(f"{name} ({one.grade}): {'; '.join(one.why)}")
        if one.question:
            lines += _comment(f"{QUESTION} {one.question}")
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
