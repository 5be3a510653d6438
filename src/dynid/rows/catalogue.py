"""Names of the row schemes in recipes; a new scheme is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dynid.base.named_options import named_kind, option_value
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
    name, kind, options = named_kind(
        spec, "rows", CATALOGUE, lambda kind: [f.name for f in fields(kind) if f.name != "name"]
    )
    rows: Rows | AutomaticRows = kind(
        **{key: option_value(kind, name, key, value) for key, value in options.items()}
    )
    return rows


def rows_to_spec(rows: Rows | AutomaticRows) -> dict[str, Any]:
    """{"rows": ...} for a recipe; {} for the default and for schemes that are not in the catalogue."""
    if rows.name not in CATALOGUE or rows == DEFAULT:
        return {}
    options = {f.name: getattr(rows, f.name) for f in fields(CATALOGUE[rows.name]) if f.name != "name"}
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in options.items()}
    return {"rows": {"rows": rows.name} | plain}
