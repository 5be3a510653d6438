"""Time and cost of retrieving the Panda's feasible parameters from its published coefficients.

python benchmarks/feasible.py DATA    (the folder that holds panda_gaz/reference.json)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dynid.feasible import Distance, PhysicalBodies, TotalMass, feasible_parameters
from tests.feasible.panda import Panda


def main() -> None:
    """Prints one line a distance."""
    panda = Panda(Path(sys.argv[1]))
    constraints = [PhysicalBodies(1e-6), TotalMass(16.0, 20.0)]
    for distance, strength in (
        (Distance.EUCLIDEAN, 1e-7),
        (Distance.ENTROPIC, 5e-8),
        (Distance.GEODESIC, 5e-8),
    ):
        times = []
        for _ in range(7):
            started = time.perf_counter()
            found = feasible_parameters(
                panda.C, panda.y, panda.columns, constraints, panda.unknown, panda.spread, strength, distance
            )
            times.append(time.perf_counter() - started)
        print(
            f"{distance.value:10s} phi {found.cost:.4e}  first {times[0]:.3f} s  best {min(times):.3f} s  "
            f"least eigenvalue {found.least_eigenvalue.min():.2e}  checks {found.certificate}"
        )


if __name__ == "__main__":
    main()
