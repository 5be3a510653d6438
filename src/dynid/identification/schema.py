"""The form of experiment.toml: its tables and keys with their types, ranges, defaults and meaning.

Tables of settings are derived from the settings dataclasses; documentation and JSON schema are derived from the models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from dynid.base.diagnostics import Claim
from dynid.base.options import Described, constrained, options_of
from dynid.base.toml import Strict, Table, key, key_of, model_of, models_in, words_of
from dynid.estimate import CATALOGUE, FeasibleFit
from dynid.feasible.catalogue import CATALOGUE as CONSTRAINTS
from dynid.feasible.limits import LinkLimits
from dynid.identification.blocks import Blocks
from dynid.identification.settings import NOT_IN_FILES, Settings
from dynid.log.clocks import Selection
from dynid.log.mapping import LogSection
from dynid.robot.options import Reading, ServoSettings
from dynid.robot.toml_schema import TableEntry
from dynid.rows.catalogue import CATALOGUE as ROWS
from dynid.signals.settings import Preparation, Standstill
from dynid.terms.catalogue import CATALOGUE as TERMS


def _not_zero(value: float) -> float:
    if value == 0:
        raise ValueError("a number other than 0")
    return value


NotZero = Annotated[float, AfterValidator(_not_zero)]
# Names of kinds, or tables of a name and options: {term = "coulomb", width = 0.02}.
Named = str | dict[str, Any]

PrepareSection = model_of(Preparation, "PrepareSection", doc="[prepare]: how signals are prepared.")
DriveSection = model_of(
    ServoSettings,
    "DriveSection",
    doc="[drive]: the position controllers of the drives, for logs of commands.",
)
SelectionEntry = model_of(
    Selection,
    "SelectionEntry",
    {"pattern": "trajectory"},
    doc="A trajectory (name or glob), whole, or a window in seconds of the log's clock, or a part from 0 to 1.",
)
LimitEntry = model_of(LinkLimits, "LimitEntry")
Selected = str | Annotated[Selection, Table(SelectionEntry)]

if TYPE_CHECKING:
    ReadingSection = Strict
else:
    ReadingSection = model_of(Reading, "ReadingSection")


def _everything() -> list[Selected]:
    return ["*"]


class DataSection(Strict):
    """[data]: which trajectories to fit, and which to hold out."""

    train: Annotated[list[Selected], Field(min_length=1)] = key(
        doc="what `dynid identify` fits and `dynid check` looks at",
        kind="a list of selections, at least one",
        default_factory=_everything,
    )
    validate_on: list[Selected] = key(
        doc="what is held out, from the files of `--validate` or else from the same files",
        kind="a list of selections",
        default_factory=list,
        alias="validate",
    )


class RobotSection(ReadingSection):
    """[robot]: how the model file is read, how the robot is mounted, and constants of its drives."""

    gear_ratio: dict[str, NotZero] = key(
        doc="motor turns per joint turn, in place of the model file's; only for drives that are not coupled",
        kind="numbers by joint, not 0",
        default_factory=dict,
    )
    torque_constant: dict[str, NotZero] = key(
        doc="torque of the motor per ampere, in place of the model file's",
        unit="N m/A",
        kind="numbers by joint, not 0",
        default_factory=dict,
    )
    drive_gain: dict[str, NotZero] = key(
        doc="torque of the joint per ampere, or per raw unit, in place of the model file's",
        unit="N m/A",
        kind="numbers by joint, not 0",
        default_factory=dict,
    )
    table: dict[str, TableEntry] = key(
        doc="tabulated linkages of joints, as in [`[joint.drive.table]`](robot-keys.md#jointdrivetable)",
        kind="tables by joint",
        default_factory=dict,
    )


class PosesSection(Strict):
    """[statics]: what counts as a static pose."""

    poses: Annotated[list[Selected], Field(min_length=1)] = key(
        doc="trajectories in which poses are searched",
        kind="a list of selections, at least one",
        default_factory=_everything,
    )


class ModelSection(Strict):
    """[model]: the equations and the terms, by name or as tables with options."""

    rows: Named = key_of(Settings, "rows", "auto")
    terms: Annotated[list[Named], Field(min_length=1)] | None = key_of(Settings, "terms")
    automatic: bool | None = key_of(Settings, "automatic")


class MethodSection(Strict):
    """[estimate]: the method and its options, which are those of its dataclass, and cross-validation."""

    model_config = ConfigDict(extra="allow")

    method: str | None = key(
        None,
        "below; without it `feasible`, dropped with a warning if physically consistent links fit much worse",
        kind="[an estimator](estimators.md)",
    )
    feasible: bool | None = key(
        None,
        "method `feasible`: links stay physically consistent even if the fit is much worse; other methods: the "
        "physically consistent links nearest to the result of `method`; `false` without a method is `wls`; takes "
        "`strength` (a number), `margin`, `density`, `prior`, `total_mass`, `limits` of method `feasible`",
    )
    limits: list[Annotated[LinkLimits, Table(LimitEntry)]] | None = key_of(FeasibleFit, "limits")
    constraints: list[Named] | None = key_of(FeasibleFit, "further")

    @property
    def options(self) -> dict[str, Any]:
        """Options of the method, as written in the file."""
        return dict(self.model_extra or {})


if TYPE_CHECKING:
    StaticsSection = PosesSection
    EstimateSection = MethodSection
else:
    StaticsSection = model_of(Standstill, "StaticsSection", base=PosesSection)
    EstimateSection = model_of(Blocks, "EstimateSection", base=MethodSection)


class ExperimentFile(Strict):
    """The whole file; every table is optional."""

    plugins: list[str] = key(
        doc="modules, or Python files beside this one, with [terms, rows, estimators, readers or "
        "constraints](extending.md#plug-ins) of your own",
        kind="a list of names",
        default_factory=list,
    )
    accept: list[Claim] = key_of(Settings, "accept", default_factory=list)
    robot: RobotSection = RobotSection()
    drive: Annotated[ServoSettings, Table(DriveSection)] = ServoSettings()
    log: LogSection | None = None
    data: DataSection = DataSection()
    prepare: Annotated[Preparation, Table(PrepareSection)] = Preparation()
    model: ModelSection = ModelSection()
    statics: StaticsSection = StaticsSection()
    estimate: EstimateSection = EstimateSection()


def method_options() -> dict[str, list[Described]]:
    """Options of the built-in methods by name, one description per method that has the option."""
    options: dict[str, list[Described]] = {}
    for kind in CATALOGUE.values():
        for name, described in options_of(kind).items():
            if name not in NOT_IN_FILES:
                options.setdefault(name, []).append(described)
    return options


def json_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of experiment.toml, with which editors complete keys and check values."""
    schema = ExperimentFile.model_json_schema(by_alias=True)
    tables = schema["$defs"]
    model, estimate = tables["ModelSection"]["properties"], tables["EstimateSection"]
    model["rows"] |= _named_schema("rows", ROWS)
    terms: dict[str, Any] = {"type": "array", "minItems": 1, "items": _named_schema("term", TERMS)}
    estimate["properties"]["constraints"] |= {"items": _named_schema("constraint", CONSTRAINTS)}
    model["terms"] = {key: model["terms"][key] for key in ("description", "default")} | terms
    estimate["properties"]["method"] |= {
        "anyOf": [{"enum": list(CATALOGUE)}, {"type": "string", "description": "a method of a plug-in"}]
    }
    for name, described in method_options().items():
        forms = [_value_schema(option) for option in described]
        distinct = [form for i, form in enumerate(forms) if form not in forms[:i]]
        estimate["properties"].setdefault(name, {"anyOf": distinct} if len(distinct) > 1 else distinct[0])
    # Only built-in methods restrict the keys, since a method of a plug-in may have any options.
    estimate["if"] = {"properties": {"method": {"enum": list(CATALOGUE)}}}
    estimate["then"] = {"propertyNames": {"enum": list(estimate["properties"])}}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **schema, "title": "dynid experiment"}


def _named_schema(name: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    # A name, or a table with the name and the options of its kind.
    tables = [
        {
            "type": "object",
            "description": str(kind.__doc__ or "").split("\n")[0],
            "properties": {name: {"const": known}}
            | {option: _value_schema(described) for option, described in options_of(kind).items()},
            "required": [
                name,
                *(option for option, described in options_of(kind).items() if described.required),
            ],
            "additionalProperties": False,
        }
        for known, kind in kinds.items()
    ]
    further = {
        "type": "object",
        "description": "of a plug-in",
        "properties": {name: {"type": "string", "not": {"enum": list(kinds)}}},
        "required": [name],
    }
    return {"anyOf": [{"enum": list(kinds)}, {"type": "string"}, *tables, further]}


def _value_schema(described: Described) -> dict[str, Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        schema = TypeAdapter(constrained(described.hint, described.option)).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):  # a term, or a geometry: a table of its own
        schema = {}
    description = " ".join(
        filter(None, (described.option.doc, f"[{described.option.unit}]" if described.option.unit else ""))
    )
    return schema | ({"description": description} if description else {})


def template_text(schema_file: str) -> str:
    """An experiment file with every key commented out at its default, which names its schema for editors."""
    lines = [
        f"#:schema ./{schema_file}",
        "# Every table is optional. Remove the # in front of the keys that you change.",
    ]
    for table, info in ExperimentFile.model_fields.items():
        if table in ("plugins", "accept"):
            lines += ["", f"#{table} = []  # {words_of(info)}"]
            continue
        (section,) = models_in(info)
        # An empty [log] is not the same as none: it would switch off the detection of columns.
        lines += ["", f"#[{table}]" if table == "log" else f"[{table}]"]
        for name, entry in section.model_fields.items():
            default = entry.get_default(call_default_factory=True)
            written = "..." if default is None or entry.is_required() else _toml(default)
            lines.append(f"#{entry.alias or name} = {written}  # {words_of(entry)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, dict) else "{}"
