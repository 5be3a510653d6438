"""Findings of every level, verdicts, and explanations of their codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import attrgetter
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Literal, get_args

from dynid.base.errors import NOWHERE, Place, UsageError
from dynid.base.records import dataclass
from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.base.arrays import Float

__all__ = ["KINDS", "PAGES", "Explanation", "Page", "explanations_in", "has_more", "page", "plain", "see"]


# Notes, warnings and doubts are collected here, printed and shown in the report.

# Codes of doubts: physical evidence that wiring, units, clocks or the robot of a log are not as stated.
Claim = Literal[
    "changed-within-log",
    "constant-effort",
    "drive-gain",
    "encoders-exchanged",
    "feet-on-ground",
    "gear-ratio-side",
    "gravity-compensated",
    "hand-guided",
    "joint-order",
    "mixed-sources",
    "modelled-effort",
    "motor-position",
    "motor-position-side",
    "motor-position-sign",
    "negative-friction",
    "negative-stiffness",
    "other-arm",
    "outside-limits",
    "payload",
    "position-sign",
    "rows-lost",
    "tilted-base",
    "torque-lag",
    "torque-scale",
    "torque-sign",
    "unit-suspicion",
    "unsigned-effort",
    "velocity-sign",
    "wrong-clock",
    "zero-offset",
]
CLAIMS: tuple[Claim, ...] = get_args(Claim)


def claim_codes(codes: str | Iterable[str]) -> tuple[Claim, ...]:
    """Check codes of doubts that the user accepts.

    Parameters
    ----------
    codes : str or iterable of str
        One code or several.

    Returns
    -------
    tuple of str
        Each code once, in the order given.

    Raises
    ------
    UsageError
        For a code that no doubt has.

    """
    given = (codes,) if isinstance(codes, str) else tuple(codes)
    for code in given:
        if code not in CLAIMS:
            near = get_close_matches(code, CLAIMS, n=1)
            raise UsageError(
                "unknown-claim",
                found=f"unknown code '{code}' in accept",
                expected="one of " + ", ".join(CLAIMS),
                do=f"did you mean '{near[0]}'?" if near else "",
            )
    return tuple(claim for claim in dict.fromkeys(given) if claim in CLAIMS)


class Level(StrEnum):
    """How much a finding matters.

    A note is information, a warning should be read before the result is trusted, and a doubt says that an input may be
    wrong until the user accepts or corrects it. Only findings of a verdict are good or a problem.
    """

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"
    DOUBT = "doubt"


@dataclass(frozen=True, eq=False)
class Curve:
    """Plot of the evidence for a finding: y against x, and a second line to compare with.

    Parameters
    ----------
    x_title, y_title : str
        Titles of the axes, with units.
    x, y : (k,) array
    beside : (k,) or (0,) array
        Second line over x; empty = none.
    beside_title : str
        Title of the second line.
    logarithmic : bool
        Whether y has a logarithmic axis.

    """

    x_title: str
    y_title: str
    x: Float
    y: Float
    beside: Float
    beside_title: str = ""
    logarithmic: bool = False

    def __post_init__(self) -> None:
        # `dynid explain` reads this module and need not wait for NumPy.
        from dynid.base.arrays import locked

        object.__setattr__(self, "x", locked(self.x, (None,), "x"))
        object.__setattr__(self, "y", locked(self.y, (len(self.x),), "y"))
        object.__setattr__(self, "beside", locked(self.beside, (None,), "beside"))


@dataclass(frozen=True)
class Interval:
    """Time interval of a trajectory.

    Parameters
    ----------
    trajectory : str
        Its name.
    start, end : float, s
        On the log's clock.

    """

    trajectory: str
    start: float
    end: float


@dataclass(frozen=True)
class Evidence:
    """Result of a statistical test of the residuals.

    Parameters
    ----------
    share : float
        Part of the residual's mean square that the effect explains, 0 to 1.
    p_value : float
        Probability of evidence at least as strong in a log without the effect, corrected for multiple tests.
    times : tuple of Interval
        When the effect was seen; () = in the whole log.
    curve : Curve, optional
    masked : bool
        Whether these times were left out of the fit.

    """

    share: float = 0.0
    p_value: float = 1.0
    times: tuple[Interval, ...] = ()
    curve: Curve | None = None
    masked: bool = False


@dataclass(frozen=True)
class Finding:
    """One observation about a log, a model or its residuals that does not stop the command.

    What stops the command is a `DynidError`. The attributes `identifier`, `severity`, `share`, `p_value`, `times`,
    `curve` and `masked` of dynid before 0.2 can still be read: they are `code`, `level` and fields of `evidence`.

    Parameters
    ----------
    level : Level or str
    code : str
        Code for `dynid explain`; "" = none.
    text : str
        What was found, and why it matters.
    place : Place
        File, line, time or joint.
    accepted : bool
        Whether it is a doubt that the user accepted.
    title : str
        Heading in the report; "" = none.
    advice : str
        What to do. Findings about a log say it in `text`.
    evidence : Evidence
        Result of the test, if the residuals were tested.

    """

    level: Level
    code: str
    text: str
    place: Place = NOWHERE
    accepted: bool = False
    title: str = ""
    advice: str = ""
    evidence: Evidence = Evidence()

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", Level(self.level))

    def __str__(self) -> str:
        return f"{self.level}[{self.code}] {self.placed}"

    @property
    def placed(self) -> str:
        """The text with its place in front."""
        where = str(self.place)
        return f"{where}: {self.text}" if where else self.text

    @property
    def joint(self) -> str:
        """Name of its joint; "" = the whole robot."""
        return self.place.joint or ""


# Names before dynid 0.2, which programs still read from results. Declared attributes would pass type checkers without
# a remark; these do not.
_OLDER = {name: f"evidence.{name}" for name in Evidence.__annotations__}
for _old, _new in {**_OLDER, "identifier": "code", "severity": "level"}.items():
    setattr(Finding, _old, property(attrgetter(_new)))
__getattr__ = lazily(__name__, {}, {f"{__name__}:Finding": "Diagnostic", f"{__name__}:Level": "Severity"})[0]


@dataclass
class Diagnostics:
    """Collection of findings in order, each distinct one once.

    Parameters
    ----------
    items : list of Finding
        The findings.
    accepting : frozenset of str
        Codes of doubts that the user accepts; they become warnings.

    """

    items: list[Finding] = field(default_factory=list)
    accepting: frozenset[str] = field(default=frozenset(), compare=False)

    def note(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Add a note: something the user may want to look up.

        Parameters
        ----------
        identifier, text : str
            Code and text.
        place : Place
            Where it was found.

        """
        self._add(Finding(Level.NOTE, identifier, text, place))

    def warn(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Add a warning: something the user should read before trusting the result.

        Parameters
        ----------
        identifier, text : str
            Code and text.
        place : Place
            Where it was found.

        """
        self._add(Finding(Level.WARNING, identifier, text, place))

    def claim(
        self, identifier: Claim, *, found: str, expected: str = "", do: str = "", place: Place = NOWHERE
    ) -> None:
        """Add a doubt: evidence that could overturn the model. It becomes a warning if the user accepts its code.

        Parameters
        ----------
        identifier : Claim
            Its code.
        found, expected, do : str
            Evidence, what was expected, and how to fix it.
        place : Place
            Where it was found.

        """
        text = "; ".join(part for part in (found, expected and f"expected {expected}", do) if part)
        accepted = identifier in self.accepting
        text += "; accepted by you" if accepted else f"; or accept it: --accept {identifier}"
        self._add(Finding(Level.WARNING if accepted else Level.DOUBT, identifier, text, place, accepted))

    def accept(self, codes: str | Iterable[str]) -> None:
        """Turn doubts with these codes into warnings from now on; raises UsageError for an unknown code."""
        self.accepting |= frozenset(claim_codes(codes))

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of the accepted doubts, each once."""
        return tuple(dict.fromkeys(item.code for item in self.items if item.accepted))

    def require_found(self, codes: str | Iterable[str]) -> None:
        """Raise UsageError if there is neither a doubt nor a warning with one of these codes."""
        seen = {item.code for item in self.items}
        idle = [code for code in claim_codes(codes) if code not in seen]
        if idle:
            raise UsageError(
                "nothing-to-accept",
                found=f"accept '{', '.join(idle)}', but no doubt with this code",
                expected=", ".join(code for code in CLAIMS if code in seen)
                or "no codes, since there are no doubts",
                do="remove it",
            )

    def extend(self, other: Diagnostics) -> None:
        """Add all findings of another collection."""
        for item in other.items:
            self._add(item)

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """Doubts that were not accepted."""
        return tuple(item for item in self.items if item.level is Level.DOUBT)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings of severity warning."""
        return tuple(item for item in self.items if item.level is Level.WARNING)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def _add(self, item: Finding) -> None:
        if item not in self.items:
            self.items.append(item)


# The verdict and the findings that it is based on.

# Best first. Doubtful: a doubt could overturn the model.
LEVELS = ("good", "usable", "doubtful", "poor")


@dataclass(frozen=True)
class Use:
    """Whether a model serves a purpose.

    Parameters
    ----------
    purpose : str
        What it is used for.
    answer : {"yes", "with limits", "no"}
        Whether it serves.
    reason : str
        The limits, or why not; "" for yes.

    """

    purpose: str
    answer: str
    reason: str = ""

    def __str__(self) -> str:
        """One line."""
        return f"{self.purpose}: {self.answer}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class ExpectedError:
    """Torque error to be expected on a motion that was not recorded.

    Parameters
    ----------
    kind : {"paths", "slower", "faster", "positions", "dwells"}
        Kind of motion.
    motion : str
        The same in words, with its preposition.
    error : float
        Expected ||e|| / ||tau|| over all joints, which nine of ten such motions stay below.
    served : bool
        Whether the log shows that the model serves it: the error is hardly larger than the held-out one.

    """

    kind: str
    motion: str
    error: float
    served: bool


@dataclass(frozen=True)
class Verdict:
    """Verdict on a model: whether it can be trusted, what is weak, what to do next.

    Parameters
    ----------
    level : str
        One of LEVELS.
    headline : str
        The verdict in a sentence.
    findings : tuple of Finding
        What it is based on.
    accepted : tuple of str
        Codes of doubts that the user accepted.
    uses : tuple of Use
        What the model serves.
    expected : tuple of ExpectedError
        Errors to be expected on other motions.

    """

    level: str
    headline: str
    findings: tuple[Finding, ...] = ()
    accepted: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    expected: tuple[ExpectedError, ...] = ()

    @property
    def word(self) -> str:
        """The level in capitals, with the codes of accepted doubts."""
        return (
            f"{self.level.upper()} (accepted by you: {', '.join(self.accepted)})"
            if self.accepted
            else self.level.upper()
        )


# Explanations of codes for `dynid explain`, read from the pages of docs/findings.

INDEX = "docs/findings.md"
# Files of docs/findings, in the order in which `dynid explain` lists their codes.
PAGES = (
    "doubts",
    "residuals",
    "verdict",
    "model",
    "log",
    "files",
    "robot",
    "motions",
    "payloads",
    "exports",
    "errors",
    "plain-errors",
)
# Columns of a line in a terminal.
WIDTH = 100
ACCEPTING = """`--accept {code}`, or `accept = ["{code}"]` in the experiment file, makes it a warning that no longer
limits the verdict; the verdict shows it (`accepted by you: {code}`). Log and model stay unchanged. If the code does not
occur, the command ends."""
# How a code appears: doubt[code], warning[code] or note[code]; as a finding in the residuals; as a line of the verdict;
# or as error[code], which ends the command.
KINDS = ("doubt", "warning", "note", "finding", "verdict", "error")
# Headings of the parts, and the fields of an Explanation that they fill.
PARTS = {
    "What it means": "means",
    "How sure it is": "sure",
    "What to do": "do",
    "Accepting it": "accept",
}

_ENTRY = re.compile(r"^## (.*)$", re.MULTILINE)
_HEAD = re.compile(r"(?P<title>.+)\. \*(?P<kinds>[A-Z][a-z, ]+)\.\*(?: Also (?P<also>.+)\.)?")
_PART = re.compile(r"\*\*(?P<name>[^*.]+)\.\*\* (?P<text>.+)")
_CODE = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`")


@dataclass(frozen=True)
class Explanation:
    """Explanation of a code, in Markdown. White space within a paragraph is not significant.

    Parameters
    ----------
    code : str
        The code in brackets.
    title : str
        The observation, in a few words.
    kinds : tuple of str
        How the code appears, from KINDS.
    means, do : str
        One paragraph each.
    sure : str
        The evidence, other possible causes and how often it is wrong; "" for a code that states a fact.
    accept : str
        When it is right to accept a doubt; "" for other codes.
    also : tuple of str
        Further codes with the same explanation.

    """

    code: str
    title: str
    kinds: tuple[str, ...]
    means: str
    do: str
    sure: str = ""
    accept: str = ""
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in PARTS.values():
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes that this explanation covers."""
        return (self.code, *self.also)

    @property
    def appears(self) -> str:
        """Its kinds as text: "doubt, warning or note"."""
        *others, last = self.kinds
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(heading, paragraph) of each part that has text."""
        texts = {head: getattr(self, name) for head, name in PARTS.items()}
        if self.accept:
            texts["Accepting it"] += " " + " ".join(ACCEPTING.format(code=self.code).split())
        return tuple((head, text) for head, text in texts.items() if text)

    def lines(self, code: str = "") -> list[str]:
        """Lines for a terminal.

        Parameters
        ----------
        code : str
            The code that the user asked for; "" for the first one.

        """
        lines = [f"{code or self.code}: {self.title} ({self.appears})"]
        for head, text in self.parts:
            lines += ["", head]
            lines += wrap(
                plain(text), WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
        return lines


@dataclass(frozen=True)
class Page:
    """One page of docs/findings: its title and its entries."""

    title: str
    explanations: tuple[Explanation, ...]


def explanations_in(text: str) -> tuple[Explanation, ...]:
    """Read the entries of a Markdown page.

    An entry is a heading of level 2 with the code, a line with the title and the kinds, and one paragraph per part::

        ## `torque-drift`

        An offset that drifts. *Warning.* Also `offset-drift`.

        **What it means.** ...

        **What to do.** ...

    Plug-in terms may have such a file next to their module:
    ``explanations = explanations_in(Path(__file__).with_name("my_term.md").read_text("utf-8"))``.

    Raises
    ------
    ValueError
        For a malformed entry; the message names it.

    """
    _, *rest = _ENTRY.split(text)
    return tuple(_entry(heading, body) for heading, body in zip(rest[::2], rest[1::2], strict=True))


def _entry(heading: str, body: str) -> Explanation:
    head, *paragraphs = (" ".join(paragraph.split()) for paragraph in body.strip().split("\n\n"))
    code, line = _CODE.fullmatch(heading.strip()), _HEAD.fullmatch(head)
    if code is None or line is None:
        raise ValueError(f"entry '{heading}': write '## `code`' and below it 'Title. *Kind or kind.*'")
    kinds = tuple(re.split(r", | or ", line["kinds"].lower()))
    if not set(kinds) <= set(KINDS):
        raise ValueError(f"entry '{heading}': '{line['kinds']}' is not one of {', '.join(KINDS)}")
    texts: dict[str, str] = {}
    for paragraph in paragraphs:
        part = _PART.fullmatch(paragraph)
        if part is None or part["name"] not in PARTS or PARTS[part["name"]] in texts:
            raise ValueError(
                f"entry '{heading}': write each of {', '.join(PARTS)} once, not '{paragraph[:40]}'"
            )
        texts[PARTS[part["name"]]] = part["text"]
    if not {"means", "do"} <= set(texts):
        raise ValueError(f"entry '{heading}': 'What it means' and 'What to do' are required")
    return Explanation(code[1], line["title"], kinds, also=tuple(_CODE.findall(line["also"] or "")), **texts)


@lru_cache
def page(name: str) -> Page:
    """Read a page of docs/findings, one of PAGES."""
    text = (_folder() / f"{name}.md").read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    return Page(title, explanations_in(text))


def _folder() -> Traversable:
    # An installed package has the pages as data; a source checkout has them in docs/findings.
    installed = files("dynid.data").joinpath("findings")
    return installed if installed.is_dir() else Path(__file__).parents[3] / "docs" / "findings"


def has_more(code: str) -> bool:
    """Whether the explanation of an error says more than its message does."""
    return any(code in explanation.codes for explanation in page("errors").explanations)


def plain(text: str) -> str:
    """Remove the addresses of links from Markdown."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)


def see(codes: Sequence[str]) -> str:
    """Return the line that refers to `dynid explain` for codes."""
    return f"see: dynid explain {' '.join(dict.fromkeys(codes))} (or {INDEX})"
