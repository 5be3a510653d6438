"""Public names of a room that are loaded on first use, so that importing one module does not load its whole room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that shows these names and nothing else.

    homes: by module of the package, the names that it gives, with blanks between. No name may be that of a module.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted(modules)
