"""Rows: the equations written down from samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.rows.elastic import ElasticRows
    from dynid.rows.elastic_momentum import ElasticMomentumRows
    from dynid.rows.energy import EnergyRows
    from dynid.rows.inertia import GRAVITY_TORQUE, MASS_MATRIX, InertiaRows
    from dynid.rows.momentum import MomentumRows
    from dynid.rows.motor import MotorRows
    from dynid.rows.power import FilteredPowerRows, PowerRows
    from dynid.rows.rows import Equations, Rows
    from dynid.rows.static import StaticRows
    from dynid.rows.torque import TorqueRows

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
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "elastic": "ElasticRows",
        "elastic_momentum": "ElasticMomentumRows",
        "energy": "EnergyRows",
        "inertia": "GRAVITY_TORQUE InertiaRows MASS_MATRIX",
        "momentum": "MomentumRows",
        "motor": "MotorRows",
        "power": "FilteredPowerRows PowerRows",
        "rows": "Equations Rows",
        "static": "StaticRows",
        "torque": "TorqueRows",
    },
)
