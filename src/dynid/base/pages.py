"""Offline HTML pages: scripts, security policy and templates."""

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


# Parts of pages that need no network and run no other scripts.

_ESCAPED_IN_JSON = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}

_END = re.compile("</(?i:script|style)")


def script_json(data: object) -> str:
    """Encode data as JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPED_IN_JSON.items():
        text = text.replace(character, escape)
    return text


def page_policy(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that allows only these scripts, by their hash, and loads nothing."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def own_text(path: Path) -> str:
    """Read a script or style of the package, with the line ends that a browser hashes.

    Raises ValueError if the text would end the element around it.
    """
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n").replace("\r", "\n")
    if ends_element(text):
        raise ValueError(f"{path.name} contains a tag that ends its element")
    return text


def ends_element(text: str) -> bool:
    """Whether a text would end the script or style element around it."""
    return _END.search(text) is not None


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


# Templates of HTML pages: everything that is not Markup is escaped, and an undefined name is an error.


def environment(folder: Path, **filters: Callable[[Any], Any]) -> Environment:
    """Return the Jinja2 environment of the templates in a folder.

    Parameters
    ----------
    folder : Path
        Folder of the templates.
    **filters : callable
        Filters by name.

    Returns
    -------
    jinja2.Environment

    """
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
    """Return a cache of compiled templates in Python's cache folder; None if Python writes no bytecode."""
    import jinja2
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    if sys.dont_write_bytecode:
        return None
    place = Path(cache_from_source(str(folder / "templates.py"))).parent

    class Compiled(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):  # a read-only folder
                place.mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)

    return Compiled(str(place), f"%s.jinja-{jinja2.__version__}.pyc")
