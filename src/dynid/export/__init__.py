"""Export: an identified model as URDF, MJCF, C code, JSON or a table, alone or as an ensemble."""

from dynid.export.ensemble import Ensemble, sample_parameters
from dynid.export.export import FORMATS, Exported, export
from dynid.export.model import ExportModel

__all__ = ["FORMATS", "Ensemble", "ExportModel", "Exported", "export", "sample_parameters"]
