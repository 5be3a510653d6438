"""How often diagnoses are wrong, and how small an effect they find, on simulated logs.

    python benchmarks/diagnoses.py [--clean 500] [--seeds 20]

Clean logs carry noise of 1 % of the torque whose neighbouring samples are correlated by 0, 0.9 or 0.98; they last 15 to
60 s. Effects are those of the contract suites, at a quarter, a half and the whole of their size.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser

import numpy as np

from dynid.base import Float
from dynid.diagnosis import diagnose, every_diagnosis
from dynid.testing import DiagnosisContract, TrueMotion, analysis_of, small_arm
from tests.diagnosis import test_contracts

CORRELATIONS, SECONDS, SIZES = (0.0, 0.9, 0.98), (15.0, 30.0, 60.0), (0.25, 0.5, 1.0)


def false_alarms(logs: int) -> Counter[str]:
    """Logs of each diagnosis in which it found something, though there was nothing."""
    alarms: Counter[str] = Counter()
    for seed in range(logs):
        analysis = analysis_of(
            small_arm(),
            seed=1000 + seed,
            correlation=CORRELATIONS[seed % 3],
            seconds=SECONDS[seed // 3 % 3],
            speed=0.5 if seed % 2 else 1.0,
        )
        residual_findings = diagnose(analysis)
        alarms.update({item.code for item in residual_findings})
        alarms["any"] += bool(residual_findings)
    return alarms


def detected(suite: DiagnosisContract, size: float, seeds: int) -> int:
    """Logs of so many in which a suite's effect, scaled, is found."""

    def effect(motion: TrueMotion, rng: np.random.Generator) -> Float:
        return size * suite.effect(motion, rng)

    look = (suite.look(analysis_of(suite.robot(), effect, 500 + s, speed=suite.speed)) for s in range(seeds))
    return sum(map(bool, look))


def main() -> None:
    """Prints both tables."""
    chosen = parser(__doc__, clean=500, seeds=20).parse_args()
    alarms = false_alarms(chosen.clean)
    print(f"{chosen.clean} clean logs: {alarms['any']} with a false alarm of any kind")
    for diagnosis in every_diagnosis():
        print(f"  {diagnosis.identifier:<20}{alarms[diagnosis.identifier]:>5}")
    print(f"{'found of ' + str(chosen.seeds):<28}" + "".join(f"{f'size {size}':>12}" for size in SIZES))
    for name, suite in sorted(vars(test_contracts).items()):
        if isinstance(suite, type) and DiagnosisContract in suite.__mro__[1:]:
            counts = [detected(suite(), size, chosen.seeds) for size in SIZES]
            print(f"{name:<28}" + "".join(f"{count:>12}" for count in counts))


if __name__ == "__main__":
    main()
