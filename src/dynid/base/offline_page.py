"""What pages that need no network and run no foreign script are made of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

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
