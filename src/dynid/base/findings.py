"""The answer in plain words, and what it rests on."""

from __future__ import annotations

from dynid.base.records import dataclass

# Best first. Doubtful: one named claim could overturn the model.
LEVELS = ("good", "usable", "doubtful", "poor")


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict: how much it matters, what was seen, what to do.

    code: under which `dynid explain` says more, "" = none.
    """

    level: str
    title: str
    text: str
    advice: str = ""
    code: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer in plain words: can this model be trusted, what is weak, what to do next.

    level: one of LEVELS.    accepted: codes of claims that the user accepted.
    """

    level: str
    headline: str
    findings: tuple[Finding, ...] = ()
    accepted: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The level, and what the user accepted for it."""
        return (
            f"{self.level.upper()} (accepted by you: {', '.join(self.accepted)})"
            if self.accepted
            else self.level.upper()
        )
