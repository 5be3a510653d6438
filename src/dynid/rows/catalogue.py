"""Names of the row schemes in recipes; a new scheme is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from dynid.errors import InputError
from dynid.rows.automatic import AutomaticRows
from dynid.rows.elastic import ElasticRows
from dynid.rows.elastic_momentum import ElasticMomentumRows
from dynid.rows.energy import EnergyRows
from dynid.rows.inertia import InertiaRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.motor import MotorRows
from dynid.rows.power import FilteredPowerRows, PowerRows
from dynid.rows.rows import Rows
from dynid.rows.static import StaticRows
from dynid.rows.torque import TorqueRows

DEFAULT = AutomaticRows()
CATALOGUE: dict[str, type[Any]] = {
    "auto": AutomaticRows,
    "torque": TorqueRows,
    "momentum": MomentumRows,
    "energy": EnergyRows,
    "power": PowerRows,
    "filtered_power": FilteredPowerRows,
    "static": StaticRows,
    "inertia": InertiaRows,
    "motor": MotorRows,
    "elastic": ElasticRows,
    "elastic_momentum": ElasticMomentumRows,
}


def rows_from_spec(spec: str | Mapping[str, Any]) -> Rows | AutomaticRows:
    """Reads a row scheme from its name or a table {rows = name, option = value}.

    Raises InputError for an unknown scheme or option.
    """
    options = {} if isinstance(spec, str) else {key: value for key, value in spec.items() if key != "rows"}
    name = spec if isinstance(spec, str) else str(spec.get("rows", ""))
    if name not in CATALOGUE:
        near = get_close_matches(name, CATALOGUE, n=1, cutoff=0.4)
        raise InputError(
            "unknown-rows",
            found=f"rows '{name}'",
            expected="one of " + ", ".join(CATALOGUE),
            do=f"did you mean '{near[0]}'?" if near else "",
        )
    kind = CATALOGUE[name]
    known = [f.name for f in fields(kind) if f.name != "name"]
    for key in options:
        if key not in known:
            raise InputError(
                "unknown-option",
                found=f"option '{key}' of rows '{name}'",
                expected="one of " + (", ".join(known) or "no option"),
            )
    rows: Rows | AutomaticRows = kind(
        **{key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    )
    return rows


def rows_to_spec(rows: Rows | AutomaticRows) -> dict[str, Any]:
    """{"rows": ...} for a recipe; {} for the default and for schemes that are not in the catalogue."""
    if rows.name not in CATALOGUE or rows == DEFAULT:
        return {}
    options = {f.name: getattr(rows, f.name) for f in fields(CATALOGUE[rows.name]) if f.name != "name"}
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in options.items()}
    return {"rows": {"rows": rows.name} | plain}
