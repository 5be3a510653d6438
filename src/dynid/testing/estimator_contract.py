"""What every estimator must do, as suites to inherit from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from dynid.errors import DynidError, UnfitDataError
from dynid.estimate.estimator import Estimate, Estimator, Regression
from dynid.testing.builders import Synthetic, synthetic_regression
from dynid.testing.motion import measured_regression

_FITTED: dict[type, dict[int, tuple[Synthetic, Estimate]]] = {}


class EstimatorContract(ABC):
    """Laws of every estimator.

    Hooks: `estimator` (required); `biased`, whether it is drawn away from the truth on purpose; `precision`, how near
    the truth it comes where there is next to no noise; `draws` of the law about intervals; `case`, what it is tried on.
    """

    biased: bool = False
    precision: float = 1e-6
    draws: int = 20

    @abstractmethod
    def estimator(self) -> Estimator:
        """The estimator under test."""

    def case(self, seed: int, quiet: bool = False) -> Synthetic:
        """A regression whose truth is known; quiet: with noise of a billionth."""
        return synthetic_regression(seed, noise=(1e-9, 1e-9) if quiet else (0.3, 0.03))

    def fitted(self, seed: int) -> tuple[Synthetic, Estimate]:
        """A case and its estimate, fitted once for all laws of a suite."""
        known = _FITTED.setdefault(type(self), {})
        if seed not in known:
            case = self.case(seed)
            known[seed] = case, self.estimator().fit(case.regression)
        return known[seed]

    def test_without_noise_the_truth_comes_back(self) -> None:
        """Noise of a billionth of the torque moves an unbiased estimate by no more than its precision."""
        case = self.case(1, quiet=True)
        found = self.estimator().fit(case.regression)
        if not self.biased:
            size = np.maximum(np.abs(case.beta), case.size)
            np.testing.assert_array_less(np.abs(found.value - case.beta) / size, 2 * self.precision)

    def test_estimate_is_complete(self) -> None:
        """Shapes, signs and names of everything in the result; a status in words."""
        case, found = self.fitted(2)
        b = case.regression.base.rank
        _law(found.method == self.estimator().name, f"method '{found.method}'")
        _law(found.value.shape == (b,), f"value of shape {found.value.shape}")
        _law(found.group_names == case.regression.factors.group_names, "other groups")
        _law(found.count == case.regression.factors.count, f"count {found.count}")
        for name in ("value", "covariance", "textbook_covariance", "sigma", "weights", "parameters"):
            _law(bool(np.isfinite(getattr(found, name)).all()), f"{name} with nan or inf")
        for name in ("covariance", "textbook_covariance"):
            matrix = getattr(found, name)
            np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max())
            least = np.linalg.eigvalsh(matrix)[0]
            _law(least >= -1e-9 * np.abs(matrix).max(), f"{name} has eigenvalue {least:.3g}")
        _law(bool((found.sigma > 0).all() and (found.weights > 0).all()), "sigma and weights must be > 0")
        _law(found.degrees_of_freedom > 0, f"{found.degrees_of_freedom} degrees of freedom")
        _law(found.status.ok, f"not converged: {found.status.text}")
        _law(bool(found.status.text), "a status needs a text")

    def test_full_parameters_have_these_base_parameters(self) -> None:
        """B parameters = value: the full vector is one with the same torque."""
        case, found = self.fitted(0)
        reduced = case.regression.base.reduce(found.parameters)
        np.testing.assert_allclose(reduced, found.value, rtol=1e-8, atol=1e-9 * np.abs(found.value).max())

    def test_blocks_share_the_information(self) -> None:
        """Leverages are non-negative, one a block, and add up to at most one (a prior may hold the rest)."""
        case, found = self.fitted(1)
        share = found.block_leverage
        _law(share.shape == (len(case.regression.factors.blocks),), f"leverage of shape {share.shape}")
        _law(bool((share >= 0).all()) and share.sum() <= 1 + 1e-9, f"leverages add up to {share.sum()}")

    def test_intervals_hold_the_truth(self) -> None:
        """Over the draws, at least 85 % of the 95 % intervals hold the truth."""
        inside: list[bool] = []
        for seed in range(self.draws):
            case, found = self.fitted(seed)
            inside += (np.abs(found.value - case.beta) <= found.half_width()).tolist()
        share = float(np.mean(inside))
        _law(share >= 0.85, f"only {100 * share:.0f} % of the intervals hold the truth")

    def test_same_data_same_bytes(self) -> None:
        """Fitting twice gives the same bytes."""
        again = self.estimator().fit(self.case(1).regression)
        _law(_bytes(self.fitted(1)[1]) == _bytes(again), "two fits of the same data differ")

    def test_too_little_data_is_refused(self) -> None:
        """Fewer equations than two a parameter, or fewer than three blocks, raise UnfitDataError."""
        for count, blocks in ((4, 4), (1200, 2)):
            case = synthetic_regression(6, count=count, blocks=blocks)
            try:
                self.estimator().fit(case.regression)
            except UnfitDataError:
                continue
            raise AssertionError(f"{count} equations a group in {blocks} blocks were taken")


class MotionEstimatorContract(EstimatorContract):
    """Further laws of estimators that need the samples behind the factors, tried on a small robot that moves.

    Hooks: `elastic`, whether the robot's joints are elastic, with two encoders.
    """

    precision = 1e-4
    draws = 3
    elastic: bool = False

    def case(self, seed: int, quiet: bool = False) -> Synthetic:
        """A robot of two joints in motion, its positions and torque measured with noise."""
        return measured_regression(seed, quiet=quiet, elastic=self.elastic)

    def test_factors_alone_are_refused_in_words(self) -> None:
        """Without samples the estimator says so and does not guess."""
        try:
            self.estimator().fit(synthetic_regression(1, with_source=False).regression)
        except DynidError as error:
            _law(error.identifier == "needs-samples", f"refused as {error.identifier}")
            return
        raise AssertionError("a regression of factors alone was taken")

    def test_left_out_blocks_are_not_looked_at(self) -> None:
        """A fit on some blocks does not change when the others' samples do."""
        plain, spoiled = self.case(6), measured_regression(6, elastic=self.elastic, spoiled_from=0.6)
        kept = [
            i for i, block in enumerate(plain.regression.factors.blocks) if block.end < 0.5 * plain.seconds
        ]
        values = [self.estimator().fit(of_blocks(case.regression, kept)).value for case in (plain, spoiled)]
        np.testing.assert_allclose(values[0], values[1], rtol=1e-9, atol=1e-12 * np.abs(values[0]).max())


def of_blocks(regression: Regression, kept: list[int]) -> Regression:
    """The regression on some of its blocks."""
    return replace(regression, factors=regression.factors.subset(kept))


def _law(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


def _bytes(estimate: Estimate) -> list[bytes]:
    names = ("value", "covariance", "textbook_covariance", "sigma", "weights", "parameters", "block_leverage")
    return [getattr(estimate, name).tobytes() for name in names]
