"""Texts and paths read by the command line itself: what typer makes of them, or says of them, is the oracle."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from dynid.cli.common import PlainCommand


class Colour(StrEnum):
    RED = "red"


def command(
    first: Annotated[Path, typer.Argument(metavar="FIRST")],
    others: Annotated[list[Path] | None, typer.Argument()] = None,
    text: Annotated[str, typer.Option("--text")] = "given",
    maybe: Annotated[str | None, typer.Option("--maybe")] = None,
    several: Annotated[
        list[str] | None, typer.Option("--several", callback=lambda x: [*(x or ()), "seen"])
    ] = None,
    out: Annotated[Path, typer.Option("--out")] = Path("out"),
    needed: Annotated[Path | None, typer.Option("--needed", exists=True)] = None,
    shown: Annotated[str, typer.Option("--shown", parser=str.upper)] = "x",
    number: Annotated[int | None, typer.Option("--number", min=1)] = None,
    size: Annotated[float, typer.Option("--size")] = 0.5,
    colour: Annotated[Colour | None, typer.Option("--colour")] = None,
    kind: Annotated[Literal["a", "b"], typer.Option("--kind")] = "a",
    choice: Annotated[bool | None, typer.Option("--yes/--no")] = None,
    force: Annotated[bool, typer.Option("--force")] = False,
) -> None:
    """A command with parameters of all kinds."""
    for name, value in locals().items():
        typer.echo(f"{name}: {value!r}")


def ended(kind: type[TyperCommand], arguments: list[str]) -> tuple[int, str]:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command("command", cls=kind)(command)
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "words",
    [
        "",
        "a",
        "a b c --text t --maybe m --several 1 --several 2 --out o",
        "--text",
        "a --text= --maybe=",
        "a --number 3 --size 1e-3 --colour red --kind b --yes --force",
        "a --number 0",
        "a --number x",
        "a --size x",
        "a --colour blue",
        "a --kind c",
        "a --no --unknown",
        "a --needed nothing-there",
        "a --shown lower",
        "UNREADABLE",
        "a UNREADABLE",
        "a --out UNREADABLE",
        "NUL",
        "a --help",
    ],
)
def test_values_and_messages_are_those_of_typer(words: str, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.touch(mode=0o000)
    names = {"UNREADABLE": str(closed), "NUL": "a\0b"}
    arguments = [names.get(word, word) for word in words.split()]
    assert ended(PlainCommand, arguments) == ended(TyperCommand, arguments)
