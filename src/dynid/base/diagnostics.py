"""The one sink for notes, warnings and doubts: what is written here is printed and ends up in the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal, get_args

from dynid.base.errors import NOWHERE, Place, UsageError
from dynid.base.records import dataclass

# What physics says against a log that can be read: of its wiring, units, clocks, and of the robot it is said to be of.
Claim = Literal[
    "changed-within-log",
    "constant-effort",
    "drive-gain",
    "encoders-exchanged",
    "gear-ratio-side",
    "gravity-compensated",
    "hand-guided",
    "joint-order",
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
    """Codes of claims, each once, in the order given; raises UsageError for a code that no claim has."""
    given = (codes,) if isinstance(codes, str) else tuple(codes)
    for code in given:
        if code not in CLAIMS:
            near = get_close_matches(code, CLAIMS, n=1)
            raise UsageError(
                "unknown-claim",
                found=f"accept '{code}'",
                expected="one of " + ", ".join(CLAIMS),
                do=f"did you mean '{near[0]}'?" if near else "",
            )
    return tuple(claim for claim in dict.fromkeys(given) if claim in CLAIMS)


class Severity(StrEnum):
    """How much a finding matters to the user."""

    NOTE = "note"
    WARNING = "warning"
    DOUBT = "doubt"


@dataclass(frozen=True)
class Diagnostic:
    """One finding that did not stop the work.    accepted: whether it is a doubt that the user accepted."""

    severity: Severity
    identifier: str
    text: str
    place: Place = NOWHERE
    accepted: bool = False

    def __str__(self) -> str:
        where = str(self.place)
        return f"{self.severity}[{self.identifier}] " + (f"{where}: {self.text}" if where else self.text)


@dataclass
class Diagnostics:
    """Collects findings in the order they were made, each distinct one once.

    accepting: codes of the claims that warn where they would be doubts.
    """

    items: list[Diagnostic] = field(default_factory=list)
    accepting: frozenset[str] = field(default=frozenset(), compare=False)

    def note(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Records something the user should be able to look up."""
        self._add(Diagnostic(Severity.NOTE, identifier, text, place))

    def warn(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Records something the user should read before trusting the result."""
        self._add(Diagnostic(Severity.WARNING, identifier, text, place))

    def claim(
        self, identifier: Claim, *, found: str, expected: str = "", do: str = "", place: Place = NOWHERE
    ) -> None:
        """Records a doubt: one claim that could overturn the model. A warning where the user accepts its code.

        found, expected, do, place: as for an error, the evidence and how to mend it.
        """
        text = "; ".join(part for part in (found, expected and f"expected {expected}", do) if part)
        if identifier in self.accepting:
            text = f"{text}; accepted by you"
            self._add(Diagnostic(Severity.WARNING, identifier, text, place, accepted=True))
        else:
            text = f"{text}; or accept it: --accept {identifier}"
            self._add(Diagnostic(Severity.DOUBT, identifier, text, place))

    def accept(self, codes: str | Iterable[str]) -> None:
        """Lets these claims warn where they would be doubts; raises UsageError for a code that no claim has."""
        self.accepting |= frozenset(claim_codes(codes))

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of the claims that were made and accepted, each once."""
        return tuple(dict.fromkeys(item.identifier for item in self.items if item.accepted))

    def require_found(self, codes: str | Iterable[str]) -> None:
        """Raises UsageError if nothing of these codes was found, be it a claim or a mere warning of the same kind."""
        seen = {item.identifier for item in self.items}
        idle = [code for code in claim_codes(codes) if code not in seen]
        if idle:
            raise UsageError(
                "nothing-to-accept",
                found=f"accept '{', '.join(idle)}', which was not found here",
                expected=", ".join(code for code in CLAIMS if code in seen)
                or "none: nothing is to be accepted",
                do="leave it out",
            )

    def extend(self, other: Diagnostics) -> None:
        """Takes over the findings of another sink."""
        for item in other.items:
            self._add(item)

    @property
    def doubts(self) -> tuple[Diagnostic, ...]:
        """The claims that were not accepted."""
        return tuple(item for item in self.items if item.severity is Severity.DOUBT)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The findings of severity warning."""
        return tuple(item for item in self.items if item.severity is Severity.WARNING)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def _add(self, item: Diagnostic) -> None:
        if item not in self.items:
            self.items.append(item)
