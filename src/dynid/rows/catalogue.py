"""Names of the row schemes in experiments; a new scheme is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dynid.base.registry import Registry, kind_from_spec, kind_to_spec
from dynid.rows.automatic import AutomaticRows
from dynid.rows.elastic import ElasticMomentumRows, ElasticRows
from dynid.rows.energy import EnergyRows, FilteredPowerRows, PowerRows
from dynid.rows.inertia import InertiaRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.rows import Rows
from dynid.rows.torque import MotorRows, StaticRows, TorqueRows

DEFAULT = AutomaticRows()
CATALOGUE: Registry[type[Any]] = Registry(
    "rows",
    "dynid.rows",
    {
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
    },
)


def rows_from_spec(spec: str | Mapping[str, Any]) -> Rows | AutomaticRows:
    """Read a row scheme from its name or a table {rows = name, option = value}.

    Raises InputError for an unknown scheme or option.
    """
    return cast(Rows | AutomaticRows, kind_from_spec(spec, "rows", CATALOGUE))


def rows_to_spec(rows: Rows | AutomaticRows) -> dict[str, Any]:
    """{"rows": ...} for an experiment; {} for the default."""
    return {} if rows == DEFAULT else {"rows": kind_to_spec(rows, "rows", rows.name)}
