"""Coherence of measured torque and motion by frequency, and the cutoff frequency chosen from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Panels, torque_regressor
from dynid.kernel.tree import Tree
from dynid.robot.model import RobotModel
from dynid.signals.filter import (
    averaged_density,
    first_difference,
    pair_density,
    second_difference,
    zero_phase_filter,
)

# Signal equals noise where half of the torque's power follows the motion.
HALF = 0.5
HIGHEST, SHARE_OF_RATE = 40.0, 0.2  # Hz; of the sampling rate: above it derivatives depend on the grid
OVERSAMPLING = 5.0  # samples per period of the highest frequency
WINDOW_SECONDS = 4.0  # s: spectra resolve 0.25 Hz
LOWEST, BANDS_AN_OCTAVE, HALF_WIDTH = 0.5, 4, 0.2  # Hz; bands reach 20 % to both sides
LEAST_HALF_WIDTH = 0.3  # Hz, so that a band contains at least two spectral lines
LEAST_ROWS = 256  # at 100 Hz or more: fewer rows give too few windows of a spectrum
FIT_ORDER = 4  # of the low pass below which a trial model is fitted
# Width of a band in which the gain of a low pass is one number, and the multiple of its cutoff frequency above which
# the gain counts as zero, since it passes less than a millionth of the power.
FIT_BANDS_AN_OCTAVE, LAST = 4, 3.0
# Share of a stretch at either end over which its equations fade in and out, so that the ends cause no jump.
RAMP = 0.02
BLOCK_SECONDS = 2.0  # s of held-out torque: several periods of any cutoff frequency
INDEPENDENT = 1e-6  # of the greatest eigenvalue: directions below it count as dependent columns
# Number of random states that show which columns are linear combinations of others, and the remainder below which a
# column is one.
STATES, STRUCTURAL = 40, 1e-9
# Share of the r.m.s. speed over which the Coulomb friction of a trial model changes sign.
SMOOTHED_SIGN = 0.1


@dataclass(frozen=True, eq=False)
class Signals:
    """Uniform positions, velocities and torques of one stretch, (n, T) each; None = not logged."""

    q: Float
    dq: Float | None = None
    tau: Float | None = None

    def part(self, start: int, stop: int) -> Signals:
        """Samples start..stop of the stretch."""
        window = slice(start, stop)
        return Signals(
            self.q[:, window],
            None if self.dq is None else self.dq[:, window],
            None if self.tau is None else self.tau[:, window],
        )


@dataclass(frozen=True, eq=False)
class TorqueCoherence:
    """Share of the torque's power that follows the motion, by frequency.

    Attributes
    ----------
    frequency : ndarray, shape (B,), Hz
        Centres of the bands.
    share : ndarray, shape (n, B)
        Signed squared correlation of the measured torque with that of a trial model, within each band.
    together : ndarray, shape (B,)
        The same for the torques of all joints together.
    above : ndarray, shape (B,)
        Share of the torques' power above each frequency.

    """

    frequency: Float
    share: Float
    together: Float
    above: Float

    @property
    def ends(self) -> Float:
        """(n,) Hz, highest frequency at which half of a joint's torque follows the motion; 0 if none does."""
        return np.array([_end(self.frequency, row) for row in self.share])

    @property
    def end(self) -> float:
        """The same (Hz) for all joints together, weighted by their torques."""
        return _end(self.frequency, self.together)

    @property
    def beyond(self) -> float:
        """Share of the torques' power above `end`, which a filter there would remove."""
        return float(np.interp(self.end, self.frequency, self.above))


def torque_coherence(robot: RobotModel, parts: Sequence[Signals], rate: float) -> TorqueCoherence | None:
    """Estimate how much of the measured torque follows the motion, by frequency.

    A trial model (links, rotor, viscous and Coulomb friction, offset; least squares per joint) is fitted to the log
    below 1, 2, 4, ... Hz. In each band of a quarter octave its torque x, computed from the noisy motion, is compared
    with the measured torque y by Re(S_xy)^2 / (S_xx S_yy), from Welch's cross-spectra. With signal power S, noise A of
    the motion and N of the torque this is S^2 / ((S + A)(S + N)). It falls to a half where either noise reaches the
    signal, whatever the source of the noise, and needs no noise floor, which low-passed logs lack. A wrong scale has no
    effect; a wrong phase counts as noise. The best of all fits counts, since slow motion hardly shows inertia and noisy
    accelerations bias it towards zero.

    `parts`: uniform stretches of the log; `rate` in Hz: sampling rate. Result: the coherence; None without torque or
    enough samples.

    References
    ----------
    Welch 1967. Bendat and Piersol 2010, chapter 6: coherence and signal-to-noise ratio.

    """
    top = min(HIGHEST, SHARE_OF_RATE * rate)
    thinning = max(1, int(rate // (OVERSAMPLING * top)))
    slow = rate / thinning
    stretches = [_Stretch.of(part, rate, thinning) for part in parts if part.tau is not None]
    longest = max((s.q.shape[1] for s in stretches), default=0)
    size = int(min(longest, WINDOW_SECONDS * slow))
    stretches = [s for s in stretches if s.q.shape[1] >= size]
    limits: Float = 2.0 ** np.arange(
        np.ceil(np.log2(top)), dtype=np.float64
    )  # 1, 2, 4, ... Hz below the highest frequency
    if size < LEAST_ROWS * min(1.0, slow / 100.0) or not len(limits):
        return None
    speed = np.sqrt(np.mean(np.concatenate([s.dq for s in stretches], axis=1) ** 2, axis=1))
    stretches = [s.with_panels(robot, SMOOTHED_SIGN * speed) for s in stretches]
    frequency, *densities = _spectra(stretches, _fitted(stretches, limits, slow), slow, size)
    centres = LOWEST * 2.0 ** np.arange(0, np.log2(top / LOWEST) + 1e-9, 1.0 / BANDS_AN_OCTAVE)
    best = np.array([_shares(frequency, densities, centre).max(axis=0) for centre in centres])
    torque = densities[1].sum(axis=0)
    above = np.array([torque[frequency > centre].sum() for centre in centres]) / max(torque.sum(), 1e-300)
    return TorqueCoherence(centres, best[:, :-1].T.copy(), best[:, -1].copy(), above)


def held_out_misfits(
    robot: RobotModel,
    parts: Sequence[Signals],
    rate: float,
    cutoff: float,
    order: int,
    edge: float,
    highest: float,
    width: float = 0.0,
) -> Float:
    """Squared torque errors of the trial model of `torque_coherence` on held-out blocks of two seconds.

    The model is fitted per joint; both sides of its equations are low-passed.

    `cutoff` in Hz: cutoff frequency of the equations; `order`: order of that filter; `edge` in s: time left out at both
    ends of each stretch; `highest` in Hz: highest frequency of the motion that is kept; `width` in rad/s or m/s: speed
    over which Coulomb friction changes sign, and below which a joint's equations do not count. 0 = SMOOTHED_SIGN of
    each joint's r.m.s. speed, and all equations count. Result: sums of squares by block and joint, (B, n).
    """
    thinning = max(1, int(rate // (OVERSAMPLING * 2.0 * highest)))
    slow = rate / thinning
    stretches = [_Stretch.of(part, rate, thinning) for part in parts if part.tau is not None]
    stretches = [s for s in stretches if s.q.shape[1] / slow > 2.0 * edge + BLOCK_SECONDS]
    if not stretches:
        return np.zeros((0, robot.n))
    speed = np.sqrt(np.mean(np.concatenate([s.dq for s in stretches], axis=1) ** 2, axis=1))
    low, skipped = zero_phase_filter(cutoff, order, slow), max(1, int(edge * slow))
    grams: list[list[Float]] = []
    widths = np.full(robot.n, width) if width > 0.0 else SMOOTHED_SIGN * speed
    for s in (s.with_panels(robot, widths) for s in stretches):
        equations = [
            low(np.concatenate([panel, s.tau[j : j + 1]]))[:, skipped:-skipped:2]
            for j, panel in enumerate(s.panels)
        ]
        if width > 0.0:  # static friction takes any value
            moves = np.abs(low(s.dq))[:, skipped:-skipped:2] >= width
            equations = [lines * selected for lines, selected in zip(equations, moves, strict=True)]
        count = max(1, round(2 * equations[0].shape[1] / (BLOCK_SECONDS * slow)))
        for selected in np.array_split(np.arange(equations[0].shape[1]), count):
            grams.append([lines[:, selected] @ lines[:, selected].T for lines in equations])
    total = [np.sum([gram[j] for gram in grams], axis=0) for j in range(robot.n)]

    def squared_error(gram: Float, rest: Float) -> float:
        error = np.append(_solved(rest), -1.0)
        return float(error @ gram @ error)

    return np.array(
        [[squared_error(g, whole - g) for g, whole in zip(gram, total, strict=True)] for gram in grams]
    )


@dataclass(frozen=True, eq=False)
class _Stretch:
    # Motion and torque of one stretch, decimated to what the highest frequency needs.
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

    def with_panels(self, robot: RobotModel, widths: Float) -> _Stretch:
        # Columns (w, T) of the trial model per joint; friction changes sign over the widths (n,).
        motion = robot.tree_motion(self.q.T, self.dq.T, self.ddq.T)
        tree = torque_regressor(robot.tree, *motion, _independent(robot.tree))
        panels = []
        for j in range(robot.n):
            bend = max(widths[j], 1e-9)
            joint_columns = [self.ddq[j], self.dq[j], np.tanh(self.dq[j] / bend), np.ones_like(self.dq[j])]
            panels.append(np.concatenate([_driven(robot, tree, j), joint_columns]))
        return replace(self, panels=tuple(panels))


@lru_cache(maxsize=8)
def _independent(tree: Tree) -> Bool:
    """(10 n,) columns of the links that are structurally independent, tested with random states."""
    states = np.random.default_rng(0).normal(0.0, 2.0, (3, STATES, tree.n))
    lines = torque_regressor(tree, *states).dense(10 * tree.n).reshape(-1, 10 * tree.n)
    size = np.linalg.norm(lines, axis=0)
    triangle = np.linalg.qr(lines / np.where(size > 0, size, 1.0), mode="r")
    return np.asarray(np.abs(np.diag(triangle)) > STRUCTURAL)


def _driven(robot: RobotModel, tree: Panels, joint: int) -> Float:
    # Columns (w, T) of the links that a joint drives, by itself or through mimic joints.
    if not robot.has_mimic:
        return tree.values[joint]
    driven = np.flatnonzero(robot.projection[:, joint])
    columns = np.unique(np.concatenate([tree.columns[i] for i in driven]))
    total = np.zeros((len(columns), tree.values[joint].shape[1]))
    for i in driven:
        total[np.searchsorted(columns, tree.columns[i])] += robot.projection[i, joint] * tree.values[i]
    return total


def _fitted(stretches: Sequence[_Stretch], limits: Float, rate: float) -> list[Float]:
    """Parameters (fits, w) of each joint by least squares below each of the frequencies (Hz).

    Tapering and the Fourier transform keep the equations linear, and a low pass only weights their spectral lines.
    Within a band its gain is constant, so that the sums are computed once for all fits.
    """
    size = max(s.q.shape[1] for s in stretches)
    padded = 1 << (size - 1).bit_length()  # a length that transforms fast
    frequency = np.asarray(np.fft.rfftfreq(padded, 1.0 / rate), dtype=np.float64)
    steps = (
        0.5 * limits[0] * 2.0 ** np.arange(0.0, np.log2(2.0 * LAST * limits[-1]), 1.0 / FIT_BANDS_AN_OCTAVE)
    )
    edges = np.unique([0, *np.searchsorted(frequency, steps)])
    gains = np.array([zero_phase_filter(below, FIT_ORDER, rate).gain(frequency) ** 2 for below in limits])
    weights = np.array([gains[:, a:b].mean(axis=1) for a, b in pairwise(edges)]).T
    tapers = [_taper(s.q.shape[1]) for s in stretches]
    parameters = []
    for j in range(len(stretches[0].panels)):
        width = len(stretches[0].panels[j]) + 1
        lines = np.zeros((width, len(stretches), padded))
        for i, (s, taper) in enumerate(zip(stretches, tapers, strict=True)):
            np.multiply(s.panels[j], taper, out=lines[:-1, i, : len(taper)])
            np.multiply(s.tau[j], taper, out=lines[-1, i, : len(taper)])
        below = np.fft.rfft(lines)
        below[..., 0] *= np.sqrt(0.5)  # all other frequencies also represent their negatives
        parts = below.view(np.float64)
        bands = []
        for a, b in pairwise(edges):
            band = parts[..., 2 * a : 2 * b].reshape(width, -1)
            bands.append((band @ band.T).ravel())
        grams = (weights @ np.array(bands)).reshape(-1, width, width)
        parameters.append(np.array([_solved(gram) for gram in grams]))
    return parameters


def _taper(samples: int) -> Float:
    # Cosine ramps, so that slow motion does not leak to high frequencies.
    ramp = max(int(RAMP * samples), 1)
    rising = 0.5 - 0.5 * np.cos(np.pi * (np.arange(ramp) + 0.5) / ramp)
    return np.concatenate([rising, np.ones(samples - 2 * ramp), rising[::-1]])


def _solved(gram: Float) -> Float:
    size = np.sqrt(np.diag(gram)[:-1])
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram[:-1, :-1] / np.outer(size, size))
    kept = values > INDEPENDENT * max(float(values[-1]), 1e-300)
    along = vectors[:, kept]
    return np.asarray(along @ ((along.T @ (gram[:-1, -1] / size)) / values[kept]) / size)


def _spectra(
    stretches: Sequence[_Stretch], theta: Sequence[Float], rate: float, size: int
) -> tuple[Float, Float, Float, Float]:
    # Frequencies, density of the predicted torque (fits, n, F), of the measured torque (n, F), and the real part of the
    # cross-spectrum (fits, n, F).
    per_stretch = []
    for s in stretches:
        x = np.stack([parameters @ panel for parameters, panel in zip(theta, s.panels, strict=True)], axis=1)
        per_stretch.append((x.shape[-1], pair_density(x, s.tau, rate, size)))
    xx, yy, xy = (sum(count * estimates[i].real for count, estimates in per_stretch) for i in (1, 2, 3))
    return per_stretch[0][1][0], xx, yy, xy


def _shares(frequency: Float, densities: Sequence[Float], centre: float) -> Float:
    # (fits, n + 1): each joint, then all joints together.
    half = max(LEAST_HALF_WIDTH, HALF_WIDTH * centre)
    band = np.abs(frequency - centre) <= half
    xx, yy, xy = (_with_sum(d[..., band].sum(axis=-1)) for d in densities)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(xx * yy > 0, np.abs(xy) * xy / (xx * yy), 0.0)
    return np.asarray(share)


def _with_sum(values: Float) -> Float:
    return np.concatenate([values, values.sum(axis=-1, keepdims=True)], axis=-1)


def _end(frequency: Float, share: Float) -> float:
    follows = np.flatnonzero(share >= HALF)
    return float(frequency[follows[-1]]) if len(follows) else 0.0


# A cutoff frequency from the spectrum of the motion.

SHARE = 0.999  # share of a joint's velocity power below its reach
HIGHEST_MOTION = 20.0  # Hz: no arm moves faster
MARGIN = 10.0  # times the reach, a rule of thumb of Khalil and Dombre 2002
LEAST, GREATEST = 5.0, 25.0  # Hz: limits of the cutoff frequency from the motion
# Multiple of the frequency at which signal equals noise: there, a fourth-order zero-phase filter passes 86 % of the
# amplitude.
ABOVE_SIGNAL = 1.25
LEAST_BY_TORQUE = 3.0  # Hz: friction reverses within a fraction of a second, however slow the motion
# Static friction is unknown, and a low pass spreads it over one period to either side: together a third of a move.
PERIODS_A_MOVE = 6.0
NOTHING_LEFT = 1e-4  # of the torque's power, 1 % of its amplitude: less needs no filter
FLOOR_BAND = (0.25, 0.45)  # of the sampling rate: no arm moves there
FLOOR_FACTOR = 3.0  # times the noise floor, about which spectra scatter


@dataclass(frozen=True, eq=False)
class CutoffEvidence:
    """A chosen cutoff frequency and its evidence.

    Attributes
    ----------
    joint_names : tuple of str
        Names of the joints.
    frequency : ndarray, shape (F,), Hz
        Frequencies of the spectra.
    velocity : ndarray, shape (n, F)
        Spectra of the joint velocities.
    reach : ndarray, shape (n,), Hz
        Frequency below which a joint has 99.9 % of its velocity's power, without noise.
    chosen : float, Hz
        The cutoff frequency.
    reason : str
        The reason in words.
    coherence : TorqueCoherence, optional
        How much of the torque follows the motion; None without torque.

    """

    joint_names: tuple[str, ...]
    frequency: Float
    velocity: Float
    reach: Float
    chosen: float
    reason: str
    coherence: TorqueCoherence | None = None

    def describe(self) -> dict[str, Any]:
        """Plain data for the report."""
        torque = self.coherence
        return {
            "joints": list(self.joint_names),
            "frequency": self.frequency.tolist(),
            "velocity": self.velocity.tolist(),
            "reach": self.reach.tolist(),
            "chosen": self.chosen,
            "reason": self.reason,
            "torque_follows_motion": None
            if torque is None
            else {
                "frequency": torque.frequency.tolist(),
                "share": torque.share.tolist(),
                "together": torque.together.tolist(),
                "ends": torque.ends.tolist(),
                "end": torque.end,
            },
        }


def choose_cutoff(
    positions: Sequence[Float],
    rate: float,
    joint_names: tuple[str, ...],
    coherence: TorqueCoherence | None = None,
    move: float = np.inf,
) -> CutoffEvidence:
    """Choose the cutoff frequency of the parallel filter.

    A joint's reach is the frequency below which 99.9 % of its velocity's power lies, counted up to 20 Hz: no arm moves
    faster, and differentiated position noise would exceed the motion above it. White position noise, measured above a
    quarter of the rate, is subtracted first. The cutoff frequency is ten times the greatest reach, between 5 and 25 Hz
    and below a fifth of the sampling rate.

    It is lowered to 1.25 times the frequency up to which torque follows motion, since both sides are mostly noise
    above. It is not lowered below 3 Hz, nor if the torque has no power above that frequency (a command, or a low-passed
    log). Six periods of the filter must fit into a move: static friction is unknown, and the filter spreads it over one
    period to either side.

    Parameters
    ----------
    rate, joint_names, coherence
        As for `torque_coherence` and `CutoffEvidence`.
    positions : sequence of ndarray, shape (n, T), rad or m
        Uniformly sampled positions.
    move : float, s
        Duration of a move, from one pause to the next.

    References
    ----------
    Khalil and Dombre 2002, section 12.4.2: filter at ten times the frequency of the dynamics.

    """
    longest = max(q.shape[1] for q in positions)
    size = int(min(longest, max(256, 8 * rate)))
    frequency, spectrum = averaged_density([q for q in positions if q.shape[1] >= size], rate, size)
    velocity = _above_floor(frequency, spectrum, rate) * (2 * np.pi * frequency) ** 2
    velocity = np.where(frequency <= HIGHEST_MOTION, velocity, 0.0)
    energy = np.cumsum(velocity, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = energy / energy[:, -1:]
    reach = np.array(
        [frequency[np.searchsorted(row, SHARE)] if np.isfinite(row).all() else 0.0 for row in share]
    )
    greatest = min(GREATEST, 0.2 * rate)
    wanted = MARGIN * float(reach.max())
    chosen = float(np.clip(wanted, LEAST, greatest))
    mover = joint_names[int(np.argmax(reach))]
    reason = f"ten times the {reach.max():.2g} Hz below which '{mover}' has {100 * SHARE:.3g} % of its velocity's power"
    if not np.isclose(chosen, wanted, rtol=0.1):
        reason += f", limited to {LEAST:g} to {greatest:g} Hz"
    if coherence is not None and coherence.end > 0 and coherence.beyond > NOTHING_LEFT:
        least = min(max(LEAST_BY_TORQUE, PERIODS_A_MOVE / move), greatest)
        limit = max(ABOVE_SIGNAL * coherence.end, least)
        if limit < chosen:
            chosen = limit
            reason = f"above {coherence.end:.2g} Hz less than half of the torque follows the motion, the rest is noise"
            if limit == least:
                reason += f"; not below {least:.2g} Hz"
                reason += f" for moves of {move:.2g} s" if least > LEAST_BY_TORQUE else ""
    chosen = float(f"{chosen:.2g}")
    every = max(1, len(frequency) // 400)
    shown = spectrum * (2 * np.pi * frequency) ** 2
    return CutoffEvidence(
        joint_names, frequency[::every], shown[:, ::every], reach, chosen, reason, coherence
    )


def _above_floor(frequency: Float, spectrum: Float, rate: float) -> Float:
    high = (frequency >= FLOOR_BAND[0] * rate) & (frequency <= FLOOR_BAND[1] * rate)
    floor = np.median(spectrum[:, high], axis=1) if high.any() else np.zeros(len(spectrum))
    return np.where(spectrum > FLOOR_FACTOR * floor[:, None], spectrum - floor[:, None], 0.0)
