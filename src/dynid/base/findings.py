"""The answer in plain words, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict: how much it matters, what was seen, what to do."""

    level: str
    title: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer in plain words: can this model be trusted, what is weak, what to do next.

    level: "good", "usable" or "poor".
    """

    level: str
    headline: str
    findings: tuple[Finding, ...] = ()
