"""Export of an identified model as URDF, MJCF, SDF, C code, JSON or tables, alone or as an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily
from dynid.exporters.ensemble import Ensemble, sample_parameters
from dynid.exporters.export import FORMATS, Exported, export
from dynid.exporters.model import ExportModel

if TYPE_CHECKING:
    from dynid.exporters.c_code import write_c as write_c
    from dynid.exporters.export import consistent_parameters as consistent_parameters
    from dynid.exporters.export import edited_source as edited_source
    from dynid.exporters.export import export_parameters as export_parameters
    from dynid.exporters.export import summary_lines as summary_lines
    from dynid.exporters.expression import motors_of as motors_of
    from dynid.exporters.mjcf import NotEditable as NotEditable
    from dynid.exporters.mjcf import edit_mjcf as edit_mjcf
    from dynid.exporters.mjcf import new_mjcf as new_mjcf
    from dynid.exporters.model import beyond_joints as beyond_joints
    from dynid.exporters.model import peak_speeds as peak_speeds
    from dynid.exporters.model import unique as unique
    from dynid.exporters.model import xml_name as xml_name
    from dynid.exporters.sdf import new_sdf as new_sdf
    from dynid.exporters.tables import read_model_json as read_model_json
    from dynid.exporters.urdf import edit_urdf as edit_urdf
    from dynid.exporters.urdf import new_urdf as new_urdf

__getattr__, __dir__, __all__ = lazily(
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
__all__ += ["FORMATS", "Ensemble", "ExportModel", "Exported", "export", "sample_parameters"]
