"""Export of an identified model as URDF, MJCF, SDF, C code, JSON or tables, alone or as an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily
from dynid.exporters.ensemble import Ensemble, sample_parameters
from dynid.exporters.export import FORMATS, Exported, export
from dynid.exporters.model import ExportModel

if TYPE_CHECKING:
    from dynid.exporters.export import consistent_parameters, edited_source, export_parameters, summary_lines
    from dynid.exporters.expression import motors_of
    from dynid.exporters.mjcf import new_mjcf
    from dynid.exporters.model import beyond_joints, peak_speeds, unique, xml_name
    from dynid.exporters.urdf import new_urdf

__all__ = [
    "FORMATS",
    "Ensemble",
    "ExportModel",
    "Exported",
    "beyond_joints",
    "consistent_parameters",
    "edited_source",
    "export",
    "export_parameters",
    "motors_of",
    "new_mjcf",
    "new_urdf",
    "peak_speeds",
    "sample_parameters",
    "summary_lines",
    "unique",
    "xml_name",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "export": "consistent_parameters edited_source export_parameters summary_lines",
        "expression": "motors_of",
        "mjcf": "new_mjcf",
        "model": "beyond_joints peak_speeds unique xml_name",
        "urdf": "new_urdf",
    },
)
