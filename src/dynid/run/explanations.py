"""The explanation of every code that dynid prints, including codes of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from dynid.base.diagnostics import PAGES, Explanation, page
from dynid.base.errors import UsageError
from dynid.terms.catalogue import CATALOGUE

__all__ = ["explain", "explanation", "sections"]


def sections() -> Mapping[str, tuple[Explanation, ...]]:
    """Return all explanations by subject, plug-ins last."""
    pages = {page(name).title: page(name).explanations for name in PAGES}
    groups = (kind.words.group for kind in CATALOGUE.values())
    of_plugins = dict.fromkeys(
        (
            *(entry for kind in CATALOGUE.values() for entry in kind.words.explanations),
            *(group.explanation for group in groups if group is not None and group.explanation is not None),
        )
    )
    return pages | ({"Plug-ins": tuple(of_plugins)} if of_plugins else {})


def explanation(code: str) -> Explanation | None:
    """Return the explanation of a code; None for a code of a plug-in that has none."""
    return _by_code().get(code)


def explain(codes: Sequence[str]) -> tuple[Explanation, ...]:
    """Return the explanations of codes, in the order given.

    Raises
    ------
    UsageError
        For a code without an explanation.

    """
    known = _by_code()
    for code in codes:
        if code not in known:
            near = get_close_matches(code, known, n=1)
            raise UsageError(
                "unknown-code",
                found=f"'{code}'",
                expected="a code as printed in brackets: doubt[CODE], warning[CODE], error[CODE]",
                do=f"did you mean '{near[0]}'?" if near else "dynid explain lists all codes",
            )
    return tuple(known[code] for code in codes)


def _by_code() -> dict[str, Explanation]:
    return {code: entry for entries in sections().values() for entry in entries for code in entry.codes}
