"""Errors of a log replayed by exported files, compared with the original robot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dynid.report.section import Page, render
from dynid.report.text import MISSING, number, percent
from dynid.run.result import Identification


class ReplaySection:
    """Errors of exported robots in other programs."""

    anchor = "replay"
    title = "Exported files, replayed"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A table by program and robot, or the command to create it."""
        replay = identification.replayed
        rows: list[dict[str, object]] = []
        commands = replay is not None and replay.get("of") == "commands"
        for row in () if replay is None else replay["rows"]:
            for quantity in ("torque", "motion"):
                values = row.get(quantity)
                if values is not None:
                    whole = row.get("all_torque") if quantity == "torque" else None
                    rows.append(
                        _row(
                            row,
                            quantity,
                            [_shown(x, commands) for x in (*(() if commands else (whole,)), *values)],
                        )
                    )
            if row.get("why"):
                rows.append(_row(row, "", []) | {"why": row["why"]})
        return render(
            "replay.html.jinja",
            {
                "joints": [] if replay is None else replay["joints"],
                "rows": rows,
                "commands": commands,
                "window": None if replay is None else replay.get("window"),
                "windows": None if replay is None else replay.get("windows"),
                "logs": [] if replay is None else replay.get("logs", []),
                "notes": [] if replay is None else replay.get("notes", []),
            },
        )


def _row(row: Mapping[str, Any], quantity: str, values: Sequence[str]) -> dict[str, object]:
    identified = str(row["description"]).startswith("identified")
    return {
        "program": row["program"],
        "description": row["description"],
        "quantity": quantity,
        "values": values,
        "identified": identified,
        "why": "",
    }


def _shown(value: float | None, commands: bool) -> str:
    if value is None:
        return MISSING
    return number(1e3 * value) if commands else percent(value)
