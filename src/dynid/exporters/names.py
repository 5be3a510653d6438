"""Names of strangers in generated files: identifiers from an allow-list, originals in escaped comments only."""

from __future__ import annotations

import re

_LONGEST = 40
_PLAIN = re.compile(r"[A-Za-z0-9 _.:,()+=-]")


def c_identifier(name: str) -> str:
    """A C identifier made of a name: letters and digits, lower case, everything else one underscore."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[:_LONGEST].strip("_")
    if not text:
        return "robot"
    return text if text[0].isalpha() else f"robot_{text}"


def c_comment(name: str) -> str:
    """A name that can stand in a C comment: all but plain characters written as escapes."""
    shown = name[:120]
    text = "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in shown)
    return text + ("..." if len(name) > len(shown) else "")


def xml_name(name: str) -> str:
    """A name without characters that XML cannot hold; quotes and brackets are left to the writer's escapes."""
    return "".join(c if c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF else "_" for c in name)


def unique(names: list[str]) -> list[str]:
    """The names with a number behind those that occur before."""
    seen: set[str] = set()
    result = []
    for name in names:
        fresh, number = name, 2
        while fresh in seen:
            fresh, number = f"{name}_{number}", number + 1
        seen.add(fresh)
        result.append(fresh)
    return result
