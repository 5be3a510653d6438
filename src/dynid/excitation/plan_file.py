"""motion.toml: read and checked, written, and its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import create_model

from dynid.base.checked_toml import Strict, key, model_of, validate, words_of
from dynid.base.options import options_of
from dynid.base.toml_file import Lines, read_toml
from dynid.excitation.settings import MotionSettings, ObstacleTable, SolidTable

_TABLES = {one.name: type(getattr(MotionSettings(), one.name)) for one in fields(MotionSettings)}
# Lists of tables: the dataclasses of their entries, and the models of those.
WITHIN = {"obstacles": ObstacleTable, "solids": SolidTable}
ENTRIES = {
    key: model_of(kind, f"{kind.__name__}Entry", doc=kind.__doc__ or "") for key, kind in WITHIN.items()
}


def _section(name: str) -> type[Strict]:
    kind = _TABLES[name]
    plain = model_of(kind, f"{kind.__name__}Section", doc=kind.__doc__ or "")
    inner: dict[str, Any] = {
        name: (
            list.__class_getitem__(ENTRIES[name]),
            key(doc=info.description or "", kind="a list of tables", default_factory=list),
        )
        for name, info in plain.model_fields.items()
        if name in ENTRIES
    }
    if not inner:
        return plain
    return create_model(f"{kind.__name__}Section", __base__=plain, __doc__=kind.__doc__, **inner)


SECTIONS = {name: _section(name) for name in _TABLES}


def _file_model() -> type[Strict]:
    made: dict[str, Any] = {name: (model, model()) for name, model in SECTIONS.items()}
    return create_model(
        "MotionFile", __base__=Strict, __doc__="The whole file; every table may be left out.", **made
    )


MotionFile = _file_model()


def read_plan_file(path: str | Path) -> MotionSettings:
    """The settings of a plan file; paths in it are those beside it.

    Raises InputErrors with the line of every wrong key, InputError for a file that is no TOML.
    """
    data, lines = read_toml(path)
    return settings_of(data, lines, str(path), Path(path).parent)


def settings_of(
    data: Mapping[str, Any], lines: Lines | None = None, file: str = "", folder: Path | None = None
) -> MotionSettings:
    """Settings of plain data.    folder: that paths are beside, None = they stay.

    Raises InputErrors that names every wrong key.
    """
    checked = validate(MotionFile, dict(data), lines or {}, file)
    made = {name: kind(**_values(getattr(checked, name))) for name, kind in _TABLES.items()}
    settings = MotionSettings(**made)
    return settings if folder is None else _placed(settings, folder)


def _placed(settings: MotionSettings, folder: Path) -> MotionSettings:
    known = {
        one.name: str(folder / value)
        for one in fields(settings.known)
        if (value := getattr(settings.known, one.name)) is not None
    }
    solids = tuple(
        one if one.mesh is None else replace(one, mesh=str(folder / one.mesh)) for one in settings.tool.solids
    )
    return replace(
        settings, known=replace(settings.known, **known), tool=replace(settings.tool, solids=solids)
    )


def _values(section: Strict) -> dict[str, Any]:
    return {
        name: tuple(WITHIN[name](**_values(entry)) for entry in value) if name in WITHIN else _tuple(value)
        for name in type(section).model_fields
        for value in (getattr(section, name),)
    }


def _tuple(value: Any) -> Any:
    return tuple(_tuple(one) for one in value) if isinstance(value, list | tuple) else value


def plan_text(settings: MotionSettings) -> str:
    """A plan file with all that differs from the defaults; paths are written whole."""
    lines: list[str] = []
    for table, values in settings.plain().items():
        lines += [f"[{table}]"]
        for name, value in values.items():
            whole = str(Path(value).absolute()) if table == "known" else value
            lines.append(f"{name} = {_toml(whole)}")
        lines.append("")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def json_schema() -> dict[str, Any]:
    """A JSON schema (draft 2020-12) of motion.toml, with which editors complete keys and check values."""
    schema = MotionFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dynid motion"}


def template_text(schema_file: str) -> str:
    """A plan file with every key commented out at its default with its meaning, naming its schema for editors."""
    lines = [
        f"#:schema ./{schema_file}",
        "# dynid excite ROBOT --plan THIS-FILE --out FOLDER",
        "# Every table may be left out. Take the # away from what shall be different.",
    ]
    for table, model in SECTIONS.items():
        lines += ["", f"[{table}]"]
        for name, info in model.model_fields.items():
            default = info.get_default(call_default_factory=True)
            written = "..." if default is None else _toml(_listed(default))
            doc = options_of(_TABLES[table])[name].option.doc
            lines.append(f"#{name} = {written}  # {words_of(info)}: {doc}")
    return "\n".join(lines) + "\n"


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
