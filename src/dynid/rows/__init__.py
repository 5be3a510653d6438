"""Row schemes: the equations that are written from samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.rows.automatic import AutomaticRows as AutomaticRows
    from dynid.rows.automatic import RowsChoice as RowsChoice
    from dynid.rows.automatic import choose_rows as choose_rows
    from dynid.rows.catalogue import CATALOGUE as CATALOGUE
    from dynid.rows.catalogue import rows_from_spec as rows_from_spec
    from dynid.rows.catalogue import rows_to_spec as rows_to_spec
    from dynid.rows.elastic import ElasticMomentumRows as ElasticMomentumRows
    from dynid.rows.elastic import ElasticRows as ElasticRows
    from dynid.rows.energy import EnergyRows as EnergyRows
    from dynid.rows.energy import FilteredPowerRows as FilteredPowerRows
    from dynid.rows.energy import PowerRows as PowerRows
    from dynid.rows.floating import Contact as Contact
    from dynid.rows.floating import FloatingRows as FloatingRows
    from dynid.rows.floating import contact_jacobian as contact_jacobian
    from dynid.rows.floating import floating_samples as floating_samples
    from dynid.rows.floating import free_of_forces as free_of_forces
    from dynid.rows.inertia import GRAVITY_TORQUE as GRAVITY_TORQUE
    from dynid.rows.inertia import MASS_MATRIX as MASS_MATRIX
    from dynid.rows.inertia import InertiaRows as InertiaRows
    from dynid.rows.inertia import check_mass_matrices as check_mass_matrices
    from dynid.rows.momentum import CausalFilter as CausalFilter
    from dynid.rows.momentum import MomentumRows as MomentumRows
    from dynid.rows.rows import Equations as Equations
    from dynid.rows.rows import Rows as Rows
    from dynid.rows.rows import group_joints as group_joints
    from dynid.rows.rows import two_encoders as two_encoders
    from dynid.rows.torque import MotorRows as MotorRows
    from dynid.rows.torque import StaticRows as StaticRows
    from dynid.rows.torque import TorqueRows as TorqueRows
    from dynid.rows.wrench import WrenchTree as WrenchTree
    from dynid.rows.wrench import load_regressor as load_regressor
    from dynid.rows.wrench import wrench_regressor as wrench_regressor

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "automatic": "AutomaticRows RowsChoice choose_rows",
        "catalogue": "CATALOGUE rows_from_spec rows_to_spec",
        "elastic": "ElasticMomentumRows ElasticRows",
        "energy": "EnergyRows FilteredPowerRows PowerRows",
        "floating": "Contact FloatingRows contact_jacobian floating_samples free_of_forces",
        "inertia": "GRAVITY_TORQUE InertiaRows MASS_MATRIX check_mass_matrices",
        "momentum": "CausalFilter MomentumRows",
        "rows": "Equations Rows group_joints two_encoders",
        "torque": "MotorRows StaticRows TorqueRows",
        "wrench": "WrenchTree load_regressor wrench_regressor",
    },
)
