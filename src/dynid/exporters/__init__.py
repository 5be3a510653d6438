"""Export: an identified model as URDF, MJCF, C code, JSON or a table, alone or as an ensemble."""

from dynid.exporters.ensemble import Ensemble, sample_parameters
from dynid.exporters.export import FORMATS, Exported, export
from dynid.exporters.model import ExportModel

__all__ = ["FORMATS", "Ensemble", "ExportModel", "Exported", "export", "sample_parameters"]
