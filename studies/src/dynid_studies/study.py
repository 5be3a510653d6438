"""Parts of a study: results with bounds, text, tables and figures, collected by section."""

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
    """A paper.    name: on the command line.    source: authors, year, journal.    summary: one sentence."""

    name: str
    title: str
    source: str
    summary: str


@dataclass(frozen=True)
class Dose:
    """Amount of work of a study.

    full: run everything instead of a form of a few minutes.    data: folder with logs of real robots, or None.
    """

    full: bool = False
    data: Path | None = None

    def pick(self, quick: Choice, full: Choice) -> Choice:
        """Return the amount for the quick or the full form."""
        return full if self.full else quick

    def file(self, *parts: str) -> Path | None:
        """Return the path of a file among the real logs, or None if it does not exist."""
        path = self.data.joinpath(*parts) if self.data is not None else None
        return path if path is not None and path.exists() else None


@dataclass(frozen=True)
class Result:
    """A number: the printed value, the computed value and its bounds.

    Attributes
    ----------
    name : str
        Key in results.json.
    what : str
        Description.
    ours : float
        Computed value.
    printed : float or None
        Value in the paper, if there is one.
    least, most : float
        Bounds of the computed value.
    unit : str
        Unit.
    explanation : str
        Why the computed value differs from the printed one, with the evidence.

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
        """Whether the computed value is within its bounds; nan never is."""
        return self.least <= self.ours <= self.most

    @property
    def is_bounded(self) -> bool:
        """Whether there is a finite bound."""
        return math.isfinite(self.least) or math.isfinite(self.most)

    @property
    def deviation(self) -> float | None:
        """Relative difference to the printed value; None without a printed value or with a printed zero."""
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
    """Return a result that must be within `tolerance` of the printed value, or of `right` if that is a misprint."""
    target = printed if right is None else right
    return Result(name, what, ours, printed, target - tolerance, target + tolerance, unit, explanation)


def within(name: str, what: str, ours: float, target: float, tolerance: float, unit: str = "") -> Result:
    """Return a result that is not in the paper and must be within `tolerance` of `target`."""
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
    """Return a result with an upper bound."""
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
    """Return a result with a lower bound."""
    return Result(name, what, ours, printed, least, math.inf, unit, explanation)


def reported(
    name: str,
    what: str,
    ours: float,
    printed: float | None = None,
    unit: str = "",
    explanation: str = "",
) -> Result:
    """Return a result without a bound."""
    return Result(name, what, ours, printed, unit=unit, explanation=explanation)


@dataclass(frozen=True)
class Text:
    """Paragraphs, separated by empty lines; `code` is in backticks."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table; numbers are written with `digits` significant digits, one number for all columns or one per column.

    name: key in results.json; empty if the table is on the page only, as measured times must be.
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
    """A figure with its caption; `name` is that of its SVG file."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Results:
    """A table of results: printed value, computed value, deviation, bound."""

    caption: str
    results: tuple[Result, ...]


Block = Text | Table | Drawing | Results


@dataclass(frozen=True)
class Section:
    """A heading with its blocks."""

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
        """Sentence with the number of results within their bounds and without bounds."""
        bounded = [result for result in self.results if result.is_bounded]
        kept, free = sum(result.ok for result in bounded), len(self.results) - len(bounded)
        text = f"{kept} of {len(bounded)} bounded results lie within their bounds"
        return f"{text}; {free} more {'is' if free == 1 else 'are'} shown without a bound" if free else text


class StudyPage:
    """Collects a study while it runs: sections and their blocks."""

    def __init__(self, paper: Paper, full: bool, progress: Callable[[str], None] | None = None) -> None:
        """progress: called with the title of each section when it begins."""
        self.paper, self.full, self._progress = paper, full, progress
        self._sections: list[tuple[str, list[Block]]] = []
        self._names: set[str] = set()

    def section(self, title: str) -> None:
        """Begin a section."""
        if self._progress is not None:
            self._progress(title)
        self._sections.append((title, []))

    def text(self, text: str) -> None:
        """Add paragraphs, separated by empty lines; other line breaks are ignored."""
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
        """Add a table; raises UsageError for a row of another length or a name that is in use."""
        if name:
            self._take(f"table {name}")
        self._add(Table(caption, tuple(head), tuple(tuple(row) for row in rows), digits, note, name))

    def figure(self, name: str, caption: str, figure: Figure) -> None:
        """Add a figure, also written as NAME.svg; raises UsageError for a name that is in use."""
        self._take(name)
        self._add(Drawing(name, caption, figure))

    def results(self, caption: str, *results: Result) -> None:
        """Add results, also written to results.json; raises UsageError for a name that is in use."""
        for result in results:
            self._take(f"result {result.name}")
        self._add(Results(caption, results))

    def finish(self) -> Study:
        """Return the study."""
        sections = tuple(Section(title, tuple(blocks)) for title, blocks in self._sections)
        return Study(self.paper, self.full, sections)

    def _add(self, block: Block) -> None:
        if not self._sections:
            raise UsageError("study-section", found="a block before any section", expected="section() first")
        self._sections[-1][1].append(block)

    def _take(self, name: str) -> None:
        if name in self._names:
            raise UsageError(
                "study-name", found=f"the name '{name}' twice", expected="a different name for each block"
            )
        self._names.add(name)
