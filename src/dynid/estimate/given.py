"""Estimators for what is known from elsewhere: combinations of parameters held fast, or equations that join in."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status, check_iteration, require_enough
from dynid.estimate.least_squares import WLS, residual_sigma
from dynid.estimate.uncertainty import block_jackknife
from dynid.factor.factor import Factor, Factors, stack
from dynid.kernel import solve_triangular

REPRESENTABLE = 1e-6


@dataclass(frozen=True, eq=False)
class Given:
    """Weighted least squares with known combinations of parameters: min ||y - W beta||_Sigma with C theta = value.

    rows: C, (c, p) over all parameters.    value: (c,).    covariance: of the value, (c, c).
    The covariance of the rest includes what the known combinations' own covariance P adds:
    cov = Z cov_z Z' + J P J' with J = d beta / d value. Combinations that the log's base parameters cannot express
    are left out, and the status says how many.
    """

    rows: Float
    value: Float
    covariance: Float
    rounds: int = 30
    tolerance: float = 1e-4
    name: str = "two_step"

    def __post_init__(self) -> None:
        check_iteration(self.rounds, self.tolerance)
        c = len(self.value)
        for name, shape in (("rows", (c, None)), ("value", (c,)), ("covariance", (c, c))):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    def fit(self, regression: Regression) -> Estimate:
        """Alternates between solving in the directions that are left and re-weighting."""
        require_enough(regression)
        if self.rows.shape[1] != len(regression.columns):
            found = (
                f"combinations of {self.rows.shape[1]} parameters for a model of {len(regression.columns)}"
            )
            raise UsageError("given-columns", found=found, expected="the same terms in both steps")
        known = self._known(regression)
        C = self.rows[known][:, regression.base.independent]
        size = _column_sizes(regression)
        # In scaled coordinates x = size * beta: x = fixed value + free z.
        Q, R = np.linalg.qr((C / size).T, mode="complete")
        c = int(known.sum())
        fixed = Q[:, :c] @ solve_triangular(R[:c], np.eye(c), transposed=True) / size[:, None]
        free = Q[:, c:] / size[:, None]
        target = self.value[known]
        weights = np.array([f.count / max(f.target_square, 1e-300) for f in regression.factors.total])
        value, G, gain = _solved(regression, weights, fixed, free, target)
        sigma = residual_sigma(regression, value)
        change = np.inf
        for _ in range(self.rounds):
            weights = 1.0 / sigma**2
            value, G, gain = _solved(regression, weights, fixed, free, target)
            new = residual_sigma(regression, value)
            change = float(np.max(np.abs(new / sigma - 1.0)))
            sigma = new
            if change < self.tolerance:
                break
        inverse = free @ solve_triangular(G, np.eye(len(G)))
        theta = np.zeros(len(regression.columns))
        theta[regression.base.independent] = value
        covariance, leverage = block_jackknife(
            regression.factors, regression.base.independent, theta, inverse, weights
        )
        spread = (fixed - free @ gain) @ _root(self.covariance[np.ix_(known, known)])
        text = f"{c} combinations held at values known from elsewhere, whose covariance is included"
        if not known.all():
            text += f"; {int((~known).sum())} could not be expressed in this log's parameters"
        converged = change < self.tolerance
        return Estimate(
            method=self.name,
            columns=regression.columns,
            base=regression.base,
            group_names=regression.factors.group_names,
            value=value,
            covariance=covariance + spread @ spread.T,
            textbook_covariance=inverse @ inverse.T + spread @ spread.T,
            degrees_of_freedom=float(len(regression.factors.independent()) - 1),
            sigma=sigma,
            weights=weights,
            parameters=regression.base.lift(value, regression.prior, regression.spread),
            block_leverage=leverage,
            count=regression.factors.count,
            status=Status(
                converged,
                text
                if converged
                else text + "; the weights did not converge: raise rounds, or record a longer motion",
            ),
        )

    def _known(self, regression: Regression) -> Bool:
        # A combination counts if it is one of the log's base parameters: C = C[:, independent] B.
        base = regression.base
        scale = np.where(base.scale > 0, base.scale, 1.0)
        missed = (self.rows - self.rows[:, base.independent] @ base.B) / scale
        known = np.linalg.norm(missed, axis=1) <= REPRESENTABLE * np.linalg.norm(self.rows / scale, axis=1)
        if not known.any():
            raise UnfitDataError(
                "nothing-known",
                found="known combinations that are no base parameters of this log and model",
                expected="the same robot and terms in both steps",
            )
        return np.asarray(known)


@dataclass(frozen=True, eq=False)
class Joined:
    """Weighted least squares on a log's equations and further ones together, each group with a weight of its own.

    further: equations of the same parameters from elsewhere, such as static poses.
    """

    further: Factors
    inner: WLS = field(default_factory=WLS)
    name: str = "one_shot"

    def fit(self, regression: Regression) -> Estimate:
        """Fits both; groups, leverages and degrees of freedom in the result are those of the log."""
        factors = regression.factors
        joined = side_by_side(factors, self.further.select(regression.base.mask))
        found = self.inner.fit(replace(regression, factors=joined))
        g, blocks = len(factors.group_names), len(factors.blocks)
        return replace(
            found,
            method=self.name,
            group_names=factors.group_names,
            sigma=found.sigma[:g],
            weights=found.weights[:g],
            block_leverage=found.block_leverage[:blocks],
            count=factors.count,
            status=Status(
                found.status.ok, f"{found.status.text}; {len(self.further.blocks)} further blocks joined in"
            ),
        )


def side_by_side(a: Factors, b: Factors) -> Factors:
    """Blocks of two sets of equations of the same parameters; the groups of each stay its own."""
    empty_a = tuple(Factor.empty(f.columns) for f in a.total)
    empty_b = tuple(Factor.empty(f.columns) for f in b.total)
    blocks = [replace(block, groups=block.groups + empty_b) for block in a.blocks]
    blocks += [replace(block, groups=empty_a + block.groups) for block in b.blocks]
    names = a.group_names + tuple(f"{name} (further)" for name in b.group_names)
    return Factors(names, a.parameter_count, tuple(blocks))


def _solved(
    regression: Regression, weights: Float, fixed: Float, free: Float, target: Float
) -> tuple[Float, Float, Float]:
    # beta, the triangle of the free directions, and how they answer to the fixed ones: z = z0 - gain value.
    R = stack(regression.factors.total, regression.base.independent, weights)
    A, y = R[:, :-1], R[:, -1]
    Q, G = np.linalg.qr(A @ free)
    gain = solve_triangular(G, Q.T @ (A @ fixed))
    z = solve_triangular(G, Q.T @ y) - gain @ target
    return fixed @ target + free @ z, G, gain


def _column_sizes(regression: Regression) -> Float:
    R = stack(regression.factors.total, regression.base.independent, np.ones(len(regression.factors.total)))
    norm = np.linalg.norm(R[:, :-1], axis=0)
    return np.asarray(np.where(norm > 0, norm, 1.0))


def _root(P: Float) -> Float:
    values, vectors = np.linalg.eigh(P)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
