"""Names of the terms in recipes and run folders; a new term is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from dynid.base.errors import InputError
from dynid.base.named_options import named_kind, option_value
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
from dynid.terms.term import CATALOGUE, Symbol, Term, Terms
from dynid.terms.transmission import MotorInertia, OnMotor

__all__ = ["CATALOGUE", "symbol_of", "terms_from_spec", "terms_to_spec"]

CATALOGUE.update(
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
    }
)


def symbol_of(name: str) -> Symbol | None:
    """How a parameter is written whose name, without its number, is given; None if no term says so."""
    return next((one for term in CATALOGUE.values() for one in term.symbols if one.name == name), None)


def terms_to_spec(terms: Terms) -> list[dict[str, Any]]:
    """Writes terms as plain data: {"term": name, option: value, ...} for each."""
    return [_spec(term) for term in terms]


def terms_from_spec(spec: Sequence[str | Mapping[str, Any]]) -> Terms:
    """Reads terms from names or tables of options.

    Raises InputError for an unknown term, an unknown option or a missing one.
    """
    return Terms(tuple(_term(entry) for entry in spec))


def _term(entry: str | Mapping[str, Any]) -> Term:
    name, kind, options = named_kind(entry, "term", CATALOGUE, _options)
    missing = [key for key, required in _options(kind).items() if required and key not in options]
    if missing:
        raise InputError(
            "missing-option", found=f"term '{name}' without {', '.join(missing)}", expected="all of them"
        )
    return kind(**{key: _value(kind, name, key, value) for key, value in options.items()})


def _value(kind: type[Term], name: str, key: str, value: Any) -> Any:
    if kind is OnMotor and key == "of":
        return _term(value)
    if key == "geometry":
        return lever_from_options(value)
    return option_value(kind, name, key, value)


def _options(kind: type[Term]) -> dict[str, bool]:
    return {f.name: f.default is MISSING for f in fields(kind) if f.name != "name"}


def _spec(term: Term) -> dict[str, Any]:
    # What is None cannot be written to TOML and is the default.
    options = {key: _plain(getattr(term, key)) for key in _options(type(term))}
    return {"term": term.name} | {key: value for key, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Term):
        return _spec(value)
    if isinstance(value, Lever):
        return lever_to_options(value)
    return list(value) if isinstance(value, tuple) else value
