"""Rows: the equations written down from samples."""

from dynid.rows.elastic import ElasticRows
from dynid.rows.motor import MotorRows
from dynid.rows.rows import Equations, Rows
from dynid.rows.torque import TorqueRows

__all__ = ["ElasticRows", "Equations", "MotorRows", "Rows", "TorqueRows"]
