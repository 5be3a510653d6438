"""Rows: the equations written down from samples."""

from dynid.rows.rows import Equations, Rows
from dynid.rows.torque import TorqueRows

__all__ = ["Equations", "Rows", "TorqueRows"]
