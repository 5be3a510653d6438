"""Names of the terms in recipes and run folders; a new term is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from dynid.base.named_options import kind_from_spec, kind_to_spec, option_value
from dynid.base.registry import Need, Registry
from dynid.terms.channel import ChannelTorque
from dynid.terms.compensation import RotorCompensation
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.elastic import JointDamping, LinkCoulomb, LinkOffset, LinkViscous, SpinningRotor, Stiffness
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import FrictionChoice
from dynid.terms.friction_curves import (
    AsymmetricCoulomb,
    LoadFriction,
    PolynomialFriction,
    PositionFriction,
    TemperatureViscous,
)
from dynid.terms.friction_shapes import Presliding, Sigmoid, SmoothCoulomb, Stribeck, ZolloFriction
from dynid.terms.gain import DriveGain
from dynid.terms.measurement_effects import Drift, GainError, GravityTilt, TorqueDelay
from dynid.terms.payload import KnownPayload
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.spring import Spring, TorsionSpring
from dynid.terms.spring_gas import FunctionTorque, GasSpring
from dynid.terms.spring_lever import Lever, lever_from_options, lever_to_options
from dynid.terms.term import Term, Terms
from dynid.terms.transmission import MotorInertia, OnMotor

CATALOGUE: Registry[type[Term]] = Registry(
    "term",
    "dynid.terms",
    {
        "rigid_body": RigidBody,
        "rotor_inertia": RotorInertia,
        "viscous": Viscous,
        "coulomb": Coulomb,
        "offset": Offset,
        "coulomb_sides": AsymmetricCoulomb,
        "coulomb_tanh": SmoothCoulomb,
        "presliding": Presliding,
        "stribeck": Stribeck,
        "sigmoid": Sigmoid,
        "zollo": ZolloFriction,
        "polynomial": PolynomialFriction,
        "position_friction": PositionFriction,
        "load_friction": LoadFriction,
        "temperature_viscous": TemperatureViscous,
        "friction": FrictionChoice,
        "drive_gain": DriveGain,
        "known_payload": KnownPayload,
        "channel": ChannelTorque,
        "motor_inertia": MotorInertia,
        "on_motor": OnMotor,
        "spring": Spring,
        "torsion_spring": TorsionSpring,
        "gas_spring": GasSpring,
        "function": FunctionTorque,
        "stiffness": Stiffness,
        "joint_damping": JointDamping,
        "spinning_rotor": SpinningRotor,
        "link_viscous": LinkViscous,
        "link_coulomb": LinkCoulomb,
        "link_offset": LinkOffset,
        "rotor_compensation": RotorCompensation,
        "joint_coupling": JointCoupling,
        "compliance": Compliance,
        "torque_delay": TorqueDelay,
        "gravity_tilt": GravityTilt,
        "gain_error": GainError,
        "drift": Drift,
    },
)


def terms_to_spec(terms: Terms) -> list[dict[str, Any]]:
    """Writes terms as plain data: {"term": name, option: value, ...} for each."""
    return [_spec(term) for term in terms]


def terms_from_spec(spec: Sequence[str | Mapping[str, Any]]) -> Terms:
    """Reads terms from names or tables of options.

    Raises InputError for an unknown term, an unknown option or a missing one.
    """
    return Terms(tuple(_term(entry) for entry in spec))


def _term(entry: str | Mapping[str, Any]) -> Term:
    return cast(Term, kind_from_spec(entry, "term", CATALOGUE, _value))


def _value(kind: type[Term], name: str, key: str, value: Any) -> Any:
    if kind is OnMotor and key == "of":
        return _term(value)
    if key == "geometry":
        return lever_from_options(value)
    return option_value(kind, name, key, value)


def _spec(term: Term) -> dict[str, Any]:
    return kind_to_spec(term, "term", term.name, _plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Term):
        return _spec(value)
    return lever_to_options(value) if isinstance(value, Lever) else value


def needs_of_terms(terms: Terms) -> list[Need]:
    """Terms that are not dynid's own, each with where it came from."""
    every = [one for term in terms for one in (term, getattr(term, "of", None)) if isinstance(one, Term)]
    return [need for one in every if (need := Need.of("term", one.name, type(one))) is not None]


def names_in_spec(spec: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """Names of all terms of a model as plain data, those at the motors included."""
    found = []
    for entry in spec:
        found.append(entry if isinstance(entry, str) else str(entry.get("term", "")))
        inner = None if isinstance(entry, str) else entry.get("of")
        if isinstance(inner, str | Mapping):
            found += names_in_spec([inner])
    return found
