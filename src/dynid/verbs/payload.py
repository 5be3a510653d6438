"""The payload of an identified robot: mass, centre and inertia from a log with it mounted, as one consistent body."""

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

# A payload that was found: its body with intervals, which numbers are determined, in words and as plain
# data.

# Share of a variance that the logs take away where they determine nothing: as of links.
UNDETERMINED = 0.1
# Components of the centre that moments and products of inertia about it depend on.
_CENTRES = ((1, 2), (0, 1), (0, 2), (0, 2), (1, 2), (0, 1))
OPEN = "not determined by these motions"
NAMES = ("mass", "centre x", "centre y", "centre z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
UNITS = ("kg", *("m",) * 3, *("kg m^2",) * 6)
MOMENTS = ("mass", "m cx", "m cy", "m cz", *NAMES[4:])
MOMENT_UNITS = ("kg", *("kg m",) * 3, *UNITS[4:])
# Of either ten, those that are not negative: mass and moments of inertia.
_POSITIVE = (0, 4, 6, 9)
RULES = {
    ScaleRule.GAINS: "declared gains",
    ScaleRule.DESCRIPTION: "the description's masses",
}
# One of ten numbers: name, unit, value, half width, (from, to), whether the logs determine it.
_Row = tuple[str, str, float, float, Float, bool]


@dataclass(frozen=True, eq=False)
class TorqueScale:
    """What fixes the size of all torques: true over declared torque of every joint, with 95 % half widths.

    described: relative error of the description's inertias that the log bears; nan where gains are the rule.
    reference: of a known load by which all was scaled, kg; nan = none.
    """

    rule: ScaleRule
    joint_names: tuple[str, ...]
    factor: Float
    half_width: Float
    described: float
    reference: float = np.nan


@dataclass(frozen=True, eq=False)
class Payload:
    """A physically consistent load on the last body, with 95 % intervals.

    parameters: (10,) m, mcx, ..., Izz about the joint frame of `body`.
    covariance: (10, 10), of the residuals' noise, the scale of torque (`by_scale`), drift of gains, friction, lean,
    torque by position, and of how far consistency moved the load.
    blocks: of time in the loaded log.    standstills: that count.    views: mass (kg) and half width by view.
    relative, relative_without: torque error of the loaded log with the load in the model, and without it.
    before: (10,) variances of the parameters before the logs.
    """

    body: str
    parameters: Float
    covariance: Float
    noise: Float
    by_scale: Float
    blocks: int
    standstills: int
    scale: TorqueScale
    views: tuple[tuple[View, float, float], ...]
    relative: float
    relative_without: float
    before: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (10,), "parameters"))
        for name in ("covariance", "noise", "by_scale"):
            object.__setattr__(self, name, locked(getattr(self, name), (10, 10), name))

    def __repr__(self) -> str:
        return "\n".join(payload_lines(self))

    def _repr_html_(self) -> str:
        rows = tuple(
            (name, f"{value:.4g}", f"{low:.4g}", f"{high:.4g}", unit) if known else (name, OPEN, "", "", unit)
            for name, unit, value, _, (low, high), known in _of_properties(self)
        )
        return Overview(
            f"Payload at body '{self.body}'",
            (
                ("torque scale", scale_text(self.scale)),
                ("share of the scale", f"{self.scale_half_width():.2g} kg"),
            ),
            ("", "value", "from", "to", "unit"),
            rows,
        ).html()

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
        """(10,) which of `properties` the logs determine: they take away UNDETERMINED of its variance or more.

        A centre is no better known than the mass by which moments are divided, inertia about it no better than the
        centre. What is not determined is that of a small body at the centre.
        """
        J = _slopes(self.parameters)
        before = np.where(J == 0.0, 0.0, J**2 * self.before).sum(axis=1)
        known = np.einsum("ij,jk,ik->i", J, self.covariance, J) < (1.0 - UNDETERMINED) * before
        known[1:4] &= known[0]
        for k, axes in enumerate(_CENTRES, start=4):
            known[k] &= all(known[1 + axis] for axis in axes)
        return np.asarray(known)

    @property
    def moments_determined(self) -> Bool:
        """(10,) which of `parameters`, mass and moments about the joint frame, the logs determine."""
        return np.asarray(np.diag(self.covariance) < (1.0 - UNDETERMINED) * self.before)

    def half_width(self, level: float = 0.95) -> Float:
        """Half widths of `properties`, (10,), linearised; Student's t, its freedom after Satterthwaite."""
        return self._half_width(_slopes(self.parameters), level)

    def _half_width(self, J: Float, level: float) -> Float:
        # (k,) of J parameters.
        total, noise = (np.maximum(np.diag(J @ C @ J.T), 0.0) for C in (self.covariance, self.noise))
        share = np.clip(noise / np.maximum(total, np.finfo(float).tiny), 1e-3, 1.0)
        return np.asarray(stdtrit((self.blocks - 1) / share**2, 0.5 + level / 2) * np.sqrt(total))

    def interval(self, level: float = 0.95) -> Float:
        """(10, 2) from and to, of `properties`; masses and moments of inertia are not negative."""
        return _between(self.properties, self.half_width(level))

    def moment_half_width(self, level: float = 0.95) -> Float:
        """Half widths of `parameters`, (10,)."""
        return self._half_width(np.eye(10), level)

    def moment_interval(self, level: float = 0.95) -> Float:
        """(10, 2) from and to, of `parameters`, as `interval`."""
        return _between(self.parameters, self.moment_half_width(level))

    def scale_half_width(self) -> float:
        """Half width of the mass that the scale of torque alone leaves, kg."""
        return float(stdtrit(np.inf, 0.975) * np.sqrt(self.by_scale[0, 0]))

    def explaining(self, mass: float) -> tuple[float, float, float]:
        """By what factor all torques would have to be greater for a load of this mass (kg), and its 95 % interval.

        Raises UsageError for a mass that is not positive.
        """
        if not mass > 0:
            raise UsageError("expected-mass", found=f"a mass of {mass} kg", expected="a mass > 0")
        low, high = self.interval()[0]
        return mass / self.mass, mass / high, mass / low if low > 0 else np.inf

    def calibrated(self, reference: Payload, mass: float) -> Payload:
        """The payload with all torques scaled so that a known load is found with its mass.

        s = mass / reference.mass scales the load; the reference's uncertainty that is not of the scale stands in place
        of the scale's.
        Raises UsageError for a mass that is not positive, UnfitDataError for a reference without mass.
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
                found=f"a known payload of {mass:g} kg found as {reference.mass:.3g} kg",
                expected="a log with that payload mounted",
            )
        s = mass / reference.mass
        own = float((reference.covariance - reference.by_scale)[0, 0]) / reference.mass**2
        scaled = s * self.parameters
        by_scale = max(own, 0.0) * np.outer(scaled, scaled)
        return replace(
            self,
            parameters=scaled,
            covariance=s**2 * (self.covariance - self.by_scale) + by_scale,
            noise=s**2 * self.noise,
            before=s**2 * self.before,
            by_scale=by_scale,
            blocks=min(self.blocks, reference.blocks),
            scale=replace(self.scale, factor=s * self.scale.factor, reference=mass),
            views=tuple((view, s * found, s * half) for view, found, half in self.views),
        )


def scale_text(scale: TorqueScale) -> str:
    """What fixes the scale, and the factors by joint."""
    if np.isfinite(scale.reference):
        return f"a known load of {scale.reference:g} kg"
    factors = ", ".join(
        f"{name} {with_interval(value, half)}"
        for name, value, half in zip(scale.joint_names, scale.factor, scale.half_width, strict=True)
    )
    taken = (
        f", each taken to be right to {100 * scale.described:.0f} % (one standard deviation)"
        if np.isfinite(scale.described)
        else f", each taken to be right to {100 * Nuisances().gain:.0f} % (one standard deviation)"
    )
    return f"{RULES[scale.rule]}{taken}; true over logged torque: {factors}"


def payload_lines(found: Payload, expected: float | None = None) -> list[str]:
    """The payload in words, a line a number with its 95 % interval; beside it a mass that was expected, kg."""
    known = found.determined
    lines = [
        f"payload at body '{found.body}', centre in its joint frame, inertia about the centre, 95 % intervals:"
    ]
    lines += [_line(row) for row in _of_properties(found)]
    if not known[0] and (moments := [_line(row) for row in _of_moments(found) if row[-1]]):
        lines += ["moments about the joint frame, which need no mass:", *moments]
    if not known.all():
        lines.append("what is not determined is taken of a small body wherever a whole one is handed on")
    if known[0]:
        scale, own = found.scale_half_width(), found.half_width()[0]
        lines.append(
            f"mass {with_interval(found.mass, own)} kg, of which the scale of torque +- {scale:.2g} kg; scale by "
            + scale_text(found.scale)
        )
        lines.append(
            "the same by parts of the evidence: "
            + ", ".join(f"{view} {with_interval(mass, half)} kg" for view, mass, half in found.views)
            + (f" ({found.standstills} standstills)" if found.standstills else "")
        )
    else:
        lines.append("scale by " + scale_text(found.scale))
    if expected is not None and not known[0]:
        lines.append(f"expected {expected:g} kg: the mass is {OPEN}, so that nothing can be said of it")
    elif expected is not None:
        factor, least, most = found.explaining(expected)
        lines.append(
            f"expected {expected:g} kg: torques {factor:.3g} ({least:.3g} to {most:.3g}) times as great "
            "would explain it"
        )
    return [
        *lines,
        f"torque error of the loaded log: {100 * found.relative:.3g} % with it, "
        f"{100 * found.relative_without:.3g} % without",
    ]


def payload_data(found: Payload, expected: float | None = None) -> dict[str, Any]:
    """The payload as plain data; `ten_parameters` are what the term `known_payload` takes."""
    scale, known = found.scale, found.determined
    data: dict[str, Any] = {
        "body": found.body,
        "found": _data(_of_properties(found)),
        "moments": _data(_of_moments(found)),
        "ten_parameters": found.parameters.tolist(),
        "centre": found.centre.tolist(),
        "inertia_about_centre": found.inertia.tolist(),
        "scale": {
            "rule": "reference" if np.isfinite(scale.reference) else scale.rule.value,
            "true_over_logged": dict(zip(scale.joint_names, scale.factor.tolist(), strict=True)),
            "half_width95": dict(zip(scale.joint_names, scale.half_width.tolist(), strict=True)),
            "mass_half_width95": found.scale_half_width() if known[0] else None,
        },
        "views": {
            view.value: {"mass": mass, "half_width95": half} if known[0] else None
            for view, mass, half in found.views
        },
        "standstills": found.standstills,
        "relative": found.relative,
        "relative_without": found.relative_without,
    }
    if expected is not None and not known[0]:
        data["expected"] = {"mass": expected, "torque_factor": None, "from": None, "to": None}
    elif expected is not None:
        factor, least, most = found.explaining(expected)
        data["expected"] = {"mass": expected, "torque_factor": factor, "from": least, "to": most}
        if not np.isfinite(most):
            data["expected"]["to"] = None
    return data


def _of_properties(found: Payload) -> list[_Row]:
    return list(
        zip(
            NAMES,
            UNITS,
            found.properties,
            found.half_width(),
            found.interval(),
            found.determined,
            strict=True,
        )
    )


def _of_moments(found: Payload) -> list[_Row]:
    half, interval, known = found.moment_half_width(), found.moment_interval(), found.moments_determined
    return list(zip(MOMENTS, MOMENT_UNITS, found.parameters, half, interval, known, strict=True))


def _line(row: _Row) -> str:
    name, unit, value, _, (low, high), known = row
    return f"  {name:9s} {value:10.4g} {unit:7s} {low:.4g} to {high:.4g}" if known else f"  {name:9s} {OPEN}"


def _data(rows: Sequence[_Row]) -> dict[str, dict[str, Any]]:
    # Null where the logs do not determine them.
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
    # (10, 2), what is not negative from zero on.
    low = value - half
    low[list(_POSITIVE)] = np.maximum(low[list(_POSITIVE)], 0.0)
    return np.column_stack([low, value + half])


def _properties(pi: Float) -> Float:
    m = float(pi[0])
    c = pi[1:4] / m
    inertia = symmetric(pi[4:]) - m * (float(c @ c) * np.eye(3) - np.outer(c, c))
    return np.concatenate([[m], c, six(inertia)])


def _slopes(pi: Float) -> Float:
    # (10, 10) derivatives of the properties.
    J = np.empty((10, 10))
    for k in range(10):
        step = np.zeros(10)
        step[k] = 1e-6 * max(abs(pi[k]), 1e-3 * pi[0])
        J[:, k] = (_properties(pi + step) - _properties(pi - step)) / (2 * step[k])
    return J


# A payload in the form that robots' controllers take: mass, centre in the flange's frame, inertia about the
# centre.


def tool_text(found: Payload, form: str, flange: Sequence[float] = (0.0,) * 6) -> str:
    """The lines that a controller, or its programmer, takes.

    form: a key of FORMS.    flange: x, y, z (m), roll, pitch, yaw (rad, about fixed axes as in URDF) of the flange's
    frame in the joint frame of the load's body.
    Raises UsageError for an unknown form or a flange that is not six finite numbers.
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
    mass, centre, inertia = to_com(found.parameters)
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
    # Moments and axes as columns of a rotation, each axis as near as can be to that of the flange with its number.
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
    # Of Bar-Itzhack's symmetric matrix: no case is singular.
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


# A model of the same arm explains most of a loaded log; another arm's does not.
FOREIGN = 0.5
# Rounds in which lean and friction by load are linearised anew about the load that was found.
ROUNDS = 2


def scale_rule(robot: RobotModel) -> ScaleRule:
    """Declared drive gains where every joint has one; else the description's masses; else torque as it is logged."""
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
    """The payload at the last body of an identified robot, from a log with it mounted; see `payload`.

    unloaded: the log without the load; None = the run's own, if it is still there.    scale: None = `scale_rule`.
    Raises UsageError for a run without rigid bodies or without equations by joint, or a scale by a description without
    masses; UnfitDataError if the log is too short. Claims: other-arm, where the model with a load misses half of it.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    rule = scale or scale_rule(run.robot)
    if rule is ScaleRule.DESCRIPTION and not np.isfinite(run.robot.inertia_prior).all():
        raise UsageError(
            "payload-scale",
            found="a description without masses",
            expected="the mass and inertia of every link",
            do="take --scale gains",
        )
    alone = unloaded if unloaded is not None else training_log(run, sink)
    if alone is None:
        sink.warn(
            "unloaded-log-gone",
            "the log without the load is not there any more, or was changed: a lean of the base and friction by load "
            "are estimated in the loaded log alone",
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
    found = Payload(
        body=run.robot.body_names[-1],
        parameters=load,
        covariance=joint.covariance + np.outer(moved, moved),
        noise=joint.noise,
        by_scale=joint.by_scale,
        blocks=len(equations.moving.blocks),
        standstills=0 if equations.resting is None else len(equations.resting.blocks),
        scale=_scale(run.robot, rule, joint),
        views=tuple(_view(one, len(equations.moving.blocks)) for one in (joint, *others)),
        relative=joint.relative,
        relative_without=joint.relative_without,
        before=joint.before,
    )
    _judge(found, sink)
    return found


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
    """The payload at the last body of an identified robot, from a log with it mounted: one consistent body.

    Motion and standstills are fitted together; gains, friction, its growth with the load, hoses and a lean of the
    base are nuisances with plausible sizes, which the intervals hold.
    log, unloaded: a Log or a data frame, with the load and without; unloaded None = the run's own log.
    scale: "gains" or "description", what fixes the size of all torques; None = declared gains, else the description's
    masses.
    reference, reference_mass: a log with a load of known mass (kg), which fixes the scale instead.
    accept: codes of claims that are to warn, not to stop, beside those accepted in the run.

    Raises UsageError for one of reference and reference_mass alone, an unknown scale or an accepted code that is not
    found, and as `find_payload`.
    """
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of reference and reference_mass",
            expected="both: a log and the mass of the load in it",
        )
    if scale is not None and scale not in {rule.value for rule in ScaleRule}:
        raise UsageError(
            "payload-scale", found=f"scale = '{scale}'", expected="gains or description, or none for the rule"
        )
    rule = None if scale is None else ScaleRule(scale)
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept((*run.accepted, *accept))
    channels = run.terms.channels()
    alone = None if unloaded is None else as_log(unloaded, run.robot, channels)

    def found_in(one: Any) -> Payload:
        opened = as_log(one, run.robot, channels)
        return find_payload(run, opened, unloaded=alone, scale=rule, threads=threads, diagnostics=sink)

    found = found_in(log)
    if reference is not None and reference_mass is not None:
        found = found.calibrated(found_in(reference), reference_mass)
    sink.require_found(accept)
    return found


def _scale(robot: RobotModel, rule: ScaleRule, joint: LoadEstimate) -> TorqueScale:
    factor = np.exp(joint.log_scale)
    half = stdtrit(np.inf, 0.975) * factor * np.sqrt(np.diag(joint.log_scale_covariance))
    return TorqueScale(rule, robot.joint_names, factor, np.asarray(half), joint.described)


def _view(estimate: LoadEstimate, blocks: int) -> tuple[View, float, float]:
    # The joint fit's own scale counts with the others, too, so that their intervals can be compared.
    load = consistent_load(estimate)
    moved = load[0] - estimate.parameters[0]
    half = float(stdtrit(blocks - 1, 0.975) * np.sqrt(estimate.covariance[0, 0] + moved**2))
    return estimate.view, float(load[0]), half


def _judge(found: Payload, diagnostics: Diagnostics) -> None:
    if found.relative > FOREIGN:
        diagnostics.claim(
            "other-arm",
            found=f"a torque error of {100 * found.relative:.0f} % with the best payload",
            expected="the log of the arm that the run is about, with a payload",
            do="check which robot, mapping and units the log belongs to",
        )
    if not found.determined[0]:
        diagnostics.warn(
            "payload-open",
            f"the mass is {OPEN}: neither its weight nor its acceleration loads a joint, or much less than the noise",
        )
        return
    low, high = found.interval()[0]
    if low <= 0:
        diagnostics.warn(
            "no-payload", f"a mass of {found.mass:.3g} kg does not differ from none; at most {high:.3g} kg"
        )
    (_, mass, half), *others = found.views
    for view, other, wide in others:
        if abs(other - mass) > half + wide:
            diagnostics.warn(
                "payload-views",
                f"{view} says {with_interval(other, wide)} kg, beside {with_interval(mass, half)} kg: the model "
                "lacks an effect that looks like a load",
            )
