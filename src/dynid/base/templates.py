"""Templates of HTML pages: everything that is not Markup is escaped, and a name that is not given is an error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment


def environment(folder: Path, **filters: Callable[[Any], Any]) -> Environment:
    """The Jinja2 environment of the templates in a folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        bytecode_cache=_compiled(folder),
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made


def _compiled(folder: Path) -> BytecodeCache | None:
    """Compiled templates, kept where and when Python keeps compiled modules; None where it does not."""
    import jinja2
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    if sys.dont_write_bytecode:
        return None
    place = Path(cache_from_source(str(folder / "templates.py"))).parent

    class Compiled(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):  # a folder that may not be written to
                place.mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)

    return Compiled(str(place), f"%s.jinja-{jinja2.__version__}.pyc")
