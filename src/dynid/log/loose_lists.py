"""Lists among the cells of a line that no quotes hold together: 0.01,[1.0, 2.0],[3.0, 4.0] or 7 (1.0 2.0) (3.0 4.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Of two numbers or more, at the beginning of a cell and at its end.
_NUMBER = r"[-+]?(?:\d[\d.]*|\.\d+|nan|inf)(?:e[-+]?\d+)?"
_LIST = re.compile(
    rf"(?<![^\s,;|])([ \t]*)[\[(]\s*({_NUMBER}(?:(?:\s*[,;]\s*|\s+){_NUMBER})+)\s*,?\s*[\])](?![^\s,;|])",
    re.IGNORECASE,
)
# Of one number. In round brackets between blanks alone: those of spreadsheets are negative.
_ONE_NUMBER = re.compile(
    rf"(?<![^\s,;|])\[\s*({_NUMBER})\s*,?\s*\](?![^\s,;|])"
    rf"|(?:(?<=[^\s,;|] )|(?<=^))\(\s*({_NUMBER})\s*\)(?= *(?:\Z|[^\s,;|]))",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*[,;]\s*|\s+")
# As cells of their own, as quotes make them, a cell for each of their numbers, or one number in place of each.
QUOTED, FLAT, ONE = "quoted", "flat", "one"


def has_lists(lines: Sequence[str]) -> bool:
    """Whether most lines hold lists that would fall apart into cells."""
    held = (
        '"' not in line and (_LIST.search(line) or _ONE_NUMBER.search(line)) is not None for line in lines
    )
    return 2 * sum(held) > len(lines)


def held_together(line: str, way: str, delimiter: str) -> str:
    """A line with its lists written in a way; "" = as they are.    delimiter: of the cells."""
    if not way or '"' in line:
        return line
    mark = "," if way == QUOTED else delimiter

    def written(found: re.Match[str]) -> str:
        blanks = found[1] if delimiter.isspace() else ""  # quotes begin a cell
        numbers = _BETWEEN.split(found[2])
        if way == ONE:
            return f"{found[1]}{numbers[0]}"
        return blanks + (f'"[{mark.join(numbers)}]"' if way == QUOTED else mark.join(numbers))

    return _LIST.sub(written, _ONE_NUMBER.sub(lambda found: found[1] or found[2], line))
