"""What a code in brackets means: how sure it is, what to do, and when to accept it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from dynid.base.records import dataclass

PAGE = "docs/findings.md"
# Columns of a line in a terminal.
WIDTH = 100
ACCEPTING = """`--accept {code}`, or `accept = ["{code}"]` in the experiment file, makes it a warning: the verdict
is no longer capped by it and names it (`accepted by you: {code}`). Log and model stay as they are. Where the code is
not found the command stops, so that no list of codes grows stale."""
# What several texts quote, with where it was measured.
RESIDUAL_TESTS = """Reported where chance would show it in less than one log of a thousand and it explains a tenth of a
joint's residual; a warning from one percent of the joint's torque on. The test is over blocks of time, so correlated
noise is no evidence. Of 600 clean simulated logs none shows any finding of this kind (`benchmarks/diagnoses.py`)."""
TRAPS = """Of 1300 simulated logs with one of thirteen faults, this among them, 1299 were reported by the fault's name;
of 500 clean ones none was stopped (`benchmarks/traps.py`)."""
PROVEN = """The log is fitted anew as this says and otherwise, and scored on blocks that were left out. A doubt has to
predict them better beyond chance (one in a thousand) and to explain a fifth of a joint's error there; its opposite may
gain at most half as much"""
# As what a code appears: doubt[code], warning[code] or note[code], as a finding of the residuals, in the verdict alone,
# or as error[code], which ends the command.
KINDS = ("doubt", "warning", "note", "finding", "verdict", "error")


@dataclass(frozen=True)
class Explanation:
    """A code and all that is to be said of it, in Markdown; the white space of paragraphs does not count.

    title: what was seen, in a few words.    kinds: as what it appears, of KINDS.    means, do: one paragraph each.
    sure: on what evidence, against which rivals, how often it is wrong; "" = it states what was done or read.
    accept: when it is right to accept a doubt, "" = it is none.    also: further codes that the same holds for.
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
        for name in ("means", "do", "sure", "accept"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes that it explains."""
        return (self.code, *self.also)

    @property
    def appears(self) -> str:
        """As what it appears, in words."""
        *others, last = self.kinds
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(heading, paragraph) of what there is to say."""
        how = " ".join(ACCEPTING.format(code=self.code).split())
        accept = f"{self.accept} {how}" if self.accept else ""
        every = (
            ("What it means", self.means),
            ("How sure it is", self.sure),
            ("What to do", self.do),
            ("Accepting it", accept),
        )
        return tuple((head, text) for head, text in every if text)

    def lines(self, code: str = "") -> list[str]:
        """For a terminal.    code: the one that was asked for, "" = its own."""
        found = [f"{code or self.code}: {self.title} ({self.appears})"]
        for head, text in self.parts:
            found += [
                "",
                head,
                *wrap(
                    plain(text), WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
                ),
            ]
        return found


def plain(text: str) -> str:
    """Markdown without the addresses of its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)


def see(codes: Sequence[str]) -> str:
    """The line that says where codes are explained."""
    return f"see: dynid explain {' '.join(dict.fromkeys(codes))} (or {PAGE})"
