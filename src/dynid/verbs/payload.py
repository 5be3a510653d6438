"""Payload of an identified robot: mass, centre of mass and inertia from a log with the payload mounted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.numerics import stdtrit
from dynid.base.parallel import pass_threads
from dynid.base.records import Overview, dataclass
from dynid.base.units import with_interval
from dynid.identification.logs import training_log
from dynid.log.read import Log, as_log
from dynid.robot.model import RobotModel
from dynid.run.floating import refuse_floating
from dynid.run.result import Identification
from dynid.spatial.algebra import rotation_about
from dynid.spatial.inertia import six, symmetric, to_com
from dynid.verbs.payload_fit import (
    LoadEstimate,
    LoadLogs,
    Nuisances,
    ScaleRule,
    View,
    consistent_load,
    estimate_load,
)

# The identified payload with intervals, and which of its values are determined; in words and as plain data.

# A value counts as undetermined if the logs reduce its prior variance by less than this share, as for links.
UNDETERMINED = 0.1
# Coordinates of the centre of mass that each moment or product of inertia about it depends on.
_CENTRES = ((1, 2), (0, 1), (0, 2), (0, 2), (1, 2), (0, 1))
OPEN = "not determined by these motions"
NAMES = ("mass", "centre x", "centre y", "centre z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
UNITS = ("kg", *("m",) * 3, *("kg m^2",) * 6)
MOMENTS = ("mass", "m cx", "m cy", "m cz", *NAMES[4:])
MOMENT_UNITS = ("kg", *("kg m",) * 3, *UNITS[4:])
# Indices of values that cannot be negative: mass and moments of inertia.
_POSITIVE = (0, 4, 6, 9)
RULES = {
    ScaleRule.GAINS: "declared gains",
    ScaleRule.DESCRIPTION: "the masses of the robot file",
}
# One of the ten values: name, unit, value, half width, (from, to), whether the logs determine it.
_Row = tuple[str, str, float, float, Float, bool]


@dataclass(frozen=True, eq=False)
class TorqueScale:
    """The scale of all torques: true over declared torque of every joint, with 95 % half widths.

    Attributes
    ----------
    rule : ScaleRule
        What fixes the scale.
    joint_names : tuple of str
    factor, half_width : ndarray, shape (n_joints,)
    described : float
        Relative error of the inertias of the robot file that fits the log; nan if gains fix the scale.
    reference : float, kg
        Mass of a known load that fixes the scale; nan = none.

    """

    rule: ScaleRule
    joint_names: tuple[str, ...]
    factor: Float
    half_width: Float
    described: float
    reference: float = np.nan


@dataclass(frozen=True, eq=False)
class RigidLoad:
    """A physically consistent load at a link, with 95 % intervals.

    Attributes
    ----------
    body : str
        Name of the link.
    parameters : ndarray, shape (10,)
        m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame of `body`; kg, kg m, kg m^2.
    covariance : ndarray, shape (10, 10)
        With all disturbances.
    noise : ndarray, shape (10, 10)
        Part of the covariance that is estimated from `blocks` blocks of time.
    blocks : int
        Independent parts of the data.
    before : ndarray, shape (10,)
        Prior variances of the parameters.

    """

    body: str
    parameters: Float
    covariance: Float
    noise: Float
    blocks: int
    before: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (10,), "parameters"))
        for name in ("covariance", "noise"):
            object.__setattr__(self, name, locked(getattr(self, name), (10, 10), name))

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.parameters[0])

    @property
    def centre(self) -> Float:
        """Centre of mass in the joint frame, (3,), m."""
        return np.asarray(self.parameters[1:4] / self.mass)

    @property
    def inertia(self) -> Float:
        """Inertia about the centre of mass in the joint frame's axes, (3, 3), kg m^2."""
        return symmetric(_properties(self.parameters)[4:])

    @property
    def properties(self) -> Float:
        """Mass, centre (3) and inertia about it (xx, xy, yy, xz, yz, zz), (10,)."""
        return _properties(self.parameters)

    @property
    def determined(self) -> Bool:
        """Which of `properties` the logs determine, shape (10,): their variance is reduced by UNDETERMINED or more.

        A centre of mass is determined only if the mass is, and an inertia only if the centre of mass is. Values that
        are not determined are set as for a small body at the centre of mass.
        """
        J = slopes_of_properties(self.parameters)
        before = np.where(J == 0.0, 0.0, J**2 * self.before).sum(axis=1)
        known = np.einsum("ij,jk,ik->i", J, self.covariance, J) < (1.0 - UNDETERMINED) * before
        known[1:4] &= known[0]
        for k, axes in enumerate(_CENTRES, start=4):
            known[k] &= all(known[1 + axis] for axis in axes)
        return np.asarray(known)

    @property
    def moments_determined(self) -> Bool:
        """Which of `parameters`, mass and moments about the joint frame, the logs determine, shape (10,)."""
        return np.asarray(np.diag(self.covariance) < (1.0 - UNDETERMINED) * self.before)

    def half_width(self, level: float = 0.95) -> Float:
        """Half widths of `properties`, shape (10,), linearised; Student's t with freedom by Satterthwaite."""
        return self._half_width(slopes_of_properties(self.parameters), level)

    def _half_width(self, J: Float, level: float) -> Float:
        # Half widths (k,) of the k sums J @ parameters.
        total, noise = (np.maximum(np.diag(J @ C @ J.T), 0.0) for C in (self.covariance, self.noise))
        share = np.clip(noise / np.maximum(total, np.finfo(float).tiny), 1e-3, 1.0)
        return np.asarray(stdtrit((self.blocks - 1) / share**2, 0.5 + level / 2) * np.sqrt(total))

    def interval(self, level: float = 0.95) -> Float:
        """Intervals of `properties`, shape (10, 2); masses and moments of inertia are not negative."""
        return _between(self.properties, self.half_width(level))

    def moment_half_width(self, level: float = 0.95) -> Float:
        """Half widths of `parameters`, shape (10,)."""
        return self._half_width(np.eye(10), level)

    def moment_interval(self, level: float = 0.95) -> Float:
        """Intervals of `parameters`, shape (10, 2), as `interval`."""
        return _between(self.parameters, self.moment_half_width(level))

    def explaining(self, mass: float) -> tuple[float, float, float]:
        """Factor on all torques, or forces of a wrench, that explains a payload of this mass (kg); its 95 % interval.

        Raises UsageError for a mass that is not positive.
        """
        if not mass > 0:
            raise UsageError("expected-mass", found=f"a mass of {mass} kg", expected="a mass > 0")
        low, high = self.interval()[0]
        return mass / self.mass, mass / high, mass / low if low > 0 else np.inf


@dataclass(frozen=True, eq=False)
class Payload(RigidLoad):
    """A physically consistent payload on the last link, with 95 % intervals.

    Attributes
    ----------
    body : str
        Name of the last link.
    parameters : ndarray, shape (10,)
        m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint frame of `body`; kg, kg m, kg m^2.
    covariance : ndarray, shape (10, 10)
        From the noise of the residuals, the torque scale, drift of gains, friction, base tilt, position-dependent
        torque, and the change that physical consistency required.
    noise, by_scale : ndarray, shape (10, 10)
        Parts of the covariance from the noise and from the torque scale.
    blocks : int
        Blocks of time in the loaded log.
    standstills : int
        Standstills that were used.
    scale : TorqueScale
    views : tuple of (View, float, float)
        Mass, kg, and 95 % half width of each view.
    relative, relative_without : float
        Torque error of the loaded log with and without the payload in the model.
    before : ndarray, shape (10,)
        Prior variances of the parameters.

    """

    by_scale: Float
    standstills: int
    scale: TorqueScale
    views: tuple[tuple[View, float, float], ...]
    relative: float
    relative_without: float

    def __post_init__(self) -> None:
        RigidLoad.__post_init__(self)
        object.__setattr__(self, "by_scale", locked(self.by_scale, (10, 10), "by_scale"))

    def __repr__(self) -> str:
        return "\n".join(payload_lines(self))

    def _repr_html_(self) -> str:
        rows = tuple(
            (name, f"{value:.4g}", f"{low:.4g}", f"{high:.4g}", unit) if known else (name, OPEN, "", "", unit)
            for name, unit, value, _, (low, high), known in _property_rows(self)
        )
        return Overview(
            f"Payload at link '{self.body}'",
            (
                ("torque scale", scale_text(self.scale)),
                ("part of the torque scale", f"+- {self.scale_half_width():.2g} kg"),
            ),
            ("", "value", "from", "to", "unit"),
            rows,
        ).html()

    def scale_half_width(self) -> float:
        """Half width of the mass due to the torque scale alone, kg."""
        return float(stdtrit(np.inf, 0.975) * np.sqrt(self.by_scale[0, 0]))

    def calibrated(self, reference: Payload, mass: float) -> Payload:
        """Scale all torques such that a known payload gets its true mass.

        The payload is scaled by s = mass / reference.mass. The uncertainty of the torque scale is replaced by the
        uncertainty of the reference without its own scale part.

        Parameters
        ----------
        reference : Payload
            The known payload, as identified.
        mass : float, kg
            Its true mass.

        Returns
        -------
        Payload

        Raises
        ------
        UsageError
            For a mass that is not positive.
        UnfitDataError
            For a reference whose mass is not determined.

        """
        if not mass > 0:
            raise UsageError("reference-mass", found=f"a mass of {mass} kg", expected="a mass > 0")
        if not reference.determined[0]:
            raise UnfitDataError(
                "no-payload",
                found=f"a known payload of {mass:g} kg whose mass is {OPEN}",
                expected="a log in which its weight or its acceleration loads a joint",
            )
        if reference.half_width()[0] >= reference.mass:
            raise UnfitDataError(
                "no-payload",
                found=f"a known payload of {mass:g} kg with an estimated mass of {reference.mass:.3g} kg",
                expected="a log with that payload mounted",
            )
        s = mass / reference.mass
        variance = float((reference.covariance - reference.by_scale)[0, 0]) / reference.mass**2
        scaled = s * self.parameters
        by_scale = max(variance, 0.0) * np.outer(scaled, scaled)
        return replace(
            self,
            parameters=scaled,
            covariance=s**2 * (self.covariance - self.by_scale) + by_scale,
            noise=s**2 * self.noise,
            before=s**2 * self.before,
            by_scale=by_scale,
            blocks=min(self.blocks, reference.blocks),
            scale=replace(self.scale, factor=s * self.scale.factor, reference=mass),
            views=tuple((view, s * view_mass, s * half) for view, view_mass, half in self.views),
        )


def scale_text(scale: TorqueScale) -> str:
    """Source of the torque scale, and the factors per joint, in words."""
    if np.isfinite(scale.reference):
        return f"a known load of {scale.reference:g} kg"
    factors = ", ".join(
        f"{name} {with_interval(value, half)}"
        for name, value, half in zip(scale.joint_names, scale.factor, scale.half_width, strict=True)
    )
    deviation = (
        f" (standard deviation {100 * scale.described:.0f} % each)"
        if np.isfinite(scale.described)
        else f" (standard deviation {100 * Nuisances().gain:.0f} % each)"
    )
    return f"{RULES[scale.rule]}{deviation}; true over logged torque: {factors}"


def load_lines(result: RigidLoad, frame: str = "joint frame") -> list[str]:
    """The ten values of a load, one line each with its 95 % interval; frame: the frame of its link, in words."""
    known = result.determined
    lines = [
        f"payload at link '{result.body}' (centre in its {frame}, inertia about the centre, 95 % intervals):"
    ]
    lines += [_line(row) for row in _property_rows(result)]
    if not known[0] and (moments := [_line(row) for row in _moment_rows(result) if row[-1]]):
        lines += [f"moments about the {frame}, which do not require the mass:", *moments]
    if not known.all():
        lines.append(
            "exports and --tool use the values of a small link for parameters that are not determined"
        )
    return lines


def payload_lines(result: Payload, expected: float | None = None) -> list[str]:
    """The payload in words, one line per value with its 95 % interval; expected: a mass to compare with, kg."""
    known = result.determined
    lines = load_lines(result)
    if known[0]:
        scale, half_width = result.scale_half_width(), result.half_width()[0]
        lines.append(
            f"mass {with_interval(result.mass, half_width)} kg (+- {scale:.2g} kg from the torque scale); "
            f"scale from {scale_text(result.scale)}"
        )
        lines.append(
            "mass from separate parts of the data: "
            + ", ".join(f"{view} {with_interval(mass, half)} kg" for view, mass, half in result.views)
            + (f" ({result.standstills} standstills)" if result.standstills else "")
        )
    else:
        lines.append("torque scale from " + scale_text(result.scale))
    if expected is not None and not known[0]:
        lines.append(f"expected {expected:g} kg: cannot be compared, because the mass is {OPEN}")
    elif expected is not None:
        factor, least, most = result.explaining(expected)
        lines.append(
            f"expected {expected:g} kg: this would need torques {factor:.3g} ({least:.3g} to {most:.3g}) times "
            "as large"
        )
    return [
        *lines,
        f"torque error of the loaded log: {100 * result.relative:.3g} % with the payload, "
        f"{100 * result.relative_without:.3g} % without",
    ]


def payload_data(result: Payload, expected: float | None = None) -> dict[str, Any]:
    """The payload as plain data; `ten_parameters` are the options of the term `known_payload`."""
    scale, known = result.scale, result.determined
    data: dict[str, Any] = load_data(result) | {
        "scale": {
            "rule": "reference" if np.isfinite(scale.reference) else scale.rule.value,
            "true_over_logged": dict(zip(scale.joint_names, scale.factor.tolist(), strict=True)),
            "half_width95": dict(zip(scale.joint_names, scale.half_width.tolist(), strict=True)),
            "mass_half_width95": result.scale_half_width() if known[0] else None,
        },
        "views": {
            view.value: {"mass": mass, "half_width95": half} if known[0] else None
            for view, mass, half in result.views
        },
        "standstills": result.standstills,
        "relative": result.relative,
        "relative_without": result.relative_without,
    }
    if expected is not None and not known[0]:
        data["expected"] = {"mass": expected, "torque_factor": None, "from": None, "to": None}
    elif expected is not None:
        factor, least, most = result.explaining(expected)
        data["expected"] = {"mass": expected, "torque_factor": factor, "from": least, "to": most}
        if not np.isfinite(most):
            data["expected"]["to"] = None
    return data


def load_data(result: RigidLoad) -> dict[str, Any]:
    """The ten values of a load as plain data."""
    return {
        "body": result.body,
        "found": _data(_property_rows(result)),
        "moments": _data(_moment_rows(result)),
        "ten_parameters": result.parameters.tolist(),
        "centre": result.centre.tolist(),
        "inertia_about_centre": result.inertia.tolist(),
    }


def _property_rows(result: RigidLoad) -> list[_Row]:
    return list(
        zip(
            NAMES,
            UNITS,
            result.properties,
            result.half_width(),
            result.interval(),
            result.determined,
            strict=True,
        )
    )


def _moment_rows(result: RigidLoad) -> list[_Row]:
    half, interval, known = result.moment_half_width(), result.moment_interval(), result.moments_determined
    return list(zip(MOMENTS, MOMENT_UNITS, result.parameters, half, interval, known, strict=True))


def _line(row: _Row) -> str:
    name, unit, value, _, (low, high), known = row
    return f"  {name:9s} {value:10.4g} {unit:7s} {low:.4g} to {high:.4g}" if known else f"  {name:9s} {OPEN}"


def _data(rows: Sequence[_Row]) -> dict[str, dict[str, Any]]:
    # Values that the logs do not determine are null in JSON.
    return {
        name: {
            "value": float(value) if known else None,
            "half_width95": float(half) if known else None,
            "from": float(low) if known else None,
            "to": float(high) if known else None,
            "unit": unit,
            "determined": bool(known),
        }
        for name, unit, value, half, (low, high), known in rows
    }


def _between(value: Float, half: Float) -> Float:
    # Intervals (10, 2), cut at zero for values that cannot be negative.
    low = value - half
    low[list(_POSITIVE)] = np.maximum(low[list(_POSITIVE)], 0.0)
    return np.column_stack([low, value + half])


def _properties(pi: Float) -> Float:
    m = float(pi[0])
    c = pi[1:4] / m
    inertia = symmetric(pi[4:]) - m * (float(c @ c) * np.eye(3) - np.outer(c, c))
    return np.concatenate([[m], c, six(inertia)])


def slopes_of_properties(pi: Float) -> Float:
    """Jacobian (10, 10) of mass, centre and inertia about it by the ten parameters, by central differences."""
    J = np.empty((10, 10))
    for k in range(10):
        step = np.zeros(10)
        step[k] = 1e-6 * max(abs(pi[k]), 1e-3 * pi[0])
        J[:, k] = (_properties(pi + step) - _properties(pi - step)) / (2 * step[k])
    return J


# A payload in the form of robot controllers: mass, centre of mass in the flange frame, inertia about the centre.


def tool_text(result: RigidLoad, form: str, flange: Sequence[float] = (0.0,) * 6) -> str:
    """The payload as a command or record of a robot controller.

    Parameters
    ----------
    result : RigidLoad
        The payload.
    form : str
        A key of FORMS: ur, franka, abb or kuka.
    flange : sequence of six float
        Pose of the flange in the joint frame of the last link: x, y, z in m; roll, pitch, yaw in rad, about fixed axes
        as in URDF.

    Returns
    -------
    str

    Raises
    ------
    UsageError
        For an unknown form, or a flange that is not six finite numbers.

    """
    if form not in FORMS:
        raise UsageError("payload-tool", found=f"form '{form}'", expected="one of " + ", ".join(FORMS))
    if len(flange) != 6 or not np.isfinite(flange).all():
        raise UsageError(
            "payload-flange",
            found=f"{list(flange)}",
            expected="six numbers: x, y, z in m, roll, pitch, yaw in rad",
        )
    x, y, z = np.eye(3)
    roll, pitch, yaw = flange[3:]
    R = rotation_about(z, yaw) @ rotation_about(y, pitch) @ rotation_about(x, roll)
    mass, centre, inertia = to_com(result.parameters)
    return FORMS[form](mass, R.T @ (centre - np.array(flange[:3])), R.T @ inertia @ R)


def _ur(mass: float, centre: Float, inertia: Float) -> str:
    # set_target_payload(m, cog, [Ixx, Iyy, Izz, Ixy, Ixz, Iyz]) of URScript: kg, m, kg m^2, axes of the flange.
    six = [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    return f"set_target_payload({mass:.4f}, {_listed(centre, 5)}, {_listed(six, 6)})\n"


def _franka(mass: float, centre: Float, inertia: Float) -> str:
    # setLoad(load_mass, F_x_Cload, load_inertia) of libfranka: kg, m, kg m^2, columns one after another.
    columns = ", ".join(f"{value:.6f}" for value in inertia.T.ravel())
    return f"robot.setLoad({mass:.4f}, {{{', '.join(f'{value:.5f}' for value in centre)}}}, {{{columns}}});\n"


def _abb(mass: float, centre: Float, inertia: Float) -> str:
    # loaddata of RAPID: kg, mm, quaternion of the principal axes, kg m^2 about them.
    values, axes = _principal(inertia)
    aom = _listed(_quaternion(axes), 6)
    return f"PERS loaddata payload := [{mass:.4f}, {_listed(1e3 * centre, 2)}, {aom}, {_csv(values)}];\n"


def _kuka(mass: float, centre: Float, inertia: Float) -> str:
    # LOAD_DATA: kg, mm, A B C in degrees about z, y', x'', kg m^2 about the principal axes.
    values, axes = _principal(inertia)
    a, b = np.arctan2(axes[1, 0], axes[0, 0]), -np.arcsin(np.clip(axes[2, 0], -1.0, 1.0))
    c = np.arctan2(axes[2, 1], axes[2, 2])
    X, Y, Z = 1e3 * centre
    A, B, C = np.degrees([a, b, c])
    J = values
    return (
        f"LOAD_DATA[1]={{M {mass:.4f},CM {{X {X:.2f},Y {Y:.2f},Z {Z:.2f},A {A:.3f},B {B:.3f},C {C:.3f}}},"
        f"J {{X {J[0]:.6f},Y {J[1]:.6f},Z {J[2]:.6f}}}}}\n"
    )


def _principal(inertia: Float) -> tuple[Float, Float]:
    # Principal moments, and axes as columns of a rotation; each axis is the closest one to its axis of the flange.
    values, axes = np.linalg.eigh(inertia)
    order = np.zeros(3, dtype=np.int64)
    left = [0, 1, 2]
    for k in range(3):
        order[k] = max(left, key=lambda i: abs(axes[k, i]))
        left.remove(int(order[k]))
    axes = axes[:, order] * np.where(np.diag(axes[:, order]) < 0, -1.0, 1.0)
    if np.linalg.det(axes) < 0:
        axes[:, 2] *= -1.0
    return np.asarray(values[order]), np.asarray(axes)


def _quaternion(R: Float) -> Float:
    # By Bar-Itzhack's symmetric matrix, which has no singular case.
    K = np.array(
        [
            [R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[2, 1] - R[1, 2]],
            [R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1], R[0, 2] - R[2, 0]],
            [R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], np.trace(R)],
        ]
    )
    x, y, z, w = np.linalg.eigh(K)[1][:, -1]
    q = np.array([w, x, y, z])
    return np.asarray(q if w >= 0 else -q)


def _csv(values: Sequence[float] | Float, digits: int = 6) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _listed(values: Sequence[float] | Float, digits: int) -> str:
    return f"[{_csv(values, digits)}]"


FORMS: dict[str, Callable[[float, Float, Float], str]] = {
    "ur": _ur,
    "franka": _franka,
    "abb": _abb,
    "kuka": _kuka,
}


# Torque error of a loaded log above which it is probably a log of another robot.
FOREIGN = 0.5
# Rounds of linearisation of base tilt and load-dependent friction about the estimated load; two suffice.
ROUNDS = 2


def scale_rule(robot: RobotModel) -> ScaleRule:
    """Default rule for the torque scale: declared gains if all joints have one, else the masses of the robot file."""
    if np.isfinite(robot.drive.drive_gain).all():
        return ScaleRule.GAINS
    described = np.isfinite(robot.inertia_prior).all() and (robot.inertia_prior[:, 0] > 0).any()
    return ScaleRule.DESCRIPTION if described else ScaleRule.GAINS


def find_payload(
    run: Identification,
    log: Log,
    *,
    unloaded: Log | None = None,
    scale: ScaleRule | None = None,
    nuisances: Nuisances | None = None,
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
) -> Payload:
    """Identify the payload at the last link of an identified robot; see `payload`.

    Parameters
    ----------
    run : Identification
        The identified run.
    log : Log
        With the payload mounted.
    unloaded : Log, optional
        Without the payload; None = the log of the run, if it still exists.
    scale : ScaleRule, optional
        None = `scale_rule`.
    nuisances : Nuisances, optional
        Standard deviations of the disturbances.
    threads : int, optional
        Number of threads; results do not depend on it.
    diagnostics : Diagnostics, optional
        Gets the doubt other-arm if the best payload leaves more than half of the torque unexplained.

    Returns
    -------
    Payload

    Raises
    ------
    UsageError
        For a run without rigid bodies or without equations per joint, or if masses of a robot file that has none
        should fix the scale.
    UnfitDataError
        If the log is too short.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    refuse_floating(run.robot, "a payload")
    rule = scale or scale_rule(run.robot)
    if rule is ScaleRule.DESCRIPTION and not np.isfinite(run.robot.inertia_prior).all():
        raise UsageError(
            "payload-scale",
            found="a robot file without masses",
            expected="the mass and inertia of every link",
            do="use --scale gains",
        )
    alone = unloaded if unloaded is not None else training_log(run, sink)
    if alone is None:
        sink.warn(
            "unloaded-log-gone",
            "the log without the load is missing or was changed, so base tilt and load-dependent friction are "
            "estimated from the loaded log alone",
        )
    logs = LoadLogs(run, log, alone, sink, pass_threads(threads))
    load = np.zeros(10)
    for _ in range(ROUNDS):
        equations = logs.equations(load)
        joint = estimate_load(equations, rule, nuisances=nuisances)
        load = consistent_load(joint)
    known = (joint.log_scale, joint.log_scale_covariance)
    others = (
        estimate_load(equations, rule, View.DIFFERENCE, nuisances, known),
        estimate_load(equations, rule, View.STATICS, nuisances),
    )
    moved = load - joint.parameters
    result = Payload(
        body=run.robot.body_names[-1],
        parameters=load,
        covariance=joint.covariance + np.outer(moved, moved),
        noise=joint.noise,
        by_scale=joint.by_scale,
        blocks=len(equations.moving.blocks),
        standstills=0 if equations.resting is None else len(equations.resting.blocks),
        scale=_scale(run.robot, rule, joint),
        views=tuple(_view(view_estimate, len(equations.moving.blocks)) for view_estimate in (joint, *others)),
        relative=joint.relative,
        relative_without=joint.relative_without,
        before=joint.before,
    )
    _judge(result, sink)
    return result


def payload(
    run: Identification,
    log: Any,
    *,
    unloaded: Any = None,
    scale: str | None = None,
    reference: Any = None,
    reference_mass: float | None = None,
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Payload:
    """Identify the payload at the last link of an identified robot, from a log with the payload mounted.

    Motion and standstills are fitted together. Errors of gains, friction, load-dependent friction, hoses and a tilt of
    the base are disturbances of plausible size, which the intervals include.

    Parameters
    ----------
    run : Identification
        The identified run.
    log : Log or data frame
        With the payload mounted.
    unloaded : Log or data frame, optional
        Without the payload; None = the log of the run.
    scale : {"gains", "description"}, optional
        What fixes the torque scale; None = declared gains if all joints have one, else the masses of the robot file.
    reference : Log or data frame, optional
        With a known payload, which fixes the torque scale instead.
    reference_mass : float, kg, optional
        Mass of the known payload.
    threads : int, optional
        Number of threads; results do not depend on it.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.
    accept : sequence of str
        Codes of doubts to accept, in addition to those accepted in the run.

    Returns
    -------
    Payload
        Physically consistent.

    Raises
    ------
    UsageError
        For only one of reference and reference_mass, an unknown scale, or an accepted code that does not occur; also
        as `find_payload`.

    """
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of reference and reference_mass",
            expected="both: a log and the mass of the load in it",
        )
    if scale is not None and scale not in {rule.value for rule in ScaleRule}:
        raise UsageError(
            "payload-scale",
            found=f"scale = '{scale}'",
            expected="gains or description; leave it out for the default",
        )
    rule = None if scale is None else ScaleRule(scale)
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept((*run.accepted, *accept))
    channels = run.terms.channels()
    alone = None if unloaded is None else as_log(unloaded, run.robot, channels)

    def payload_in(data: Any) -> Payload:
        opened = as_log(data, run.robot, channels)
        return find_payload(run, opened, unloaded=alone, scale=rule, threads=threads, diagnostics=sink)

    result = payload_in(log)
    if reference is not None and reference_mass is not None:
        result = result.calibrated(payload_in(reference), reference_mass)
    sink.require_found(accept)
    return result


def _scale(robot: RobotModel, rule: ScaleRule, joint: LoadEstimate) -> TorqueScale:
    factor = np.exp(joint.log_scale)
    half = stdtrit(np.inf, 0.975) * factor * np.sqrt(np.diag(joint.log_scale_covariance))
    return TorqueScale(rule, robot.joint_names, factor, np.asarray(half), joint.described)


def _view(estimate: LoadEstimate, blocks: int) -> tuple[View, float, float]:
    # Each view includes the uncertainty of the torque scale, so that their intervals can be compared.
    load = consistent_load(estimate)
    moved = load[0] - estimate.parameters[0]
    half = float(stdtrit(blocks - 1, 0.975) * np.sqrt(estimate.covariance[0, 0] + moved**2))
    return estimate.view, float(load[0]), half


def _judge(result: Payload, diagnostics: Diagnostics) -> None:
    if result.relative > FOREIGN:
        diagnostics.claim(
            "other-arm",
            found=f"a torque error of {100 * result.relative:.0f} % with the best payload",
            expected="a log of the robot of this run, with a payload",
            do="check the robot, the mapping and the units of the log",
        )
    if not result.determined[0]:
        diagnostics.warn(
            "payload-open",
            f"the mass is {OPEN}: its weight and acceleration load no joint by more than the noise",
        )
        return
    low, high = result.interval()[0]
    if low <= 0:
        diagnostics.warn(
            "no-payload",
            f"a mass of {result.mass:.3g} kg is not distinguishable from zero (at most {high:.3g} kg)",
        )
    (_, mass, half), *others = result.views
    for view, other, wide in others:
        if abs(other - mass) > half + wide:
            diagnostics.warn(
                "payload-views",
                f"{view} gives {with_interval(other, wide)} kg, the joint fit {with_interval(mass, half)} kg: the "
                "model lacks an effect that resembles a load",
            )
