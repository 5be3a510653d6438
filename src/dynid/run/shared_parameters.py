"""Base parameters that several runs share, each fitted from the data of its run alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.numerics import generalised_eigenvalues
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.least_squares import WLS
from dynid.estimate.uncertainty import BlockScores, Homogeneity, Part, homogeneity
from dynid.factor.factor import stack
from dynid.kernel import solve_triangular
from dynid.run.result import Identification
from dynid.terms.exports import Kind
from dynid.terms.term import Of

# Fewest blocks of a run whose halves can be compared: five blocks a half.
LEAST_BLOCKS = 10
# Ratio of the difference between motions of runs to that between halves of a run, above which the motions differ.
UNLIKE = 2.0
# Relative difference of two formulas that counts as rounding.
_SAME = 1e-6
# Relative difference of nonlinear parameters up to which the coefficients that they belong to are comparable.
_CLOSE = 0.2
# Lower bound for the share of a run's information in one of its halves; keeps the inverse finite.
_LEAST_SHARE = 1e-6

Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Fit:
    """Weighted least-squares fit of a run without prior and constraints, with its blocks."""

    run: Identification
    regression: Regression
    estimate: Estimate
    blocks: BlockScores
    triangle: Float

    @staticmethod
    def of(run: Identification) -> Fit:
        """Fit a run; raises UnfitDataError for fewer than three blocks."""
        regression = run.regression
        estimate = WLS().fit(regression)
        b = estimate.base.rank
        triangle = stack(regression.factors.total, estimate.base.independent, estimate.weights)[:b, :b]
        inverse = solve_triangular(triangle, np.eye(b))
        blocks = BlockScores.of(
            regression.factors, estimate.base.independent, estimate.full_vector, inverse, estimate.weights
        )
        return Fit(run, regression, estimate, blocks, triangle)

    @property
    def count(self) -> int:
        """Number of equations."""
        return self.regression.factors.count

    @cached_property
    def scatter(self) -> Float:
        """Jackknife scores of the blocks, shape (f, n_blocks): scatter @ scatter.T is the whitened covariance."""
        shifts = self.blocks.jackknifed()
        return np.asarray(np.sqrt((len(shifts) - 1) / len(shifts)) * (shifts - shifts.mean(axis=0)).T)

    @cached_property
    def keys(self) -> tuple[Key | None, ...]:
        """Name and term of each parameter, (p,); None if the robot does not have it."""
        return tuple(None if c.absent else (c.name, c.term) for c in self.estimate.columns)

    def rows(self, keys: Sequence[Key]) -> Float:
        """Base parameters as sums of the named parameters, shape (b, n_keys); nan rows for sums with others."""
        places = {key: i for i, key in enumerate(keys)}
        rows = np.zeros((self.estimate.base.rank, len(keys)))
        for j, key in enumerate(self.keys):
            column = self.estimate.base.B[:, j]
            if key in places:
                rows[:, places[key]] = column
            else:
                rows[column != 0] = np.nan
        return rows

    def combination(self, row: Float, keys: Sequence[Key]) -> Float | None:
        """Weights (b,) of the base parameters that produce a sum of parameters (n_keys,); None if none do."""
        places = {key: i for i, key in enumerate(keys)}
        lead = [places.get(self.keys[i]) for i in self.estimate.base.independent]
        weights = np.array([0.0 if i is None else row[i] for i in lead])
        rows = self.rows(keys)[weights != 0]
        if not len(rows) or np.isnan(rows).any():
            return None
        made = weights[weights != 0] @ rows
        return weights if np.abs(made - row).max() <= _SAME * np.abs(row).max() else None

    @cached_property
    def friction(self) -> Bool:
        """Mask (p,) of joint parameters other than rotors: friction, offsets, springs."""
        rotors = {term.name for term in self.run.terms if term.traits.kind is Kind.ROTORS}
        return np.array([c.of is Of.JOINT and c.term not in rotors for c in self.estimate.columns])

    @cached_property
    def load(self) -> Bool:
        """Mask (p,) of the ten parameters of the last link."""
        last = self.run.robot.n_bodies - 1
        return np.array([c.of is Of.BODY and c.owner == last for c in self.estimate.columns])

    def gains(self, theta: Float) -> Float:
        """Change of the base parameters if the torque of each group grows, shape (b, n_groups); theta: (p,)."""
        columns = []
        position = {int(c): i for i, c in enumerate(self.estimate.base.independent)}
        for factor, weight in zip(self.regression.factors.total, self.estimate.weights, strict=True):
            R = factor.R[:, :-1]
            push = np.zeros(self.estimate.base.rank)
            push[[position[int(c)] for c in factor.columns]] = weight * (R.T @ (R @ theta[factor.columns]))
            columns.append(self.estimate.textbook_covariance @ push)
        return np.array(columns).T

    @cached_property
    def parts(self) -> tuple[Part, Part] | None:
        """First and second half of the run; None with too few blocks."""
        return self._split(np.arange(self.blocks.count) < self.blocks.count // 2)

    @cached_property
    def paces(self) -> tuple[Part, Part] | None:
        """Half of the blocks with less and with more information per equation; None with too few blocks."""
        counts = [sum(factor.count for factor in block.groups) for block in self.regression.factors.blocks]
        information = np.trace(self.blocks.information, axis1=1, axis2=2) / np.maximum(counts, 1)
        return self._split(information <= np.median(information))

    def _split(self, first: Bool) -> tuple[Part, Part] | None:
        """Split the blocks by a mask, in whitened coordinates and with the weights of the whole run."""
        if self.blocks.count < LEAST_BLOCKS:
            return None
        made = []
        for half in (first, ~first):
            share, directions = np.linalg.eigh(self.blocks.information[half].sum(axis=0))
            share = np.clip(share, _LEAST_SHARE, None)
            inverse = (directions / share) @ directions.T
            value = inverse @ self.blocks.score[half].sum(axis=0)
            made.append(Part(value, (directions * share) @ directions.T, inverse @ self.scatter[:, half]))
        return made[0], made[1]

    @cached_property
    def by_pace(self) -> Homogeneity | None:
        """Test whether blocks with little and with much information have the same parameters."""
        return None if self.paces is None else homogeneity(self.paces)

    @cached_property
    def halves(self) -> Homogeneity | None:
        """Test whether the halves have the same parameters."""
        return None if self.parts is None else homogeneity(self.parts)

    @cached_property
    def halves_without_friction(self) -> Homogeneity | None:
        """The same test with friction and offsets free in each half."""
        if self.parts is None:
            return None
        directions = self.triangle @ self.estimate.base.B[:, self.friction]
        return homogeneity(self.parts, (directions, directions))


def shared_keys(fits: Sequence[Fit]) -> tuple[Key, ...]:
    """Parameters with the same meaning in all fits: same name and term, and for a joint the same friction model."""
    first, others = fits[0], fits[1:]
    kept = []
    for key, column, is_friction in zip(first.keys, first.estimate.columns, first.friction, strict=True):
        if key is None or not all(key in other.keys for other in others):
            continue
        if not is_friction or all(_same_friction(first, other, column.owner) for other in others):
            kept.append(key)
    return tuple(kept)


def _same_friction(reference: Fit, other: Fit, joint: int) -> bool:
    """Whether two runs have the same friction terms for a joint, with similar nonlinear parameters."""
    if _friction_of(reference, joint) != _friction_of(other, joint):
        return False
    name = reference.run.robot.joint_names[joint]
    first, second = (
        {(shape.term, shape.name): shape.value for shape in fit.run.shapes if shape.joint == name}
        for fit in (reference, other)
    )
    return first.keys() == second.keys() and all(
        abs(first[key] - second[key]) <= _CLOSE * max(abs(first[key]), abs(second[key])) for key in first
    )


def _friction_of(fit: Fit, joint: int) -> set[Key | None]:
    return {
        key
        for key, column, is_friction in zip(fit.keys, fit.estimate.columns, fit.friction, strict=True)
        if is_friction and column.owner == joint
    }


@dataclass(frozen=True, eq=False)
class Shared:
    """Sums of parameters that several runs determine.

    rows: coefficients of the sums, shape (r, n_keys).    names, units: of the sums.
    weights: for each fit, shape (r, b), of its base parameters.
    """

    fits: tuple[Fit, ...]
    keys: tuple[Key, ...]
    rows: Float
    names: tuple[str, ...]
    units: tuple[str, ...]
    weights: tuple[Float, ...]

    @staticmethod
    def of(fits: Sequence[Fit]) -> Shared:
        """Collect the base parameters of any fit that all fits determine, beginning with the first fit."""
        keys = shared_keys(fits)
        rows: list[Float] = []
        names: list[str] = []
        units: list[str] = []
        weights: list[list[Float]] = [[] for _ in fits]
        for fit in fits:
            for row, name, unit in zip(fit.rows(keys), fit.estimate.names, fit.estimate.units, strict=True):
                if name in names or np.isnan(row).any() or not row.any() or _is_spanned(row, rows):
                    continue
                combinations = [
                    combination for other in fits if (combination := other.combination(row, keys)) is not None
                ]
                if len(combinations) < len(fits):
                    continue
                rows.append(row)
                names.append(name)
                units.append(unit)
                for collected, combination in zip(weights, combinations, strict=True):
                    collected.append(combination)
        shape = (len(rows), len(keys))
        return Shared(
            tuple(fits),
            keys,
            np.array(rows).reshape(shape),
            tuple(names),
            tuple(units),
            tuple(
                np.array(collected).reshape(len(rows), fit.estimate.base.rank)
                for collected, fit in zip(weights, fits, strict=True)
            ),
        )

    @cached_property
    def values(self) -> Float:
        """Values of the sums in each fit, shape (n_fits, r)."""
        return np.array([W @ fit.estimate.value for W, fit in zip(self.weights, self.fits, strict=True)])

    @cached_property
    def scatters(self) -> tuple[Float, ...]:
        """For each fit a matrix (r, n_blocks) whose product with its transpose is the covariance of the values."""
        return tuple(
            W @ fit.blocks.inverse @ fit.scatter for W, fit in zip(self.weights, self.fits, strict=True)
        )

    @cached_property
    def textbook(self) -> tuple[Float, ...]:
        """For each fit the covariance (r, r) that assumes independent residuals."""
        return tuple(
            W @ fit.estimate.textbook_covariance @ W.T for W, fit in zip(self.weights, self.fits, strict=True)
        )

    @property
    def freedoms(self) -> Float:
        """Degrees of freedom of the covariances, shape (n_fits,)."""
        return np.array([fit.estimate.degrees_of_freedom for fit in self.fits])

    @cached_property
    def std(self) -> Float:
        """Standard deviations, shape (n_fits, r)."""
        return np.array([np.linalg.norm(scatter, axis=1) for scatter in self.scatters])

    @cached_property
    def textbook_std(self) -> Float:
        """Standard deviations that assume independent residuals, shape (n_fits, r)."""
        return np.array([np.sqrt(np.diag(covariance)) for covariance in self.textbook])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The sums of each fit, as parts of a homogeneity test."""
        return tuple(
            Part(value, inverted(covariance), scatter)
            for value, covariance, scatter in zip(self.values, self.textbook, self.scatters, strict=True)
        )

    def lifts(self) -> tuple[Float, ...]:
        """For each fit, (p, r): change of all parameters with each sum, the other parameters refitted to the data."""
        lifts = []
        for W, fit, part in zip(self.weights, self.fits, self.parts, strict=True):
            full = np.zeros((len(fit.estimate.columns), len(self.rows)))
            full[fit.estimate.base.independent] = fit.estimate.textbook_covariance @ W.T @ part.information
            lifts.append(full)
        return tuple(lifts)

    def torque(self, away: Float, noise: Float) -> tuple[Float, Float]:
        """Mean square torque of the differences `away` and of their noise, relative to the measured torque.

        `away` (n_fits, r): differences of the sums from their common value; `noise` (n_fits, r, n_draws). The result
        has shape (n_groups,).
        """
        lifts = self.lifts()
        moved, chance, size = (np.zeros(len(self.fits[0].estimate.group_names)) for _ in range(3))
        for k, fit in enumerate(self.fits):
            for g, factor in enumerate(fit.regression.factors.total):
                L = factor.R[:, :-1] @ lifts[k][factor.columns]
                moved[g] += float(np.sum((L @ away[k]) ** 2))
                chance[g] += float(np.sum((L @ noise[k]) ** 2))
                size[g] += factor.target_square
        return moved / np.maximum(size, 1e-300), chance / np.maximum(size, 1e-300)

    def alike(self) -> bool:
        """Whether the motions of the runs are as similar in information as those of the halves of a run."""
        pairs = [
            _unlikeness(part.information, other.information)
            for i, part in enumerate(self.parts)
            for other in self.parts[:i]
        ]
        within = [
            _unlikeness(parts[0].information, parts[1].information)
            for fit in self.fits
            if (parts := fit.parts)
        ]
        return bool(within) and float(np.median(pairs)) <= UNLIKE * float(np.median(within))

    def without(self, *kinds: str) -> Homogeneity:
        """Test whether the sums are equal if some of "friction", "load" and "gain" (torque scale) may differ."""
        free = []
        places = {key: i for i, key in enumerate(self.keys)}
        # Gains are linearised about the common value of the runs.
        away, lifts = homogeneity(self.parts).away, self.lifts()
        for k, fit in enumerate(self.fits):
            directions = [np.zeros((len(self.rows), 0))]
            for kind, mask in (("friction", fit.friction), ("load", fit.load)):
                named = [
                    places[key] for key, yes in zip(fit.keys, mask, strict=True) if yes and key in places
                ]
                directions += [self.rows[:, named]] if kind in kinds else []
            if "gain" in kinds:
                directions.append(self.weights[k] @ fit.gains(fit.estimate.full_vector - lifts[k] @ away[k]))
            joined = np.concatenate(directions, axis=1)
            free.append(joined[:, np.abs(joined).max(axis=0, initial=0.0) > 0])
        return homogeneity(self.parts, free)


def _is_spanned(row: Float, rows: Sequence[Float]) -> bool:
    if not rows:
        return False
    known = np.array(rows)
    size = np.maximum(np.abs(known).max(axis=0), np.abs(row))
    size = np.where(size > 0, size, 1.0)
    weights = np.linalg.lstsq((known / size).T, row / size, rcond=None)[0]
    return bool(np.abs((weights @ known - row) / size).max() <= _SAME)


def inverted(covariance: Float) -> Float:
    """Inverse of a positive definite matrix whose rows have different units."""
    std = np.sqrt(np.diag(covariance))
    return np.asarray(np.linalg.inv(covariance / np.outer(std, std)) / np.outer(std, std))


def _unlikeness(first: Float, other: Float) -> float:
    """Standard deviation of the log generalised eigenvalues of two information matrices."""
    size = np.sqrt(np.diag(first) + np.diag(other))
    values = generalised_eigenvalues(first / np.outer(size, size), other / np.outer(size, size))
    return float(np.std(np.log(np.clip(values, 1e-12, None))))
