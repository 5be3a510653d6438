"""A command."""

from typing import Annotated

import typer


def greet(
    name: Annotated[str, typer.Argument()], loud: Annotated[bool, typer.Option("--loud")] = False
) -> None:
    """Greets."""
    print(f"hello {name}{'!' if loud else ''}")  # noqa: T201
