"""Commands with options that several of them share, added to those of their own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

Values = dict[str, Any]


def with_options(
    command: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    call: Callable[[Values, Values], None],
    stands_for: str = "",
) -> Callable[..., None]:
    """A function that typer reads as the command with further options.

    options: (annotation, default) of each, by name.    call: runs the command, given the values of the command's own
    parameters and those of the options.    stands_for: parameter of the command that is handed the options' values.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != stands_for]
    parameters = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in own] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    def wrapped(**given: Any) -> None:
        added = {name: given.pop(name) for name in options}
        call(given, added)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by inspect, set by us
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped
