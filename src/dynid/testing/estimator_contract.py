"""Contract tests of estimators: suites to inherit from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import DynidError, UnfitDataError, UsageError
from dynid.estimate.estimator import Estimate, Estimator, Regression, full_verdicts
from dynid.estimate.source import LogSource
from dynid.factor.base import BaseMap, Category
from dynid.signals.samples import Samples
from dynid.testing.builders import DenseSource, Synthetic, factors_of, synthetic_regression
from dynid.testing.motion import measured_regression

# Equivalent regressions: in other units, in another order, on other threads.


def in_other_order(case: Synthetic) -> tuple[Regression, Regression]:
    """The same data in two orders: blocks reversed, or the two halves of a motion exchanged as segments."""
    regression = case.regression
    source = regression.source
    if not isinstance(source, LogSource):
        factors = regression.factors
        return regression, replace(
            regression, factors=replace(factors, blocks=tuple(reversed(factors.blocks)))
        )
    (whole,) = source.batches
    middle = len(whole) // 2
    halves = whole.part(0, middle), replace(whole.part(middle, len(whole)), segment=1)
    ordered, reordered = (_of_batches(regression, source, batches) for batches in (halves, halves[::-1]))
    return ordered, reordered


def in_other_units(case: Synthetic) -> tuple[Regression, Float]:
    """The same data in other units, and the factor of each base parameter, (b,).

    With factors only, every parameter has its own unit; with motion, torque, masses and inertias are in thousandths.
    """
    regression = case.regression
    source = regression.source
    p = len(regression.columns)
    if isinstance(source, LogSource):
        size = np.full(p, 1000.0)
        batches = [replace(samples, tau=1000.0 * samples.tau) for samples in source.batches]
        if (servo := source.robot.drive.servo) is not None:
            stiffer = replace(servo, kp=1000.0 * servo.kp, kd=1000.0 * servo.kd)
            robot = source.robot.with_servo(stiffer)
            source = replace(source, assembly=replace(source.assembly, robot=robot))
        if (commands := source.commands) is not None:
            source = replace(
                source, commands=lambda name: replace(commands(name), tau_ff=1000.0 * commands(name).tau_ff)
            )
        moved = _of_batches(regression, source, batches)
        return replace(_scaled(moved, size), base=regression.base), size[regression.base.independent]
    size = np.asarray(10.0 ** np.random.default_rng(0).integers(-4, 5, p), dtype=np.float64)
    factors_of_base = size[regression.base.independent]
    X = [dense / factors_of_base for dense in case.X]
    groups = [factor.columns for factor in regression.factors.total]
    factors = factors_of(X, case.y, groups, p, len(regression.factors.blocks))
    base = regression.base
    scaled = BaseMap(
        base.names,
        base.independent,
        factors_of_base[:, None] * base.B / size,
        base.singular_values,
        base.gap,
        base.scale / size,
    )
    again = None if source is None else DenseSource(tuple(groups), tuple(X), case.y)
    return replace(_scaled(regression, size), base=scaled, factors=factors, source=again), factors_of_base


def on_threads(regression: Regression, threads: int) -> Regression:
    """The same regression with a source that uses several threads."""
    if not isinstance(regression.source, LogSource):
        return regression
    return replace(regression, source=replace(regression.source, threads=threads))


def _scaled(regression: Regression, size: Float) -> Regression:
    columns = tuple(
        replace(c, prior=c.prior * s, lower=c.lower * s, upper=c.upper * s)
        for c, s in zip(regression.columns, size.tolist(), strict=True)
    )
    guessed = None if regression.guessed is None else regression.guessed * size
    return replace(regression, columns=columns, spread=regression.spread * size, guessed=guessed)


def _of_batches(
    regression: Regression, source: LogSource, batches: tuple[Samples, ...] | list[Samples]
) -> Regression:
    factors = source.assembly.factors(batches).select(regression.base.mask)
    return replace(regression, factors=factors, source=source.with_batches(batches))


_FITTED: dict[type, dict[int, tuple[Synthetic, Estimate]]] = {}
# Common options with a value that must be rejected.
_NONSENSE: Mapping[str, Sequence[Any]] = {
    "rounds": (0,),
    "tolerance": (0.0,),
    "intervals": ("wishful",),
    "strength": (-1.0,),
    "margin": (0.0,),
    "bandwidth": (-1.0,),
    "horizon": (0.0,),
    "width": (0.0,),
    "bound": (-1.0,),
    "tuning": (0.0,),
    "loss": ("square",),
}
# A bad status contains one of these words: another option value, method or data.
_ADVICE = ("raise", "lower", "use '", "give", "record", "begin")


class EstimatorContract(ABC):
    """Contract of every estimator.

    Override `estimator` (required); `biased`, whether it is biased on purpose; `precision`, its distance from the truth
    almost without noise; `draws` of the test of intervals; `case` and `long_case`, the data; `unfinished`, the
    estimator stopped before it converges; `wrong_options`, further options that it must reject; `invariance`, standard
    deviations by which rounding and order may move a value.
    """

    biased: bool = False
    precision: float = 1e-6
    draws: int = 20
    invariance: float = 1e-3

    @abstractmethod
    def estimator(self) -> Estimator:
        """The estimator under test."""

    def case(self, seed: int, quiet: bool = False) -> Synthetic:
        """Regression with known truth; quiet: with relative noise of 1e-9."""
        return synthetic_regression(seed, noise=(1e-9, 1e-9) if quiet else (0.3, 0.03))

    def long_case(self, seed: int) -> Synthetic:
        """Case with several times the data, in as many blocks."""
        return synthetic_regression(seed, count=6000)

    def unfinished(self) -> Estimator | None:
        """Estimator with too few rounds to converge; None = it does not iterate."""
        return None

    def wrong_options(self) -> Sequence[Mapping[str, Any]]:
        """Options that must raise UsageError."""
        return ()

    def fitted(self, seed: int) -> tuple[Synthetic, Estimate]:
        """A case and its estimate, fitted once for all tests of a suite."""
        known = _FITTED.setdefault(type(self), {})
        if seed not in known:
            case = self.case(seed)
            known[seed] = case, self.estimator().fit(case.regression)
        return known[seed]

    def test_without_noise_the_truth_comes_back(self) -> None:
        """With noise of 1e-9 of the torque, an unbiased estimate equals the truth within its precision."""
        case = self.case(1, quiet=True)
        estimate = self.estimator().fit(case.regression)
        if not self.biased:
            size = np.maximum(np.abs(case.beta), case.size)
            np.testing.assert_array_less(np.abs(estimate.value - case.beta) / size, 2 * self.precision)

    def test_estimate_is_complete(self) -> None:
        """The result has the right shapes, signs and names, and a status in words."""
        case, estimate = self.fitted(2)
        b = case.regression.base.rank
        _law(estimate.method == self.estimator().name, f"method '{estimate.method}'")
        _law(estimate.value.shape == (b,), f"value of shape {estimate.value.shape}")
        _law(estimate.group_names == case.regression.factors.group_names, "other groups")
        _law(estimate.count == case.regression.factors.count, f"count {estimate.count}")
        for name in ("value", "covariance", "textbook_covariance", "sigma", "weights", "parameters"):
            _law(bool(np.isfinite(getattr(estimate, name)).all()), f"{name} with nan or inf")
        for name in ("covariance", "textbook_covariance"):
            matrix = getattr(estimate, name)
            np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max())
            least = np.linalg.eigvalsh(matrix)[0]
            _law(least >= -1e-9 * np.abs(matrix).max(), f"{name} has eigenvalue {least:.3g}")
        _law(
            bool((estimate.sigma > 0).all() and (estimate.weights > 0).all()), "sigma and weights must be > 0"
        )
        _law(estimate.degrees_of_freedom > 0, f"{estimate.degrees_of_freedom} degrees of freedom")
        _law(estimate.status.ok, f"not converged: {estimate.status.text}")
        _law(bool(estimate.status.text), "a status needs a text")

    def test_full_parameters_have_these_base_parameters(self) -> None:
        """The full parameters have the estimated base parameters, B parameters = value."""
        case, estimate = self.fitted(0)
        reduced = case.regression.base.reduce(estimate.parameters)
        np.testing.assert_allclose(
            reduced, estimate.value, rtol=1e-8, atol=1e-9 * np.abs(estimate.value).max()
        )

    def test_blocks_share_the_information(self) -> None:
        """Leverages are not negative, one per block, and add up to at most one (a prior may have the rest)."""
        case, estimate = self.fitted(1)
        share = estimate.block_leverage
        _law(share.shape == (len(case.regression.factors.blocks),), f"leverage of shape {share.shape}")
        _law(bool((share >= 0).all()) and share.sum() <= 1 + 1e-9, f"leverages add up to {share.sum()}")

    def test_intervals_hold_the_truth(self) -> None:
        """Over the draws, at least 85 % of the 95 % intervals contain the truth."""
        inside: list[bool] = []
        for seed in range(self.draws):
            case, estimate = self.fitted(seed)
            inside += (np.abs(estimate.value - case.beta) <= estimate.half_width()).tolist()
        share = float(np.mean(inside))
        _law(share >= 0.85, f"only {100 * share:.0f} % of the intervals contain the truth")

    def test_same_data_same_bytes(self) -> None:
        """Fitting twice gives the same bytes."""
        again = self.estimator().fit(self.case(1).regression)
        _law(_bytes(self.fitted(1)[1]) == _bytes(again), "two fits of the same data differ")

    def test_too_little_data_is_refused(self) -> None:
        """Fewer than two equations per parameter, or fewer than three blocks, raise UnfitDataError."""
        for count, blocks in ((4, 4), (1200, 2)):
            case = synthetic_regression(6, count=count, blocks=blocks)
            try:
                self.estimator().fit(case.regression)
            except UnfitDataError:
                continue
            raise AssertionError(f"{count} equations per group in {blocks} blocks raised no UnfitDataError")

    def test_order_of_segments_does_not_matter(self) -> None:
        """Another order of the segments gives the same values and deviations."""
        ordered, reordered = (self.estimator().fit(regression) for regression in in_other_order(self.case(2)))
        self._alike(ordered, reordered, 1.0)

    def test_units_do_not_matter(self) -> None:
        """Other units give the same values in those units."""
        case, estimate = self.fitted(3)
        regression, size = in_other_units(case)
        self._alike(estimate, self.estimator().fit(regression), size)

    def test_intervals_shrink_with_data(self) -> None:
        """Several times the data give smaller deviations in the median."""
        more = self.estimator().fit(self.long_case(0).regression)
        ratio = float(np.median(more.std / self.fitted(0)[1].std))
        _law(ratio < 0.9, f"deviations are {ratio:.2f} times as large with several times the data")

    def test_no_deviation_without_information(self) -> None:
        """Only a parameter that the data determine on its own has a standard deviation."""
        case, estimate = self.fitted(0)
        verdicts = full_verdicts(estimate, case.regression.factors)
        for verdict, category in zip(verdicts, estimate.base.categories(), strict=True):
            alone = category is Category.IDENTIFIABLE
            _law(
                np.isfinite(verdict.std) == alone,
                f"deviation {verdict.std} of a parameter that is {category}",
            )

    def test_a_fit_that_does_not_converge_says_what_to_try(self) -> None:
        """A fit that was stopped too early is not ok, and its status says what to do."""
        stopped = self.unfinished()
        if stopped is None:
            return
        status = stopped.fit(self.case(4).regression).status
        _law(not status.ok, f"the status of an unfinished fit is ok: {status.text}")
        _law(any(word in status.text for word in _ADVICE), f"no advice in: {status.text}")

    def test_bad_options_are_refused(self) -> None:
        """Invalid options raise UsageError that says what was found and expected."""
        estimator: Any = self.estimator()
        known = {field.name for field in fields(estimator)} if is_dataclass(estimator) else set()
        tried = [{name: value} for name in known for value in _NONSENSE.get(name, ())]
        for options in (*tried, *self.wrong_options()):
            try:
                replace(estimator, **options)
            except UsageError as error:
                _law(bool(error.found and error.expected), f"{options} rejected without found and expected")
                continue
            raise AssertionError(f"{options} raised no UsageError")

    def _alike(self, reference: Estimate, other: Estimate, size: Any) -> None:
        away = np.abs(other.value / size - reference.value) / reference.std
        _law(float(away.max()) <= self.invariance, f"values moved by {away.max():.2g} standard deviations")
        ratio = other.std / size / reference.std
        _law(float(np.abs(ratio - 1).max()) <= 10 * self.invariance, f"deviations changed by {ratio}")


class MotionEstimatorContract(EstimatorContract):
    """Further contract of estimators that need the samples behind the factors, on a small robot in motion.

    Override `elastic`, whether the joints are elastic with two encoders, and `seconds` of motion.
    """

    precision = 1e-4
    draws = 3
    invariance = 1e-2
    elastic: bool = False
    seconds: float = 10.0

    def case(self, seed: int, quiet: bool = False) -> Synthetic:
        """Robot with two joints in motion, with noise on positions and torque."""
        return measured_regression(seed, quiet=quiet, elastic=self.elastic, seconds=self.seconds)

    def long_case(self, seed: int) -> Synthetic:
        """The same for twice the time."""
        return measured_regression(seed, elastic=self.elastic, seconds=2.0 * self.seconds)

    def test_threads_do_not_matter(self) -> None:
        """One thread and several give the same bytes."""
        case, estimate = self.fitted(1)
        again = self.estimator().fit(on_threads(case.regression, 3))
        _law(_bytes(estimate) == _bytes(again), "the result depends on the number of threads")

    def test_factors_alone_are_refused_in_words(self) -> None:
        """Without samples the estimator raises `needs-samples`."""
        try:
            self.estimator().fit(synthetic_regression(1, with_source=False).regression)
        except DynidError as error:
            _law(error.identifier == "needs-samples", f"rejected with {error.identifier}")
            return
        raise AssertionError("a regression without samples raised no error")

    def test_left_out_blocks_are_not_looked_at(self) -> None:
        """A fit on some blocks does not depend on the samples of the others."""
        plain, spoiled = (
            self.case(6),
            measured_regression(
                6, elastic=self.elastic, seconds=self.seconds, spoiled_from=0.5 + 1.0 / self.seconds
            ),
        )
        kept = [
            i for i, block in enumerate(plain.regression.factors.blocks) if block.end < 0.5 * plain.seconds
        ]
        same_spread = replace(spoiled.regression, spread=plain.regression.spread)
        reference, other = (
            self.estimator().fit(of_blocks(one_of, kept)) for one_of in (plain.regression, same_spread)
        )
        away = float(np.max(np.abs(reference.value - other.value) / reference.std))
        _law(away < 1e-6, f"held-out samples move the estimate by {away:.2g} standard deviations")


def of_blocks(regression: Regression, kept: list[int]) -> Regression:
    """Regression on some of its blocks."""
    return replace(regression, factors=regression.factors.subset(kept))


def _law(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


def _bytes(estimate: Estimate) -> list[bytes]:
    names = ("value", "covariance", "textbook_covariance", "sigma", "weights", "parameters", "block_leverage")
    return [getattr(estimate, name).tobytes() for name in names]
