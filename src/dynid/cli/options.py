"""Options of several commands: of the robot file, and of settings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer

from dynid.base.errors import UsageError
from dynid.base.options import Described, literals, options_of
from dynid.cli.common import Values, completes, with_options
from dynid.identification.blocks import Blocks
from dynid.robot.options import Reading, ServoSettings
from dynid.signals.settings import Preparation

# Options of every command that reads a robot: one for each key of [robot] in an experiment file.

# Parameter of a command that gets the given values: key of [robot] -> value.
PARAMETER = "robot_options"
RobotOptions = dict[str, Any]
_FORMS = {
    "root": "LINK", "tip": "LINK", "base": "auto|fixed|floating", "lock": "JOINT=VALUE", "gravity": "X,Y,Z",
    "packages": "DIR", "xacro": "[NAME=VALUE]",
}  # fmt: skip
_SEVERAL = ("lock", "packages", "xacro")


def described_robot() -> Mapping[str, tuple[Described, str]]:
    """Description of every option and form of its value, by key."""
    return {name: (entry, _FORMS[name]) for name, entry in options_of(Reading).items()}


def with_robot(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a robot to a command; given values are passed as `robot_options`."""
    options: dict[str, tuple[Any, Any]] = {}
    for name, (entry, form) in described_robot().items():
        several = name in _SEVERAL
        text = entry.option.doc.replace("`", "") + ("; may be repeated" if several else "")
        flag = typer.Option(f"--{name}", metavar=form, help=f"{text[0].upper()}{text[1:]}.")
        hint = list[str] | None if several else str | None
        options[f"robot_{name}"] = (Annotated[hint, flag], None)

    def call(given: Values, options: Values) -> None:
        values = {name: options[f"robot_{name}"] for name in _FORMS}
        command(**given, robot_options=values_of(values))

    return with_options(command, options, call, stands_for=PARAMETER)


def values_of(values: Mapping[str, Any]) -> RobotOptions:
    """Convert texts of the command line to keys of [robot]; raises UsageError for a text of another form."""
    given: RobotOptions = {name: values[name] for name in ("root", "tip", "base") if values[name] is not None}
    if values["gravity"] is not None:
        given["gravity"] = _gravity(values["gravity"])
    if values["packages"]:
        given["packages"] = list(values["packages"])
    if values["lock"]:
        given["lock"] = {name: _number(name, text) for name, text in _pairs("lock", values["lock"])}
    if values["xacro"]:
        given["xacro"] = dict(_pairs("xacro", [text for text in values["xacro"] if text])) or True
    return given


def _gravity(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3:
        raise UsageError(
            "gravity",
            found=f"gravity '{text}'",
            expected="three finite numbers, m/s^2, for example 0,0,-9.81",
        )
    Reading(gravity=(values[0], values[1], values[2]))  # finite
    return values


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        # xacro itself writes arguments as name:=value.
        name, equals, value = text.partition("=")
        name = name.removesuffix(":") if option == "xacro" else name
        if not equals or not name:
            raise UsageError(
                option, found=f"--{option} {text}", expected=f"--{option} {_FORMS[option].strip('[]')}"
            )
        pairs.append((name, value))
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(option, found=f"--{option} for '{twice}' twice", expected="one value")
    return pairs


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(
            "lock",
            found=f"--lock {name}={text}",
            expected="a number, rad or m",
            do="for example --lock finger=0.02",
        ) from None
    Reading(lock={name: value})  # finite
    return value


# Options made from settings dataclasses: one for each field, with its meaning and unit.

# Tables of experiment.toml whose keys are also options.
TABLES: Mapping[str, type[Any]] = {"drive": ServoSettings, "prepare": Preparation, "estimate": Blocks}
# Parameter of a command that gets the given values: table -> key -> value.
WRITTEN = "written"
Written = dict[str, dict[str, Any]]


def described() -> Iterator[tuple[str, str, Described]]:
    """(table, flag, option) of every option made here."""
    for table, kind in TABLES.items():
        for name, entry in options_of(kind).items():
            yield table, "--" + name.replace("_", "-"), entry


_BEFORE_POINT, _AFTER_POINT = re.compile(r"(?<![\w.])(?=\.\d)"), re.compile(r"(?<=\d)\.(?![\d.])")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every setting to a command; given values are passed as `written`."""
    options: dict[str, tuple[Any, Any]] = {}
    for table, flag, entry in described():
        help_text = f"{table}.{entry.name}, {entry.words}: {entry.option.doc}".replace("`", "")
        choices = entry.option.choices or literals(entry.hint)
        flag_of = typer.Option(
            flag,
            help=help_text,
            metavar="VALUE",
            autocompletion=completes(partial(tuple, choices)) if choices else None,
        )
        options[f"{table}_{entry.name}"] = (Annotated[str | None, flag_of], None)

    def call(given: Values, options: Values) -> None:
        written: Written = {}
        for table, _, entry in described():
            text = options[f"{table}_{entry.name}"]
            if text is not None:
                written.setdefault(table, {})[entry.name] = _value(text)
        command(**given, written=written)

    return with_options(command, options, call, stands_for=WRITTEN)


def _value(text: str) -> Any:
    # TOML, except that text needs no quotes, a list no brackets, and a number may begin or end with its decimal point.
    whole = _AFTER_POINT.sub(".0", _BEFORE_POINT.sub("0", text))
    for written in (text, f"[{text}]", whole, f"[{whole}]") if "\n" not in text else ():
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"x = {written}")["x"]
    return text
