"""Public names of a room that are loaded on first use, so that importing one module does not load its whole room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from warnings import warn


def lazily(
    package: str, homes: Mapping[str, str], moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that shows these names and nothing else.

    Parameters
    ----------
    package
        Name of the package.
    homes
        By module of the package, the names that it gives, with blanks between. No name may be that of a module.
    moved
        By package, the names that used to be here and are there now: they still work, with a DeprecationWarning.

    """
    there = {name: other for other, names in (moved or {}).items() for name in names.split()}
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        if name in there:
            warn(f"{package}.{name} is {there[name]}.{name} now", DeprecationWarning, stacklevel=2)
            return getattr(import_module(there[name]), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted(modules)
