"""Options of the command line that are made from settings dataclasses: one a field, with its meaning and unit."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from dynid.base.options import Described, options_of
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


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting; it is handed those that were given as `written`."""
    hints = get_type_hints(command, include_extras=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != WRITTEN]
    parameters = [p.replace(annotation=hints[p.name]) for p in own]
    for table, flag, one in described():
        help_text = f"{table}.{one.name}, {one.words}: {one.option.doc}".replace("`", "")
        annotation = Annotated[str | None, typer.Option(flag, help=help_text, metavar="VALUE")]
        parameters.append(
            inspect.Parameter(
                f"{table}_{one.name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
        )

    def wrapped(**given: Any) -> None:
        written: dict[str, dict[str, Any]] = {}
        for table, _, one in described():
            text = given.pop(f"{table}_{one.name}")
            if text is not None:
                written.setdefault(table, {})[one.name] = _value(text)
        command(**given, written=written)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _value(text: str) -> Any:
    # As TOML writes it, except that text needs no quotes.
    try:
        return tomllib.loads(f"x = {text}")["x"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text
