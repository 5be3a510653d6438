"""The plain model that an identification begins with where no terms are given."""

from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia

# rad/s (m/s): sign changes of Coulomb friction are smoothed over it, as are velocities that only noise reverses.
COULOMB_WIDTH = 0.02
DEFAULT_TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=COULOMB_WIDTH) + Offset()
