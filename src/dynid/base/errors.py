"""The errors that reach a user, each with the place it speaks of and the exit code of the command line."""

from __future__ import annotations

from typing import ClassVar

from dynid.base.records import dataclass


@dataclass(frozen=True)
class Place:
    """Where in the user's input something was found; every part is optional."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    row: int | None = None
    time: float | None = None
    joint: str | None = None

    def __str__(self) -> str:
        head = self.file or ""
        if self.line is not None:
            head += f":{self.line}" if head else f"line {self.line}"
            if self.column is not None:
                head += f":{self.column}"
        parts = [head] if head else []
        if self.row is not None:
            parts.append(f"row {self.row}" + (f" (t = {self.time:.6g} s)" if self.time is not None else ""))
        elif self.time is not None:
            parts.append(f"t = {self.time:.6g} s")
        if self.joint is not None:
            parts.append(f"joint '{self.joint}'")
        return " ".join(parts)


NOWHERE = Place()


class DynidError(Exception):
    """Base of all errors that dynid raises on purpose: one message, one place, one exit code."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self, identifier: str, *, found: str, expected: str = "", do: str = "", place: Place = NOWHERE
    ):
        self.identifier = identifier
        self.found = found
        self.expected = expected
        self.do = do
        self.place = place
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The text after the identifier: `place: found X; expected Y; do Z`."""
        text = f"found {self.found}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.do:
            text += f"; {self.do}"
        where = str(self.place)
        return f"{where}: {text}" if where else text

    def __str__(self) -> str:
        return f"error[{self.identifier}] {self.message}"


class UsageError(DynidError):
    """The call itself is wrong: an unknown option, arrays whose shapes disagree."""

    exit_code = 2


class InputError(DynidError):
    """A file or table cannot be understood."""

    exit_code = 3


class UnfitDataError(DynidError):
    """The input was understood, but nothing trustworthy can be computed from it."""

    exit_code = 4


class SolverError(DynidError):
    """A numerical problem has no acceptable solution."""

    exit_code = 5


class ResourceError(DynidError):
    """Disk, memory, permissions or a missing optional package stopped the work."""

    exit_code = 6


class RefusedError(DynidError):
    """The request is understood and refused, to protect data or the machine."""

    exit_code = 7


class InputErrors(InputError):
    """Several independent input errors found in one pass over a file."""

    def __init__(self, errors: list[DynidError]):
        if not errors:
            raise ValueError("InputErrors needs at least one error")
        self.errors = tuple(errors)
        first = errors[0]
        super().__init__(
            first.identifier, found=first.found, expected=first.expected, do=first.do, place=first.place
        )

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)
