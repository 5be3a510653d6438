"""Options of the command line that are made from settings dataclasses: one a field, with its meaning and unit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from dynid.base.options import Described, options_of
from dynid.cli.added_options import Values, with_options
from dynid.identification.blocks import Blocks
from dynid.robot.servo_settings import ServoSettings
from dynid.signals.settings import Preparation

# The tables of experiment.toml whose keys are options, too.
TABLES: Mapping[str, type[Any]] = {"drive": ServoSettings, "prepare": Preparation, "estimate": Blocks}
# What a command calls the values that were given: table -> key -> value.
WRITTEN = "written"
Written = dict[str, dict[str, Any]]


def described() -> Iterator[tuple[str, str, Described]]:
    """(table, flag, option) of every option made here."""
    for table, kind in TABLES.items():
        for name, one in options_of(kind).items():
            yield table, "--" + name.replace("_", "-"), one


_BEFORE_POINT, _AFTER_POINT = re.compile(r"(?<![\w.])(?=\.\d)"), re.compile(r"(?<=\d)\.(?![\d.])")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting; it is handed those that were given as `written`."""
    options: dict[str, tuple[Any, Any]] = {}
    for table, flag, one in described():
        help_text = f"{table}.{one.name}, {one.words}: {one.option.doc}".replace("`", "")
        flag_of = typer.Option(flag, help=help_text, metavar="VALUE")
        options[f"{table}_{one.name}"] = (Annotated[str | None, flag_of], None)

    def call(given: Values, options: Values) -> None:
        written: Written = {}
        for table, _, one in described():
            text = options[f"{table}_{one.name}"]
            if text is not None:
                written.setdefault(table, {})[one.name] = _value(text)
        command(**given, written=written)

    return with_options(command, options, call, stands_for=WRITTEN)


def _value(text: str) -> Any:
    # As TOML writes it, except that text needs no quotes, a list no brackets, and a number no digit beside its point.
    whole = _AFTER_POINT.sub(".0", _BEFORE_POINT.sub("0", text))
    for written in (text, f"[{text}]", whole, f"[{whole}]") if "\n" not in text else ():
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"x = {written}")["x"]
    return text
