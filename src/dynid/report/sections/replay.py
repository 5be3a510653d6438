"""A log that exported files replayed: errors beside those of the description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dynid.report.section import Page, render
from dynid.report.text import MISSING, number, percent
from dynid.run.result import Identification


class ReplaySection:
    """How far exported robots are from the real one, in other programs."""

    anchor = "replay"
    title = "Exported files, replayed"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A table by program and description, or the command that makes it."""
        found = identification.replayed
        rows: list[dict[str, object]] = []
        commands = found is not None and found.get("of") == "commands"
        for row in () if found is None else found["rows"]:
            for what in ("torque", "motion"):
                values = row.get(what)
                if values is not None:
                    whole = row.get("all_torque") if what == "torque" else None
                    rows.append(
                        _row(
                            row,
                            what,
                            [_shown(x, commands) for x in (*(() if commands else (whole,)), *values)],
                        )
                    )
            if row.get("why"):
                rows.append(_row(row, "", []) | {"why": row["why"]})
        return render(
            "replay.html.jinja",
            {
                "joints": [] if found is None else found["joints"],
                "rows": rows,
                "commands": commands,
                "window": None if found is None else found.get("window"),
                "windows": None if found is None else found.get("windows"),
                "logs": [] if found is None else found.get("logs", []),
                "notes": [] if found is None else found.get("notes", []),
            },
        )


def _row(row: Mapping[str, Any], what: str, values: Sequence[str]) -> dict[str, object]:
    own = str(row["description"]).startswith("identified")
    return {
        "program": row["program"],
        "description": row["description"],
        "what": what,
        "values": values,
        "own": own,
        "why": "",
    }


def _shown(value: float | None, commands: bool) -> str:
    if value is None:
        return MISSING
    return number(1e3 * value) if commands else percent(value)
