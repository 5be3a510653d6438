"""Friction beyond viscous and Coulomb that is linear in its coefficients."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples, poses_at_rest
from dynid.terms.channel import channel
from dynid.terms.curve import Coefficient, CurveTerm, Shape, ShapeValue, c_texts, check_shapes
from dynid.terms.exports import (
    Dry,
    Extent,
    FrictionForm,
    LeftOut,
    MotionBasis,
    OnJoint,
    Part,
    Symbol,
    c_number,
    c_sign,
    panels_of,
)
from dynid.terms.forms import exported_parts, load_slope, needs_bodies, with_bodies, within_extent
from dynid.terms.friction import check_width, direction, direction_sides
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains, TermWords
from dynid.terms.term import by_joint, joint_indices

# Over which the weight on a joint is averaged for programs that know no load: a mean within some 5 %.
POSES = 200


def _unequal_sides(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Dry friction and its rise with speed that differ between the directions."""
    speed = remains.motion.dq[:, joint] / remains.top_speed(joint)
    seen = "Friction that differs between the two directions"
    return tuple(
        remains.friction(joint, np.abs(column), lambda _: seen, "Try coulomb_sides")
        for column in (remains.step(joint), speed)
    )


@dataclass(frozen=True)
class AsymmetricCoulomb(CurveTerm):
    """Coulomb friction of two sides: tau_j = fcp_j max(s, 0) + fcn_j min(s, 0), s = sign or tanh(dq / width).

    Equal sides are Coulomb friction; unequal sides act like an offset, so leave `coulomb` and `offset` out.
    width: rad/s (m/s), 0 keeps the sign.    joints: names of the joints it acts on; empty = all.
    """

    width: float = 0.02
    joints: tuple[str, ...] = ()
    name: str = "coulomb_sides"
    traits = replace(CurveTerm.traits, dry=Dry.STEP, either_side=True)
    form = FrictionForm("sides", ("coulomb", "offset"), both_ways=True)
    words = TermWords(
        symbols=(
            Symbol("fcp", "f", "c+", "Coulomb friction, forward"),
            Symbol("fcn", "f", "c−", "Coulomb friction, backward"),
        ),
        group=FRICTION_FORM,
        features=_unequal_sides,
    )
    coefficients = (Coefficient("fcp", "N m", "N", 0.0), Coefficient("fcn", "N m", "N", 0.0))

    def __post_init__(self) -> None:
        check_width(self.width)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Positive and negative part of the smoothed sign."""
        return np.stack(direction_sides(samples, self.width, joint))


@c_texts.register(AsymmetricCoulomb)
def _(term: AsymmetricCoulomb, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Positive and negative part of the sign."""
    s = c_sign(speed, term.width)
    return f"fmax({s}, 0.0)", f"fmin({s}, 0.0)"


def _bend(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """A bend at high speed."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    seen, advice = "Friction that bends at high speed", "Try polynomial or sigmoid"
    return (remains.friction(joint, x * np.abs(x), lambda _: seen, advice),)


@dataclass(frozen=True)
class PolynomialFriction(CurveTerm):
    """Odd powers of velocity: tau_j = sum_k f_jk |dq_j|^(k-1) dq_j, for the given powers k.

    Beyond the greatest speed of the log that it was fitted to it goes on in proportion to the speed, with
    limit_j^(k-1) dq_j in place of |dq_j|^(k-1) dq_j: a cubic says nothing of speeds that it has not seen.
    powers: whole numbers from 2 to 5; the parameter of power 3 is called fvvv.
    joints: names of the joints it acts on; empty = all.
    limit: greatest speed of every joint of the robot, rad/s (m/s); empty = that of the log.
    """

    powers: tuple[int, ...] = (3,)
    joints: tuple[str, ...] = ()
    limit: tuple[float, ...] = ()
    name: str = "polynomial"
    traits = replace(CurveTerm.traits, either_side=True)
    form = FrictionForm("cubic")
    words = TermWords(
        symbols=(
            Symbol("fvv", "f", "vv", "friction with the square of velocity"),
            Symbol("fvvv", "f", "vvv", "friction with the cube of velocity"),
        ),
        group=FRICTION_FORM,
        features=_bend,
    )

    def __post_init__(self) -> None:
        if (
            not self.powers
            or any(k not in (2, 3, 4, 5) for k in self.powers)
            or len(set(self.powers)) < len(self.powers)
        ):
            raise UsageError(
                "powers", found=f"powers = {list(self.powers)}", expected="different ones of 2, 3, 4, 5"
            )
        if not all(speed >= 0 for speed in self.limit):
            raise UsageError("speed-limit", found=f"limit = {list(self.limit)}", expected="speeds >= 0")

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """One a power."""
        return tuple(Coefficient("f" + "v" * k, f"N m s^{k}/rad^{k}", f"N s^{k}/m^{k}") for k in self.powers)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The powers with the sign of the velocity, straight beyond the limit."""
        v = samples.dq[:, joint]
        size = np.minimum(np.abs(v), self._limit(robot, joint))
        return np.stack([size ** (k - 1) * v for k in self.powers])

    def _limit(self, robot: RobotModel, joint: int) -> float:
        if len(self.limit) not in (0, robot.n):
            raise UsageError(
                "speed-limit", found=f"{len(self.limit)} speeds", expected=f"one for each of {robot.n} joints"
            )
        return self.limit[joint] if self.limit else float("inf")


@c_texts.register(PolynomialFriction)
def _(term: PolynomialFriction, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Products of the speed."""
    size = f"fabs({speed})"
    if term.limit:
        size = f"fmin({size}, {c_number(term.limit[joint])})"
    return tuple(" * ".join([size] * (k - 1) + [speed]) for k in term.powers)


@within_extent.register(PolynomialFriction)
def _(term: PolynomialFriction, robot: RobotModel, extent: Extent) -> PolynomialFriction:
    """With the greatest speeds as its limit, unless it has one."""
    return term if term.limit else replace(term, limit=tuple(float(x) for x in extent.peak))


@dataclass(frozen=True)
class TemperatureViscous(CurveTerm):
    """Viscous friction that changes with temperature: tau_j = fvt_j (T - reference) dq_j, besides `viscous`.

    channel_names: extra log channels of the temperature in degC: one for all joints, or one for each that it acts on.
    reference: temperature at which `viscous` holds, degC.    joints: names of the joints it acts on; empty = all.
    """

    channel_names: tuple[str, ...]
    reference: float = 25.0
    joints: tuple[str, ...] = ()
    name: str = "temperature_viscous"
    words = TermWords(symbols=(Symbol("fvt", "f", "vT", "change of viscous friction with temperature"),))
    coefficients = (Coefficient("fvt", "N m s/(rad K)", "N s/(m K)"),)

    def __post_init__(self) -> None:
        if not self.channel_names:
            raise UsageError(
                "temperature-channel", found="no channel of temperature", expected="one, or one a joint"
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Velocity times the distance from the reference temperature."""
        acting = self.joints or robot.joint_names
        if len(self.channel_names) not in (1, len(acting)):
            raise UsageError(
                "temperature-channel",
                found=f"{len(self.channel_names)} channels of temperature",
                expected=f"one, or one for each of {len(acting)} joints",
            )
        ordered = [name for name in robot.joint_names if name in acting]
        place = ordered.index(robot.joint_names[joint]) if len(self.channel_names) > 1 else 0
        temperature = channel(samples, self.channel_names[place])
        return (samples.dq[:, joint] * (temperature - self.reference))[None, :]


@dataclass(frozen=True)
class LoadFriction(CurveTerm):
    """Friction of the gear's teeth: tau_j = fl_j |tau_load_j| s(dq_j), besides `coulomb`; fl has no unit.

    The load is the torque of rigid bodies whose parameters are known beforehand, so the term stays linear, and the
    measured torque, whose noise would correlate with the residual, is not in it.
    load: "prior" takes the description's inertias (or `inertia`), "estimate" those of a first fit without this term.
    inertia: ten numbers a body about its joint frame; empty = as `load` says.    width: of the smoothed sign.
    joints: names of the joints it acts on; empty = all.
    """

    load: Literal["prior", "estimate"] = "prior"
    inertia: tuple[float, ...] = ()
    width: float = 0.02
    joints: tuple[str, ...] = ()
    name: str = "load_friction"
    traits = replace(CurveTerm.traits, dry=Dry.LOAD)
    selection = replace(
        CurveTerm.selection,
        proposed=by_joint(
            "load-dependent", make=lambda log: LoadFriction("estimate", log.inertia) if log.inertia else None
        ),
    )
    words = TermWords(symbols=(Symbol("fl", "f", "l", "friction with the load"),))
    coefficients = (Coefficient("fl", "1", "1", 0.0),)

    def __post_init__(self) -> None:
        check_width(self.width)
        if (
            self.load not in ("prior", "estimate")
            or len(self.inertia) % 10
            or not np.isfinite(self.inertia).all()
        ):
            raise UsageError(
                "load-friction",
                found=f"load = '{self.load}' with {len(self.inertia)} inertial numbers",
                expected="load 'prior' or 'estimate', and ten finite numbers a body or none",
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Size of the load times the smoothed sign; raises UnfitDataError if no inertias are known."""
        load = self._load(robot, samples)[:, joint]
        return (np.abs(load) * direction(samples, self.width, joint))[None, :]

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line a wanted joint; the load is worked out once for all of them."""
        load = np.abs(self._load(robot, samples)) if wanted.any() else samples.dq
        acting = [(i, j) for i, j in enumerate(joint_indices(robot, self.joints)) if wanted[i]]
        lines = {j: ([i], (load[:, j] * direction(samples, self.width, j))[None, :]) for i, j in acting}
        return panels_of(robot, samples, lines)

    def _load(self, robot: RobotModel, samples: Samples) -> Float:
        # Torque of the bodies, (T, n).
        inertia = np.array(self.inertia).reshape(-1, 10) if self.inertia else robot.inertia_prior
        if inertia.shape != (robot.n_bodies, 10) or not np.isfinite(inertia).all():
            raise UnfitDataError(
                "load-unknown",
                found="no inertias to compute the load of load_friction from",
                expected=f"ten numbers for each of {robot.n_bodies} bodies",
                do="set load = 'estimate', or give them in the description or as inertia = [...]",
            )
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        return np.asarray(inverse_dynamics(robot.tree, inertia, q, dq, ddq) @ robot.projection)


@needs_bodies.register(LoadFriction)
def _(term: LoadFriction) -> bool:
    """Whether the load is that of bodies still to be estimated."""
    return term.load == "estimate" and not term.inertia


@with_bodies.register(LoadFriction)
def _(term: LoadFriction, inertia: tuple[float, ...]) -> LoadFriction:
    """With the load of these bodies."""
    return replace(term, inertia=inertia) if needs_bodies(term) else term


@load_slope.register(LoadFriction)
def _(term: LoadFriction, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """Fl s(dq) sign(tau_load)."""
    share = np.zeros(robot.n)
    share[list(joint_indices(robot, term.joints))] = theta
    return np.asarray(share * direction(samples, term.width) * np.sign(term._load(robot, samples)))


@exported_parts.register(LoadFriction)
def _(term: LoadFriction, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction under the mean weight over poses; that it changes with the load is left out."""
    bounds = (np.maximum(robot.limits.lower, -np.pi), np.minimum(robot.limits.upper, np.pi))
    poses = np.random.default_rng(0).uniform(*bounds, (POSES, robot.n))
    rest = poses_at_rest(poses)
    mean = np.abs(term._load(robot, rest)).mean(axis=0)
    acting = joint_indices(robot, term.joints)
    on = (
        OnJoint(j, float(share * mean[j]), MotionBasis.SIGN, term.width)
        for j, share in zip(acting, theta, strict=True)
    )
    return (*on, LeftOut(f"the load of {term.name} but for its mean weight over poses"))


# Viscous friction that saturates: grease that thins under shear, gears that float up.

# Share of the usual top speed at which it bends in what residuals are searched for.
BENDS = 0.3


def _flattening(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """A slope at low speed that gives way to a flatter one."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    seen, advice = "Friction that flattens at high speed", "Try saturating_viscous"
    return (remains.friction(joint, x / (1.0 + np.abs(x) / BENDS), lambda _: seen, advice),)


@dataclass(frozen=True)
class SaturatingViscous(CurveTerm):
    """Viscous friction that bends over: tau_j = fvs_j dq_j / (1 + |dq_j| / velocity_j), in place of `viscous`.

    fvs is its slope at rest, fvs velocity the friction that it never exceeds, so that it is bounded at any speed.
    velocity: rad/s (m/s), at which it is half of what a straight line would be; None = estimated.
    joints: names of the joints it acts on; empty = all.
    """

    velocity: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "saturating_viscous"
    words = TermWords(
        symbols=(Symbol("fvs", "f", "v,s", "viscous friction at low speed, saturating"),),
        group=FRICTION_FORM,
        features=_flattening,
    )
    coefficients = (Coefficient("fvs", "N m s/rad", "N s/m", 0.0),)
    # From a hundredth of the peak velocity, which is a step, to ten times it, which is a straight line.
    shapes = (Shape("velocity", "rad/s", "m/s", 0.5, bounds=lambda _, at: (1e-2 * at.peak, 10.0 * at.peak)),)
    form = FrictionForm("saturating", ("viscous",), (0.2, 0.4, 0.6, 0.8))

    def __post_init__(self) -> None:
        check_shapes(self)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The hyperbola."""
        v = samples.dq[:, joint]
        return np.asarray(v / (1.0 + np.abs(v) / shape[0]))[None, :]


@c_texts.register(SaturatingViscous)
def _(term: SaturatingViscous, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The hyperbola."""
    return (f"({speed} / (1.0 + fabs({speed}) / {c_number(shape[0])}))",)
