"""A robot's dynamics with known parameters: inverse and forward dynamics, kinematics, energy, derivatives."""

from dynid.dynamics.model import Dynamics

__all__ = ["Dynamics"]
