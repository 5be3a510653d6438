"""Export of an identified model as URDF, MJCF, SDF, C code, JSON or tables, alone or as an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily
from dynid.exporters.ensemble import Ensemble, sample_parameters
from dynid.exporters.export import FORMATS, Exported, export
from dynid.exporters.model import ExportModel

if TYPE_CHECKING:
    from dynid.exporters.c_code import write_c
    from dynid.exporters.export import consistent_parameters, edited_source, export_parameters, summary_lines
    from dynid.exporters.expression import motors_of
    from dynid.exporters.mjcf import NotEditable, edit_mjcf, new_mjcf
    from dynid.exporters.model import beyond_joints, peak_speeds, unique, xml_name
    from dynid.exporters.sdf import new_sdf
    from dynid.exporters.tables import read_model_json
    from dynid.exporters.urdf import edit_urdf, new_urdf

__all__ = [
    "FORMATS",
    "Ensemble",
    "ExportModel",
    "Exported",
    "NotEditable",
    "beyond_joints",
    "consistent_parameters",
    "edit_mjcf",
    "edit_urdf",
    "edited_source",
    "export",
    "export_parameters",
    "motors_of",
    "new_mjcf",
    "new_sdf",
    "new_urdf",
    "peak_speeds",
    "read_model_json",
    "sample_parameters",
    "summary_lines",
    "unique",
    "write_c",
    "xml_name",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "c_code": "write_c",
        "export": "consistent_parameters edited_source export_parameters summary_lines",
        "expression": "motors_of",
        "mjcf": "NotEditable edit_mjcf new_mjcf",
        "model": "beyond_joints peak_speeds unique xml_name",
        "sdf": "new_sdf",
        "tables": "read_model_json",
        "urdf": "edit_urdf new_urdf",
    },
)
