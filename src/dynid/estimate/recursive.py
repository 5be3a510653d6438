"""Recursive least squares on triangular factors: estimates that follow a running log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import qr_panel, solve_triangular
from dynid.rows.rows import Equations

# Relative singular value above which a direction is excited.
INDEPENDENT = 1e-9


@dataclass(frozen=True)
class Forgetting:
    """How old equations lose weight.

    Parameters
    ----------
    memory : float, s
        Time after which the weight of an equation is 1/e; inf = no forgetting.
    direction : {"all", "excited"}
        "excited" forgets only in directions that new equations excite, so that a robot that rests or repeats one motion
        keeps earlier information.
    reset : float, s
        Interval after which the covariance is reset to its start, with the values kept; inf = never.

    Raises
    ------
    UsageError
        For times that are not positive, or another direction.

    References
    ----------
    Cao and Schwartz 2000, in square roots.

    """

    memory: float = np.inf
    direction: Literal["all", "excited"] = "all"
    reset: float = np.inf

    def __post_init__(self) -> None:
        if not (self.memory > 0 and self.reset > 0) or self.direction not in ("all", "excited"):
            raise UsageError(
                "forgetting",
                found=f"memory = {self.memory}, reset = {self.reset}, direction = '{self.direction}'",
                expected="times > 0 in s, direction 'all' or 'excited'",
            )


class RecursiveLeastSquares:
    """Minimise (x - x0)'P0^-1 (x - x0) + sum w (y - Psi'x)^2, batch by batch, on the square root of the information.

    Equations of the same columns keep their own triangle until a value is read. Without forgetting, the value after any
    number of batches is that of all equations at once.

    Parameters
    ----------
    columns : ndarray of int, shape (b,)
        Indices of the parameters.
    start : ndarray, shape (b,), optional
        x0; None = 0.
    variance : ndarray, shape (b,), or float
        Variance of x0, diagonal of P0.
    weights : sequence of float, optional
        Weights of the groups; None = 1.
    forgetting : Forgetting, optional
        How old equations lose weight; None = they do not.

    Raises
    ------
    UsageError
        For a variance that is not positive.

    """

    def __init__(
        self,
        columns: Int,
        *,
        start: Float | None = None,
        variance: Float | float = 1e6,
        weights: Sequence[float] | None = None,
        forgetting: Forgetting | None = None,
    ) -> None:
        """See the class."""
        b = len(columns)
        spread = np.broadcast_to(np.asarray(variance, dtype=np.float64), (b,))
        if not (np.isfinite(spread).all() and (spread > 0).all()):
            raise UsageError("variance", found=f"variance {variance}", expected="finite numbers > 0")
        self.columns = np.asarray(columns, dtype=np.int64)
        self.forgetting = forgetting or Forgetting()
        self.count = 0
        self._spread = np.array(spread)
        self._weights = weights
        self._prior = self._prior_triangle(
            np.zeros(b) if start is None else np.asarray(start, dtype=np.float64)
        )
        self._groups: dict[tuple[int, bytes], tuple[Int, Float]] = {}
        # Equations by group without forgotten ones; and those before the last reset, with their squared residuals.
        self._counts = self._old_counts = self._old_squares = np.zeros(0)
        self._whole: Float | None = self._prior
        self._since_reset = 0.0

    def update(self, equations: Equations, seconds: float = 0.0, keep: slice | Int | None = None) -> None:
        """Add equations.

        Parameters
        ----------
        equations : Equations
            Equations.
        seconds : float, s
            Time that they span.
        keep : slice or ndarray of int, optional
            Samples to use; None = all.

        Raises
        ------
        UsageError
            If a column is not among the estimated ones.

        """
        part: slice | Int = slice(None) if keep is None else keep
        panels = [np.ascontiguousarray(panel[:, part]) for panel in equations.panels]
        places = [self._places(columns) for columns in equations.columns]
        self.count += sum(panel.shape[1] for panel in panels)
        if not len(self._counts):
            self._counts, self._old_counts, self._old_squares = np.zeros((3, len(panels)))
        kept = float(np.exp(-0.5 * seconds / self.forgetting.memory))
        if self._by_direction and kept < 1.0:
            self._update_directions(
                places, [panel * np.sqrt(self._weight(g)) for g, panel in enumerate(panels)], kept
            )
        else:
            self._counts = kept**2 * self._counts
            self._update_groups(places, panels, kept)
        self._counts = self._counts + [panel.shape[1] for panel in panels]
        self._since_reset += seconds
        if self._since_reset >= self.forgetting.reset:
            self._old_squares, self._old_counts = self.residuals
            self._counts = np.zeros(len(panels))
            self._prior = self._prior_triangle(self.value)
            self._groups.clear()
            self._whole, self._since_reset = self._prior, 0.0

    def reweigh(self, weights: Sequence[float]) -> None:
        """Change the weights of the groups, as if they had been these from the start.

        With forgetting in excited directions only later equations get them.
        """
        self._weights = weights
        self._whole = None

    @property
    def value(self) -> Float:
        """Estimate, (b,)."""
        R = self.root
        return np.asarray(solve_triangular(R[:-1, :-1], R[:-1, -1]))

    @property
    def covariance(self) -> Float:
        """P = (P0^-1 + sum Psi Psi')^-1, (b, b), in units of the weights."""
        inverse = solve_triangular(self.root[:-1, :-1], np.eye(len(self.columns)))
        return np.asarray(inverse @ inverse.T)

    @property
    def eigenvalues(self) -> Float:
        """Eigenvalues of P, greatest first, (b,)."""
        singular = np.linalg.svd(self.root[:-1, :-1], compute_uv=False)
        return np.asarray(1.0 / singular[::-1] ** 2)

    @property
    def noise(self) -> float:
        """Variance of the noise of the equations from their residuals, in units of the weights."""
        return float(self.root[-1, -1]) ** 2 / max(float(self._counts.sum()) - len(self.columns), 1.0)

    @property
    def residuals(self) -> tuple[Float, Float]:
        """Sums of squared residuals (g,) of each group, without weights, and the number of their equations (g,).

        With forgetting in excited directions groups are not separate: all share the total residual, weighted.
        """
        if self._by_direction:
            share = self._counts / max(float(self._counts.sum()), 1.0)
            return self._old_squares + share * float(self.root[-1, -1]) ** 2, self._old_counts + self._counts
        error = np.append(self.value, -1.0)
        squares = np.array(self._old_squares)
        for (group, _), (place, R) in self._groups.items():
            squares[group] += float(np.sum((R @ error[place]) ** 2))
        return squares, self._old_counts + self._counts

    @property
    def _by_direction(self) -> bool:
        return self.forgetting.direction == "excited" and np.isfinite(self.forgetting.memory)

    @property
    def root(self) -> Float:
        """Triangle [R z; 0 rho] of all information, (b + 1, b + 1): P = (R'R)^-1, value = R^-1 z."""
        if self._whole is None:
            b = len(self.columns)
            lines = [self._prior.T]
            for (group, _), (place, R) in self._groups.items():
                wide = np.zeros((b + 1, len(R)))
                wide[place] = R.T * np.sqrt(self._weight(group))
                lines.append(wide)
            self._whole = qr_panel(np.ascontiguousarray(np.concatenate(lines, axis=1)))
        return self._whole

    def _update_groups(self, places: list[Int], panels: list[Float], kept: float) -> None:
        self._prior = kept * self._prior
        if kept < 1.0:
            self._groups = {key: (place, kept * R) for key, (place, R) in self._groups.items()}
        for group, (place, panel) in enumerate(zip(places, panels, strict=True)):
            key = group, place.tobytes()
            both = np.concatenate([self._groups[key][1].T, panel], axis=1) if key in self._groups else panel
            self._groups[key] = place, qr_panel(np.ascontiguousarray(both))
        self._whole = None

    def _update_directions(self, places: list[Int], panels: list[Float], kept: float) -> None:
        root, b = self.root, len(self.columns)
        wide = np.zeros((b + 1, sum(panel.shape[1] for panel in panels)))
        first = 0
        for place, panel in zip(places, panels, strict=True):
            wide[place, first : first + panel.shape[1]] = panel
            first += panel.shape[1]
        news = qr_panel(wide)
        # Relative to known information: a direction is excited by the share of new information.
        size = np.linalg.norm(root[:-1, :-1], axis=0)
        U, s, _ = np.linalg.svd(news[:, :-1].T / size[:, None])
        excited = U[:, : len(s)][:, s > INDEPENDENT * s.max(initial=0.0)] / size[:, None]
        seen, _ = np.linalg.qr(root[:-1, :-1] @ excited)
        root = np.array(root)
        root[:-1] -= (1.0 - kept) * seen @ (seen.T @ root[:-1])
        self._prior = qr_panel(np.ascontiguousarray(np.concatenate([root.T, news.T], axis=1)))
        self._groups.clear()
        self._whole = self._prior

    def _prior_triangle(self, start: Float) -> Float:
        b = len(self.columns)
        root = np.zeros((b + 1, b + 1))
        root[:b, :b] = np.diag(1.0 / np.sqrt(self._spread))
        root[:b, b] = start / np.sqrt(self._spread)
        return root

    def _places(self, columns: Int) -> Int:
        place = np.searchsorted(self.columns, columns)
        inside = place < len(self.columns)
        if not inside.all() or not np.array_equal(self.columns[place], columns):
            raise UsageError(
                "recursive-columns",
                found="equations with other columns",
                expected="columns of the base parameters",
            )
        return np.append(place, len(self.columns))

    def _weight(self, group: int) -> float:
        return 1.0 if self._weights is None else float(self._weights[group])


@dataclass(frozen=True, eq=False)
class ParameterTrajectory:
    """Evolution of an estimate.

    Attributes
    ----------
    names : tuple of str
        Names of the base parameters.
    t : ndarray, shape (K,), s
        Times.
    value, std, eigenvalues : ndarray, shape (K, b)
        Estimates, standard deviations, and eigenvalues of P.

    """

    names: tuple[str, ...]
    t: Float
    value: Float
    std: Float
    eigenvalues: Float

    def __post_init__(self) -> None:
        K, b = len(self.t), len(self.names)
        object.__setattr__(self, "t", locked(self.t, (K,), "t"))
        for name in ("value", "std", "eigenvalues"):
            object.__setattr__(self, name, locked(getattr(self, name), (K, b), name))


class TrajectoryRecorder:
    """Records an estimate at chosen times; names: of the base parameters."""

    def __init__(self, names: Sequence[str]) -> None:
        """See the class."""
        self.names = tuple(names)
        self._rows: list[tuple[float, Float, Float, Float]] = []

    @property
    def time(self) -> float:
        """Time of the last record, s; raises UsageError before the first one."""
        return self._require_rows()[-1][0]

    def note(self, t: float, value: Float, std: Float, eigenvalues: Float) -> None:
        """Record an estimate at a time.

        Parameters
        ----------
        t : float, s
            Time.
        value, std, eigenvalues : ndarray, shape (b,)
            Values, standard deviations, and eigenvalues of P.

        """
        self._rows.append((t, value, std, eigenvalues))

    def note_least_squares(
        self, t: float, estimate: RecursiveLeastSquares, variance: float | None = None
    ) -> None:
        """Record the estimate at a time, with deviations from P and the variance of independent equations.

        Parameters
        ----------
        t : float, s
            Time.
        estimate : RecursiveLeastSquares
            Estimate.
        variance : float, optional
            Variance of an equation, in units of the weights; None = that of the residuals so far.

        """
        root = estimate.root
        inverse = solve_triangular(root[:-1, :-1], np.eye(len(self.names)))
        noise = estimate.noise if variance is None else variance
        self.note(
            t,
            inverse @ root[:-1, -1],
            np.sqrt(noise * (inverse**2).sum(axis=1)),
            estimate.eigenvalues,
        )

    @property
    def trajectory(self) -> ParameterTrajectory:
        """All records; raises UsageError before the first one."""
        t, value, std, eigenvalues = (np.array(part) for part in zip(*self._require_rows(), strict=True))
        return ParameterTrajectory(self.names, t, value, std, eigenvalues)

    def _require_rows(self) -> list[tuple[float, Float, Float, Float]]:
        if not self._rows:
            raise UsageError("no-trajectory", found="no estimate yet", expected="at least one")
        return self._rows
