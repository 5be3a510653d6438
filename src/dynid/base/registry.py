"""Lazy loading by name: public names of packages, plug-ins, and kinds in experiment files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import MISSING, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from warnings import warn

from dynid.base.errors import NOWHERE, DynidError, InputError, Place, ResourceError, UsageError
from dynid.base.options import Described, constrained, converted, options_of
from dynid.base.records import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


# Public names of a package are loaded on first use, so that importing one module does not load the whole package.
#
# Type checkers do not run `lazily`, so a package also imports its names under TYPE_CHECKING, each with an alias, as in
# `from module import name as name`: without it, strict type checkers report that the package does not export the name.


def lazily(
    package: str, homes: Mapping[str, str], moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that loads its public names on first use.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to str
        Names that each module of the package defines, separated by blanks. No name may be that of a module.
    moved : mapping of str to str, optional
        Names that have moved to another package, by that package, or by `package:name` if they were renamed. They
        still work, with a DeprecationWarning.

    Returns
    -------
    tuple of (callable, callable, list of str)
        The list may be extended by names that the package defines itself; `__dir__` then has them, too.

    """
    there = {name: other for other, names in (moved or {}).items() for name in names.split()}
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        if name in there:
            module, _, new = there[name].partition(":")
            warn(f"{package}.{name} is {module}.{new or name} now", DeprecationWarning, stacklevel=2)
            return getattr(import_module(module), new or name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    names = sorted(modules)
    return get, lambda: sorted(names), names


# The version of the package; pyproject.toml has the same.

__version__ = "0.1.0"


# Kinds by name: built in, registered by a program or a named plug-in, or from installed packages.
#
# A name is looked up in this order. A plug-in is not imported before its name is used.

Kind = TypeVar("Kind")
_OWN = "dynid"
_REGISTRIES: dict[str, Registry[Any]] = {}
# Modules that the user named, by the name given, in the order of first use.
_NAMED: dict[str, ModuleType] = {}


@dataclass(frozen=True)
class _Home:
    """Location of a built-in kind that has not been loaded yet."""

    module: str
    name: str

    def load(self) -> Any:
        """Import the kind."""
        kind = getattr(import_module(self.module), self.name.removesuffix("()"))
        return kind() if self.name.endswith("()") else kind


class Registry(MutableMapping[str, Kind], Generic[Kind]):
    """Registry of the kinds of one sort: terms, rows, estimators, readers, constraints or commands.

    Iteration and length cover built-in and registered kinds; `in` and `[]` also find kinds of installed packages.

    Parameters
    ----------
    noun : str
        Word for one kind, for messages.
    group : str
        Entry point group of installed packages.
    builtin : mapping
        Built-in kinds.
    homes : mapping of str to str, optional
        Built-in kinds that are loaded on first use: "module:name", or "module:Name()" for an object of that class.

    """

    def __init__(
        self, noun: str, group: str, builtin: Mapping[str, Kind], homes: Mapping[str, str] | None = None
    ) -> None:
        self.what, self.group = noun, group
        self._builtin: dict[str, Kind | _Home] = dict(builtin)
        self.build_in(homes or {})
        self._added = dict[str, Kind]()
        _REGISTRIES[noun] = self

    @property
    def builtin(self) -> Mapping[str, Kind]:
        """Built-in kinds."""
        return {name: self[name] for name in self._builtin}

    @property
    def added(self) -> Mapping[str, Kind]:
        """Registered kinds."""
        return dict(self._added)

    def build_in(self, homes: Mapping[str, str]) -> None:
        """Add built-in kinds by "module:name", loaded on first use."""
        self._builtin |= {name: _Home(*home.split(":")) for name, home in homes.items()}

    def register(self, name: str, kind: Kind) -> Kind:
        """Register a kind under a name; raises UsageError for the name of a built-in kind."""
        if name in self._builtin and self[name] is not kind:
            raise UsageError(
                "name-taken",
                found=f"the name of the built-in {self.what} '{name}'",
                expected="a new name",
                do="choose another name",
            )
        if name not in self._builtin:
            self._added[name] = kind
        return kind

    def installed(self) -> tuple[str, ...]:
        """Names of the kinds of installed packages; none of them is imported."""
        return tuple(sorted({entry.name for entry in _entry_points(self.group)}))

    def names(self) -> tuple[str, ...]:
        """All known names."""
        return tuple(dict.fromkeys((*self, *self.installed())))

    def meant(self, name: str) -> str:
        """Return "did you mean 'NAME'?" for the known name most similar to a wrong one; "" if none is similar."""
        near = get_close_matches(name.lower(), self.names(), n=1, cutoff=0.4)
        return f"did you mean '{near[0]}'?" if near else ""

    def __getitem__(self, name: str) -> Kind:
        if name in self._builtin:
            kind = self._builtin[name]
            if isinstance(kind, _Home):
                kind = self._builtin[name] = kind.load()
            return kind
        if name not in self._added:
            entry = self._entry(name)
            if entry is None:
                raise KeyError(name)
            self._added[name] = _loaded(entry, self.what)
        return self._added[name]

    def __setitem__(self, name: str, kind: Kind) -> None:
        self.register(name, kind)

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._builtin, *self._added))

    def __len__(self) -> int:
        return len(self._builtin) + len(self._added)

    def __contains__(self, name: object) -> bool:
        if name in self._builtin or name in self._added:
            return True
        return isinstance(name, str) and self._entry(name) is not None

    def _entry(self, name: str) -> EntryPoint | None:
        return next(iter(_entry_points(self.group, name)), None) if name else None


def _entry_points(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
    # name: None = all of the group.
    entries = _scanned(group, tuple((folder, _changed(folder)) for folder in sys.path))
    return tuple(entry for entry in entries if name is None or entry.name == name)


@lru_cache(maxsize=64)
def _scanned(group: str, folders: tuple[tuple[str, int | None], ...]) -> tuple[EntryPoint, ...]:
    # `folders` (module search path with modification times) is the cache key: an installation invalidates the cache.
    # A search through all installed packages takes about 10 ms, and a model asks once per parameter of a plug-in term.
    # Imported here because this import alone takes longer than the rest of dynid.base.
    from importlib.metadata import entry_points

    entries: Iterable[Any] = entry_points(group=group)
    return tuple(entries)


def _changed(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return None


def _loaded(entry: EntryPoint, noun: str) -> Any:
    try:
        return entry.load()
    except DynidError:
        raise
    except Exception as error:  # whatever a plug-in does when it is imported
        package = entry.dist.name if entry.dist is not None else entry.module
        raise ResourceError(
            "plugin-broken",
            found=f"{noun} '{entry.name}' of the package {package}, which fails to import "
            f"({type(error).__name__}: {error})",
            expected=f"{entry.value}",
            do=f"install another version: pip install --upgrade {package}",
        ) from error


# Called with a sentence before a plug-in that a file names is imported.
_ANNOUNCED: list[Callable[[str], None]] = []


def announce_plugins(say: Callable[[str], None]) -> None:
    """Have plug-ins that files name announced by a function of a sentence, before their code runs."""
    if say not in _ANNOUNCED:
        _ANNOUNCED.append(say)


def load_plugins(names: Iterable[str], folder: Path | None = None, place: Place = NOWHERE) -> None:
    """Import plug-ins that the user named: modules, or Python files next to an experiment file.

    Parameters
    ----------
    names : iterable of str
        Modules, or files that end in .py.
    folder : Path, optional
        Where files are searched; None = the working folder.
    place : Place
        For messages.

    Raises
    ------
    InputError
        If a plug-in does not exist.
    ResourceError
        If it fails to import.

    """
    for name in names:
        if name in _NAMED:
            continue
        for say in _ANNOUNCED if place.file else ():
            say(f"{place.file} runs code of its own: the plug-in '{name}'")
        try:
            _NAMED[name] = _of_file(name, folder or Path()) if name.endswith(".py") else import_module(name)
        except DynidError:
            raise
        except ModuleNotFoundError as error:
            if error.name is not None and error.name != name and not name.startswith(f"{error.name}."):
                raise _broken(name, error, place) from error
            raise InputError(
                "missing-plugin",
                found=f"no module '{name}'",
                expected="an importable Python module, or a file that ends in .py",
                do="install its package, or add its folder to PYTHONPATH",
                place=place,
            ) from error
        except FileNotFoundError as error:
            raise InputError(
                "missing-plugin",
                found=f"no file '{name}'",
                expected="a plug-in",
                do="check its path, which is relative to the experiment file",
                place=place,
            ) from error
        except Exception as error:  # whatever a plug-in does when it is imported
            raise _broken(name, error, place) from error


def _broken(name: str, error: Exception, place: Place) -> ResourceError:
    return ResourceError(
        "plugin-broken",
        found=f"plug-in '{name}', which fails to import ({type(error).__name__}: {error})",
        expected="a module without errors",
        place=place,
    )


def _of_file(name: str, folder: Path) -> ModuleType:
    path = (folder / name).resolve()
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(name)
    module = module_from_spec(spec)
    # Dataclasses look up their module by name while they are created.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


@dataclass(frozen=True)
class Need:
    """A plug-in kind that a stored result needs.

    Parameters
    ----------
    kind : str
        Its sort, such as "term".
    name : str
        Its name.
    module : str
        Module that defines it.
    package : str
        Name and version of the package; "" if the module belongs to none.

    """

    kind: str
    name: str
    module: str = ""
    package: str = ""

    @staticmethod
    def of(kind: str, name: str, made: Any) -> Need | None:
        """Return the need of a kind (class or instance); None for a built-in kind."""
        module = (made if isinstance(made, type) or hasattr(made, "__name__") else type(made)).__module__
        if module == _OWN or module.startswith(f"{_OWN}."):
            return None
        return Need(kind, name, module, _package_of(kind, name, module))

    @property
    def text(self) -> str:
        """Name and origin for messages."""
        source = f" of {self.module}" if self.module else ""
        return f"the {self.kind} '{self.name}'{source}" + (f" ({self.package})" if self.package else "")

    @property
    def remedy(self) -> str:
        """Advice if it is missing."""
        install = f"pip install {self.package.split()[0]}" if self.package else ""
        named = f"name its module: --plugin {self.module}" if self.module not in ("", "__main__") else ""
        registration = f"register it first as {self.kind} '{self.name}'" if self.module == "__main__" else ""
        return " or ".join(filter(None, (install, named, registration))) or "install its package"


def _package_of(kind: str, name: str, module: str) -> str:
    group = _REGISTRIES[kind].group if kind in _REGISTRIES else ""
    for entry in _entry_points(group, name):
        if entry.dist is not None and entry.module == module:
            return f"{entry.dist.name} {entry.dist.version}"
    from importlib.metadata import packages_distributions, version

    distributions = packages_distributions().get(module.partition(".")[0], [])
    return f"{distributions[0]} {version(distributions[0])}" if distributions else ""


def refuse_missing(needs: Sequence[Need], place: Place = NOWHERE) -> None:
    """Raise InputError for the first needed kind that is neither known nor installed."""
    for need in needs:
        registry = _REGISTRIES.get(need.kind)
        if registry is not None and need.name not in registry:
            raise InputError(
                "missing-plugin",
                found=f"{need.text}, which is not installed or registered",
                expected="its plug-in",
                do=need.remedy,
                place=place,
            )


def named_for(needs: Iterable[Need]) -> list[str]:
    """Names of the user's modules that define the needed kinds."""
    modules = {need.module for need in needs}
    return [
        name
        for name, module in _NAMED.items()
        if any(needed == module.__name__ or needed.startswith(f"{module.__name__}.") for needed in modules)
    ]


# Entries of an experiment file that name a kind with options.


def meant(name: str, known: Collection[str], cutoff: float = 0.4) -> str:
    """Return "did you mean 'NAME'?" for the known name most similar to a wrong one.

    Parameters
    ----------
    name : str
        The wrong name.
    known : collection of str
        Known names.
    cutoff : float
        Least similarity, 0 to 1, see `difflib.get_close_matches`.

    Returns
    -------
    str
        "" if no name is similar.

    """
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def option_value(kind: type[Any], name: str, option: str, value: Any) -> Any:
    """Convert a plain value to the type of an option of a dataclass.

    Parameters
    ----------
    kind : type
        The dataclass.
    name : str
        Its name in the file, for messages.
    option : str
        Name of the field.
    value : object
        Plain value from TOML or JSON.

    Returns
    -------
    object

    Raises
    ------
    InputError
        For a value of another type or out of range.

    """
    described = options_of(kind)[option]
    read = converted(described.hint, described.option, value)
    if read is not MISSING:
        return read
    # Imported only for wrong values and unusual types: the import takes as long as a small command.
    from pydantic import TypeAdapter, ValidationError

    # Validated as JSON, where types are strict but lists are accepted as tuples.
    plain = json.dumps(value, default=lambda date: {"date": str(date)})
    try:
        return TypeAdapter(constrained(described.hint, described.option)).validate_json(plain, strict=True)
    except ValidationError as error:
        written = str(value).lower() if isinstance(value, bool) else repr(value)
        raise InputError(
            "wrong-value", found=f"{option} = {written} of '{name}'", expected=described.words
        ) from error


def named_kind(
    entry: str | Mapping[str, Any],
    key: str,
    kinds: Mapping[str, Kind],
    options_of: Callable[[Kind], Collection[str]],
) -> tuple[str, Kind, dict[str, Any]]:
    """Split an entry `name` or `{key = name, option = value}` into name, kind and options.

    Parameters
    ----------
    entry : str or mapping
        Entry of an experiment file.
    key : str
        Key of the name.
    kinds : mapping
        Kinds by name.
    options_of : callable
        Names of the options of a kind.

    Returns
    -------
    tuple of (str, kind, dict)

    Raises
    ------
    InputError
        For an unknown name or option.

    """
    options = {} if isinstance(entry, str) else {k: value for k, value in entry.items() if k != key}
    name = entry if isinstance(entry, str) else str(entry.get(key, ""))
    if name not in kinds:
        raise InputError(
            f"unknown-{key}",
            found=f"unknown {key} '{name}'",
            expected="one of " + ", ".join(_names(kinds)),
            do=meant(name, _names(kinds)) or "install its plug-in, or name its module under plugins",
        )
    kind = kinds[name]
    known = options_of(kind)
    for option in options:
        if option not in known:
            raise InputError(
                "unknown-option",
                found=f"unknown option '{option}' of {key} '{name}'",
                expected="one of " + ", ".join(known) if known else "no options",
                do=meant(option, known),
            )
    return name, kind, options


def _names(kinds: Mapping[str, Any]) -> Collection[str]:
    return kinds.names() if isinstance(kinds, Registry) else kinds


def fields_of(kind: Any) -> Mapping[str, Described]:
    """Options of a kind; empty if it is not a dataclass."""
    return options_of(kind) if is_dataclass(kind) else {}


def kind_from_spec(
    entry: str | Mapping[str, Any],
    key: str,
    kinds: Mapping[str, Any],
    value: Callable[[Any, str, str, Any], Any] = option_value,
) -> Any:
    """Create the kind of an entry `name` or `{key = name, option = value}`.

    Parameters
    ----------
    entry : str or mapping
        Entry of an experiment file.
    key : str
        Key of the name.
    kinds : mapping
        Dataclasses by name.
    value : callable
        (kind, name, option, plain value) -> value of the option.

    Returns
    -------
    object

    Raises
    ------
    InputError
        For an unknown name, an unknown or missing option, or a wrong value.

    """
    name, kind, options = named_kind(entry, key, kinds, fields_of)
    missing = [
        option
        for option, described in fields_of(kind).items()
        if described.required and option not in options
    ]
    if missing:
        raise InputError(
            "missing-option",
            found=f"{key} '{name}' without {', '.join(missing)}",
            expected="all required options",
        )
    return kind(**{option: value(kind, name, option, given) for option, given in options.items()})


def kind_to_spec(
    instance: Any, key: str, name: str, plain: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """Return {key: name, option: value, ...} of a kind, the inverse of `kind_from_spec`.

    Options that are None are left out, since TOML has no null and None is their default.

    Parameters
    ----------
    instance : object
        The kind.
    key : str
        Key of the name.
    name : str
        Its name.
    plain : callable
        Converts a value to plain data.

    Returns
    -------
    dict of str to object

    """
    options = {option: plain(getattr(instance, option)) for option in fields_of(type(instance))}
    written = {option: list(v) if isinstance(v, tuple) else v for option, v in options.items()}
    return {key: name} | {option: v for option, v in written.items() if v is not None}
