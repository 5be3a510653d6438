"""Residual that is periodic in position: teeth, wave generators, cogging."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.diagnosis.effect_tests import columns_of
from dynid.diagnosis.finding import Curve, ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import counts, figures, level, unit
from dynid.terms.position_waves import HARMONICS
from dynid.terms.residual_tests import LEAST_SHARE
from dynid.terms.torque_delay import LATE_TORQUE

# A wave whose frequency, while the joint passes, exceeds this share of the bandwidth has been filtered away.
WITHIN = 0.7
LEAST_TIME = 0.3
MOST_WAVES = 250
NEAR = 0.03
# Of a joint's top speed, below which nothing moves.
STANDS = 1e-9
# Share of the residual that a wave has to explain on top of a delay.
LEAST = 0.5 * LEAST_SHARE


@dataclass(frozen=True)
class GearRipple:
    """Scans waves in position, as many a turn as the filter lets through, and tests the strongest."""

    identifier: str = "gear-ripple"
    looks_at: str = "residual that is periodic in position"

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
        """At most one finding a joint."""
        found = []
        for joint in analysis.joints:
            waves = wave_numbers(analysis, joint)
            if not len(waves):
                continue
            shares = np.concatenate(
                [
                    analysis.shares(joint, np.stack([_pair(analysis, joint, k) for k in part], axis=1))
                    for part in np.array_split(waves, -(-len(waves) // 50))
                ]
            )
            best = float(waves[int(np.argmax(shares))])
            effect = analysis.test_joint(joint, _pair(analysis, joint, best))
            # Late torque repeats with the motion and so looks like a wave as well, if a poor one.
            late = columns_of(LATE_TORQUE, analysis.remains, joint)
            if effect is None or analysis.partial_share(joint, _pair(analysis, joint, best), late) < LEAST:
                continue
            # Waves that differ by less than a period over the whole range are one and the same.
            tried = max(
                1.0, (waves[-1] - waves[0]) * float(np.ptp(analysis.motion.q[:, joint])) / (2 * np.pi)
            )
            p_value = min(effect.p_value * 2.0 * tried * len(analysis.joints), 1.0)
            share = float(effect.share[joint])
            if counts(share, p_value):
                size = float(np.hypot(*effect.coefficient))
                found.append(self._finding(analysis, joint, best, size, share, p_value, waves, shares))
        return found

    def _finding(
        self,
        analysis: ResidualAnalysis,
        joint: int,
        wave: float,
        size: float,
        share: float,
        p_value: float,
        waves: Float,
        shares: Float,
    ) -> ResidualFinding:
        name = analysis.robot.joint_names[joint]
        slides = analysis.robot.prismatic[joint]
        where = (
            f"every {1e3 * 2 * np.pi / wave:.4g} mm" if slides else f"{wave:.4g} times a turn of the joint"
        )
        cause = _cause(wave, abs(float(analysis.robot.drive.gear_ratio[joint])), slides)
        return ResidualFinding(
            self.identifier,
            level(analysis, joint, share),
            name,
            f"{name}: torque ripple of the gear",
            f"A wave of {size:.3g} {unit(analysis, joint)} {where}{cause} explains "
            f"{figures(analysis, joint, share, p_value)}.",
            "It averages out in the parameters over fast motion. Lower the cut-off, move faster, or give it as a "
            "function of position (position_friction, channel) if the torque at low speed matters.",
            share,
            p_value,
            curve=Curve(
                "waves a metre" if slides else "waves a turn",
                "share of the residual",
                waves / (2 * np.pi) if slides else waves,
                shares,
                np.zeros(0),
            ),
        )


def wave_numbers(analysis: ResidualAnalysis, joint: int) -> Float:
    """Wave numbers k, rad of wave a rad (m) of position, that the motion and the filter can show; () = none."""
    q, dq = analysis.motion.q[:, joint], np.abs(analysis.motion.dq[:, joint])
    reach = float(np.ptp(q))
    moves = dq if analysis.counted is None else dq[analysis.counted[:, joint]]
    if not len(moves):
        return np.zeros(0)
    slow = np.quantile(moves, LEAST_TIME)
    # A joint that stands for nearly all of the time keeps what a filter leaves of its motion.
    if reach <= 0 or slow <= STANDS * dq.max():
        return np.zeros(0)
    # Four waves within the range at least, else a slow function of position says the same.
    lowest = max(8 * np.pi / reach, 0.0 if analysis.robot.prismatic[joint] else HARMONICS + 1.0)
    highest = WITHIN * 2 * np.pi * analysis.bandwidth / slow
    count = int(np.clip((highest - lowest) * reach / np.pi, 0, MOST_WAVES))
    if count < 2:
        return np.zeros(0)
    return np.asarray(lowest + np.arange(count) * np.pi / reach)


def _pair(analysis: ResidualAnalysis, joint: int, wave: float) -> Float:
    q, dq = analysis.motion.q[:, joint], np.abs(analysis.motion.dq[:, joint])
    passes = wave * dq < WITHIN * 2 * np.pi * analysis.bandwidth
    return np.stack([np.sin(wave * q), np.cos(wave * q)], axis=1) * passes[:, None]


def _cause(wave: float, ratio: float, slides: bool) -> str:
    if slides or ratio <= 1:
        return ""
    for times, words in ((1, "once a turn of the motor"), (2, "twice a turn of the motor, as wave gears do")):
        if abs(wave / (times * ratio) - 1.0) < NEAR:
            return f" ({words})"
    return ""
