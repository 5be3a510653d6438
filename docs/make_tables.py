"""Writes what pages take from elsewhere: keys in experiment.md and motion-file.md, options, the index in findings.md.

python docs/make_tables.py: rewrites these pages.    A test holds them in step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from pydantic import BaseModel

from dynid.base import diagnostics as explanation
from dynid.base.toml import words_of
from dynid.cli.options import described, described_robot
from dynid.excitation import settings as plan_file
from dynid.identification import schema
from dynid.log import mapping as section

DOCS = Path(__file__).resolve().parent
EXPERIMENT_TABLES: Mapping[str, type[BaseModel]] = {
    "Plug-ins": schema.ExperimentFile,
    "`[log]`: which column measures what": section.LogSection,
    "`[log.time]`": section.TimeEntry,
    "`[log.position]`": section.PositionEntry,
    "`[log.velocity]`": section.TimedEntry,
    "`[log.motor_position]`": section.MotorEntry,
    "`[log.effort]`": section.EffortEntry,
    "`[log.extra]`": section.ExtraEntry,
    "`[data]`: what is fitted and what is held out": schema.DataSection,
    "Selections": schema.SelectionEntry,
    "`[prepare]`: signals": schema.PrepareSection,
    "`[model]`: terms": schema.ModelSection,
    "`[drive]`: position controllers": schema.DriveSection,
    "`[robot]`: how the robot stands": schema.RobotSection,
    "`[statics]`: static poses": schema.StaticsSection,
    "`[estimate]`: method": schema.EstimateSection,
    "`[[estimate.limits]]`": schema.LimitEntry,
}
PLAN_TABLES: Mapping[str, type[BaseModel]] = {
    f"`[{name}]`": model for name, model in plan_file.SECTIONS.items()
} | {
    "`[[surroundings.obstacles]]`": plan_file.ENTRIES["obstacles"],
    "`[[tool.solids]]`": plan_file.ENTRIES["solids"],
}
# Commands whose options are made from settings, and those that know plug-ins.
COMMANDS = ("check", "identify")
WITH_PLUGINS = (
    "check", "identify", "validate", "report", "compare", "selftest", "export", "payload", "statics", "springs",
    "excite", "watch", "retrieve", "init", "fleet",
)  # fmt: skip
# Commands that read a robot; the first one explains what may be said of it.
WITH_ROBOT = (
    "inspect", "init", "limits", "check", "average", "identify", "statics", "springs", "retrieve", "reveal", "watch",
    "excite", "simulate",
)  # fmt: skip
PLUGIN_ROW = "| `--plugin` | | module, or Python file, with [kinds](design.md#plug-ins) of one's own; may be repeated |"
FROM_CODE = "<!-- from here on made from the code: python docs/make_tables.py -->"
LINE = 120  # columns
KEYS, OPTIONS = "| key | kind | default | meaning |", "| option | default | meaning |"


def written(info: Any) -> str:
    """A default as the tables write it."""
    if info.is_required():
        return "required"
    default = info.get_default(call_default_factory=True)
    if default is None:
        return "-"
    if isinstance(default, BaseModel) or is_dataclass(default):
        return "own table"
    return f"`{json.dumps(default)}`"


def key_rows(model: type[BaseModel]) -> list[str]:
    """One row a key of a table of experiment.toml."""
    rows = {
        info.alias or name: (words_of(info), written(info), info.description or "")
        for name, info in model.model_fields.items()
        if written(info) != "own table"
    }
    if model is schema.EstimateSection:
        of_methods = {
            name: (max((one.words for one in kinds), key=len), "-", kinds[0].option.doc)
            for name, kinds in schema.method_options().items()
        }
        rows = {"method": rows.pop("method"), **of_methods, **rows}
    return [
        f"| `{name}` | {quoted(kind)} | {default} | {doc} |" for name, (kind, default, doc) in rows.items()
    ]


def quoted(kind: str) -> str:
    """Words for values with texts as TOML writes them."""
    return re.sub(r"'([^']*)'", r'`"\1"`', kind)


def option_rows() -> list[str]:
    """One row an option that is made from a setting."""
    return [
        f"| `{flag}` | {'' if one.default is None else json.dumps(one.default).strip(chr(34))} | "
        f"`{table}.{one.name}` in place of the [experiment](experiment.md)'s: {quoted(one.words)} |"
        for table, flag, one in described()
    ]


def robot_rows(command: str) -> list[str]:
    """The options of a robot: one row each for the first command, one for them all for the others."""
    options = described_robot()
    if command == WITH_ROBOT[0]:
        return [
            f"| `--{name}` | | `{form}`: {one.option.doc}"
            + ("; may be repeated |" if one.name in ("lock", "packages", "xacro") else " |")
            for name, (one, form) in options.items()
        ]
    if command not in WITH_ROBOT:
        return []
    names = ", ".join(f"`--{name}`" for name in options)
    return [f"| {names} | | the robot: as for [`dynid {WITH_ROBOT[0]}`](cli.md#dynid-{WITH_ROBOT[0]}) |"]


def experiment_page(text: str) -> str:
    """The page with its tables made anew."""
    return with_tables(text, EXPERIMENT_TABLES)


def plan_page(text: str) -> str:
    """The page with the tables of the plan file made anew."""
    return with_tables(text, PLAN_TABLES)


def with_tables(text: str, tables: Mapping[str, type[BaseModel]]) -> str:
    """A page with a table of keys below each heading."""
    for title, model in tables.items():
        head, heading, rest = cut(text, title)
        before, rest = rest.split(KEYS + "\n", 1)
        ruler, _, rest = rest.partition("\n")
        after = rest[len("".join(line + "\n" for line in rows_at(rest))) :]
        text = (
            head + heading + before + KEYS + "\n" + ruler + "\n" + "\n".join(key_rows(model)) + "\n" + after
        )
    return text


def command_page(text: str) -> str:
    """The page with the options made from settings at the end of the tables of their commands."""
    for command in dict.fromkeys((*WITH_ROBOT, *WITH_PLUGINS)):
        head, heading, rest = cut(text, f"`dynid {command}`")
        section, below = rest.split("\n## ", 1)
        if OPTIONS not in section:
            section = f"{section.rstrip()}\n\n{OPTIONS}\n|---|---|---|\n"
        before, rest = section.split(OPTIONS + "\n", 1)
        ruler, _, rest = rest.partition("\n")
        old = rows_at(rest)
        after = rest[len("".join(line + "\n" for line in old)) :]
        flags = {"--plugin"} | ({flag for _, flag, _ in described()} if command in COMMANDS else set())
        flags |= {f"--{name}" for name in described_robot()} if command in WITH_ROBOT else set()
        own = [row for row in old if not flags & set(re.findall(r"`([^`]+)`", row.split("|")[1]))]
        made = "\n".join(
            [
                *own,
                *robot_rows(command),
                *([PLUGIN_ROW] if command in WITH_PLUGINS else []),
                *(option_rows() if command in COMMANDS else []),
            ]
        )
        page = head + heading + before + OPTIONS + "\n" + ruler + "\n" + made + "\n" + after
        text = f"{page}\n## {below}"
    return text


def cut(text: str, title: str) -> tuple[str, str, str]:
    """What stands before a heading, the heading, and what follows."""
    found = re.search(rf"^#+ {re.escape(title)}\n", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"no heading '{title}'")
    return text[: found.start()], found[0], text[found.end() :]


def rows_at(text: str) -> list[str]:
    """The rows of a table at the beginning of a text."""
    rows = []
    for line in text.splitlines():
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def findings_page(text: str) -> str:
    """The page with every code and the address of its entry."""
    head, line, _ = text.partition(FROM_CODE)
    return head + line + "\n\n" + "\n\n".join(index_of(name) for name in explanation.PAGES) + "\n"


def index_of(name: str) -> str:
    """The codes of a page of docs/findings in alphabetical order, each with the address of its entry."""
    known = explanation.page(name)
    entries = {code: entry.code for entry in known.explanations for code in entry.codes}
    links = [f"[`{code}`](findings/{name}.md#{entries[code]})" for code in sorted(entries)]
    return f"## {known.title}\n\n" + fill(
        ", ".join(links), LINE, break_on_hyphens=False, break_long_words=False
    )


PAGES = {
    "experiment.md": experiment_page,
    "motion-file.md": plan_page,
    "cli.md": command_page,
    "findings.md": findings_page,
}


def main() -> None:
    """Rewrites the pages."""
    for name, made in PAGES.items():
        path = DOCS / name
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
