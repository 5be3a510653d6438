"""Is the effort a measurement? A controller's or simulator's model has neither friction nor noise."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.residual_analysis import ResidualAnalysis, basis, regressor

# Friction of geared joints takes 5 to 50 % of their torque, and that behind joint torque sensors some percent at light
# joints: less than this on every joint is no robot's.
LEAST_FRICTION = 0.01
# Noise of currents and torque sensors lies between 0.1 and 5 % of the torque; files hold five digits or more.
LEAST_NOISE = 1e-3
# A model of torque follows the model that is fitted to it; what misses more is another matter.
MOST_MISSED = 0.1
# Fourth differences: motion below a fiftieth of the sample rate leaves less than 1e-4 of itself, white noise all of it.
DIFFERENCE = np.array([1.0, -4.0, 6.0, -4.0, 1.0])


def check_measured(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Looks for efforts that are no measurement.

    Claims: modelled-effort, where the torque of two joints and more has neither friction nor noise.
    """
    if not analysis.enough or analysis.raw is None or len(analysis.joints) < 2:
        return
    joints = list(analysis.joints)
    noise = noise_shares(analysis)
    if analysis.missed[joints].max() > MOST_MISSED or noise[joints].max() > LEAST_NOISE:
        return  # measured: friction, which takes much longer, is not asked
    friction = friction_shares(analysis)
    if friction is None or friction[joints].max() > LEAST_FRICTION:
        return
    diagnostics.claim(
        "modelled-effort",
        found=f"efforts without friction (at most {100 * friction[joints].max():.2g} % of a joint's torque) and "
        f"noise (at most {100 * noise[joints].max():.1g} %): a controller's or a simulator's model, not a measurement",
        expected="measured torque or current",
        do="map the measured effort under [log] (actual current or torque, not the target)",
    )


def friction_shares(analysis: ResidualAnalysis) -> Float | None:
    """Torque (n,) of viscous and Coulomb friction by joint over its torque, at the end of the 95 % interval.

    Both are fitted beside the plain model, which may leave them out. None where the model reads more than motion.
    """
    terms, wanted = analysis.plain_model
    Y, complete = regressor(analysis.robot, terms, analysis.motion, wanted)
    if not complete:
        return None
    n, N, b = Y.shape
    weight = (~analysis.reverses).T / np.maximum(analysis.rms, 1e-300)[:, None]
    shares = np.zeros(n)
    y = (analysis.motion.tau.T * weight).reshape(-1)
    rigid = (Y * weight[:, :, None]).reshape(n * N, b)
    # Friction of the model is estimated anew, joint by joint.
    Q = basis(rigid[:, ~terms.friction_columns(analysis.robot)[wanted]])
    residual = y - Q @ (Q.T @ y)
    for j in analysis.joints:
        dq = analysis.motion.dq[:, j]
        forms = np.zeros((n, N, 2))
        forms[j] = np.column_stack([dq, np.sign(dq)])
        X = (forms * weight[:, :, None]).reshape(n * N, 2)
        shares[j] = _share(X - Q @ (Q.T @ X), residual, analysis, j, forms[j])
    return shares


def _share(X: Float, e: Float, analysis: ResidualAnalysis, joint: int, shape: Float) -> float:
    # X and e: friction's forms and the torque, without what the rest of the model explains.
    coefficient, *_ = np.linalg.lstsq(X, e, rcond=1e-9)
    torque = shape @ coefficient
    sigma = float(np.sqrt(np.mean((e - X @ coefficient) ** 2)))
    spread = np.linalg.pinv(X.T @ X) * sigma**2
    half = 2.0 * np.sqrt(max(float(np.mean(np.einsum("ni,ij,nj->n", shape, spread, shape))), 0.0))
    # Over the same samples, in motion: a robot that stands long has less torque.
    whole = np.sqrt(np.mean(analysis.motion.tau[:, joint] ** 2))
    return float((np.sqrt(np.mean(torque**2)) + half) / max(whole, 1e-300))


def noise_shares(analysis: ResidualAnalysis) -> Float:
    """White noise (n,) of the raw torque over its root mean square, by fourth differences."""
    if analysis.raw is None:
        return np.zeros(analysis.robot.n)
    parts = [np.apply_along_axis(np.convolve, 0, part, DIFFERENCE, "valid") for part in analysis.raw.parts]
    everything = np.concatenate(analysis.raw.parts)
    size = np.sqrt(np.mean((everything - everything.mean(axis=0)) ** 2, axis=0))
    # The median: steps of friction and contact are rare and large.
    noise = np.median(np.abs(np.concatenate(parts)), axis=0) / 0.6745 / np.linalg.norm(DIFFERENCE)
    return np.asarray(noise / np.maximum(size, 1e-300))
