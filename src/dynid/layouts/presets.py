"""Presets: data files on the columns of known recorders, with a source for each entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.records import dataclass
from dynid.base.registry import Registry
from dynid.base.toml import Key, Lines, Strict, key, line_of, read_toml, validate
from dynid.base.units import factor

Quantity = Literal[
    "time",
    "trajectory",
    "position",
    "velocity",
    "acceleration",
    "torque",
    "current",
    "raw",
    "temperature",
    "other",
]
Role = Literal["measured", "commanded", "model", "spare"]
# Quantities of base.units to which the unit of each channel may belong.
UNITS: dict[str, tuple[str, ...]] = {
    "time": ("time",),
    "position": ("angle", "length"),
    "velocity": ("angular velocity", "velocity"),
    "torque": ("torque", "force"),
    "current": ("current",),
    "raw": ("raw",),
    "temperature": ("temperature",),
}
UNKNOWN = "unknown"
FOLDER = "presets"


class Source(Strict):
    """[[source]]: a document, or a file of a public repository."""

    id: str = key(doc="id by which entries cite it")
    where: Annotated[str, Field(min_length=1)] = key(doc="document or repository and file")
    version: Annotated[str, Field(min_length=1)] = key(doc="version, date or commit")
    says: Annotated[str, Field(min_length=1)] = key(doc="what it says, in your own words")


class ChannelEntry(Strict):
    """[[channel]]: columns of a recorder."""

    columns: Annotated[str, Field(min_length=1)] = key(
        doc="name, or pattern with {joint}, {number} (from 1) or {index} (from 0)"
    )
    quantity: Quantity = key(doc="what they measure")
    role: Role = key(
        "measured",
        "commanded: set point; model: computed, not measured; spare: measured, but another channel is better",
    )
    unit: str = key(doc='as under [log]; "unknown" if no source states it: the user is asked')
    units: list[str] = key(
        doc="possible units, if they depend on the robot's configuration", default_factory=list
    )
    percent: list[str] = key(
        doc="words of joints in % of their motors' range, whatever the unit of the others",
        default_factory=list,
    )
    side: Literal["link", "motor"] | None = key(None, "side of a torque")
    actuator: Literal["input", "force"] | None = key(
        None, "for a simulated actuator: its input, or its force before the gear"
    )
    doubt: str = key("", "why the unit needs confirmation by physics or by the user")
    unordered: bool = key(
        False, "whether the numbers are array indices that do not follow the robot's joint order"
    )
    bag: bool = key(False, "only for bags, with dynid's standard names")
    source: str | Annotated[list[str], Field(min_length=1)] = key(doc="ids of sources")


class ConstantsEntry(Strict):
    """[[constants]]: joint torque per unit of current, from base to tip."""

    robots: Annotated[list[str], Field(min_length=1)] = key(doc="words of the robot's name")
    drive_gain: list[float] | None = key(None, "one per joint", unit="N m/A")
    torque_constant: list[float] | None = key(None, "one per motor", unit="N m/A")
    gear_ratio: list[float] | None = key(None, "one per joint")
    relative_uncertainty: Annotated[float, Field(gt=0)] = key(doc="of every value, relative")
    source: str | Annotated[list[str], Field(min_length=1)] = key(doc="ids of sources")
    says: str = key("", "further remarks")


class ServosEntry(Strict):
    """[[servos]]: data sheet of the voltage-controlled drives of a robot, from base to tip, see [drive]."""

    id: Annotated[str, Field(min_length=1)] = key(doc="answer to drive.servo")
    robots: Annotated[list[str], Field(min_length=1)] = key(doc="words of its name")
    stall_torque: list[float] = key(doc="one a joint", unit="N m")
    no_load_speed: list[float] = key(doc="one a joint", unit="rad/s")
    duty_gain: list[float] | None = key(None, "one a joint", unit="1/rad")
    relative_uncertainty: Annotated[float, Field(gt=0)] = key(doc="of every value, as a share of it")
    source: str | Annotated[list[str], Field(min_length=1)] = key(doc="ids of sources")
    says: str = key(doc="the servos and their supply, and what else is known of them")


class Preset(Strict):
    """A preset file."""

    name: str = key(doc="as in [presets]")
    title: str = key(doc="name of the recorder")
    robots: list[str] = key(
        doc="words in names of robots or joints to which it applies; none = all", default_factory=list
    )
    order: Literal["base-to-tip"] | None = key(None, "order of numbered columns, if a source states it")
    order_source: str | None = key(None, "id of that source")
    source: Annotated[list[Source], Field(min_length=1)] = key(doc="documents that were consulted")
    channel: list[ChannelEntry] = key(doc="columns", default_factory=list)
    constants: list[ConstantsEntry] = key(doc="of drives", default_factory=list)
    servos: list[ServosEntry] = key(doc="of voltage-controlled drives", default_factory=list)

    def cited(self, ids: str | Sequence[str]) -> str:
        """Citation of sources by their ids."""
        wanted = [ids] if isinstance(ids, str) else list(ids)
        return "; ".join(
            f"{source.where} ({source.version})" for source in self.source if source.id in wanted
        )

    def said(self, ids: str | Sequence[str]) -> str:
        """Recorder and citation of its sources."""
        return f"{self.title}: {self.cited(ids)}"

    def without_clocks(self) -> Preset:
        """The preset without its time columns."""
        return self.model_copy(
            update={"channel": [entry for entry in self.channel if entry.quantity != "time"]}
        )

    def fits(self, names: Sequence[str]) -> bool:
        """Whether the preset applies to a robot with these names (its own name and those of its joints)."""
        return not self.robots or any(matches_word(word, name) for word in self.robots for name in names)


@dataclass(frozen=True)
class PresetFile:
    """Preset of a plug-in, from `register_preset(Path(...))` or an entry point of `dynid.presets`."""

    path: Path


PRESETS: Registry[PresetFile] = Registry("preset", "dynid.presets", {})


def register_preset(path: str | Path) -> Preset:
    """Register a preset file in this process and return the validated preset; raises as `read_preset`."""
    preset = read_preset(path)
    PRESETS.register(preset.name, PresetFile(Path(path)))
    return preset


def read_preset(path: str | Path) -> Preset:
    """Read a preset file.

    Raises
    ------
    InputErrors
        With the line of every invalid entry and of every entry without a source.

    """
    data, lines = read_toml(path)
    preset = validate(Preset, data, lines, str(path))
    errors = [*_missing_sources(preset, str(path), lines), *_wrong_units(preset, str(path), lines)]
    if errors:
        raise InputErrors(errors)
    return preset


def presets(further: Sequence[str | Path] = ()) -> tuple[Preset, ...]:
    """All presets: given files first, then plug-ins' presets, then dynid's."""
    named = [read_preset(path) for path in further]
    plugged = [read_preset(PRESETS[name].path) for name in PRESETS.names()]
    return (*named, *plugged, *_own())


@lru_cache(maxsize=1)
def _own() -> tuple[Preset, ...]:
    folder = files("dynid.data").joinpath(FOLDER)
    preset_files = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            with as_file(file) as path:
                preset_files.append(read_preset(path))
    return tuple(preset_files)


def matches_word(word: str, name: str) -> bool:
    """Whether a name contains a word: "ur10" is in "UR10e" and "ur-10", but not in "ur100" or "fur10"."""
    pattern = r"[-_ ]?".join(re.escape(part) for part in re.findall(r"[a-z]+|\d+", word.lower()))
    # After a number, further digits would form another number.
    after = r"(?!\d)" if word[-1:].isdigit() else ""
    return re.search(rf"(?<![a-z0-9]){pattern}{after}", name.lower()) is not None


def _missing_sources(preset: Preset, file: str, lines: Lines) -> list[DynidError]:
    known = {source.id for source in preset.source}
    cited: list[tuple[tuple[Key, ...], str | list[str]]] = [
        (("channel", k, "source"), entry.source) for k, entry in enumerate(preset.channel)
    ]
    cited += [(("constants", k, "source"), entry.source) for k, entry in enumerate(preset.constants)]
    cited += [(("servos", k, "source"), entry.source) for k, entry in enumerate(preset.servos)]
    if preset.order is not None:
        cited.append((("order",), preset.order_source or ""))
    return [
        InputError(
            "unknown-source",
            found=f"source '{source_id}'",
            expected="the id of a [[source]]: " + ", ".join(sorted(known)),
            place=Place(file=file, line=line_of(where, lines)),
        )
        for where, ids in cited
        for source_id in ([ids] if isinstance(ids, str) else ids)
        if source_id not in known
    ]


def _wrong_units(preset: Preset, file: str, lines: Lines) -> list[DynidError]:
    errors: list[DynidError] = []
    for k, entry in enumerate(preset.channel):
        if entry.unit == UNKNOWN or entry.quantity not in UNITS:
            continue
        try:
            factor(
                entry.unit,
                UNITS[entry.quantity],
                Place(file=file, line=line_of(("channel", k, "unit"), lines)),
            )
        except InputError as error:
            errors.append(error)
    return errors
