"""How far up in frequency the measured torque follows the motion: where signal stops exceeding noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.kernel import torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.density import cross_density, density
from dynid.signals.differentiate import first_difference, second_difference
from dynid.signals.filter import zero_phase_filter

# Signal equals noise where half of the torque's power follows the motion.
HALF = 0.5
HIGHEST, SHARE_OF_RATE = 40.0, 0.2  # Hz; of the sampling rate: above it derivatives see the grid
OVERSAMPLING = 5.0  # samples a period of the highest frequency
WINDOW_SECONDS = 4.0  # spectra resolve 0.25 Hz
LOWEST, BANDS_AN_OCTAVE, HALF_WIDTH = 0.5, 4, 0.2  # Hz; bands reach 20 % to both sides
LEAST_HALF_WIDTH = 0.3  # Hz, so that a band holds at least two lines
LEAST_ROWS = 256
BLOCK_SECONDS = 2.0  # of held-out torque: several periods of any cut-off
INDEPENDENT = 1e-6
SMOOTHED_SIGN = (
    0.1  # of the root mean square speed: width over which the trial's Coulomb friction changes sign
)


@dataclass(frozen=True, eq=False)
class Signals:
    """Uniform positions, velocities (None = not logged) and torques (None = not logged) of one stretch, (n, T)."""

    q: Float
    dq: Float | None = None
    tau: Float | None = None

    def part(self, start: int, stop: int) -> Signals:
        """Samples start..stop."""
        own = slice(start, stop)
        return Signals(
            self.q[:, own],
            None if self.dq is None else self.dq[:, own],
            None if self.tau is None else self.tau[:, own],
        )


@dataclass(frozen=True, eq=False)
class TorqueCoherence:
    """Share of the torque's power that follows the motion, by frequency.

    frequency: (B,) Hz, middles of the bands.    share: (n, B) signed square of the correlation of measured torque with
    that of a trial model, within the band.    together: (B,) the same with the joints' torques taken together.
    above: (B,) share of the torques' power above each frequency.
    """

    frequency: Float
    share: Float
    together: Float
    above: Float

    @property
    def ends(self) -> Float:
        """(n,) Hz, highest frequency at which half of a joint's torque follows the motion; 0 = none."""
        return np.array([_end(self.frequency, row) for row in self.share])

    @property
    def end(self) -> float:
        """The same for all joints together, of which those with the greatest torques say most."""
        return _end(self.frequency, self.together)

    @property
    def beyond(self) -> float:
        """Share of the torques' power above `end`: what a filter there would take away."""
        return float(np.interp(self.end, self.frequency, self.above))


def torque_coherence(robot: RobotModel, parts: Sequence[Signals], rate: float) -> TorqueCoherence | None:
    """How much of the measured torque follows the motion, by frequency; None without torque or enough samples.

    A trial model (rigid bodies, rotor, viscous and Coulomb friction, offset; least squares joint by joint) is fitted
    to the log below 1, 2, 4, ... Hz. In each band of a quarter octave its torque x, made of the motion with all its
    noise, is compared with the measured torque y by Re(S_xy)^2 / (S_xx S_yy), from Welch's cross-spectra. With signal
    power S, noise of the motion A and noise of the torque N this is S^2 / ((S + A)(S + N)): it falls to a half where
    either noise reaches the signal, wherever it comes from (quantised positions, stale samples, torque ripple, motion
    that the model does not describe), and needs no noise floor, which low-passed logs do not have. A wrong scale does
    not matter, since the correlation ignores it; a wrong phase counts as noise, as it is to the equations. A fit cannot
    imitate signal above its own band, and within it has few parameters for many samples; of all fits the best counts,
    since slow motion says little of inertia and noisy accelerations shrink it.
    Source: Welch 1967; coherence and signal-to-noise ratio: Bendat and Piersol 2010, chapter 6.
    """
    top = min(HIGHEST, SHARE_OF_RATE * rate)
    thinning = max(1, int(rate // (OVERSAMPLING * top)))
    slow = rate / thinning
    stretches = [_Stretch.of(part, rate, thinning) for part in parts if part.tau is not None]
    longest = max((s.q.shape[1] for s in stretches), default=0)
    size = int(min(longest, WINDOW_SECONDS * slow))
    stretches = [s for s in stretches if s.q.shape[1] >= size]
    if size < LEAST_ROWS * min(1.0, slow / 100.0) or top <= LOWEST:
        return None
    speed = np.sqrt(np.mean(np.concatenate([s.dq for s in stretches], axis=1) ** 2, axis=1))
    stretches = [s.with_panels(robot, speed) for s in stretches]
    fits = []
    below = 1.0
    while below < top:
        theta = _fitted(stretches, below, slow)
        if theta is not None:
            fits.append(_spectra(stretches, theta, slow, size))
        below *= 2.0
    if not fits:
        return None
    centres = LOWEST * 2.0 ** np.arange(0, np.log2(top / LOWEST) + 1e-9, 1.0 / BANDS_AN_OCTAVE)
    shares = np.array([[_share(fit, centre) for centre in centres] for fit in fits])
    best = shares.max(axis=0)
    frequency, torque = fits[0][0], fits[0][2].sum(axis=0)
    above = np.array([torque[frequency > centre].sum() for centre in centres]) / max(torque.sum(), 1e-300)
    return TorqueCoherence(centres, best[:, :-1].T.copy(), best[:, -1].copy(), above)


def held_out_misfits(
    robot: RobotModel, parts: Sequence[Signals], rate: float, cutoff: float, order: int, edge: float
) -> Float:
    """Torque that the trial model misses on blocks of two seconds that it was not fitted to, (B, n) sums of squares.

    The model is that of `torque_coherence`, fitted joint by joint; both sides of its equations are low-passed.
    cutoff: Hz.    order: of that filter.    edge: s, left out at both ends of each stretch.
    """
    thinning = max(1, int(rate // (OVERSAMPLING * 2.0 * cutoff)))
    slow = rate / thinning
    stretches = [_Stretch.of(part, rate, thinning) for part in parts if part.tau is not None]
    stretches = [s for s in stretches if s.q.shape[1] / slow > 2.0 * edge + BLOCK_SECONDS]
    if not stretches:
        return np.zeros((0, robot.n))
    speed = np.sqrt(np.mean(np.concatenate([s.dq for s in stretches], axis=1) ** 2, axis=1))
    low, skipped = zero_phase_filter(cutoff, order, slow), max(1, int(edge * slow))
    grams: list[list[Float]] = []
    for s in (s.with_panels(robot, speed) for s in stretches):
        equations = [
            low(np.concatenate([panel, s.tau[j : j + 1]]))[:, skipped:-skipped:2]
            for j, panel in enumerate(s.panels)
        ]
        count = max(1, round(2 * equations[0].shape[1] / (BLOCK_SECONDS * slow)))
        for own in np.array_split(np.arange(equations[0].shape[1]), count):
            grams.append([lines[:, own] @ lines[:, own].T for lines in equations])
    total = [np.sum([gram[j] for gram in grams], axis=0) for j in range(robot.n)]

    def missed(gram: Float, rest: Float) -> float:
        error = np.append(_solved(rest), -1.0)
        return float(error @ gram @ error)

    return np.array([[missed(g, whole - g) for g, whole in zip(gram, total, strict=True)] for gram in grams])


@dataclass(frozen=True, eq=False)
class _Stretch:
    # Motion and torque of one stretch, thinned out to what the highest frequency needs.
    q: Float
    dq: Float
    ddq: Float
    tau: Float
    panels: tuple[Float, ...] = ()

    @staticmethod
    def of(part: Signals, rate: float, thinning: int) -> _Stretch:
        slow = rate / thinning

        def thinned(x: Float) -> Float:
            if thinning == 1:
                return x
            return zero_phase_filter(0.4 * slow, 6, rate)(np.ascontiguousarray(x), 0, thinning)

        q, tau = thinned(part.q), thinned(np.asarray(part.tau))
        if q.shape[1] < 8:
            return _Stretch(q, q, q, tau)
        if part.dq is None:
            return _Stretch(q, first_difference(q, slow), second_difference(q, slow), tau)
        dq = thinned(part.dq)
        return _Stretch(q, dq, first_difference(dq, slow), tau)

    def with_panels(self, robot: RobotModel, speed: Float) -> _Stretch:
        # Columns (w, T) of the trial model by joint.
        tree = torque_regressor(robot.tree, *robot.tree_motion(self.q.T, self.dq.T, self.ddq.T))
        width = 1 + max(int(columns.max(initial=0)) for columns in tree.columns)
        panels = []
        for j in range(robot.n):
            bodies, touched = np.zeros((width, self.q.shape[1])), np.zeros(width, dtype=np.bool_)
            for i, (columns, values) in enumerate(zip(tree.columns, tree.values, strict=True)):
                weight = robot.projection[i, j] if robot.has_mimic else float(i == j)
                if weight:
                    bodies[columns] += weight * values
                    touched[columns] = True
            bend = max(SMOOTHED_SIGN * speed[j], 1e-9)
            own = [self.ddq[j], self.dq[j], np.tanh(self.dq[j] / bend), np.ones_like(self.dq[j])]
            panels.append(np.concatenate([bodies[touched], np.array(own)]))
        return replace(self, panels=tuple(panels))


def _fitted(stretches: Sequence[_Stretch], below: float, rate: float) -> list[Float] | None:
    # Least squares joint by joint on what lies below a frequency.
    if below >= 0.4 * rate:
        return None
    low = zero_phase_filter(below, 4, rate)
    every, edge = max(1, int(rate / (8.0 * below))), int(0.5 * rate / below)
    grams: list[Float] = []
    for s in stretches:
        for j, panel in enumerate(s.panels):
            count = len(range(edge, panel.shape[1] - edge, every))
            lines = np.ascontiguousarray(
                low(np.concatenate([panel, s.tau[j : j + 1]]), edge, every)[:, :count]
            )
            if len(grams) <= j:
                grams.append(lines @ lines.T)
            else:
                grams[j] += lines @ lines.T
    return [_solved(gram) for gram in grams]


def _solved(gram: Float) -> Float:
    size = np.sqrt(np.diag(gram)[:-1])
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram[:-1, :-1] / np.outer(size, size))
    kept = values > INDEPENDENT * max(float(values[-1]), 1e-300)
    along = vectors[:, kept]
    return np.asarray(along @ ((along.T @ (gram[:-1, -1] / size)) / values[kept]) / size)


Spectra = tuple[Float, Float, Float, Float]


def _spectra(stretches: Sequence[_Stretch], theta: Sequence[Float], rate: float, size: int) -> Spectra:
    # Frequencies; densities of predicted and measured torque and the real part of that of both, (n, F) each.
    frequency, sums = np.zeros(0), np.zeros(0)
    for s in stretches:
        x = np.array([a @ panel for a, panel in zip(theta, s.panels, strict=True)])
        frequency, xx = density(x, rate, size)
        _, yy = density(s.tau, rate, size)
        _, xy = cross_density(x, s.tau, rate, size)
        found = x.shape[1] * np.array([xx, yy, xy.real])
        sums = found if not sums.size else sums + found
    return frequency, sums[0], sums[1], sums[2]


def _share(spectra: Spectra, centre: float) -> Float:
    # (n + 1,): of each joint, then of all together.
    frequency, *densities = spectra
    half = max(LEAST_HALF_WIDTH, HALF_WIDTH * centre)
    band = np.abs(frequency - centre) <= half
    xx, yy, xy = (np.append(d[:, band].sum(axis=1), d[:, band].sum()) for d in densities)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(xx * yy > 0, np.abs(xy) * xy / (xx * yy), 0.0)
    return np.asarray(share)


def _end(frequency: Float, share: Float) -> float:
    follows = np.flatnonzero(share >= HALF)
    return float(frequency[follows[-1]]) if len(follows) else 0.0
