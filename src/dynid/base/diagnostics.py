"""The one sink for warnings and notes: what is written here is printed and ends up in the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from dynid.base.errors import NOWHERE, Place


class Severity(StrEnum):
    """How much a finding matters to the user."""

    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True)
class Diagnostic:
    """One finding that did not stop the work."""

    severity: Severity
    identifier: str
    text: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        where = str(self.place)
        return f"{self.severity}[{self.identifier}] " + (f"{where}: {self.text}" if where else self.text)


@dataclass
class Diagnostics:
    """Collects findings in the order they were made, each distinct one once."""

    items: list[Diagnostic] = field(default_factory=list)

    def note(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Records something the user should be able to look up."""
        self._add(Diagnostic(Severity.NOTE, identifier, text, place))

    def warn(self, identifier: str, text: str, place: Place = NOWHERE) -> None:
        """Records something the user should read before trusting the result."""
        self._add(Diagnostic(Severity.WARNING, identifier, text, place))

    def extend(self, other: Diagnostics) -> None:
        """Takes over the findings of another sink."""
        for item in other.items:
            self._add(item)

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
