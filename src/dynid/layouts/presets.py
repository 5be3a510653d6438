"""Presets: data files that say what the columns of a known recorder mean, each entry with the source that was read."""

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
# Quantities of base.units that a unit of each may belong to.
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
    """[[source]]: a document or a file of a public repository that was read."""

    id: str = key(doc="what entries call it")
    where: Annotated[str, Field(min_length=1)] = key(doc="document or repository and file")
    version: Annotated[str, Field(min_length=1)] = key(doc="version, date or commit")
    says: Annotated[str, Field(min_length=1)] = key(doc="what it says, in own words")


class ChannelEntry(Strict):
    """[[channel]]: columns that a recorder writes."""

    columns: Annotated[str, Field(min_length=1)] = key(
        doc="name, or pattern with {joint}, {number} (from 1) or {index} (from 0)"
    )
    quantity: Quantity = key(doc="what they measure")
    role: Role = key(
        "measured",
        "commanded: what was wanted; model: computed, no measurement; spare: measured, another is better",
    )
    unit: str = key(doc='as declared under [log]; "unknown" where no source says it: it is asked for')
    units: list[str] = key(
        doc="those that it may be in, where robots are set up differently", default_factory=list
    )
    side: Literal["link", "motor"] | None = key(None, "of a torque")
    actuator: Literal["input", "force"] | None = key(
        None, "of a simulated actuator: what went into it, or its force before the gear"
    )
    doubt: str = key("", "why physics has to confirm the unit or the user to say it")
    unordered: bool = key(False, "numbers count the entries of an array in no order of the robot's")
    bag: bool = key(False, "of bags alone, by dynid's own names")
    source: str | Annotated[list[str], Field(min_length=1)] = key(doc="ids of sources")


class ConstantsEntry(Strict):
    """[[constants]]: what a current is worth at the joints of a robot, from base to tip."""

    robots: Annotated[list[str], Field(min_length=1)] = key(doc="words of its name")
    drive_gain: list[float] | None = key(None, "one a joint", unit="N m/A")
    torque_constant: list[float] | None = key(None, "one a motor", unit="N m/A")
    gear_ratio: list[float] | None = key(None, "one a joint")
    relative_uncertainty: Annotated[float, Field(gt=0)] = key(doc="of every value, as a share of it")
    source: str | Annotated[list[str], Field(min_length=1)] = key(doc="ids of sources")
    says: str = key("", "what else is known of them")


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
    """One preset file."""

    name: str = key(doc="as in [presets]")
    title: str = key(doc="recorder, in words")
    robots: list[str] = key(
        doc="words of the names of robots or joints that it is for; none = any", default_factory=list
    )
    order: Literal["base-to-tip"] | None = key(None, "order of numbered columns, where a source says it")
    order_source: str | None = key(None, "id of that source")
    source: Annotated[list[Source], Field(min_length=1)] = key(doc="what was read")
    channel: list[ChannelEntry] = key(doc="columns", default_factory=list)
    constants: list[ConstantsEntry] = key(doc="of drives", default_factory=list)
    servos: list[ServosEntry] = key(doc="of voltage-controlled drives", default_factory=list)

    def cited(self, ids: str | Sequence[str]) -> str:
        """Sources by their ids, in words."""
        wanted = [ids] if isinstance(ids, str) else list(ids)
        return "; ".join(f"{one.where} ({one.version})" for one in self.source if one.id in wanted)

    def said(self, ids: str | Sequence[str]) -> str:
        """The recorder and the sources that say something of it, in words."""
        return f"{self.title}: {self.cited(ids)}"

    def without_clocks(self) -> Preset:
        """The preset without its columns of time."""
        return self.model_copy(update={"channel": [one for one in self.channel if one.quantity != "time"]})

    def fits(self, names: Sequence[str]) -> bool:
        """Whether the preset is for a robot with these names, of its own and of its joints."""
        return not self.robots or any(matches_word(word, name) for word in self.robots for name in names)


@dataclass(frozen=True)
class PresetFile:
    """A preset of a plug-in: `register_preset(Path(...))`, or an entry point of `dynid.presets` that holds one."""

    path: Path


PRESETS: Registry[PresetFile] = Registry("preset", "dynid.presets", {})


def register_preset(path: str | Path) -> Preset:
    """Makes a preset file known to this program; returns it checked.    Raises as read_preset."""
    preset = read_preset(path)
    PRESETS.register(preset.name, PresetFile(Path(path)))
    return preset


def read_preset(path: str | Path) -> Preset:
    """Reads a preset file; raises InputErrors with the line of everything that is wrong or without a source."""
    data, lines = read_toml(path)
    preset = validate(Preset, data, lines, str(path))
    errors = [*_missing_sources(preset, str(path), lines), *_wrong_units(preset, str(path), lines)]
    if errors:
        raise InputErrors(errors)
    return preset


def presets(further: Sequence[str | Path] = ()) -> tuple[Preset, ...]:
    """All presets: those of the given files first, then those of plug-ins, then dynid's own."""
    named = [read_preset(path) for path in further]
    plugged = [read_preset(PRESETS[name].path) for name in PRESETS.names()]
    return (*named, *plugged, *_own())


@lru_cache(maxsize=1)
def _own() -> tuple[Preset, ...]:
    folder = files("dynid.data").joinpath(FOLDER)
    found = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if one.name.endswith(".toml"):
            with as_file(one) as path:
                found.append(read_preset(path))
    return tuple(found)


def matches_word(word: str, name: str) -> bool:
    """Whether a name holds a word: "ur10" is in "UR10e" and "ur-10", not in "ur100" or "fur10"."""
    pattern = r"[-_ ]?".join(re.escape(part) for part in re.findall(r"[a-z]+|\d+", word.lower()))
    # A number goes on in digits only.
    after = r"(?!\d)" if word[-1:].isdigit() else ""
    return re.search(rf"(?<![a-z0-9]){pattern}{after}", name.lower()) is not None


def _missing_sources(preset: Preset, file: str, lines: Lines) -> list[DynidError]:
    known = {one.id for one in preset.source}
    cited: list[tuple[tuple[Key, ...], str | list[str]]] = [
        (("channel", k, "source"), one.source) for k, one in enumerate(preset.channel)
    ]
    cited += [(("constants", k, "source"), one.source) for k, one in enumerate(preset.constants)]
    cited += [(("servos", k, "source"), one.source) for k, one in enumerate(preset.servos)]
    if preset.order is not None:
        cited.append((("order",), preset.order_source or ""))
    return [
        InputError(
            "unknown-source",
            found=f"source '{one}'",
            expected="the id of one of [[source]]: " + ", ".join(sorted(known)),
            place=Place(file=file, line=line_of(where, lines)),
        )
        for where, ids in cited
        for one in ([ids] if isinstance(ids, str) else ids)
        if one not in known
    ]


def _wrong_units(preset: Preset, file: str, lines: Lines) -> list[DynidError]:
    errors: list[DynidError] = []
    for k, one in enumerate(preset.channel):
        if one.unit == UNKNOWN or one.quantity not in UNITS:
            continue
        try:
            factor(
                one.unit, UNITS[one.quantity], Place(file=file, line=line_of(("channel", k, "unit"), lines))
            )
        except InputError as error:
            errors.append(error)
    return errors
