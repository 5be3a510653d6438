"""Writes what pages take from the code: tables of keys, shared options of commands, the index of findings.

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

import typer
from pydantic import BaseModel

from dynid.base import diagnostics as explanation
from dynid.base.toml import words_of
from dynid.cli.main import app
from dynid.cli.options import described, described_robot
from dynid.excitation import settings as plan_file
from dynid.identification import schema
from dynid.log import mapping as section

DOCS = Path(__file__).resolve().parent
EXPERIMENT_TABLES: Mapping[str, type[BaseModel]] = {
    "Top level": schema.ExperimentFile,
    "`[log]`": section.LogSection,
    "`[log.time]`": section.TimeEntry,
    "`[log.position]`": section.PositionEntry,
    "`[log.velocity]`": section.TimedEntry,
    "`[log.motor_position]`": section.MotorEntry,
    "`[log.effort]`": section.EffortEntry,
    "`[log.wrench.NAME]`": section.WrenchEntry,
    "`[log.extra]`": section.ExtraEntry,
    "`[data]`": schema.DataSection,
    "Selections": schema.SelectionEntry,
    "`[prepare]`": schema.PrepareSection,
    "`[model]`": schema.ModelSection,
    "`[drive]`": schema.DriveSection,
    "`[robot]`": schema.RobotSection,
    "`[statics]`": schema.StaticsSection,
    "`[estimate]`": schema.EstimateSection,
    "`[[estimate.limits]]`": schema.LimitEntry,
}
PLAN_TABLES: Mapping[str, type[BaseModel]] = {
    f"`[{name}]`": model for name, model in plan_file.SECTIONS.items()
} | {
    "`[[surroundings.obstacles]]`": plan_file.ENTRIES["obstacles"],
    "`[[tool.solids]]`": plan_file.ENTRIES["solids"],
}
ROBOT_OPTIONS, SETTINGS, SHARED = "Robot options", "Settings as options", "Shared options"
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
            name: (max((kind.words for kind in kinds), key=len), "-", kinds[0].option.doc)
            for name, kinds in schema.method_options().items()
        }
        rows = {"method": rows.pop("method"), **of_methods, **rows}
    return [
        f"| `{name}` | {quoted(kind)} | {default} | {doc} |" for name, (kind, default, doc) in rows.items()
    ]


def quoted(kind: str) -> str:
    """Words for values with texts as TOML writes them."""
    return re.sub(r"'([^']*)'", r'`"\1"`', kind)


def robot_rows() -> list[str]:
    """One row for each option of a robot."""
    return [
        f"| `--{name}` | | `{form}`: {option.option.doc}"
        + ("; may be repeated |" if option.name in ("lock", "packages", "xacro") else " |")
        for name, (option, form) in described_robot().items()
    ]


def setting_rows() -> list[str]:
    """One row for each table of an experiment file, with the options that set its keys."""
    flags: dict[str, list[str]] = {}
    for table, flag, _ in described():
        flags.setdefault(table, []).append(f"`{flag}`")
    return [f"| {', '.join(names)} | the file's | keys of `[{table}]` |" for table, names in flags.items()]


def options_by_command() -> dict[str, set[str]]:
    """The options of every command, long and short."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    return {
        name: {
            flag
            for parameter in group.get_command(context, name).params
            for flag in (*parameter.opts, *parameter.secondary_opts)
            if flag.startswith("-")
        }
        for name in group.list_commands(context)
    }


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
    """The page with the tables of shared options made anew, and the line below each command that names its own."""
    for title, rows in ((ROBOT_OPTIONS, robot_rows()), (SETTINGS, setting_rows())):
        head, heading, rest = cut(text, title)
        before, rest = rest.split(OPTIONS + "\n", 1)
        ruler, _, rest = rest.partition("\n")
        after = rest[len("".join(line + "\n" for line in rows_at(rest))) :]
        text = head + heading + before + OPTIONS + "\n" + ruler + "\n" + "\n".join(rows) + "\n" + after
    shared = [
        re.findall(r"`(-[\w-]+)`", row.split("|")[1]) for row in rows_at(cut(text, SHARED)[2].lstrip("\n"))
    ]
    for command, options in options_by_command().items():
        if options:
            text = with_shared_options(text, command, options, [names for names in shared if names])
    return text


def with_shared_options(text: str, command: str, options: set[str], shared: list[list[str]]) -> str:
    """The page with the line of shared options at the end of the section of a command."""
    links = {
        "robot options": (ROBOT_OPTIONS, {f"--{name}" for name in described_robot()}),
        "settings": (SETTINGS, {flag for _, flag, _ in described()}),
    }
    named = [
        f"[{words}](cli.md#{title.lower().replace(' ', '-')})"
        for words, (title, flags) in links.items()
        if flags <= options
    ]
    section_text = cut(text, f"`dynid {command}`")[2]
    rows = section_text[: section_end(section_text)].partition(OPTIONS)[2]
    for names in shared:
        if set(names) <= options and not re.search(rf"^\| `{names[0]}`", rows, re.MULTILINE):
            named.append(f"`{names[0]}`")
    head, heading, rest = cut(text, f"`dynid {command}`")
    end = section_end(rest)
    body = re.sub(r"^Also: .*?\.\n\n?", "", rest[:end], flags=re.MULTILINE | re.DOTALL).rstrip("\n")
    line = fill(f"Also: {', '.join(named)}.", LINE, break_on_hyphens=False, break_long_words=False)
    return head + heading + body + (f"\n\n{line}" if named else "") + "\n\n" + rest[end:]


def section_end(text: str) -> int:
    """Where the next heading of the second or third level begins."""
    heading = re.search(r"^#{2,3} ", text, re.MULTILINE)
    return heading.start() if heading else len(text)


def cut(text: str, title: str) -> tuple[str, str, str]:
    """What stands before a heading, the heading, and what follows."""
    match = re.search(rf"^#+ {re.escape(title)}\n", text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"no heading '{title}'")
    return text[: match.start()], match[0], text[match.end() :]


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
    "experiment-keys.md": experiment_page,
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
