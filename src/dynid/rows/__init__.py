"""Row schemes: the equations that are written from samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.rows.automatic import AutomaticRows, RowsChoice, choose_rows
    from dynid.rows.catalogue import CATALOGUE, rows_from_spec, rows_to_spec
    from dynid.rows.elastic import ElasticMomentumRows, ElasticRows
    from dynid.rows.energy import EnergyRows, FilteredPowerRows, PowerRows
    from dynid.rows.inertia import GRAVITY_TORQUE, MASS_MATRIX, InertiaRows, check_mass_matrices
    from dynid.rows.momentum import CausalFilter, MomentumRows
    from dynid.rows.rows import Equations, Rows, group_joints, two_encoders
    from dynid.rows.torque import MotorRows, StaticRows, TorqueRows

__all__ = [
    "CATALOGUE",
    "GRAVITY_TORQUE",
    "MASS_MATRIX",
    "AutomaticRows",
    "CausalFilter",
    "ElasticMomentumRows",
    "ElasticRows",
    "EnergyRows",
    "Equations",
    "FilteredPowerRows",
    "InertiaRows",
    "MomentumRows",
    "MotorRows",
    "PowerRows",
    "Rows",
    "RowsChoice",
    "StaticRows",
    "TorqueRows",
    "check_mass_matrices",
    "choose_rows",
    "group_joints",
    "rows_from_spec",
    "rows_to_spec",
    "two_encoders",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "automatic": "AutomaticRows RowsChoice choose_rows",
        "catalogue": "CATALOGUE rows_from_spec rows_to_spec",
        "elastic": "ElasticMomentumRows ElasticRows",
        "energy": "EnergyRows FilteredPowerRows PowerRows",
        "inertia": "GRAVITY_TORQUE InertiaRows MASS_MATRIX check_mass_matrices",
        "momentum": "CausalFilter MomentumRows",
        "rows": "Equations Rows group_joints two_encoders",
        "torque": "MotorRows StaticRows TorqueRows",
    },
)
