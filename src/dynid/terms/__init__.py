"""Terms: the physical effects whose parameters are sought; they add."""

from dynid.terms.channel import ChannelTorque
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.gain import DriveGain
from dynid.terms.payload import KnownPayload
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Column, JointTerm, Term, Terms

__all__ = [
    "ChannelTorque",
    "Column",
    "Coulomb",
    "DriveGain",
    "JointTerm",
    "KnownPayload",
    "Offset",
    "RigidBody",
    "RotorInertia",
    "Term",
    "Terms",
    "Viscous",
]
