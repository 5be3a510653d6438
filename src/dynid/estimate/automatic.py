"""DIDIM where a log and its model can be simulated, weighted least squares where they cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dynid.errors import SolverError, UsageError
from dynid.estimate.didim import DIDIM
from dynid.estimate.estimator import Estimate, Regression, Status, require_enough
from dynid.estimate.least_squares import WLS
from dynid.estimate.uncertainty import Intervals, check_intervals


@dataclass(frozen=True)
class Automatic:
    """The method that loses least over noise and filters: DIDIM if it converges, else weighted least squares.

    In benchmarks/estimators.py DIDIM is best whatever the filters and the noise; but it needs a model that can
    be simulated, and without masses in the description a log of weak excitation often has none.
    bandwidth: see `DIDIM`.    The status says which of the two it is, and why.
    """

    bandwidth: float | None = None
    intervals: str = Intervals.JACKKNIFE.value
    name: str = "auto"

    def __post_init__(self) -> None:
        check_intervals(self.intervals)

    def fit(self, regression: Regression) -> Estimate:
        """Tries the one, then the other."""
        require_enough(regression)
        try:
            found = DIDIM(bandwidth=self.bandwidth, intervals=self.intervals).fit(regression)
        except (SolverError, UsageError) as error:
            return self._plain(regression, error.found)
        if not found.status.ok:
            return self._plain(regression, found.status.text)
        return replace(found, method=self.name, status=Status(True, f"didim, {found.status.text}"))

    def _plain(self, regression: Regression, why: str) -> Estimate:
        found = WLS(intervals=self.intervals).fit(regression)
        text = f"wls, {found.status.text}; not didim: {why}"
        return replace(found, method=self.name, status=Status(found.status.ok, text))
