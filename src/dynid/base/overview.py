"""What an object shows of itself at a prompt and in a notebook: a title, facts and a small table."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence

from dynid.base.records import dataclass

# Of a line, as terminals and notebooks show it without wrapping.
WIDTH = 100
# A fact takes at most so many lines of text, a cell of HTML so many characters, a table so many rows: what objects show
# of themselves stays small whatever they are called.
FACT_LINES, CELL, ROWS = 3, 300, 12
_INDENT, _NO_BREAK = 4, "\u00a0"


@dataclass(frozen=True)
class Overview:
    """A title, facts by label, and a table that only HTML shows: heads and rows of text."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def text(self) -> str:
        """Lines of text."""
        lines = [shortened(self.title, WIDTH)]
        for label, value in self.facts:
            lines += textwrap.wrap(
                f"{label}: {printable(value)}".replace(" %", f"{_NO_BREAK}%"),
                WIDTH,
                initial_indent="  ",
                subsequent_indent=" " * _INDENT,
                max_lines=FACT_LINES,
                placeholder=" ...",
            )
        return "\n".join(lines).replace(_NO_BREAK, " ")

    def html(self) -> str:
        """A small table; every text is escaped."""
        facts = "".join(
            f'<tr><th style="text-align:left">{_cell(label)}</th><td style="text-align:left">{_cell(value)}</td></tr>'
            for label, value in self.facts
        )
        return f"<div><p><b>{_cell(self.title)}</b></p><table>{facts}</table>{self._table()}</div>"

    def _table(self) -> str:
        if not self.rows:
            return ""
        head = "".join(f"<th>{_cell(one)}</th>" for one in self.heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(one)}</td>" for one in row) + "</tr>" for row in self.rows[:ROWS]
        )
        left = len(self.rows) - ROWS
        more = f'<tr><td colspan="{len(self.heads)}">and {left} more</td></tr>' if left > 0 else ""
        return f"<table><tr>{head}</tr>{body}{more}</table>"


def printable(text: str) -> str:
    """The text with a question mark for what no terminal should be sent."""
    return "".join(one if one.isprintable() else "?" for one in text)


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    plain = printable(text)
    return plain if len(plain) <= length else plain[: length - 4] + " ..."


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names with commas between, the number of those that are left out at the end."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def few(names: Sequence[str], most: int) -> str:
    """The first names with commas between, dots for those that are left out."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def counted(count: int, what: str) -> str:
    """A number of things: "1 joint", "7 joints"."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def _cell(text: str) -> str:
    return html.escape(shortened(text, CELL))
