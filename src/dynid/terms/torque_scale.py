"""One factor between gravity's torque and that of the described bodies, and how far a description can prove it."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.distributions import normal_quantile
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque
from dynid.robot.model import RobotModel
from dynid.terms.payload import UNSURE, outermost, unsure_description
from dynid.terms.residual_tests import BodyParameters, FitAnalysis

# Chance that a description whose masses and centres are off as much as UNSURE says shows a factor that is none.
SCALE_CHANCE = 0.05
# Of Akaike's criterion: by more a load is clearly the better explanation (Burnham and Anderson 2002, section 2.6).
CLEAR = 4.0
# Of the largest singular value: what is more than rounding; samples that are enough to see what gravity shows.
SHOWN, FEW = 1e-7, 200
# Cosine of the angle between what gravity's torque shows and what the fit knows, from which on both are one.
KNOWN = 1.0 - 1e-6
# Of each variance: no exact agreement is asked of a description.
LEAST_VARIANCE = 1e-6
# Descriptions know masses to some 15 %, as a share of UNSURE; that weighs as much as so many parameters' own scatter.
USUAL_SCATTER, SCATTER_WEIGHT = 0.15 / UNSURE, 4.0
# Changes of log(factor) that end the iteration, and its rounds.
SETTLED, ROUNDS = 1e-6, 50
# kg, kg m: mass and first moments of a body among its ten parameters.
OF_GRAVITY = 4


@dataclass(frozen=True)
class CommonScale:
    """One factor from the description's gravity torque to the identified bodies'.

    std: of its logarithm, from how far the bodies scatter about the factor, and from UNSURE at least.
    by_load: by how much Akaike's criterion prefers a load on one of the outermost bodies; > 0: the load.
    """

    factor: float
    std: float
    by_load: float

    @property
    def limits(self) -> tuple[float, float]:
        """Between these the factor lies, but for SCALE_CHANCE."""
        reach = normal_quantile(1.0 - 0.5 * SCALE_CHANCE) * self.std
        return float(self.factor * np.exp(-reach)), float(self.factor * np.exp(reach))

    @property
    def sure(self) -> bool:
        """Whether a factor of one lies beyond the limits, and no load explains the bodies clearly better."""
        low, high = self.limits
        return not low <= 1.0 <= high and self.by_load <= CLEAR


def common_scale(fit: FitAnalysis) -> CommonScale | None:
    """The one factor k that brings the description's masses and first moments closest to the identified ones.

    With G the combinations of both that gravity's torque shows, beta = G pi of the fit and b = G pi0 of the
    description, beta - k b has the covariance C = cov(beta) + k^2 G S G', S: how well a description is known (see
    `find_load`). So k = b' C^-1 beta / b' C^-1 b and std(log k) = s / (k sqrt(b' C^-1 b)), where s^2 is the mean
    square of what k leaves, in the metric of C, and 1 at least: all bodies share a wrong scale of torque, errors of a
    description are each body's own. Gravity's torque alone is free of rotors.
    None without a description of every body, or where gravity's torque shows too little or opposes the description.
    Source: Aitken 1936 (generalised least squares); Akaike 1974, Gelman et al. 2013, section 3.2 (by_load).
    """
    robot, base = fit.robot, fit.body_parameters
    if base is None or not np.isfinite(robot.inertia_prior).all() or (robot.inertia_prior[:, 0] <= 0).any():
        return None
    shown = gravity_parameters(fit, base)
    described = shown.matrix @ robot.inertia_prior.ravel()
    unsure = shown.matrix @ unsure_description(robot) @ shown.matrix.T
    if len(described) < 2 or not np.isfinite(shown.covariance).all():
        return None
    factor = 1.0
    for _ in range(ROUNDS):
        L, _ = _whitening(shown.covariance + factor**2 * unsure)
        b, beta = np.linalg.solve(L, np.column_stack([described, shown.value])).T
        found = float(b @ beta) / max(float(b @ b), 1e-300)
        if found <= 0:
            return None
        factor, before = found, factor
        if abs(np.log(factor / before)) < SETTLED:
            break
    left = float(((beta - factor * b) ** 2).sum())
    scatter = max(1.0, np.sqrt(left / (len(b) - 1)))
    loads = [shown.matrix[:, 10 * i : 10 * i + OF_GRAVITY] for i in outermost(robot)]
    criterion = _criterion(shown.covariance + factor**2 * unsure, described[:, None], shown.value)
    rivals = [_criterion(shown.covariance + unsure, columns, shown.value - described) for columns in loads]
    return CommonScale(factor, float(scatter / (factor * np.sqrt(b @ b))), criterion - min(rivals))


def gravity_parameters(fit: FitAnalysis, base: BodyParameters) -> BodyParameters:
    """Combinations of masses and first moments that gravity's torque shows, as far as the fit knows them.

    Those of joints that moved and whose gravity no term of the model may carry.
    """
    robot, motion = fit.robot, fit.remains.motion
    some = slice(None, None, max(1, len(motion.q) // FEW))
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0][some]
    usable = np.isin(np.arange(robot.n), fit.joints) & ~fit.balanced
    columns = _gravity_columns(robot, q)[:, :, usable].reshape(10 * robot.n_bodies, -1)
    directions, size, _ = np.linalg.svd(columns, full_matrices=False)
    of_gravity = directions[:, size > SHOWN * size.max(initial=0.0)].T
    rows, _ = np.linalg.qr(base.matrix.T)
    turned, cosine, _ = np.linalg.svd(of_gravity @ rows, full_matrices=False)
    matrix = turned[:, cosine > KNOWN].T @ of_gravity
    by_base, *_ = np.linalg.lstsq(base.matrix.T, matrix.T, rcond=None)
    return BodyParameters(matrix, by_base.T @ base.value, by_base.T @ base.covariance @ by_base)


def _gravity_columns(robot: RobotModel, q: Float) -> Float:
    """Gravity's torque (10 nb, N, n) of each body's mass and first moments by one; of its inertia none."""
    found = np.zeros((10 * robot.n_bodies, len(q), robot.n))
    for i in range(robot.n_bodies):
        for k in range(OF_GRAVITY):
            one = np.zeros((robot.n_bodies, 10))
            one[i, k] = 1.0
            found[10 * i + k] = gravity_torque(robot.tree, one, q) @ robot.projection
    return found


def _whitening(covariance: Float) -> tuple[Float, float]:
    """The factor L (b, b) of a covariance L L', and the logarithm of its determinant."""
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    L = np.linalg.cholesky(covariance / np.outer(size, size) + LEAST_VARIANCE * np.eye(len(size)))
    L = L * size[:, None]
    return L, float(2.0 * np.log(np.diag(L)).sum())


def _criterion(covariance: Float, columns: Float, wanted: Float) -> float:
    """Akaike's criterion of wanted (b,) explained by columns (b, c), up to a constant.

    -2 log p + 2 rank, p: the marginal likelihood of wanted, normal about the columns with covariance s^2 C, where s^2
    is inverse chi-squared about USUAL_SCATTER^2.
    """
    L, log_determinant = _whitening(covariance)
    A, y = np.linalg.solve(L, columns), np.linalg.solve(L, wanted)
    U, size, _ = np.linalg.svd(A, full_matrices=False)
    Q = U[:, size > SHOWN * size.max(initial=0.0)]
    left = float(((y - Q @ (Q.T @ y)) ** 2).sum())
    scatter = float(np.log(SCATTER_WEIGHT * USUAL_SCATTER**2 + left))
    return (SCATTER_WEIGHT + len(y)) * scatter + log_determinant + 2.0 * int(Q.shape[1])
