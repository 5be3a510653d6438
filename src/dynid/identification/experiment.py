"""experiment.toml: everything that an identification needs besides a robot and its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dynid.base.checked_toml import Key, Strict, line_of, read_toml, validate
from dynid.base.diagnostics import Claim, Diagnostics, claim_codes
from dynid.base.errors import DynidError, InputError, Place, UsageError
from dynid.base.named_options import meant
from dynid.estimate import CATALOGUE, FeasibleFit
from dynid.feasible.limits import with_hull_of_mesh
from dynid.identification.settings import DEFAULT_TERMS, Settings, default_estimator
from dynid.log.mapping import LogSection, channel_map
from dynid.log.read import Log, read_log
from dynid.log.selection import Selection
from dynid.robot.model import RobotModel
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_from_spec
from dynid.rows.rows import Rows
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import terms_from_spec
from dynid.terms.term import Terms

Positive = Annotated[float, Field(gt=0)]
Auto = Positive | Literal["auto"]
Lines = dict[tuple[Key, ...], int]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class SelectionEntry(Strict):
    """A trajectory (name or glob), whole, or a window in seconds of the log's clock, or a part from 0 to 1."""

    trajectory: str = "*"
    window: tuple[float, float] | None = None
    part: tuple[Share, Share] | None = None


def _everything() -> list[str | SelectionEntry]:
    return ["*"]


class DataSection(Strict):
    """[data]: which trajectories to fit, and which to hold out."""

    train: list[str | SelectionEntry] = Field(default_factory=_everything)
    validate_on: list[str | SelectionEntry] = Field(default_factory=list, alias="validate")


class PrepareSection(Strict):
    """[prepare]: see dynid.signals.settings.Preparation."""

    cutoff: Auto = "auto"
    order: Annotated[int, Field(ge=1, le=8)] = 4
    state_cutoff: Auto = "auto"
    state_order: Annotated[int, Field(ge=1, le=8)] = 4
    velocity: Literal["auto", "differentiate", "measured"] = "auto"
    rate: Positive | None = None
    decimate: bool = True
    gap: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    shortest: Annotated[float, Field(ge=0)] = 1.0
    trim: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    rest: Annotated[float, Field(ge=0)] = 0.02
    gate: Annotated[float, Field(ge=0)] = 0.0


class StaticsSection(Strict):
    """[statics]: what counts as a static pose."""

    poses: list[str | SelectionEntry] = Field(default_factory=_everything)
    still: Positive = 2e-3
    dwell: Positive = 0.3
    settle: Annotated[float, Field(ge=0)] = 0.2
    away: Positive = 5e-3
    tolerance: Positive = 5e-3


class ModelSection(Strict):
    """[model]: the equations and the terms, by name or as tables with options."""

    rows: str | dict[str, Any] = "auto"
    terms: Annotated[list[str | dict[str, Any]], Field(min_length=1)] | None = None
    automatic: bool | None = None


class LimitEntry(Strict):
    """[[estimate.limits]]: what is known of one body."""

    body: Annotated[int, Field(ge=1)]
    mass: tuple[NotNegative, NotNegative] | None = None
    centre_lower: tuple[float, float, float] | None = None
    centre_upper: tuple[float, float, float] | None = None
    hull: list[tuple[float, float, float]] | None = None
    mesh: str | None = None
    mesh_scale: Positive | None = None
    mesh_xyz: tuple[float, float, float] | None = None
    mesh_rpy: tuple[float, float, float] | None = None
    whole_body: bool | None = None
    ellipsoid_semi_axes: tuple[Positive, Positive, Positive] | None = None
    ellipsoid_centre: tuple[float, float, float] | None = None


class EstimateSection(Strict):
    """[estimate]: the method and its options."""

    method: str | None = None
    strength: Positive | Literal["held-out", "l-curve"] | None = None
    rounds: Annotated[int, Field(ge=1)] | None = None
    tolerance: Positive | None = None
    margin: Positive | None = None
    prior: Literal["euclidean", "entropic", "geodesic"] | None = None
    weights: Literal["joint", "equal"] | None = None
    intervals: Literal["jackknife", "sandwich", "hac", "bootstrap"] | None = None
    total_mass: tuple[NotNegative, NotNegative] | None = None
    limits: list[LimitEntry] | None = None
    loss: Literal["huber", "tukey"] | None = None
    tuning: Positive | None = None
    position_noise: NotNegative | list[NotNegative] | None = None
    bandwidth: Positive | None = None
    kp: NotNegative | list[NotNegative] | None = None
    kd: NotNegative | list[NotNegative] | None = None
    horizon: Positive | None = None
    width: Positive | None = None
    bound: Positive | None = None
    feasible: bool | None = None
    folds: Annotated[int, Field(ge=2)] = 5
    seed: Annotated[int, Field(ge=0)] = 0
    block_seconds: Positive | None = None


_ON_FACTORS = ("ols", "wls", "ridge", "feasible")
# Options of the fit among real bodies around another method.
_OF_BODIES = {"strength", "margin", "prior", "total_mass", "limits"}
_OF_NO_METHOD = {"method", "feasible", "limits", "folds", "seed", "block_seconds"}


class ExperimentFile(Strict):
    """The whole file; every table may be left out."""

    accept: list[Claim] = Field(default_factory=list)
    log: LogSection | None = None
    data: DataSection = DataSection()
    prepare: PrepareSection = PrepareSection()
    model: ModelSection = ModelSection()
    statics: StaticsSection = StaticsSection()
    estimate: EstimateSection = EstimateSection()


@dataclass(frozen=True)
class Experiment:
    """A checked experiment file, or the defaults when there is none."""

    content: ExperimentFile
    raw: Mapping[str, Any]
    file: str
    lines: Lines

    @staticmethod
    def read(path: str | Path | None) -> Experiment:
        """Reads an experiment file; raises InputErrors with the line of everything that is wrong."""
        if path is None:
            return Experiment(ExperimentFile(), {}, "", {})
        data, lines = read_toml(path)
        content = validate(ExperimentFile, data, lines, str(path))
        if any(entry.mesh for entry in content.estimate.limits or ()):
            data = _with_hulls(data, content.estimate.limits or (), Path(path), lines)
            content = validate(ExperimentFile, data, lines, str(path))
        return Experiment(content, data, str(path), lines)

    @staticmethod
    def of_recipe(recipe: Mapping[str, Any]) -> Experiment:
        """The experiment of a stored run; raises InputErrors if the run's recipe is damaged."""
        data = dict(recipe.get("experiment", {}))
        return Experiment(validate(ExperimentFile, data, {}, "run.json"), data, "run.json", {})

    def with_method(self, method: str) -> Experiment:
        """The same experiment with another method of estimation; options that it does not have are left out.

        Raises UsageError for a method that does not exist.
        """
        if method not in CATALOGUE:
            raise UsageError(
                "unknown-method",
                found=f"method '{method}'",
                expected="one of " + ", ".join(CATALOGUE),
                do=meant(method, CATALOGUE),
            )
        kept = _OF_NO_METHOD | {f.name for f in fields(CATALOGUE[method])}
        if self.content.estimate.feasible:
            kept |= _OF_BODIES
        section = {k: v for k, v in dict(self.raw.get("estimate", {})).items() if k in kept and k != "name"}
        raw = dict(self.raw) | {"estimate": section | {"method": method}}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    def with_topics(self, topics: Sequence[str] | None) -> Experiment:
        """The same experiment with these topics of bags under [log]; None or empty = as it is."""
        if not topics:
            return self
        raw = dict(self.raw) | {"log": dict(self.raw.get("log", {})) | {"topic": list(topics)}}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    def with_accepted(self, codes: Sequence[str] | None) -> Experiment:
        """The same experiment with further claims accepted; raises UsageError for a code that no claim has."""
        if not codes:
            return self
        accept = list(claim_codes((*self.content.accept, *codes)))
        raw = dict(self.raw) | {"accept": accept}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    @property
    def data(self) -> DataSection:
        """Which trajectories serve for what."""
        return self.content.data

    def settings(self) -> Settings:
        """Settings of the identification; raises InputError with the line of a wrong option."""
        e = self.content.estimate
        return Settings(
            terms=self.terms(),
            rows=self.rows(),
            estimator=self._estimator(),
            preparation=Preparation(**self.content.prepare.model_dump()),
            folds=e.folds,
            seed=e.seed,
            block_seconds=e.block_seconds,
            automatic=self.automatic,
            accept=tuple(self.content.accept),
        )

    @property
    def automatic(self) -> bool:
        """Whether the model is chosen by the data: where no terms are given, unless the file says otherwise.

        Methods that simulate the robot at every step are not asked for dozens of models unless told so.
        """
        model = self.content.model
        if model.automatic is not None:
            return model.automatic
        return model.terms is None and self.content.estimate.method in (None, *_ON_FACTORS)

    def recipe(
        self, robot: str | Path, logs: Sequence[str | Path], held_out: Sequence[str | Path]
    ) -> dict[str, Any]:
        """What is written down so that the run can be repeated."""
        return {
            "robot": str(robot),
            "logs": [str(log) for log in logs],
            "validate": [str(log) for log in held_out],
            "config": self.file or None,
            "experiment": dict(self.raw),
        }

    def terms(self) -> Terms:
        """The model; raises InputError with the line of a wrong term."""
        spec = self.content.model.terms
        if spec is None:
            return DEFAULT_TERMS
        try:
            return terms_from_spec(spec)
        except DynidError as error:
            raise self._placed(error, ("model", "terms")) from error

    def rows(self) -> Rows | AutomaticRows:
        """The equations; raises InputError with the line of a wrong name or option."""
        try:
            return rows_from_spec(self.content.model.rows)
        except DynidError as error:
            raise self._placed(error, ("model", "rows")) from error

    def _placed(self, error: DynidError, key: tuple[Key, ...]) -> InputError:
        place = Place(file=self.file or None, line=line_of(key, self.lines))
        return InputError(
            error.identifier, found=error.found, expected=error.expected, do=error.do, place=place
        )

    @property
    def _method(self) -> str:
        # Whoever wants no real bodies and names no method wants what they would be drawn from.
        section = self.content.estimate
        if section.method is not None:
            return section.method
        return (
            default_estimator().name
            if section.feasible is not False
            else default_estimator().unconstrained.name
        )

    @property
    def choice_left_out(self) -> str:
        """Why the model is not chosen by the data though no terms are given; "" where it is, or nobody wants it."""
        model = self.content.model
        if model.terms is not None or model.automatic is not None or self.automatic:
            return ""
        return f"method '{self._method}' works on every sample, and dozens of models would take it hours"

    def _estimator(self) -> Any:
        section = self.content.estimate
        method = self._method
        if method not in CATALOGUE:
            raise InputError(
                "unknown-method",
                found=f"estimate.method = '{method}'",
                expected="one of " + ", ".join(CATALOGUE),
                do=meant(method, CATALOGUE),
                place=Place(file=self.file or None, line=line_of(("estimate", "method"), self.lines)),
            )
        kind = CATALOGUE[method]
        own = {f.name for f in fields(kind)} - {"name", "inner"}
        wrapped = bool(section.feasible) and method != "feasible"
        known = own | _OF_BODIES if wrapped else own
        options = {
            key: getattr(section, key)
            for key in EstimateSection.model_fields
            if key not in _OF_NO_METHOD and getattr(section, key) is not None
        }
        for key in (*options, *(["limits"] if section.limits else [])):
            if key not in known:
                raise InputError(
                    "unknown-option",
                    found=f"estimate.{key} with method '{method}'",
                    expected="one of " + (", ".join(sorted(known)) or "no option"),
                    place=Place(file=self.file or None, line=line_of(("estimate", key), self.lines)),
                )
        if isinstance(section.strength, str) and method != "feasible":
            raise InputError(
                "unknown-option",
                found=f"estimate.strength = '{section.strength}' with method '{method}'",
                expected="a number > 0",
                do="only the method 'feasible' chooses its strength itself",
                place=Place(file=self.file or None, line=line_of(("estimate", "strength"), self.lines)),
            )
        if section.method is None and method == "feasible":
            options.setdefault("prior", default_estimator().prior)
            options.setdefault("strength", default_estimator().strength)
        if section.limits is not None and "limits" in known:
            options["limits"] = tuple(entry.model_dump(exclude_none=True) for entry in section.limits)
        if not wrapped:
            return kind(**options)
        inner = kind(**{key: value for key, value in options.items() if key in own})
        return FeasibleFit(
            **{key: value for key, value in options.items() if key not in own and key in _OF_BODIES},
            inner=inner,
        )


def _with_hulls(
    data: Mapping[str, Any], entries: Sequence[LimitEntry], path: Path, lines: Lines
) -> dict[str, Any]:
    # Run folders are read without the meshes: the experiment holds their hulls from here on.
    limits = [
        with_hull_of_mesh(
            entry.model_dump(exclude_none=True),
            path.parent,
            Place(file=str(path), line=line_of(("estimate", "limits", k), lines)),
        )
        for k, entry in enumerate(entries)
    ]
    return dict(data) | {"estimate": dict(data["estimate"]) | {"limits": limits}}


def open_log(
    experiment: Experiment,
    paths: Sequence[str | Path],
    robot: RobotModel,
    selection: Sequence[str | SelectionEntry],
    diagnostics: Diagnostics,
) -> Log:
    """Opens logs with the experiment's mapping and the given selection of trajectories.

    Raises InputError for what does not exist, UsageError for extra channels that a term needs and the mapping lacks.
    """
    section = experiment.content.log
    channels = experiment.terms().channels()
    mapping = None
    if section is not None:
        mapping = channel_map(section, robot, experiment.file, experiment.lines)
        # What no term reads is not read at all: its gaps must not cost rows.
        mapping = replace(
            mapping, extra={name: mapping.extra[name] for name in channels if name in mapping.extra}
        )
    chosen = [_selection(one) for one in selection] or [Selection()]
    log = read_log(list(paths), robot, mapping, chosen, channels)
    if not log.has_effort:
        remarks = [one for one in log.remarks if one.identifier == "not-measured" and "effort" in one.text]
        told = [one.text for one in remarks]
        kind = InputError if told else UsageError
        raise kind(
            "no-effort",
            found="; ".join(told) or "a mapping without effort",
            expected="torque or current of every joint",
            do="record it, or take it from another topic with log.effort" if told else "add log.effort",
            place=remarks[0].place if remarks else Place(),
        )
    for name in channels:
        if name not in log.mapping.extra:
            raise InputError(
                "missing-channel",
                found=f"no extra channel '{name}', which the model reads",
                expected=f"[log.extra] {name} = {{ column = ..., unit = ... }}",
                place=Place(file=experiment.file or None),
            )
    return log


def _selection(one: str | SelectionEntry) -> Selection:
    return Selection(one) if isinstance(one, str) else Selection(one.trajectory, one.window, one.part)
