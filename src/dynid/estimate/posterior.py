"""Most probable parameters under one prior with units, among links that can exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status
from dynid.estimate.least_squares import WLS, full_vector, residual_sigma, weight_floor
from dynid.estimate.uncertainty import BlockScores, covariance_of, interval_kind
from dynid.factor.factor import Factors, group_scale, stack
from dynid.feasible.bodies import body_columns, is_described
from dynid.kernel import solve_triangular
from dynid.spatial.inertia import pseudo_inertia

# Least error of a joint's equations, as a share of its torque, so that weights of noise-free simulations stay finite.
FLOOR = 1e-5
# Most solutions with new weights, and relative change of the weights at which they end.
ROUNDS, CHANGED = 100, 0.01
# Most Newton steps of a solution; gain of a step at their end, in units of minus twice the log density; and greatest
# change of a log mass or size in a step along the coordinates.
STEPS, SETTLED, LARGEST_STEP = 50, 0.01, 1.5
# Most tries of a step; first damping and least curvature of a direction, relative to the matrix of Gauss and Newton;
# and step of central differences.
TRIES, FIRST_DAMPING, LEAST_CURVATURE, DIFFERENCE = 12, 1.0, 0.05, 1e-4
# Least standard deviation of a prior's mass distribution, as a share of the link's extent: a prior without volume would
# be infinitely certain.
THINNEST = 0.03
# Addition to correlations, so that those of rank b have a root in spite of rounding.
ROUNDING = 1e-14
# Weight, in coordinates, of the assumption that a description is as exact as descriptions usually are.
USUAL = 2.0
# Least share of its variance that is left to the scores of a direction; with less, one block determines the direction.
TESTED = 0.1
# Entries of a lower triangle in the order of the coordinates.
_ROWS, _COLUMNS = np.tril_indices(3)
_ON_DIAGONAL = _ROWS == _COLUMNS


@dataclass(frozen=True)
class MAP:
    """Maximum a posteriori among links that can exist, with a prior that is a statement about the robot.

    A link is m = m0 exp(s_m a), c = c0 + s_c b, S = m C C' with C = C0 T(s_I d / 2), T lower triangular with
    exponential diagonal, S its second moments about the centre of mass c; a, b, d are standard normal, so every value
    is a link that can exist. Any other parameter is normal about its prior, or about zero with a width that makes up
    the share `effect` of the joint's torque; one that cannot be negative is half-normal.

    Equations of joint j weigh 1 / (s_j^2 t_j) with their error s_j and the design effect t_j: so many correlated
    samples count as one. The description of a link may be worse than descriptions usually are: its widths grow by the
    factor u >= 1 that makes the log most probable. A link whose description is then less certain than a guess is
    guessed.

    Parameters
    ----------
    mass, centre, inertia : float
        Uncertainty of a described link: of its mass (relative), its centre of mass (share of its extent), and of its
        inertia about that centre (relative).
    guessed_mass, guessed_centre, guessed_inertia : float
        The same of a link that the robot file does not describe.
    common : float
        Uncertainty of the common scale of all guessed masses (logarithm).
    effect : float
        Share of a joint's torque that an effect without a prior makes up: friction, rotor, spring, offset.
    intervals : str
        Method of the covariance from blocks, which is used where it is wider than the curvature's.

    References
    ----------
    Rucker and Wensing 2022 (coordinates); Kish 1965 (design effect); MacKay 1992 (evidence of the widths).

    """

    mass: float = option(0.2, "map: relative uncertainty of a described link's mass", above=0)
    centre: float = option(0.15, "map: uncertainty of its centre of mass, as a share of its extent", above=0)
    inertia: float = option(0.3, "map: relative uncertainty of its inertia", above=0)
    guessed_mass: float = option(0.8, "map: relative uncertainty of a guessed link's mass", above=0)
    guessed_centre: float = option(
        0.4, "map: uncertainty of its centre of mass, as a share of its extent", above=0
    )
    guessed_inertia: float = option(0.8, "map: relative uncertainty of its inertia", above=0)
    common: float = option(1.0, "map: uncertainty of the logarithm of all guessed masses together", above=0)
    effect: float = option(
        1.0, "map: share of a joint's torque that an effect without a prior makes up", above=0
    )
    intervals: str = interval_kind()
    name: str = "map"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def unconstrained(self) -> WLS:
        """Method by which models are compared."""
        return WLS(intervals=self.intervals)

    def fit(self, regression: Regression) -> Estimate:
        """Fit without a prior for the base parameters' usual covariance, then with it."""
        return self.around(regression, self.unconstrained.fit(regression))

    def around(self, regression: Regression, free: Estimate) -> Estimate:
        """Most probable estimate, given the fit without a prior."""
        return self.probable(regression, free).estimate()

    def probable(self, regression: Regression, free: Estimate) -> Probable:
        """Most probable estimate with its prior, given the fit without one."""
        effects, mean_effects = design_effects(regression, free.value)
        least = FLOOR / np.sqrt(group_scale(regression.factors.total))
        if free.method == self.unconstrained.name:
            least = np.maximum(weight_floor(free.weights, free.sigma), least)
        prior, fit = _solved(self, regression, free.sigma, effects, least)
        return Probable(self, regression, free, prior, fit, mean_effects, least)


@dataclass(frozen=True, eq=False)
class Prior:
    """Coordinates x in which the prior is standard normal, or its positive half.

    Attributes
    ----------
    bodies : ndarray of int, shape (nb, 10)
        Columns of each link.
    mass, centre : ndarray, shape (nb,), kg and (nb, 3), m
        Middle of the prior of each link.
    root : ndarray, shape (nb, 3, 3), m
        Lower triangular root of its second moments about the centre, over its mass.
    widths : ndarray, shape (nb, 4)
        Uncertainty of log mass, centre (m) and log inertia, and of the log scale common to guessed links, 0 for others.
    others : ndarray of int, shape (k,)
        Columns that belong to no link.
    middle, scale : ndarray, shape (k,)
        Their prior and its width.
    lower, upper : ndarray, shape (k,)
        Their bounds in x.
    described : ndarray of bool, shape (nb,)
        Links whose prior is the robot file's.
    size : int
        Number p of columns.

    """

    bodies: Int
    mass: Float
    centre: Float
    root: Float
    widths: Float
    others: Int
    middle: Float
    scale: Float
    lower: Float
    upper: Float
    described: Bool
    size: int

    @staticmethod
    def of(wanted: MAP, regression: Regression, contradicted: frozenset[int] = frozenset()) -> Prior:
        """Prior of the columns of a regression; contradicted: numbers of links whose description is left out."""
        columns, spread = regression.columns, np.asarray(regression.spread)
        bodies = body_columns(columns)
        given = np.array([column.prior for column in columns])
        extent = _extent(regression, bodies)
        mass, centre, root, widths = np.zeros(len(bodies)), np.zeros((len(bodies), 3)), [], []
        described = np.array([is_described(given[ten]) for ten in bodies], dtype=np.bool_)
        described[list(contradicted)] = False
        guess = given if regression.guessed is None else np.asarray(regression.guessed)
        for i, ten in enumerate(bodies):
            values = (given if described[i] else guess)[ten]
            mass[i], centre[i], link_root = _split(values, spread[ten], extent[i])
            root.append(link_root)
            widths.append(
                (wanted.mass, wanted.centre * extent[i], wanted.inertia, 0.0)
                if described[i]
                else (
                    wanted.guessed_mass,
                    wanted.guessed_centre * extent[i],
                    wanted.guessed_inertia,
                    wanted.common,
                )
            )
        inside = np.zeros(len(columns), dtype=np.bool_)
        inside[bodies] = True
        inside |= [column.absent for column in columns]
        others = np.flatnonzero(~inside)
        middle = np.where(np.isfinite(given[others]), given[others], 0.0)
        scale = wanted.effect * spread[others]
        bounds = np.array([(columns[k].lower, columns[k].upper) for k in others]).reshape(-1, 2)
        return Prior(
            bodies,
            mass,
            centre,
            np.array(root).reshape(-1, 3, 3),
            np.array(widths).reshape(-1, 4),
            others,
            middle,
            scale,
            (bounds[:, 0] - middle) / scale,
            (bounds[:, 1] - middle) / scale,
            described,
            len(columns),
        )

    @property
    def count(self) -> int:
        """Number of coordinates: ten a link, the common scale, and one for each further parameter."""
        return 10 * len(self.bodies) + 1 + len(self.others)

    def links(self, x: Float) -> tuple[Float, Float]:
        """Ten parameters of each link, (..., nb, 10), and their derivatives (..., nb, 10, 11), for points (..., count).

        A link depends on its own ten coordinates and on the common one, which is the last.
        """
        nb, common = len(self.bodies), 10 * len(self.bodies)
        link = x[..., :common].reshape(*x.shape[:-1], nb, 10)
        s_m, s_c, s_i, s_0 = self.widths.T
        m = (self.mass * np.exp(s_m * link[..., 0] + s_0 * x[..., [common]]))[..., None]
        c = self.centre + s_c[:, None] * link[..., 1:4]
        half = 0.5 * s_i[:, None]
        entries = half * link[..., 4:]
        entries[..., _ON_DIAGONAL] = np.exp(entries[..., _ON_DIAGONAL])
        T = np.zeros((*link.shape[:-1], 3, 3))
        T[..., _ROWS, _COLUMNS] = entries
        C = self.root @ T
        second = C @ C.swapaxes(-1, -2) + c[..., :, None] * c[..., None, :]
        ten = m * np.concatenate([np.ones_like(m), c, _inertia(second)], axis=-1)
        # Second moments change by u v' + v u' with each coordinate of the centre and each entry of T.
        u = np.empty((*link.shape[:-1], 9, 3))
        u[..., :3, :] = s_c[:, None, None] * np.eye(3)
        u[..., 3:, :] = self.root.swapaxes(-1, -2)[:, _ROWS]
        u[..., 3:, :] *= (half * np.where(_ON_DIAGONAL, entries, 1.0))[..., None]
        v = np.empty_like(u)
        v[..., :3, :] = c[..., None, :]
        v[..., 3:, :] = C.swapaxes(-1, -2)[..., _COLUMNS, :]
        outer = u[..., :, None] * v[..., None, :]
        slopes = np.zeros((*link.shape, 11))
        slopes[..., 0] = s_m[:, None] * ten
        slopes[..., 1:4, 1:4] = m[..., None] * u[..., :3, :]
        slopes[..., 4:, 1:10] = m[..., None] * _inertia(outer + outer.swapaxes(-1, -2)).swapaxes(-1, -2)
        slopes[..., 10] = s_0[:, None] * ten
        return ten, slopes

    def values(self, x: Float, ten: Float) -> Float:
        """Parameters (p,) with those of the links, (nb, 10)."""
        theta = np.zeros(self.size)
        theta[self.bodies] = ten
        theta[self.others] = self.middle + self.scale * x[10 * len(self.bodies) + 1 :]
        return theta

    def along(self, A: Float, slopes: Float) -> Float:
        """A dtheta/dx (k, count) for coefficients A (k, p) and the derivatives of the links."""
        common = 10 * len(self.bodies)
        of_links = A[:, self.bodies].swapaxes(0, 1) @ slopes
        J = np.empty((len(A), self.count))
        J[:, :common] = of_links[..., :10].swapaxes(0, 1).reshape(len(A), common)
        J[:, common] = of_links[..., 10].sum(axis=0)
        J[:, common + 1 :] = A[:, self.others] * self.scale
        return J

    def parameters(self, x: Float) -> tuple[Float, Float]:
        """Parameters (p,) and their derivative (p, count) by the coordinates."""
        ten, slopes = self.links(x)
        return self.values(x, ten), self.along(np.eye(self.size), slopes)

    def coordinates(self, theta: Float) -> Float:
        """Coordinates (count,) of parameters of links that can exist; the common scale is the mean of guessed ones."""
        x = np.zeros(self.count)
        common = 10 * len(self.bodies)
        guessed = self.widths[:, 3] > 0
        if guessed.any():
            logs = np.log(theta[self.bodies[guessed, 0]] / self.mass[guessed])
            x[common] = logs.mean() / self.widths[guessed, 3].mean()
        links = self.link_coordinates(theta[self.bodies], x[common])
        if links is None:
            raise np.linalg.LinAlgError("parameters of links that cannot exist")
        x[:common] = links.ravel()
        x[common + 1 :] = (theta[self.others] - self.middle) / self.scale
        return np.clip(x, *self.bounds())

    def link_coordinates(self, ten: Float, common: float) -> Float | None:
        """Coordinates (nb, 10) of links (nb, 10) beside the common scale; None for links that cannot exist."""
        m = ten[:, [0]]
        if not (m > 0).all():
            return None
        c = ten[:, 1:4] / m
        second = _second_moments(ten[:, 4:] / m) - c[:, :, None] * c[:, None, :]
        inverse = np.linalg.inv(self.root)
        try:
            T = np.linalg.cholesky(inverse @ second @ inverse.swapaxes(-1, -2))
        except np.linalg.LinAlgError:
            return None
        s_m, s_c, s_i, s_0 = self.widths.T
        entries = T[:, _ROWS, _COLUMNS]
        entries[:, _ON_DIAGONAL] = np.log(entries[:, _ON_DIAGONAL])
        mass = (np.log(m[:, 0] / self.mass) - s_0 * common) / s_m
        return np.column_stack([mass, (c - self.centre) / s_c[:, None], entries / (0.5 * s_i[:, None])])

    def bounds(self) -> tuple[Float, Float]:
        """Lower and upper bounds (count,) of the coordinates."""
        free = np.full(self.count - len(self.others), np.inf)
        return np.concatenate([-free, self.lower]), np.concatenate([free, self.upper])

    def precision(self, widening: Float) -> Float:
        """Weight (count,) of each squared coordinate: 1 / u^2 for those of links with factors u (nb,), else 1."""
        weight = np.ones(self.count)
        weight[: 10 * len(self.bodies)] = np.repeat(1.0 / widening**2, 10)
        return weight

    def shortening(self, step: Float) -> float:
        """Factor <= 1 with which no logarithm of a mass or a size changes by more than LARGEST_STEP in a step."""
        links = step[: 10 * len(self.bodies)].reshape(-1, 10)
        common = abs(step[10 * len(self.bodies)]) * self.widths[:, 3].max(initial=0.0)
        logs = np.abs(
            np.append(links[:, [0]] * self.widths[:, [0]], links[:, [4, 6, 9]] * self.widths[:, [2]], 1)
        )
        return float(LARGEST_STEP / max(LARGEST_STEP, logs.max(initial=0.0), common))

    def widened(self, widening: Float) -> Float:
        """Widths (nb, 4) with factors u (nb,) on those of single links."""
        widths = self.widths.copy()
        widths[:, :3] *= widening[:, None]
        return widths

    def contradicted(self, wanted: MAP, widening: Float) -> frozenset[int]:
        """Numbers of the links whose mass a description with factors u (nb,) gives less exactly than a guess."""
        guess = np.hypot(wanted.guessed_mass, wanted.common)
        return frozenset(np.flatnonzero(self.described & (widening * wanted.mass > guess)).tolist())


def _inertia(second: Float) -> Float:
    """Moments of inertia (..., 6) of second moments (..., 3, 3): xx, xy, yy, xz, yz, zz."""
    xx, yy, zz = second[..., 0, 0], second[..., 1, 1], second[..., 2, 2]
    xy, xz, yz = second[..., 0, 1], second[..., 0, 2], second[..., 1, 2]
    return np.stack([yy + zz, -xy, xx + zz, -xz, -yz, xx + yy], axis=-1)


def _second_moments(inertia: Float) -> Float:
    """Second moments (..., 3, 3) of moments of inertia (..., 6); the inverse of `_inertia`."""
    xx, xy, yy, xz, yz, zz = np.moveaxis(inertia, -1, 0)
    half = 0.5 * (xx + yy + zz)
    entries = [half - xx, -xy, -xz, -xy, half - yy, -yz, -xz, -yz, half - zz]
    return np.stack(entries, axis=-1).reshape(*inertia.shape[:-1], 3, 3)


def _split(ten: Float, spread: Float, extent: float) -> tuple[float, Float, Float]:
    """Mass, centre of mass, and lower root of the second moments about it over the mass, of a link without thin sides.

    A link without mass has the typical mass and its centre at the joint.    spread: (10,) typical sizes.
    """
    P = pseudo_inertia(ten)
    massive = P[3, 3] > 0
    mass = float(P[3, 3] if massive else spread[0])
    centre = P[:3, 3] / mass if massive else np.zeros(3)
    sizes, axes = np.linalg.eigh(P[:3, :3] / mass - np.outer(centre, centre) if massive else np.zeros((3, 3)))
    sizes = np.maximum(sizes, (THINNEST * extent) ** 2)
    return mass, centre, np.linalg.cholesky((axes * sizes) @ axes.T)


def _extent(regression: Regression, bodies: Int) -> Float:
    """Extent (nb,) of each link, m; the typical length of the robot where the regression does not know it."""
    spread = np.asarray(regression.spread)
    typical = np.array([np.sqrt(spread[ten[4]] / spread[ten[0]]) for ten in bodies])
    if regression.extent is None:
        return typical
    return np.array([regression.extent[regression.columns[ten[0]].owner] for ten in bodies])


@dataclass(frozen=True, eq=False)
class _Fit:
    """Most probable coordinates.

    x: (count,).    weights, effects: (g,) of the groups.    widening: (nb,) factors u of the links' widths.
    ok: whether the solution converged.    strength: factor on the precision of the prior.
    """

    x: Float
    weights: Float
    effects: Float
    widening: Float
    ok: bool
    strength: float = 1.0


def _solved(
    wanted: MAP, regression: Regression, sigma: Float, effects: Float, least: Float
) -> tuple[Prior, _Fit]:
    """Most probable coordinates, and their prior.

    sigma, least: (g,) residuals to begin with, and errors of the model that are added to them in squares.
    """
    total, base, b = regression.factors.total, regression.base, regression.base.rank
    contradicted: frozenset[int] = frozenset()
    prior = Prior.of(wanted, regression)
    x, widening = np.clip(np.zeros(prior.count), *prior.bounds()), np.ones(len(prior.bodies))
    weights = 1.0 / (np.hypot(sigma, least) ** 2 * effects)
    for _ in range(ROUNDS):
        R = stack(total, base.independent, weights)
        A, y = R[:b, :b] @ base.B, R[:b, b]
        x, ok = _minimum(prior, A, y, prior.precision(widening), x)
        ten, slopes = prior.links(x)
        theta = prior.values(x, ten)
        sigma = np.hypot(residual_sigma(regression, base.reduce(theta)), least)
        before = np.concatenate([weights, widening])
        J = prior.along(A, slopes)
        weights, widening = 1.0 / (sigma**2 * effects), _most_probable_widening(prior, J, x, widening)
        if not ok or np.abs(np.concatenate([weights, widening]) / before - 1.0).max() > CHANGED:
            continue
        worse = contradicted | prior.contradicted(wanted, widening)
        if worse == contradicted:
            return prior, _Fit(x, weights, effects, widening, ok=True)
        contradicted = worse
        prior = Prior.of(wanted, regression, contradicted)
        x, widening = prior.coordinates(theta), np.where(prior.described, widening, 1.0)
    return prior, _Fit(x, weights, effects, widening, ok=False)


def _most_probable_widening(prior: Prior, J: Float, x: Float, widening: Float) -> Float:
    """Factors u (nb,) of the widths of described links that make the data most probable, at least 1 (MacKay).

    u^2 = (USUAL + sum x^2) / (USUAL + sum (1 - posterior over prior variance)), sums over the coordinates of a link.
    """
    weight = prior.precision(widening)
    H = J.T @ J + np.diag(weight)
    variance = np.sum(_inverse_root(H) ** 2, axis=0)
    links = slice(0, 10 * len(prior.bodies))
    square = (x[links] ** 2).reshape(-1, 10).sum(axis=1)
    known = (1.0 - weight * variance)[links].reshape(-1, 10).sum(axis=1)
    widest = np.sqrt(np.maximum((USUAL + square) / (USUAL + known), 1.0))
    # A guess says that nothing is known, so nothing contradicts it.
    return np.asarray(np.where(prior.described, widest, 1.0))


def _inverse_root(H: Float) -> Float:
    """Matrix L with L' L = H^-1, of a definite matrix H; it is scaled first, since parameters have various sizes."""
    size = np.sqrt(np.diag(H))
    lower = np.linalg.cholesky(H / np.outer(size, size) + ROUNDING * np.eye(len(H)))
    return solve_triangular(lower, np.diag(1.0 / size), lower=True)


def design_effects(regression: Regression, value: Float) -> tuple[Float, Float]:
    """Number of samples that count as one in each group of equations, at least 1.

    The variance of the blocks' scores over that of independent samples, corrected for the pull of each block on the
    fit, in every direction of the equations.

    `value` (b,): base parameters. Results: `weak` (g,): harmonic mean over the less determined half of the directions,
    in which priors matter; `mean` (g,): mean over the directions, for intervals.

    References
    ----------
    Kish 1965; Bell and McCaffrey 2002 (leverage).

    """
    factors = regression.factors
    theta = full_vector(regression, value)
    together = factors.independent()
    effects = []
    for g, factor in enumerate(factors.total):
        columns = factor.columns
        w = len(columns)
        freedom = max(factor.count - w, 1)
        noise = factor.residual_square(theta) / freedom
        R = factor.R[:w, :w]
        size = np.linalg.norm(R, axis=0)
        kept = size > 0
        values, vectors = np.linalg.eigh((R / np.where(kept, size, 1.0)).T @ (R / np.where(kept, size, 1.0)))
        good = values > 1e-12 * values[-1]
        inverse = (vectors[:, good] / np.sqrt(values[good])) / np.where(kept, size, np.inf)[:, None]
        if not noise > 0 or not good.any():
            effects.append((1.0, 1.0))
            continue
        of_group = Factors(
            factors.group_names[g : g + 1],
            factors.parameter_count,
            tuple(replace(block, groups=(block.groups[g],)) for block in factors.blocks),
        )
        scores = BlockScores.of(of_group, columns, theta, inverse, np.ones(1)).grouped(together)
        H = scores.information
        expected = 1.0 - np.einsum("mij,mji->i", H, H)
        each = np.maximum((scores.score**2).sum(axis=0) / (noise * np.maximum(expected, TESTED)), 1.0)
        weak = each[: -(-len(each) // 2)]
        effects.append((float(1.0 / np.mean(1.0 / weak)), float(np.mean(each))))
    least, mean = np.array(effects).T
    return least, mean


def _minimum(prior: Prior, A: Float, y: Float, weight: Float, x: Float) -> tuple[Float, bool]:
    """Least ||A theta(x) - y||^2 + weight x^2 within the bounds, by damped Newton steps; whether they converged.

    Steps are straight in theta: there the valley of well-determined combinations is straight, in x it is curved. The
    Hessian is that of theta along x, J' A' A J + W - sum_k l_k d2theta_k / dx2 with J' l = W x, and its eigenvalues,
    relative to the matrix of Gauss and Newton, count without their sign. A step to links that cannot exist, or to no
    lower cost, is tried along x, then damped. Coordinates at a bound that the gradient pushes outwards are kept there.

    References
    ----------
    Dauphin et al. 2014 (eigenvalues without their sign).

    """
    lower, upper = prior.bounds()
    common = 10 * len(prior.bodies)

    def errors(x: Float) -> tuple[Float, Float, Float, float]:
        ten, slopes = prior.links(x)
        rest = A @ prior.values(x, ten) - y
        return ten, slopes, rest, float(rest @ rest + weight @ x**2)

    ten, slopes, rest, cost = errors(x)
    damping = 0.0
    for _ in range(STEPS):
        J = prior.along(A, slopes)
        gradient = J.T @ rest + weight * x
        free = ~(((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0)))
        root = _inverse_root((J.T @ J + np.diag(weight))[np.ix_(free, free)])
        pull = (weight * x)[:common].reshape(-1, 10, 1)
        force = np.zeros(prior.size)
        force[prior.bodies] = np.linalg.solve(slopes[..., :10].swapaxes(-1, -2), pull)[..., 0]
        curved = root @ _curvature(prior, x, force)[np.ix_(free, free)] @ root.T
        relative, directions = np.linalg.eigh(np.eye(len(root)) - curved)
        hessian = np.maximum(np.abs(relative), LEAST_CURVATURE)
        directions = root.T @ directions
        along = directions.T @ gradient[free]
        before = cost
        for _ in range(TRIES):
            step = np.zeros(len(x))
            step[free] = -directions @ (along / (hessian + damping))
            straight = _candidate(prior, x, ten, slopes, step)
            along_x = x + step * prior.shortening(step)
            for candidate in (along_x,) if straight is None else (straight, along_x):
                inside = np.clip(candidate, lower, upper)
                tried = errors(inside)
                if tried[-1] <= cost:
                    break
            else:
                damping = 4.0 * max(damping, 0.25 * FIRST_DAMPING)
                continue
            x = inside
            ten, slopes, rest, cost = tried
            break
        damping = 0.25 * damping if damping >= FIRST_DAMPING else 0.0
        if before - cost <= SETTLED:
            return x, True
    return x, False


def _candidate(prior: Prior, x: Float, ten: Float, slopes: Float, step: Float) -> Float | None:
    """Coordinates (count,) after a step (count,) along a line of the links' parameters; None if they cannot exist."""
    common = 10 * len(prior.bodies)
    change = (slopes[..., :10] @ step[:common].reshape(-1, 10, 1))[..., 0] + slopes[..., 10] * step[common]
    links = prior.link_coordinates(ten + change, float(x[common] + step[common]))
    if links is None:
        return None
    return np.concatenate([links.ravel(), (x + step)[common:]])


def _curvature(prior: Prior, x: Float, force: Float) -> Float:
    """Second derivative (count, count) of force' theta(x) by central differences.

    Links depend on their own coordinates and on the common one, so one coordinate of every link is moved at a time.
    """
    nb, common = len(prior.bodies), 10 * len(prior.bodies)
    steps = np.zeros((11, prior.count))
    for k in range(10):
        steps[k, k:common:10] = DIFFERENCE
    steps[10, common] = DIFFERENCE
    change = prior.links(x + steps)[1] - prior.links(x - steps)[1]
    second = np.einsum("ni,knij->nkj", force[prior.bodies], change) / (2.0 * DIFFERENCE)
    H = np.zeros((prior.count, prior.count))
    for i in range(nb):
        link = slice(10 * i, 10 * i + 10)
        H[link, link] = second[i, :10, :10].T
        H[link, common] = H[common, link] = second[i, 10, :10]
    H[common, common] = second[:, 10, 10].sum()
    return 0.5 * (H + H.T)


@dataclass(frozen=True, eq=False)
class Probable:
    """Most probable estimate with its prior, near which further constraints or equations are solved.

    Attributes
    ----------
    wanted : MAP
        Method.
    regression : Regression
        Equations.
    free : Estimate
        Fit without a prior.
    prior : Prior
        Prior.
    fit : _Fit
        Most probable coordinates.
    mean_effects : ndarray, shape (g,)
        Design effects for intervals.
    least : ndarray, shape (g,)
        Errors of the model that weighted least squares add in squares to the residuals, so that no joint loses its
        weight.

    """

    wanted: MAP
    regression: Regression
    free: Estimate
    prior: Prior
    fit: _Fit
    mean_effects: Float
    least: Float

    @property
    def precision(self) -> Float:
        """Weight (count,) of each squared coordinate."""
        return self.fit.strength * self.prior.precision(self.fit.widening)

    def weights(self, sigma: Float) -> Float:
        """Weights (g,) of the groups for residual standard deviations (g,)."""
        return np.asarray(1.0 / (np.hypot(sigma, self.least) ** 2 * self.fit.effects))

    def near(self, A: Float, y: Float, strength: float) -> Probable:
        """The same for other equations ||A theta - y||^2 and a prior of `strength` times the precision.

        A prior weaker than this one is linearised where this one is: the maximum of a weak one lies at links that
        hardly exist.
        """
        precision = max(strength, 1.0) * self.prior.precision(self.fit.widening)
        x, ok = _minimum(self.prior, A, y, precision, self.fit.x)
        return replace(self, fit=replace(self.fit, x=x, ok=self.fit.ok and ok, strength=strength))

    def parameters(self) -> Float:
        """Most probable parameters (p,)."""
        return self.prior.values(self.fit.x, self.prior.links(self.fit.x)[0])

    def prior_rows(self) -> Float:
        """Prior as equations of unit deviation, linearised at the estimate: coefficients and target (q, p + 1).

        Parameters that the robot does not have are in none of the q equations.
        """
        theta, slope = self.prior.parameters(self.fit.x)
        common = 10 * len(self.prior.bodies)
        present = slope.any(axis=1)
        size = np.abs(slope[present]).max(axis=1)
        inverse = np.linalg.inv(np.delete(slope[present], common, axis=1) / size[:, None]) / size
        # The common scale changes the masses of guessed links together: it correlates their coordinates.
        together = inverse @ slope[present, common]
        weight = np.delete(self.precision, common)
        covariance = np.diag(1.0 / weight) + np.outer(together, together) / self.precision[common]
        root = _inverse_root(covariance)
        rows = np.zeros((len(root), len(theta) + 1))
        rows[:, :-1][:, present] = root @ inverse
        x = np.delete(self.fit.x, common) + together * self.fit.x[common]
        rows[:, -1] = root @ (inverse @ theta[present] - x)
        return rows

    def spread_of(self, R: Float | None = None) -> Float:
        """Covariance (b, b) of the base parameters by the prior, and by equations with the triangle R (b, b)."""
        D = self.prior.along(self.regression.base.B, self.prior.links(self.fit.x)[1])
        H = np.diag(self.precision)
        return _spread(H if R is None else H + (R @ D).T @ (R @ D), D)

    def prior_share(self, R: Float) -> Float:
        """Share (b,) of the variance of the prior that equations with the triangle R (b, b) leave."""
        return np.clip(np.diag(self.spread_of(R)) / np.diag(self.spread_of()), 0.0, 1.0)

    def estimate(self) -> Estimate:
        """Estimate with its covariance: that of the curvature, or of blocks where it is wider."""
        regression, fit, effects = self.regression, self.fit, self.mean_effects
        base, factors = regression.base, regression.factors
        theta = self.parameters()
        value = base.reduce(theta)
        b = base.rank

        def curvature(weights: Float) -> Float:
            return self.spread_of(stack(factors.total, base.independent, weights)[:b, :b])

        independent = fit.weights * fit.effects
        covariance = curvature(independent / effects)
        wider = np.ones(b)
        if not regression.value_only:
            solved = curvature(fit.weights)
            size = np.sqrt(np.diag(solved))
            correlation = solved / np.outer(size, size) + ROUNDING * np.eye(b)
            inverse = np.linalg.cholesky(correlation) * size[:, None]
            blocks = BlockScores.of(
                factors, base.independent, full_vector(regression, value), inverse, fit.weights
            )
            from_blocks = covariance_of(self.wanted.intervals, blocks.grouped(factors.independent()))
            wider = np.sqrt(np.maximum(np.diag(from_blocks) / np.diag(covariance), 1.0))
        status = (
            ("" if fit.ok else f"not converged after {ROUNDS} rounds; use 'feasible', or record longer; ")
            + "most probable parameters: one sample of "
            + ", ".join(
                f"{effect:.0f} ({name})"
                for name, effect in zip(factors.group_names, fit.effects, strict=True)
            )
            + " is independent"
        )
        link_widths = self.prior.widened(fit.widening) / np.sqrt(fit.strength)
        return replace(
            self.free,
            method=self.wanted.name,
            value=value,
            covariance=covariance * np.outer(wider, wider),
            textbook_covariance=curvature(independent),
            sigma=residual_sigma(regression, value),
            weights=fit.weights,
            parameters=theta,
            status=Status(fit.ok, status),
            prior_share=np.clip(np.diag(covariance) / np.diag(self.spread_of()), 0.0, 1.0),
            prior_strength=fit.strength,
            link_widths=link_widths,
        )


def link_equations(estimate: Estimate, regression: Regression, rows: Int) -> Float:
    """Prior of the links as equations of base parameters with unit standard deviation, linearised at an estimate.

    `estimate`: most probable estimate; `rows` (k,): numbers of the base parameters that belong to links. Result:
    coefficients and target, (k, k + 1).
    """
    widths = np.asarray(estimate.link_widths)
    # The middle of a link whose description was left out is a guess.
    guessed = frozenset(np.flatnonzero(widths[:, 3] > 0).tolist())
    prior = replace(Prior.of(MAP(), regression, guessed), widths=widths)
    x = prior.coordinates(estimate.parameters)
    slope = prior.parameters(x)[1]
    links = np.zeros(prior.size, dtype=np.bool_)
    links[prior.bodies] = True
    B = regression.base.B[rows] * links
    combined = B @ slope
    root = _inverse_root(combined @ combined.T)
    return np.column_stack([root, root @ (B @ estimate.parameters - combined @ x)])


def with_further(estimate: Estimate, plain: Estimate, free: Estimate) -> Estimate:
    """Add what the covariance of the fit without a prior has from elsewhere: estimated shapes, late or unknown torque.

    `estimate`: most probable estimate; `plain`, `free`: the fit without a prior, its covariance without and with the
    further uncertainty. Result: with the addition as far as the prior lets the estimate follow that fit.
    """
    size = np.asarray(plain.textbook_std)
    # Blocks are few, so that the difference scatters about what shapes add: only what adds uncertainty counts.
    values, vectors = np.linalg.eigh((free.covariance - plain.covariance) / np.outer(size, size))
    added = (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(size, size)
    fitted = plain.textbook_covariance / np.outer(size, size)
    gain = np.linalg.lstsq(fitted, estimate.textbook_covariance / size[:, None], rcond=None)[0].T / size
    return replace(estimate, covariance=np.asarray(estimate.covariance) + gain @ added @ gain.T)


def _spread(H: Float, D: Float) -> Float:
    """D H^-1 D' of a definite matrix H."""
    root = _inverse_root(H) @ D.T
    return np.asarray(root.T @ root)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Uncertainty of full parameters near an estimate, (p, p) covariances.

    Attributes
    ----------
    prior : ndarray, shape (p, p)
        Without the log, at the common scale of guessed masses: a link whose mass follows from that of others by this
        scale is no better known than a guess.
    posterior : ndarray, shape (p, p)
        With it, no less in the base parameters than the covariance of the estimate.

    """

    prior: Float
    posterior: Float

    @staticmethod
    def of(estimate: Estimate, regression: Regression) -> Uncertainty:
        """Uncertainty by the prior of the estimate, else the usual one, linearised at the estimate."""
        base, theta = (
            regression.base,
            estimate.consistent if len(estimate.consistent) else estimate.parameters,
        )
        prior = Prior.of(MAP(), regression)
        extent = _extent(regression, prior.bodies)
        links = [
            _split(theta[ten], np.asarray(regression.spread)[ten], size)
            for ten, size in zip(prior.bodies, extent, strict=True)
        ]
        if links:
            mass, centre, root = (np.array(values) for values in zip(*links, strict=True))
            prior = replace(prior, mass=mass, centre=centre, root=root)
        if len(estimate.link_widths):
            prior = replace(prior, widths=np.asarray(estimate.link_widths))
        slope = prior.parameters(np.zeros(prior.count))[1]
        b = base.rank
        A = stack(regression.factors.total, base.independent, estimate.weights)[:b, :b] @ base.B
        J = A @ slope
        after = _spread(J.T @ J + np.eye(prior.count), slope)
        gain = after @ base.B.T
        in_base = base.B @ gain
        # What the estimate's own covariance adds in the base parameters, carried to the full ones by the regression
        # of full on base parameters.
        carried = np.linalg.lstsq(in_base, gain.T, rcond=None)[0].T
        values, vectors = np.linalg.eigh(np.asarray(estimate.covariance) - in_base)
        wider = carried @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        alone = np.delete(slope, 10 * len(prior.bodies), axis=1)
        return Uncertainty(alone @ alone.T, after + wider @ wider.T)
