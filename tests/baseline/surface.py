"""What Python programs, files and command lines name: signatures, registries, options, keys, codes, import paths."""

from __future__ import annotations

import ast
import enum
import inspect
import json
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import dynid
from tests.baseline.records import command

# Module paths that docs/design.md gives to authors of plug-ins.
REGISTRIES = {
    "term": "dynid.terms.catalogue:CATALOGUE",
    "rows": "dynid.rows.catalogue:CATALOGUE",
    "estimator": "dynid.estimate:CATALOGUE",
    "constraint": "dynid.feasible.catalogue:CATALOGUE",
    "rule": "dynid.feasible:RULES",
    "reader": "dynid.log.files:READERS",
    "robot format": "dynid.robot.formats:FORMATS",
    "preset": "dynid.layouts.presets:PRESETS",
    "command": "dynid.cli.plugins:COMMANDS",
}
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(dynid.__file__).parent
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def loaded(path: str) -> Any:
    """The object that module:name names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def api() -> dict[str, Any]:
    """`dynid.__all__`, with signatures, and public members of its classes with theirs."""
    made: dict[str, Any] = {}
    for name in dynid.__all__:
        kind = getattr(dynid, name)
        if isinstance(kind, ModuleType):
            made[name] = "module"
        elif not callable(kind):
            made[name] = type(kind).__name__
        else:
            made[name] = signature(kind)
            if isinstance(kind, type):
                made |= {f"{name}.{member}": text for member, text in members(kind)}
    return made


def signature(kind: Any) -> str:
    """A signature as text, without addresses."""
    try:
        return ADDRESS.sub("", str(inspect.signature(kind)))
    except (TypeError, ValueError):
        return "without a signature"


def members(kind: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties of a class."""
    for name, member in sorted(inspect.getmembers_static(kind)):
        bases = [base for base in kind.__mro__ if base.__module__ != "builtins"]
        if name.startswith("_") or not any(name in vars(base) for base in bases):
            continue
        if isinstance(member, classmethod | staticmethod):
            yield name, f"{type(member).__name__} {signature(member.__func__)}"
        elif inspect.isfunction(member):
            yield name, signature(member)
        elif isinstance(member, property) or hasattr(member, "__get__"):
            yield name, "property"


def public_names() -> dict[str, list[str]]:
    """`__all__` of every module that has one, but for the command line's: what users may rely on."""
    made = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if module == "dynid" or module.startswith("dynid.cli"):
            continue
        if any("__all__" in names_set(node) for node in ast.parse(path.read_text(encoding="utf-8")).body):
            made[module] = sorted(import_module(module).__all__)
    return made


def names_set(node: ast.stmt) -> list[str]:
    """Names that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        name.id
        for target in targets
        if target is not None
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]


def registries() -> dict[str, Any]:
    """Of each registry: where it is, its entry points' group, the names of dynid's own kinds and their options."""
    made: dict[str, Any] = {}
    for what, path in REGISTRIES.items():
        registry = loaded(path)
        kinds = {name: options(kind) for name, kind in sorted(registry.builtin.items())}
        made[what] = {"path": path, "entry points": registry.group, "kinds": kinds}
    made["preset"]["kinds"] = sorted(path.stem for path in (PACKAGE / "data" / "presets").glob("*.toml"))
    made["robots"] = sorted(path.stem for path in (PACKAGE / "data").glob("*.toml"))
    return made


def options(kind: Any) -> list[str]:
    """Fields of a dataclass with their defaults; of other kinds none."""
    if not isinstance(kind, type) or not hasattr(kind, "__dataclass_fields__"):
        return []
    return [
        ADDRESS.sub("", str(one).partition(": ")[0] + default_of(one))
        for one in inspect.signature(kind).parameters.values()
    ]


def default_of(one: inspect.Parameter) -> str:
    """= and the default; "" where there is none."""
    return "" if one.default is one.empty else f" = {one.default!r}"


def command_line() -> dict[str, list[str]]:
    """Of every command, arguments and options: names, type, default. Sentences may change."""
    from dynid.cli.main import app

    group: Any = typer.main.get_command(app)
    functions: dict[str | None, Any] = {info.name: info.callback for info in app.registered_commands}
    made = {"": [option_text(one, None) for one in group.params if one.name != "help"]}
    for name, one in sorted(group.commands.items()):
        annotated = inspect.signature(functions[name]).parameters
        made[name] = [
            option_text(option, annotated.get(option.name)) for option in one.params if option.name != "help"
        ]
    return made


def option_text(option: Any, parameter: inspect.Parameter | None) -> str:
    """One argument or option in words."""
    names = " ".join((*option.opts, *option.secondary_opts))
    argument = "" if option.opts[0].startswith("-") else "argument "
    default = None if callable(option.default) else option.default
    if isinstance(default, enum.Enum):
        default = default.value
    kind = "" if parameter is None else f": {type_text(parameter.annotation)}"
    needed = (
        ", required" if option.required else f" = {str(default) if isinstance(default, Path) else default!r}"
    )
    return f"{argument}{names}{kind}{needed}"


def type_text(annotation: Any) -> str:
    """A type of typer's: its name, its choices, its bounds."""
    bounds = ""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, info, *_ = typing.get_args(annotation)
        limits = [getattr(info, key, None) for key in ("min", "max")]
        if any(limit is not None for limit in limits):
            bounds = "".join(
                f" {word} {limit}"
                for word, limit in zip(("from", "to"), limits, strict=True)
                if limit is not None
            )
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return f"one of {[one.value for one in annotation]}{bounds}"
    text = (
        annotation.__name__
        if isinstance(annotation, type) and not typing.get_args(annotation)
        else str(annotation)
    )
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text) + bounds


def files() -> dict[str, list[str]]:
    """Keys of files: experiment, motion and robot, each with type, range and default, from `dynid schema`."""
    return {
        form: sorted(set(schema_lines(json.loads(command("schema", form).out))))
        for form in ("experiment", "motion", "robot")
    }


def schema_lines(schema: dict[str, Any]) -> Iterator[str]:
    """A line a key of a JSON schema, with definitions put where they are used."""
    yield from _schema_lines(schema, schema, "", ())


def _schema_lines(whole: Any, part: Any, path: str, above: tuple[str, ...]) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from _schema_lines(whole, one, path, above)
        return
    if not isinstance(part, dict):
        return
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        if name not in above:
            yield from _schema_lines(whole, whole["$defs"][name], path, (*above, name))
    for key, one in part.get("properties", {}).items():
        inner = ".".join(filter(None, (path, key)))
        default = f" = {json.dumps(one['default'])}" if "default" in one else ""
        unit = f" ({one['unit']})" if "unit" in one else ""
        needed = ", required" if key in part.get("required", ()) else ""
        yield f"{inner}: {schema_type(one)}{unit}{needed}{default}".replace('"', "'")
        yield from _schema_lines(whole, one, inner, above)
    for key in ("anyOf", "allOf", "oneOf", "then", "else", "prefixItems", "additionalProperties"):
        yield from _schema_lines(whole, part.get(key), path, above)
    if "items" in part:
        yield from _schema_lines(whole, part["items"], f"{path}[]", above)


def schema_type(part: Any) -> str:
    """Type and range that a JSON schema gives, in one line."""
    if not isinstance(part, dict) or "$ref" in part or "properties" in part:
        return "table"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in part:
            return " | ".join(dict.fromkeys(schema_type(one) for one in part[key]))
    if "const" in part or "enum" in part:
        return "|".join(json.dumps(one) for one in part.get("enum", [part.get("const")]))
    text = str(part.get("type", "any"))
    if text == "array":
        inner = part.get("prefixItems", [part["items"]] if "items" in part else [])
        text = f"[{', '.join(map(schema_type, inner))}]"
    elif text == "object":
        text = f"{{{schema_type(part['additionalProperties']) if part.get('additionalProperties') else ''}}}"
    signs = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    signs |= {"minLength": "longer>=", "minItems": "items>=", "maxItems": "items<=", "pattern": "~"}
    return text + "".join(f"{sign}{part[key]}" for key, sign in signs.items() if key in part)


def codes() -> list[str]:
    """Every code that `dynid explain` knows."""
    return sorted({code for known in command("explain", "--json").json["results"].values() for code in known})


def imports() -> dict[str, list[str]]:
    """What the Python examples of the documentation import from dynid, by page: module:name."""
    made = {}
    for page in sorted((ROOT / "docs").glob("*.md")):
        found = {
            f"{node.module}:{alias.name}"
            for block in FENCE.findall(page.read_text(encoding="utf-8"))
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dynid"
            for alias in node.names
        }
        if found:
            made[page.name] = sorted(found)
    return made


# File of the baseline -> what is stored in it.
PARTS = {
    "api": api,
    "public_names": public_names,
    "registries": registries,
    "command_line": command_line,
    "files": files,
    "codes": codes,
    "imports": imports,
}
