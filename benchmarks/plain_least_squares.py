"""Plain least squares of dynid-bench, for the other benchmarks: its adapter is the only copy."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench" / "src"))

from dynid_bench.adapters.least_squares import Arm, equations, fit, regressor
from dynid_bench.protocol import Motion

__all__ = ["Arm", "Motion", "equations", "fit", "regressor"]
