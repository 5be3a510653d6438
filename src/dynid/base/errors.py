"""Errors for the user, each with a place in the input and the exit code of the command line."""

from __future__ import annotations

from typing import ClassVar

from dynid.base.records import dataclass


@dataclass(frozen=True)
class Place:
    """Place in the user's input; all parts are optional.

    Parameters
    ----------
    file : str, optional
    line, column : int, optional
        From 1.
    row : int, optional
        Row of a table.
    time : float, s, optional
    joint : str, optional

    """

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
    """Base of all errors that dynid raises on purpose.

    Parameters
    ----------
    identifier : str
        Code in brackets, for `dynid explain`.
    found, expected, do : str
        What was found, what was expected, and what to do.
    place : Place
        Where in the user's input.

    """

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
        """Text after the code: `place: found X; expected Y; what to do`."""
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
    """Wrong use: an unknown option, or arrays of different shapes."""

    exit_code = 2


class InputError(DynidError):
    """A file or table that cannot be understood."""

    exit_code = 3


class UnfitDataError(DynidError):
    """Valid input from which nothing trustworthy can be computed."""

    exit_code = 4


class SolverError(DynidError):
    """A numerical problem without an acceptable solution."""

    exit_code = 5


class ResourceError(DynidError):
    """Failure for lack of disk space, memory, permissions or an optional package."""

    exit_code = 6


class RefusedError(DynidError):
    """Valid request that is refused to protect data or the machine."""

    exit_code = 7


class InputErrors(InputError):
    """Several independent input errors from one pass over a file.

    Parameters
    ----------
    errors : list of DynidError
        At least one.

    """

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
