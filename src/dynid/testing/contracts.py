"""Contract tests of terms, row schemes, log readers, constraints and diagnoses: suites to inherit from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import DynidError, UnfitDataError
from dynid.diagnosis.diagnosis import Diagnosis, diagnose
from dynid.diagnosis.finding import finding_from_dict, finding_to_dict
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.feasible.catalogue import CATALOGUE as CONSTRAINTS
from dynid.feasible.catalogue import constraint_from_spec, constraint_to_spec
from dynid.feasible.cones import slack
from dynid.feasible.constraints import Condition, Convex
from dynid.log.log import Table, Text
from dynid.robot.model import RobotModel
from dynid.rows.rows import Rows
from dynid.signals.samples import Samples
from dynid.terms.catalogue import terms_from_spec, terms_to_spec
from dynid.terms.curve import CurveTerm
from dynid.terms.exports import Column, Symbol, Traits
from dynid.terms.forms import channels_of, known_torque, parameter_count, torque_of
from dynid.terms.friction import Offset, Viscous
from dynid.terms.residual_tests import TermWords
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import CATALOGUE, Selection, Term, Terms, joint_indices
from dynid.testing.builders import piece_of, random_robot, smooth_samples
from dynid.testing.lab import TrueMotion, analysis_of, small_arm


class TermContract(ABC):
    """Contract of every term.

    Override `term` (required), `robots` to test on, `channels` that samples contain in addition to those of the term,
    and `torque`, the formula of the term written a second time as an oracle.
    """

    @abstractmethod
    def term(self) -> Term:
        """The term under test."""

    def robots(self) -> tuple[RobotModel, ...]:
        """A chain, a branched tree and a robot with a mimic joint."""
        return random_robot(1, 3, 0.0), random_robot(2, 5, 0.6), random_robot(3, 4, mimic=True)

    def channels(self) -> tuple[str, ...]:
        """Further channels of the samples."""
        return ()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float | None:
        """Torque (T, n) for parameters theta (p,), independent of the term; None = no oracle."""
        return None

    def samples(self, robot: RobotModel) -> Samples:
        """A batch of samples with every channel that the term reads."""
        return smooth_samples(robot, 150, seed=4, channels=channels_of(self.term()) + self.channels())

    def test_columns_describe_the_parameters(self) -> None:
        """Names are unique, indices and bounds are valid, and a second call returns the same."""
        term = self.term()
        for robot in self.robots():
            columns = term.columns(robot)
            _law(columns == term.columns(robot) or _has_nan(columns), "a second call returns other columns")
            count = parameter_count(term, robot)
            _law(count == len(columns), f"parameter_count is {count}, but there are {len(columns)} columns")
            names = [column.name for column in columns]
            _law(len(set(names)) == len(names), f"two parameters share a name: {names}")
            for column in columns:
                owners = max(robot.n, robot.n_bodies)
                _law(column.term == term.name, f"{column.name} has the term '{column.term}'")
                _law(bool(column.name) and bool(column.unit), f"{column} lacks a name or a unit")
                _law(0 <= column.owner < owners, f"{column.name} is owned by {column.owner} of {owners}")
                _law(column.lower < column.upper, f"{column.name} has bounds {column.lower}..{column.upper}")
                _law(
                    set(column.moved_by) <= set(range(robot.n)),
                    f"{column.name} is moved by {column.moved_by}",
                )

    def test_data_say_what_it_is(self) -> None:
        """Traits, words and selection are of their kinds, and symbols are of parameters that it has."""
        term = self.term()
        data = ((term.traits, Traits), (term.words, TermWords), (term.selection, Selection))
        for value, kind in data:
            _law(isinstance(value, kind), f"{kind.__name__} expected, and there is {value!r}")
        _law(
            all(isinstance(symbol, Symbol) and symbol.name for symbol in term.words.symbols),
            f"symbols {term.words.symbols}",
        )

    def test_a_curve_has_a_line_for_each_coefficient(self) -> None:
        """Of a curve alone: (c, T) for a joint and a value of its shapes."""
        term = self.term()
        if not isinstance(term, CurveTerm):
            return
        for robot in self.robots():
            samples = self.samples(robot)
            shape = np.array([shape.typical for shape in term.shapes])
            for joint in joint_indices(robot, term.joints):
                lines = np.shape(term.curve(robot, samples, joint, shape))
                _law(lines == (len(term.coefficients), len(samples)), f"lines of shape {lines}")

    def test_panels_have_the_announced_form(self) -> None:
        """Each joint has ascending column indices of the term, with one finite contiguous line each."""
        for robot in self.robots():
            samples, p = self.samples(robot), len(self.term().columns(robot))
            panels = self.term().torque_regressor(robot, samples, np.ones(p, dtype=np.bool_))
            _law(len(panels.columns) == len(panels.values) == robot.n, "there must be one panel per joint")
            for columns, values in zip(panels.columns, panels.values, strict=True):
                _law(np.issubdtype(columns.dtype, np.integer), f"column indices are {columns.dtype}")
                _law(bool((np.diff(columns) > 0).all()), f"column indices {columns} do not ascend")
                _law(not len(columns) or 0 <= columns[0] <= columns[-1] < p, f"columns {columns} of {p}")
                _law(values.shape == (len(columns), len(samples)), f"lines of shape {values.shape}")
                _law(values.dtype == np.float64, f"lines of {values.dtype}")
                _law(bool(np.isfinite(values).all()), "a line with nan or inf")

    def test_a_mask_leaves_columns_out(self) -> None:
        """A mask returns the same lines without unwanted columns."""
        for robot in self.robots():
            samples, p = self.samples(robot), len(self.term().columns(robot))
            whole = self.term().torque_regressor(robot, samples, np.ones(p, dtype=np.bool_)).dense(p)
            wanted = np.random.default_rng(0).random(p) < 0.5
            part = self.term().torque_regressor(robot, samples, wanted)
            for columns in part.columns:
                _law(bool(wanted[columns].all()), "a column outside the mask was returned")
            np.testing.assert_allclose(part.dense(p), whole * wanted, rtol=1e-12, atol=1e-12)

    def test_samples_do_not_know_each_other(self) -> None:
        """Each sample's line depends on that sample only, since logs are processed in chunks."""
        for robot in self.robots():
            samples, term = self.samples(robot), self.term()
            p = len(term.columns(robot))
            every = np.ones(p, dtype=np.bool_)
            part = slice(37, 101)
            piece = piece_of(samples, part)
            whole = term.torque_regressor(robot, samples, every).dense(p)[part]
            alone = term.torque_regressor(robot, piece, every).dense(p)
            np.testing.assert_allclose(alone, whole, rtol=1e-12, atol=1e-12)
            known, known_alone = known_torque(term, robot, samples), known_torque(term, robot, piece)
            if known is not None and known_alone is not None:
                np.testing.assert_allclose(known_alone, known[part], rtol=1e-12, atol=1e-12)

    def test_torque_is_regressor_times_parameters(self) -> None:
        """torque_of, for which a faster method may be registered, equals the regressor times the parameters."""
        for robot in self.robots():
            samples, p = self.samples(robot), len(self.term().columns(robot))
            theta = np.random.default_rng(2).normal(0, 1, p)
            theta[::3] = 0.0
            Y = self.term().torque_regressor(robot, samples, np.ones(p, dtype=np.bool_)).dense(p)
            wanted, torque = Y @ theta, torque_of(self.term(), robot, samples, theta)
            np.testing.assert_allclose(torque, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())

    def test_known_torque_has_the_form_of_torque(self) -> None:
        """Known torque is None or finite joint torque (T, n)."""
        for robot in self.robots():
            samples = self.samples(robot)
            known = known_torque(self.term(), robot, samples)
            if known is not None:
                _law(known.shape == samples.tau.shape, f"known torque of shape {known.shape}")
                _law(bool(np.isfinite(known).all()), "known torque with nan or inf")

    def test_torque_is_that_of_the_formula(self) -> None:
        """Regressor times parameters plus known torque equals the oracle."""
        for robot in self.robots():
            samples, p = self.samples(robot), len(self.term().columns(robot))
            theta = np.random.default_rng(1).normal(0, 1, p)
            wanted = self.torque(robot, samples, theta)
            if wanted is not None:
                torque = Terms((self.term(),)).torque(robot, samples, theta)
                np.testing.assert_allclose(torque, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())

    def test_channels_are_announced(self) -> None:
        """A term that reads channels declares them, and rejects samples without them."""
        robot = self.robots()[0]
        if not channels_of(self.term()):
            return
        bare = smooth_samples(robot, 20)
        p = len(self.term().columns(robot))
        try:
            self.term().torque_regressor(robot, bare, np.ones(p, dtype=np.bool_))
            known_torque(self.term(), robot, bare)
        except UnfitDataError:
            return
        raise AssertionError("a missing channel raised no UnfitDataError")

    def test_term_is_frozen_and_survives_plain_data(self) -> None:
        """Terms are frozen dataclasses; a registered term is unchanged after conversion to plain data and back."""
        term = self.term()
        _law(is_dataclass(term), "a term must be a dataclass")
        first = fields(term)[0].name
        try:
            setattr(term, first, getattr(term, first))
        except FrozenInstanceError:
            pass
        else:
            raise AssertionError("a term must be frozen")
        if CATALOGUE.get(term.name) is type(term):
            _law(
                terms_from_spec(terms_to_spec(Terms((term,)))) == Terms((term,)),
                "conversion to plain data and back changes the term",
            )


class RowsContract(ABC):
    """Contract of every row scheme.

    Override `rows` (required), `robots`, `terms`, and `tolerance`, the relative residual of the equations, for schemes
    that integrate or differentiate in time.
    """

    tolerance: float = 1e-9

    @abstractmethod
    def rows(self) -> Rows:
        """The row scheme under test."""

    def robots(self) -> tuple[RobotModel, ...]:
        """A chain, a branched tree and a robot with a mimic joint."""
        return random_robot(1, 3, 0.0), random_robot(2, 5, 0.6), random_robot(3, 4, mimic=True)

    def terms(self) -> Terms:
        """Terms whose parameters are estimated."""
        return RigidBody() + Viscous() + Offset()

    def exact(self, robot: RobotModel) -> tuple[Samples, Float]:
        """Samples of a smooth motion with the exact torque of some parameters, and those parameters."""
        motion = smooth_samples(robot, 400, seed=2)
        p = len(self.terms().columns(robot))
        theta = np.random.default_rng(3).normal(0, 1, p)
        return replace(motion, tau=self.terms().torque(robot, motion, theta)), theta

    def test_groups_are_named(self) -> None:
        """The scheme has a name, and at least one group with a unique name."""
        _law(bool(self.rows().name), "a row scheme needs a name")
        for robot in self.robots():
            groups = self.rows().groups(robot)
            _law(len(set(groups)) == len(groups) > 0, f"groups {groups}")

    def test_equations_have_the_announced_form(self) -> None:
        """Each group has ascending columns, with one line each and one for the target, finite and of equal length."""
        for robot in self.robots():
            samples, theta = self.exact(robot)
            equations = self.rows().equations(
                robot, self.terms(), samples, np.ones(len(theta), dtype=np.bool_)
            )
            _law(
                len(equations.columns) == len(self.rows().groups(robot)), "there must be one panel per group"
            )
            for columns, panel in zip(equations.columns, equations.panels, strict=True):
                _law(bool((np.diff(columns) > 0).all()), f"columns {columns} do not ascend")
                _law(not len(columns) or 0 <= columns[0] <= columns[-1] < len(theta), f"columns {columns}")
                _law(panel.shape == (len(columns) + 1, len(samples)), f"panel of shape {panel.shape}")
                _law(bool(np.isfinite(panel).all()), "a panel with nan or inf")

    def test_exact_motion_fulfils_the_equations(self) -> None:
        """With exact torque both sides of the equations are equal."""
        for robot in self.robots():
            samples, theta = self.exact(robot)
            equations = self.rows().equations(
                robot, self.terms(), samples, np.ones(len(theta), dtype=np.bool_)
            )
            for columns, panel in zip(equations.columns, equations.panels, strict=True):
                error = np.abs(panel[:-1].T @ theta[columns] - panel[-1]).max()
                size = np.abs(panel[-1]).max() + np.abs(panel[:-1].T * theta[columns]).max(initial=0.0)
                _law(
                    error <= self.tolerance * size,
                    f"both sides of the equations differ by {error:.3g} of {size:.3g}",
                )

    def test_a_mask_leaves_columns_out(self) -> None:
        """A mask keeps the target and the wanted columns only."""
        for robot in self.robots():
            samples, theta = self.exact(robot)
            wanted = np.random.default_rng(0).random(len(theta)) < 0.5
            whole = self.rows().equations(robot, self.terms(), samples, np.ones(len(theta), dtype=np.bool_))
            part = self.rows().equations(robot, self.terms(), samples, wanted)
            for all_columns, lines, columns, panel in zip(
                whole.columns, whole.panels, part.columns, part.panels, strict=True
            ):
                _law(
                    np.array_equal(columns, all_columns[wanted[all_columns]]),
                    "the columns are not those of the mask",
                )
                kept = lines[np.append(wanted[all_columns], True)]
                np.testing.assert_allclose(panel, kept, rtol=1e-12, atol=1e-12)


class LogReaderContract(ABC):
    """Contract of every log reader.

    Override `write`, `can_read` and `open` (required), `suffix` of the files, and `text`, whether the format contains
    columns of text.
    """

    suffix: str = ".log"
    text: bool = True

    @abstractmethod
    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        """Write a file of this format without the help of the reader; nan is a missing number."""

    @abstractmethod
    def can_read(self, path: Path) -> bool:
        """Whether the reader accepts the file."""

    @abstractmethod
    def open(self, path: Path) -> Table:
        """Open the file with the reader."""

    def columns(self) -> dict[str, Float | Sequence[str]]:
        """Data to write: 1003 rows with numbers of all sizes, missing numbers, and names."""
        rng = np.random.default_rng(0)
        t = np.arange(1003) / 250.0
        q = rng.normal(0, 1, 1003) * 10.0 ** rng.integers(-12, 12, 1003)
        q[[0, 17, 1002]] = np.nan
        columns: dict[str, Float | Sequence[str]] = {"t": t, "q one": q, "tau": -q[::-1]}
        if self.text:
            columns["traj"] = ["first"] * 400 + ["second, with comma"] * 603
        return columns

    def test_own_files_are_taken_and_others_not(self, tmp_path: Path) -> None:
        """The reader recognises its files by their first bytes."""
        self.write(tmp_path / f"own{self.suffix}", self.columns())
        _law(self.can_read(tmp_path / f"own{self.suffix}"), "the reader rejects its own file")
        other = tmp_path / f"other{self.suffix}"
        other.write_bytes(bytes(range(256)) * 8)
        _law(not self.can_read(other), "the reader accepts a file of random bytes")

    def test_columns_and_rows_are_known(self, tmp_path: Path) -> None:
        """Column names are in order; the number of rows is right or None."""
        table = self._table(tmp_path)
        _law(table.column_names == tuple(self.columns()), f"columns {table.column_names}")
        _law(table.row_count in (None, 1003), f"{table.row_count} rows")

    def test_every_number_comes_back(self, tmp_path: Path) -> None:
        """Numbers are read bit by bit, in batches of any size, repeatedly."""
        table = self._table(tmp_path)
        for rows in (97, 1003, 100000):
            for _ in range(2):
                columns = self._read(table, ("t", "q one", "tau"), rows)
                for name, values in columns.items():
                    np.testing.assert_array_equal(values, self.columns()[name])

    def test_batches_keep_their_size_and_columns(self, tmp_path: Path) -> None:
        """A batch has 1 to `rows` rows and the requested columns only."""
        for batch in self._table(tmp_path).batches(("tau", "t"), 100):
            lengths = {len(values.codes if isinstance(values, Text) else values) for values in batch.values()}
            _law(set(batch) == {"tau", "t"}, f"columns {sorted(batch)}")
            _law(len(lengths) == 1 and 0 < lengths.pop() <= 100, "a batch of unequal or wrong length")

    def test_a_range_of_rows(self, tmp_path: Path) -> None:
        """Start and stop are row numbers; an empty range returns nothing."""
        table = self._table(tmp_path)
        for start, stop in ((0, 1), (399, 401), (500, None), (1002, 1003), (900, 5000)):
            values = self._read(table, ("q one",), 64, start, stop)["q one"]
            np.testing.assert_array_equal(values, np.asarray(self.columns()["q one"])[start:stop])
        _law(not list(table.batches(("t",), 10, 7, 7)), "an empty range returns rows")
        _law(not list(table.batches(("t",), 10, 1003)), "rows after the end of the file")

    def test_text_is_coded(self, tmp_path: Path) -> None:
        """Text is returned as codes into the names of the batch."""
        if not self.text:
            return
        names: list[str] = []
        for batch in self._table(tmp_path).batches(("traj",), 64):
            column = batch["traj"]
            if not isinstance(column, Text):
                raise AssertionError("a text column was read as numbers")
            names += [column.names[code] for code in column.codes]
        _law(names == list(self.columns()["traj"]), "text was changed by reading")

    def test_damage_is_an_error_of_ours(self, tmp_path: Path) -> None:
        """A truncated file is read in part or raises DynidError, nothing else."""
        self.write(tmp_path / f"whole{self.suffix}", self.columns())
        whole = (tmp_path / f"whole{self.suffix}").read_bytes()
        for share in (0.1, 0.5, 0.9, 0.999):
            cut = tmp_path / f"cut{share}{self.suffix}"
            cut.write_bytes(whole[: int(share * len(whole))])
            try:
                list(self.open(cut).batches(("t", "q one"), 64))
            except DynidError as error:
                _law(str(cut) in str(error), f"the error does not name the file: {error}")

    def _table(self, folder: Path) -> Table:
        path = folder / f"log{self.suffix}"
        self.write(path, self.columns())
        return self.open(path)

    def _read(
        self, table: Table, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> dict[str, Float]:
        parts: dict[str, list[Float]] = {name: [] for name in columns}
        for batch in table.batches(columns, rows, start, stop):
            for name in columns:
                values = batch[name]
                if isinstance(values, Text):
                    raise AssertionError(f"column '{name}' was read as text")
                parts[name].append(values)
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _law(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


def _has_nan(columns: Sequence[Column]) -> bool:
    return any(np.isnan(column.prior) for column in columns)


# Contract of convex constraints.


class ConstraintContract(ABC):
    """Contract of every convex constraint.

    Override `constraint` (required), and `robot` to test on.
    """

    @abstractmethod
    def constraint(self) -> Convex:
        """The constraint under test."""

    def robot(self) -> RobotModel:
        """A chain of three bodies."""
        return random_robot(1, 3, 0.0)

    def test_conditions_have_the_announced_form(self) -> None:
        """Each condition has a name and a finite block with one column per parameter."""
        conditions, p = self._conditions()
        _constraints_law(bool(conditions), "no condition")
        for condition in conditions:
            _constraints_law(
                bool(condition.name),
                "a condition needs a name for the message of a conflict",
            )
            _constraints_law(
                condition.block.matrix.shape == (len(condition.block.offset), p),
                f"a block {condition.block.matrix.shape}",
            )
            _constraints_law(bool(np.isfinite(condition.block.matrix).all()), "a block with nan or inf")

    def test_it_is_convex(self) -> None:
        """Between two parameter vectors the constraint is fulfilled as well as at the worse of them."""
        conditions, p = self._conditions()
        rng = np.random.default_rng(0)
        for condition in conditions:
            for _ in range(20):
                a, b = rng.normal(0, 1, (2, p))
                ends = min(slack(condition.block, a), slack(condition.block, b))
                _constraints_law(
                    slack(condition.block, (a + b) / 2) >= ends - 1e-9, f"'{condition.name}' is not convex"
                )

    def test_it_is_frozen_and_survives_an_experiment(self) -> None:
        """Constraints are frozen dataclasses; a registered one is unchanged after conversion to plain data and back."""
        constraint = self.constraint()
        _constraints_law(is_dataclass(constraint), "a constraint must be a dataclass")
        first = fields(constraint)[0].name  # type: ignore[arg-type]  # it is one
        try:
            setattr(constraint, first, getattr(constraint, first))
        except FrozenInstanceError:
            pass
        else:
            raise AssertionError("a constraint must be frozen")
        if type(constraint) in CONSTRAINTS.values():
            _constraints_law(
                constraint_from_spec(constraint_to_spec(constraint)) == constraint,
                "conversion to plain data and back changes the constraint",
            )

    def _conditions(self) -> tuple[list[Condition], int]:
        columns = RigidBody().columns(self.robot())
        return list(self.constraint().conditions(columns, np.ones(len(columns)))), len(columns)


def _constraints_law(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


# Contract of diagnoses.


class DiagnosisContract(ABC):
    """Contract of every diagnosis.

    Override `diagnosis` and `effect` (required), the torque of the effect it detects, `joint` with the effect ("" =
    none in particular), `robot`, and `speed` of the motion as a share of the limits.
    """

    joint: str = "shoulder"
    speed: float = 1.0
    seeds = (0, 1, 2)

    @abstractmethod
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under test."""

    @abstractmethod
    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        """Torque (T, n) of the effect to detect."""

    def robot(self) -> RobotModel:
        """Robot with the effect."""
        return small_arm()

    def look(self, analysis: ResidualAnalysis) -> tuple[Finding, ...]:
        """Findings of the diagnosis."""
        return diagnose(analysis, (self.diagnosis(),))

    def test_its_effect_is_found_where_it_is(self) -> None:
        """The joint with the effect is found, and no other one."""
        for seed in self.seeds:
            findings = self.look(analysis_of(self.robot(), self.effect, seed, speed=self.speed))
            _diagnoses_law(bool(findings), f"the effect was not detected (seed {seed})")
            names = {finding.joint for finding in findings}
            _diagnoses_law(names == {self.joint}, f"found on {names} instead of '{self.joint}' (seed {seed})")

    def test_clean_logs_are_silent(self) -> None:
        """Noise of any colour gives no finding."""
        for seed in self.seeds:
            for correlation in (0.0, 0.97):
                clean = analysis_of(self.robot(), seed=seed, correlation=correlation, speed=self.speed)
                _diagnoses_law(
                    not self.look(clean),
                    f"a finding without the effect (seed {seed}, correlation {correlation})",
                )

    def test_findings_are_complete(self) -> None:
        """Findings have texts, figures and curves for a reader, and are unchanged after a run folder."""
        diagnosis = self.diagnosis()
        _diagnoses_law(
            bool(diagnosis.identifier) and bool(diagnosis.looks_at),
            "a diagnosis needs an identifier and a description",
        )
        analysis = analysis_of(self.robot(), self.effect, self.seeds[0], speed=self.speed)
        for finding in self.look(analysis):
            _diagnoses_law(finding.code == diagnosis.identifier, f"a finding of '{finding.code}'")
            _diagnoses_law(finding.level in (Level.NOTE, Level.WARNING), f"level '{finding.level}'")
            _diagnoses_law(finding.joint in ("", *analysis.robot.joint_names), f"joint '{finding.joint}'")
            _diagnoses_law(
                all((finding.title, finding.text, finding.advice)), "a finding without title, text or advice"
            )
            share, p_value, curve = finding.evidence.share, finding.evidence.p_value, finding.evidence.curve
            _diagnoses_law(0 <= share <= 1 and 0 <= p_value <= 1, f"{share}, {p_value}")
            _diagnoses_law(
                curve is None or bool(np.isfinite(curve.x).all() and np.isfinite(curve.y).all()), "nan"
            )
            back = finding_to_dict(finding_from_dict(finding_to_dict(finding)))
            _diagnoses_law(
                str(back) == str(finding_to_dict(finding)),
                "conversion to plain data and back changes the finding",
            )
            first = fields(finding)[0].name
            try:
                setattr(finding, first, getattr(finding, first))
            except FrozenInstanceError:
                continue
            raise AssertionError("a finding must be frozen")

    def test_little_data_are_no_finding(self) -> None:
        """Few samples, none at all, an exact fit and joints at rest give no finding."""
        analysis = analysis_of(self.robot(), self.effect, 0, speed=self.speed)
        r = analysis.residuals
        for count in (0, 1, 2, 30):
            arrays: dict[str, Any] = {
                name: value[:count] for name, value in vars(r).items() if isinstance(value, np.ndarray)
            }
            _diagnoses_law(
                not self.look(replace(analysis, residuals=replace(r, **arrays))), f"{count} samples"
            )
        _diagnoses_law(
            not self.look(replace(analysis, residuals=replace(r, predicted=r.measured))),
            "a finding for an exact fit",
        )
        still = replace(r, q=np.zeros_like(r.q), dq=np.zeros_like(r.dq))
        _diagnoses_law(not self.look(replace(analysis, residuals=still)), "a finding for a robot at rest")


def _diagnoses_law(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
