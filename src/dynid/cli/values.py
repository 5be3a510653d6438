"""Values of texts and paths on the command line, read without typer's types: they take longer to load than to use.

Whatever is more than a text or a path, or is wrong, is left to typer, which says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

from typer.core import TyperCommand

# What typer may be asked to check of a path or to make of a value, and what it does unless it is asked.
_UNASKED = {
    "exists": False, "file_okay": True, "dir_okay": True, "readable": True, "writable": False,
    "resolve_path": False, "allow_dash": False, "path_type": None, "parser": None,
}  # fmt: skip


class PlainCommand(TyperCommand):
    """A command that reads texts and paths without typer's types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command's arguments."""
        parameters = self.get_params(ctx)
        read_plainly(parameters)
        if any(parameter.name == "robot_xacro" for parameter in parameters):
            from dynid.cli.robot_options import with_bare_xacro  # loaded by the commands that have it

            args = with_bare_xacro(args)
        return super().parse_args(ctx, args)


def read_plainly(parameters: Iterable[Any]) -> None:
    """Reads texts and paths without typer's types; a typer that describes parameters in another way reads all."""
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        if described is None or "process_value" in vars(parameter):
            continue
        several = get_origin(described.annotation) is list
        kind = get_args(described.annotation)[0] if several else described.annotation
        unasked = all(getattr(described.parameter_info, name, x) == x for name, x in _UNASKED.items())
        if unasked:
            parameter.process_value = partial(_value, parameter, parameter.process_value, kind, several)


def _value(
    parameter: Any, process: Callable[[Any, Any], Any], kind: Any, several: bool, ctx: Any, value: Any
) -> Any:
    if value is None and not parameter.required:
        read: Any = () if several else None
    elif kind in (str, Path) and isinstance(value, list | tuple) == several and value:
        parts = value if several else [value]
        if not all(_is_fine(part, kind) for part in parts):
            return process(ctx, value)
        read = [kind(part) for part in parts] if several else kind(value)
    else:
        return process(ctx, value)
    return read if parameter.callback is None else parameter.callback(ctx, parameter, read)


def _is_fine(value: Any, kind: type[str] | type[Path]) -> bool:
    if kind is str:
        return isinstance(value, str)
    if not isinstance(value, str | Path):
        return False
    try:
        Path(value).stat()
    except OSError:
        return True  # the command says what it misses
    except ValueError:
        return False
    return os.access(value, os.R_OK)
