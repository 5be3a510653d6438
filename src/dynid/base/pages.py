"""Offline HTML pages and their templates."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment


# What pages that need no network and run no foreign script are made of.

_ESCAPED_IN_JSON = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}

_END = re.compile("</(?i:script|style)")


def script_json(data: object) -> str:
    """JSON that may stand inside a script element: no character in it can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPED_IN_JSON.items():
        text = text.replace(character, escape)
    return text


def page_policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy under which these scripts alone run, by their hash, and nothing is loaded."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def own_text(path: Path) -> str:
    """A script or style of the package: UTF-8, with the line ends that a browser hashes.

    Raises ValueError for a text that would end the element it stands in.
    """
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n").replace("\r", "\n")
    if ends_element(text):
        raise ValueError(f"{path.name} would end its own element")
    return text


def ends_element(text: str) -> bool:
    """Whether a text would end the script or style element it stands in."""
    return _END.search(text) is not None


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


# Templates of HTML pages: everything that is not Markup is escaped, and a name that is not given is an
# error.


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
