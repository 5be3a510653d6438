"""What a study is made of: results with their bounds, text, tables and figures, collected section by section."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dynid.base import UsageError
from dynid.report.figures import Figure

Cell = str | float | int | bool | None
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Paper:
    """What is reproduced.    name: of the command line.    source: authors, year, journal.    summary: one sentence."""

    name: str
    title: str
    source: str
    summary: str


@dataclass(frozen=True)
class Dose:
    """How much is run.    full: everything, instead of what shows the same in a few minutes.

    data: folder with real robots' logs, None where there is none.
    """

    full: bool = False
    data: Path | None = None

    def pick(self, quick: Choice, full: Choice) -> Choice:
        """One of two amounts."""
        return full if self.full else quick

    def file(self, *parts: str) -> Path | None:
        """A file of the real logs, None where it is not at hand."""
        path = self.data.joinpath(*parts) if self.data is not None else None
        return path if path is not None and path.exists() else None


@dataclass(frozen=True)
class Result:
    """One number: what the paper prints, what comes out here, and the bounds it has to lie in.

    name: its key in results.json.    what: in words.    printed: None where the paper has no such number.
    least, most: bounds of ours.    explanation: why ours differs from print, with the evidence.
    """

    name: str
    what: str
    ours: float
    printed: float | None = None
    least: float = -math.inf
    most: float = math.inf
    unit: str = ""
    explanation: str = ""

    @property
    def ok(self) -> bool:
        """Whether ours lies within its bounds; nan never does."""
        return self.least <= self.ours <= self.most

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound that ours could miss."""
        return math.isfinite(self.least) or math.isfinite(self.most)

    @property
    def deviation(self) -> float | None:
        """Ours less printed, as a fraction of printed; None without print or with a printed zero."""
        return None if not self.printed else (self.ours - self.printed) / abs(self.printed)


def near(
    name: str,
    what: str,
    ours: float,
    printed: float,
    tolerance: float,
    unit: str = "",
    explanation: str = "",
    right: float | None = None,
) -> Result:
    """A result within `tolerance` of the printed value, or of the right one where a misprint is corrected."""
    target = printed if right is None else right
    return Result(name, what, ours, printed, target - tolerance, target + tolerance, unit, explanation)


def within(name: str, what: str, ours: float, target: float, tolerance: float, unit: str = "") -> Result:
    """A result that the paper does not print, within `tolerance` of what it should be."""
    return Result(name, what, ours, None, target - tolerance, target + tolerance, unit)


def at_most(
    name: str,
    what: str,
    ours: float,
    most: float,
    printed: float | None = None,
    unit: str = "",
    explanation: str = "",
) -> Result:
    """A result that is better the smaller it is."""
    return Result(name, what, ours, printed, -math.inf, most, unit, explanation)


def at_least(
    name: str,
    what: str,
    ours: float,
    least: float,
    printed: float | None = None,
    unit: str = "",
    explanation: str = "",
) -> Result:
    """A result that is better the greater it is."""
    return Result(name, what, ours, printed, least, math.inf, unit, explanation)


def reported(
    name: str,
    what: str,
    ours: float,
    printed: float | None = None,
    unit: str = "",
    explanation: str = "",
) -> Result:
    """A number without a bound."""
    return Result(name, what, ours, printed, unit=unit, explanation=explanation)


@dataclass(frozen=True)
class Text:
    """Paragraphs, apart by empty lines; `code` stands in backticks."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under headings; numbers are written with `digits` significant digits, the same or one a column.

    name: its key among the tables of results.json; "" = it stands on the page alone, as measured times must.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int | tuple[int, ...] = 3
    note: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        for row in (*self.rows, self.column_digits):
            if len(row) != len(self.head):
                raise UsageError(
                    "study-table", found=f"a row of {len(row)} cells", expected=f"{len(self.head)} cells"
                )

    @property
    def column_digits(self) -> tuple[int, ...]:
        """Significant digits of each column."""
        return (self.digits,) * len(self.head) if isinstance(self.digits, int) else self.digits


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption; name: of its SVG file."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Results:
    """Results side by side: printed, ours, deviation, bound."""

    caption: str
    results: tuple[Result, ...]


Block = Text | Table | Drawing | Results


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Study:
    """A finished study."""

    paper: Paper
    full: bool
    sections: tuple[Section, ...]

    @property
    def results(self) -> tuple[Result, ...]:
        """All results in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(r for block in blocks if isinstance(block, Results) for r in block.results)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables with a name, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block for block in blocks if isinstance(block, Table) and block.name)

    @property
    def missed(self) -> tuple[Result, ...]:
        """Results outside their bounds."""
        return tuple(result for result in self.results if not result.ok)

    @property
    def count(self) -> str:
        """How many of the bounded results lie within their bounds, and how many have none."""
        bounded = [result for result in self.results if result.is_bounded]
        kept, free = sum(result.ok for result in bounded), len(self.results) - len(bounded)
        text = f"{kept} of {len(bounded)} bounded results lie within their bounds"
        return f"{text}; {free} more {'is' if free == 1 else 'are'} shown without a bound" if free else text


class StudyPage:
    """Takes down a study as it is written: a section, then what stands in it."""

    def __init__(self, paper: Paper, full: bool, progress: Callable[[str], None] | None = None) -> None:
        """progress: is called with the title of each section when it begins."""
        self.paper, self.full, self._progress = paper, full, progress
        self._sections: list[tuple[str, list[Block]]] = []
        self._names: set[str] = set()

    def section(self, title: str) -> None:
        """Begins a section."""
        if self._progress is not None:
            self._progress(title)
        self._sections.append((title, []))

    def text(self, text: str) -> None:
        """Paragraphs; line breaks within them do not matter."""
        self._add(Text(text))

    def table(
        self,
        caption: str,
        head: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        digits: int | tuple[int, ...] = 3,
        note: str = "",
        name: str = "",
    ) -> None:
        """A table; raises UsageError for a row of another length or a name that is taken."""
        if name:
            self._take(f"table {name}")
        self._add(Table(caption, tuple(head), tuple(tuple(row) for row in rows), digits, note, name))

    def figure(self, name: str, caption: str, figure: Figure) -> None:
        """A figure, in the page and as NAME.svg; raises UsageError for a name that is taken."""
        self._take(name)
        self._add(Drawing(name, caption, figure))

    def results(self, caption: str, *results: Result) -> None:
        """Results in a table and in results.json; raises UsageError for a name that is taken."""
        for result in results:
            self._take(f"result {result.name}")
        self._add(Results(caption, results))

    def finish(self) -> Study:
        """The study so far."""
        sections = tuple(Section(title, tuple(blocks)) for title, blocks in self._sections)
        return Study(self.paper, self.full, sections)

    def _add(self, block: Block) -> None:
        if not self._sections:
            raise UsageError("study-section", found="a block before any section", expected="section() first")
        self._sections[-1][1].append(block)

    def _take(self, name: str) -> None:
        if name in self._names:
            raise UsageError("study-name", found=f"'{name}' twice", expected="one name each")
        self._names.add(name)
