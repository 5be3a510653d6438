"""A payload that was found: its body with intervals, which numbers are determined, in words and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.numbers import with_interval
from dynid.base.overview import Overview
from dynid.base.records import dataclass
from dynid.base.scipy_functions import stdtrit
from dynid.spatial.inertia import six, symmetric
from dynid.verbs.payload_fit import Nuisances, ScaleRule, View

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
