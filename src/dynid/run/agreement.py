"""Whether runs of one robot agree: base parameters per pair and all together, pooled values, and likely causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import combinations
from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.numerics import normal_quantile, student_cumulative, student_quantile
from dynid.base.records import dataclass
from dynid.estimate.uncertainty import Homogeneity, combined, homogeneity
from dynid.run.result import Identification
from dynid.run.shared_parameters import Fit, Shared, inverted, shared_keys

Runs = Sequence[tuple[str, Identification]]

# Level of intervals; chance of a false alarm for runs of an unchanged robot with a correct model.
LEVEL, ALPHA = 0.95, 0.01
# Shares of the difference between the runs: a change that explains at least MOST is named; halves of a run that differ
# by at least SOME place the cause inside the runs; halves that differ by less than HALF place it outside.
MOST, SOME, HALF = 0.8, 0.2, 0.5
# Mean square difference of torque over that of the residual. If chance may reach it, the runs are too short to judge.
HIDDEN = 1.0
# Changes that may occur between runs of one robot, and the parameters that each frees; single changes first.
CHANGES = {
    "friction and offsets": ("friction",),
    "the load on the last link": ("load",),
    "the torque scale of the joints": ("gain",),
    "friction, offsets and the load": ("friction", "load"),
    "friction, offsets and the torque scale": ("friction", "gain"),
}


class Cause(StrEnum):
    """Why runs disagree."""

    NONE = "the runs agree"
    CHANGED = "the robot changed between the runs"
    DRIFTS = "the robot changes during the runs"
    TOO_SMALL = "the model is too small"
    OPEN = "cannot be decided from these runs"


@dataclass(frozen=True)
class Pair:
    """Two runs: number of shared parameters, and number of those whose 95 % intervals agree.

    textbook: the same number for intervals that assume independent residuals.
    rms_z: root mean square of (a - b) / sqrt(var a + var b); 1 = as far apart as the intervals predict.
    """

    first: str
    second: str
    compared: int
    agree: int
    textbook: int
    rms_z: float


@dataclass(frozen=True, eq=False)
class SharedParameter:
    """A base parameter that two or more runs determine.

    Attributes
    ----------
    formula, unit : str
    values, std : ndarray, shape (n_runs,)
        From the data alone; nan for a run that does not determine it.
    z : float
        Largest |a - b| / sqrt(var a + var b), between the two runs named in `apart`.
    apart : tuple of str
    p_value : float
        Of z by Student's t, times the number of comparisons (Bonferroni).
    torque : float
        Largest share of a joint's torque that this difference causes, in the joint `moves`.
    moves : str
    every : ndarray, shape (n_pairs,)
        |a - b| / sqrt(var a + var b) of every pair of runs.
    pooled, half : float
        Common value and its 95 % half width if the runs agree; nan otherwise.

    """

    formula: str
    unit: str
    values: Float
    std: Float
    z: float
    apart: tuple[str, str]
    p_value: float
    torque: float
    moves: str
    every: Float
    pooled: float = np.nan
    half: float = np.nan

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", locked(self.values, (None,), "values"))
        object.__setattr__(self, "std", locked(self.std, (len(self.values),), "std"))
        object.__setattr__(self, "every", locked(self.every, (None,), "every"))

    @property
    def agrees(self) -> bool:
        """Whether all runs may have the same value."""
        return self.p_value >= 1.0 - LEVEL


@dataclass(frozen=True)
class Change:
    """A possible change between runs, the share of their difference that it explains, and p of the rest."""

    what: str
    share: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Agreement:
    """Result of `agreement`.

    Attributes
    ----------
    names : tuple of str
        Runs.
    group_names : tuple of str
        Groups of equations, usually joints.
    pairs : tuple of Pair
    parameters : tuple of SharedParameter
    together : Homogeneity or None
        Test of all shared parameters at once; None if the runs share none.
    halves : Homogeneity or None
        Test of the first against the second half of every run; None if the runs are too short.
    torque : ndarray, shape (n_groups,)
        RMS difference of the runs' torque beyond chance, relative to the torque.
    between, within : tuple of float
        Mean square torque difference between runs, and between halves of a run, beyond chance, relative to the
        residual; with its standard deviation.
    alike : bool
        Whether the motions of the runs are as similar as those of the halves of a run.
    changes : tuple of Change
        Possible changes.
    cause : Cause
    reason : str
    notes : tuple of str
        What could not be compared.

    """

    names: tuple[str, ...]
    group_names: tuple[str, ...]
    pairs: tuple[Pair, ...]
    parameters: tuple[SharedParameter, ...]
    together: Homogeneity | None
    halves: Homogeneity | None
    torque: Float
    between: tuple[float, float]
    within: tuple[float, float]
    alike: bool
    changes: tuple[Change, ...]
    cause: Cause
    reason: str
    notes: tuple[str, ...] = ()

    @property
    def compared(self) -> int:
        """Number of comparisons over all pairs."""
        return sum(pair.compared for pair in self.pairs)

    @property
    def share(self) -> float:
        """Share of comparisons in which the 95 % intervals agree; nan without comparisons."""
        return sum(pair.agree for pair in self.pairs) / self.compared if self.compared else np.nan

    @property
    def textbook(self) -> float:
        """The same share for intervals that assume independent residuals."""
        return sum(pair.textbook for pair in self.pairs) / self.compared if self.compared else np.nan

    @property
    def rms_z(self) -> float:
        """Root mean square of z over all comparisons; nan without comparisons."""
        total = sum(pair.compared * pair.rms_z**2 for pair in self.pairs)
        return float(np.sqrt(total / self.compared)) if self.compared else np.nan


def agreement(runs: Runs) -> Agreement:
    """Compare the base parameters of several runs of one robot.

    All runs are fitted again by weighted least squares without prior and constraints, so that only the data count.
    Base parameters are the same if their formulas are the same, or if the other run determines the sum in the formula.
    Friction of a joint is compared only if the runs model it in the same way.

    Parameters
    ----------
    runs : sequence of (str, Identification)
        Runs with their names.

    Returns
    -------
    Agreement

    Raises
    ------
    UsageError
        For fewer than two runs, robots with different joints, or runs of the same data.
    UnfitDataError
        For a run of fewer than three blocks.

    """
    _check(runs)
    names = tuple(name for name, _ in runs)
    fits = tuple(Fit.of(run) for _, run in runs)
    twos = {(i, j): Shared.of((fits[i], fits[j])) for i, j in combinations(range(len(fits)), 2)}
    tests = [fit.halves for fit in fits if fit.halves is not None]
    result = Agreement(
        names=names,
        group_names=fits[0].estimate.group_names,
        pairs=tuple(_pair(names[i], names[j], two) for (i, j), two in twos.items()),
        parameters=_parameters(names, fits, twos),
        together=None,
        halves=combined(tests) if tests else None,
        torque=np.zeros(len(fits[0].estimate.group_names)),
        between=(0.0, np.inf),
        within=(0.0, np.inf),
        alike=False,
        changes=(),
        cause=Cause.OPEN,
        reason="the runs share no base parameter",
        notes=_notes(names, fits),
    )
    shared = Shared.of(fits)
    if not len(shared.rows):
        return result
    return _with_cause(result, shared)


def _check(runs: Runs) -> None:
    if len(runs) < 2:
        raise UsageError("one-run", found="one run", expected="at least two to compare")
    first, robot = runs[0][0], runs[0][1].robot
    for name, run in runs[1:]:
        if run.robot.joint_names != robot.joint_names:
            raise UsageError(
                "different-robots",
                found=f"joints {', '.join(run.robot.joint_names)} in '{name}'",
                expected=f"those of '{first}': {', '.join(robot.joint_names)}",
                do="compare runs of one robot",
            )
    _refuse_same_data(runs)


def _refuse_same_data(runs: Runs) -> None:
    data = [(name, [tuple(stretch) for stretch in _stretches(run)]) for name, run in runs]
    for (first, some), (second, others) in combinations(data, 2):
        for log, row, start, end in some:
            if any((log, row) == other[:2] and start < other[3] and other[2] < end for other in others):
                raise UsageError(
                    "same-data",
                    found=f"'{first}' and '{second}', fitted to the same data",
                    expected="runs of different recordings, which have independent noise",
                )


def _stretches(run: Identification) -> Any:
    return run.provenance.get("training_data", ())


def _with_cause(result: Agreement, shared: Shared) -> Agreement:
    fits = shared.fits
    together = homogeneity(shared.parts)
    counts = np.array([fit.count for fit in fits])
    between = _excess(together, int(counts.sum()), 1.0 - float(np.sum((counts / counts.sum()) ** 2)))
    halved = sum(fit.count for fit in fits if fit.halves is not None)
    within = (0.0, np.inf) if result.halves is None else _excess(result.halves, halved, 0.5)
    moved, chance = shared.torque(together.away, together.noise)
    judged = replace(
        result,
        parameters=_pooled(result.parameters, shared),
        together=together,
        torque=np.sqrt(np.maximum(moved - chance, 0.0)),
        between=between,
        within=within,
        alike=shared.alike(),
    )
    if together.p_value >= ALPHA:
        hidden = between[0] + 2.0 * between[1]
        if hidden >= HIDDEN:
            return replace(
                judged,
                reason="the runs are too short: differences as large as their residuals would not be significant",
            )
        return replace(
            judged,
            cause=Cause.NONE,
            reason="their differences are no larger than their noise explains",
        )
    over = together.statistic - together.expected
    changes = []
    for change_name, kinds in CHANGES.items():
        rest = shared.without(*kinds)
        changes.append(Change(change_name, _explained(rest, over), rest.p_value))
    cause, reason = _cause(judged, changes, fits)
    return replace(judged, changes=tuple(changes), cause=cause, reason=reason)


def _explained(rest: Homogeneity, over: float) -> float:
    return float(np.clip(1.0 - (rest.statistic - rest.expected) / over, 0.0, 1.0))


def _excess(test: Homogeneity, count: int, factor: float) -> tuple[float, float]:
    return (test.statistic - test.expected) / count / factor, test.spread / count / factor


def _cause(result: Agreement, changes: Sequence[Change], fits: Sequence[Fit]) -> tuple[Cause, str]:
    if result.halves is None:
        return Cause.OPEN, "the runs are too short to compare their halves"
    (between, _), (within, unsure) = result.between, result.within
    if result.halves.p_value < ALPHA and within >= SOME * between:
        rest = combined(
            [fit.halves_without_friction for fit in fits if fit.halves_without_friction is not None]
        )
        share = _explained(rest, result.halves.statistic - result.halves.expected)
        text = f"halves of one run differ as well; friction and offsets explain {100 * share:.0f} % of that"
        if share >= MOST or rest.p_value >= ALPHA:
            return Cause.DRIFTS, text
        return Cause.TOO_SMALL, f"{text}, so one set of parameters does not describe one run"
    if within + 2.0 * unsure >= HALF * between:
        return Cause.OPEN, "the runs are too short to decide whether their halves differ as well"
    simple = _most_likely_change(changes)
    explains = "" if simple is None else f"{simple.what}: {100 * simple.share:.3g} % of the difference"
    if result.alike or (simple is not None and "friction" not in simple.what):
        changed = explains or "more than friction, load and torque scale"
        return Cause.CHANGED, f"halves of a run agree; likely change: {changed}"
    if simple is None:
        return Cause.TOO_SMALL, (
            "halves of a run agree, but the motions of the runs differ more, and no change of friction, load or torque "
            "scale explains the difference: the parameters depend on the motion"
        )
    paces = [fit.by_pace.p_value for fit in fits if fit.by_pace is not None]
    if len(paces) * min(paces) < ALPHA:
        return Cause.TOO_SMALL, (
            f"halves of a run agree, but its slow and fast parts do not (p = {len(paces) * min(paces):.2g}): the "
            f"parameters depend on the motion, mainly {explains}"
        )
    return Cause.OPEN, (
        f"one change would explain the difference ({explains}), but the motions of the runs differ more than those of "
        "halves of a run: friction may also depend on the motion. Record the same motion twice"
    )


def _pair(first: str, second: str, two: Shared) -> Pair:
    if not len(two.rows):
        return Pair(first, second, 0, 0, 0, np.nan)
    gap = np.abs(two.values[0] - two.values[1])
    std = np.hypot(*two.std)
    quantile = np.array([student_quantile(n, 0.5 + LEVEL / 2.0) for n in two.freedoms])
    textbook = float(normal_quantile(0.5 + LEVEL / 2.0)) * np.hypot(*two.textbook_std)
    return Pair(
        first=first,
        second=second,
        compared=len(gap),
        agree=int(np.sum(gap <= np.hypot(*(quantile[:, None] * two.std)))),
        textbook=int(np.sum(gap <= textbook)),
        rms_z=float(np.sqrt(np.mean((gap / std) ** 2))),
    )


def _most_likely_change(changes: Sequence[Change]) -> Change | None:
    """The single change that explains most; a pair of changes if no single one is sufficient."""
    named = [change for change in changes if change.share >= MOST or change.p_value >= ALPHA]
    alone = [change for change in named if len(CHANGES[change.what]) == 1]
    return max(alone or named, key=lambda change: change.share, default=None)


def _parameters(
    names: Sequence[str], fits: Sequence[Fit], twos: Mapping[tuple[int, int], Shared]
) -> tuple[SharedParameter, ...]:
    values: dict[str, Float] = {}
    units: dict[str, str] = {}
    widths: dict[str, Float] = {}
    gaps: dict[str, list[tuple[float, float, int, int]]] = {}
    for (i, j), two in twos.items():
        for r, name in enumerate(two.names):
            value = values.setdefault(name, np.full(len(fits), np.nan))
            width = widths.setdefault(name, np.full(len(fits), np.nan))
            units[name] = two.units[r]
            value[[i, j]], width[[i, j]] = two.values[:, r], two.std[:, r]
            std = float(np.hypot(*two.std[:, r]))
            freedom = std**4 / float(np.sum(two.std[:, r] ** 4 / two.freedoms))
            z = abs(float(two.values[0, r] - two.values[1, r])) / std
            gaps.setdefault(name, []).append((2.0 * float(student_cumulative(freedom, -z)), z, i, j))
    parameters = []
    for name, tests in gaps.items():
        p_value, z, i, j = min(tests)
        share, moves = _largest_torque_share(fits[i], name, float(values[name][i] - values[name][j]))
        parameters.append(
            SharedParameter(
                formula=name,
                unit=units[name],
                values=values[name],
                std=widths[name],
                z=z,
                apart=(names[i], names[j]),
                p_value=min(p_value * len(tests) * len(gaps), 1.0),
                torque=share,
                moves=moves,
                every=np.array([test[1] for test in tests]),
            )
        )
    return tuple(parameters)


def _largest_torque_share(fit: Fit, formula: str, gap: float) -> tuple[float, str]:
    """Largest share of a group's torque that a change of one base parameter causes, and the group."""
    if formula not in fit.estimate.names:
        return np.nan, ""
    lead = fit.estimate.base.independent[fit.estimate.names.index(formula)]
    shares = [
        abs(gap) * float(np.linalg.norm(factor.R[:, :-1][:, factor.columns == lead]))
        / np.sqrt(max(factor.target_square, 1e-300))
        for factor in fit.regression.factors.total
    ]  # fmt: skip
    return max(shares), fit.estimate.group_names[int(np.argmax(shares))]


def _pooled(parameters: Sequence[SharedParameter], shared: Shared) -> tuple[SharedParameter, ...]:
    """Add the common value to the parameters on which all runs agree; the others are free in each run."""
    agree = {parameter.formula for parameter in parameters if parameter.agrees}
    kept = np.array([name in agree for name in shared.names], dtype=np.bool_)
    if not kept.any():
        return tuple(parameters)
    inverse = [inverted(covariance[np.ix_(kept, kept)]) for covariance in shared.textbook]
    total = inverted(np.sum(inverse, axis=0))
    weights = [total @ information for information in inverse]
    value = sum(W @ values[kept] for W, values in zip(weights, shared.values, strict=True))
    variances = np.array(
        [np.sum((W @ Z[kept]) ** 2, axis=1) for W, Z in zip(weights, shared.scatters, strict=True)]
    )
    variance = variances.sum(axis=0)
    freedom = variance**2 / np.sum(variances**2 / shared.freedoms[:, None], axis=0)
    half = np.array([student_quantile(n, 0.5 + LEVEL / 2.0) for n in freedom]) * np.sqrt(variance)
    places = {name: i for i, name in enumerate(np.array(shared.names)[kept].tolist())}
    return tuple(
        replace(
            parameter,
            pooled=float(value[places[parameter.formula]]),
            half=float(half[places[parameter.formula]]),
        )
        if parameter.formula in places
        else parameter
        for parameter in parameters
    )


def _notes(names: Sequence[str], fits: Sequence[Fit]) -> tuple[str, ...]:
    notes = []
    shared = set(shared_keys(fits))
    joints = {
        fit.run.robot.joint_names[column.owner]: None
        for fit in fits
        for key, column, yes in zip(fit.keys, fit.estimate.columns, fit.friction, strict=True)
        if yes and key is not None and key not in shared
    }
    if joints:
        notes.append(
            f"the runs model the friction of {', '.join(joints)} differently, so it is not compared in all of them; "
            "name the terms under [model] to use one model everywhere"
        )
    short = [name for name, fit in zip(names, fits, strict=True) if fit.halves is None]
    if short:
        notes.append(f"too short to compare halves: {', '.join(short)}")
    return tuple(notes)
