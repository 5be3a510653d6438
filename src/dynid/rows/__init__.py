"""Row schemes: the equations that are written from samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.rows.elastic import ElasticMomentumRows, ElasticRows
    from dynid.rows.energy import EnergyRows, FilteredPowerRows, PowerRows
    from dynid.rows.inertia import GRAVITY_TORQUE, MASS_MATRIX, InertiaRows, check_mass_matrices
    from dynid.rows.momentum import MomentumRows
    from dynid.rows.rows import Equations, Rows
    from dynid.rows.torque import MotorRows, StaticRows, TorqueRows

__all__ = [
    "GRAVITY_TORQUE",
    "MASS_MATRIX",
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
    "StaticRows",
    "TorqueRows",
    "check_mass_matrices",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "elastic": "ElasticMomentumRows ElasticRows",
        "energy": "EnergyRows FilteredPowerRows PowerRows",
        "inertia": "GRAVITY_TORQUE InertiaRows MASS_MATRIX check_mass_matrices",
        "momentum": "MomentumRows",
        "rows": "Equations Rows",
        "torque": "MotorRows StaticRows TorqueRows",
    },
)
