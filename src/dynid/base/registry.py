"""Names that are loaded when they are asked for: public names of rooms, plug-ins, kinds in experiment files."""

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


# Public names of a room that are loaded on first use, so that importing one module does not load its whole
# room.


def lazily(
    package: str, homes: Mapping[str, str], moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that shows these names and nothing else.

    Parameters
    ----------
    package
        Name of the package.
    homes
        By module of the package, the names that it gives, with blanks between. No name may be that of a module.
    moved
        By package, the names that used to be here and are there now: they still work, with a DeprecationWarning.

    """
    there = {name: other for other, names in (moved or {}).items() for name in names.split()}
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        if name in there:
            warn(f"{package}.{name} is {there[name]}.{name} now", DeprecationWarning, stacklevel=2)
            return getattr(import_module(there[name]), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted({*modules, *getattr(import_module(package), "__all__", ())})


# The version of the package; pyproject.toml has the same.

__version__ = "0.1.0"


# Kinds by name: built-in ones, those that a program or a named plug-in registered, and installed ones.
#
# A name is looked up among the built-in kinds, then among the registered ones, then among the entry points
# of installed packages. Nothing of a plug-in is imported before its name is asked for.

Kind = TypeVar("Kind")
_OWN = "dynid"
_REGISTRIES: dict[str, Registry[Any]] = {}
# Modules that the user named, as they were named, in the order of their first use.
_NAMED: dict[str, ModuleType] = {}


@dataclass(frozen=True)
class _Home:
    """Where a kind of dynid's own is defined that nobody has asked for yet."""

    module: str
    name: str

    def load(self) -> Any:
        """The kind."""
        kind = getattr(import_module(self.module), self.name.removesuffix("()"))
        return kind() if self.name.endswith("()") else kind


class Registry(MutableMapping[str, Kind], Generic[Kind]):
    """The kinds of one sort: terms, rows, estimators, readers, constraints or commands.

    what: one of them in words.    group: of the entry points of installed packages.    builtin: dynid's own.
    homes: module:name of further ones of dynid's own, which are loaded when they are asked for; module:Name() is an
    object of that class.
    Its length and iteration are those of all kinds but installed ones; `in` and `[]` know these as well.
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
        """Dynid's own kinds."""
        return {name: self[name] for name in self._builtin}

    @property
    def added(self) -> Mapping[str, Kind]:
        """Registered kinds."""
        return dict(self._added)

    def build_in(self, homes: Mapping[str, str]) -> None:
        """Adds kinds of dynid's own by the places that they are loaded from, module:name."""
        self._builtin |= {name: _Home(*home.split(":")) for name, home in homes.items()}

    def register(self, name: str, kind: Kind) -> Kind:
        """Makes a kind known by a name; raises UsageError for the name of a built-in one."""
        if name in self._builtin and self[name] is not kind:
            raise UsageError(
                "name-taken",
                found=f"{self.what} '{name}', which dynid has itself",
                expected="a name of its own",
                do="give it another name",
            )
        if name not in self._builtin:
            self._added[name] = kind
        return kind

    def installed(self) -> tuple[str, ...]:
        """Names of the kinds that installed packages offer; none of them is imported."""
        return tuple(sorted({entry.name for entry in _entry_points(self.group)}))

    def names(self) -> tuple[str, ...]:
        """Every name that may be asked for."""
        return tuple(dict.fromkeys((*self, *self.installed())))

    def meant(self, name: str) -> str:
        """A question after the name nearest to a wrong one; "" where none is near."""
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
            found=f"{noun} '{entry.name}' of the package {package}, which cannot be imported "
            f"({type(error).__name__}: {error})",
            expected=f"{entry.value}",
            do=f"install another version: pip install --upgrade {package}",
        ) from error


def load_plugins(names: Iterable[str], folder: Path | None = None, place: Place = NOWHERE) -> None:
    """Imports plug-ins that the user named: modules, or Python files beside an experiment file.

    folder: where files are looked for; None = the working folder.
    Raises InputError for one that is not there, ResourceError for one that cannot be imported.
    """
    for name in names:
        if name in _NAMED:
            continue
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
                expected="a Python module that can be imported, or a file that ends in .py",
                do="install the package that brings it, or put its folder on PYTHONPATH",
                place=place,
            ) from error
        except FileNotFoundError as error:
            raise InputError(
                "missing-plugin", found=f"no file '{name}'", expected="a plug-in", place=place
            ) from error
        except Exception as error:  # whatever a plug-in does when it is imported
            raise _broken(name, error, place) from error


def _broken(name: str, error: Exception, place: Place) -> ResourceError:
    return ResourceError(
        "plugin-broken",
        found=f"plug-in '{name}', which cannot be imported ({type(error).__name__}: {error})",
        expected="a module without errors",
        place=place,
    )


def _of_file(name: str, folder: Path) -> ModuleType:
    path = (folder / name).resolve()
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(name)
    module = module_from_spec(spec)
    # Classes look their module up by name, as dataclasses do while they are made.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


@dataclass(frozen=True)
class Need:
    """A kind that is not dynid's own: what needs it names where it came from.

    kind: sort of it, as "term".    module: where it is defined.    package: name and version of what brought it; "" for
    a module that belongs to none.
    """

    kind: str
    name: str
    module: str = ""
    package: str = ""

    @staticmethod
    def of(kind: str, name: str, made: Any) -> Need | None:
        """The need of a kind (a class or an instance); None for dynid's own."""
        module = (made if isinstance(made, type) or hasattr(made, "__name__") else type(made)).__module__
        if module == _OWN or module.startswith(f"{_OWN}."):
            return None
        return Need(kind, name, module, _package_of(kind, name, module))

    @property
    def text(self) -> str:
        """Name and origin in words."""
        source = f" of {self.module}" if self.module else ""
        return f"the {self.kind} '{self.name}'{source}" + (f" ({self.package})" if self.package else "")

    @property
    def remedy(self) -> str:
        """What to do where it is missing."""
        install = f"pip install {self.package.split()[0]}" if self.package else ""
        named = f"name its module: --plugin {self.module}" if self.module not in ("", "__main__") else ""
        registration = (
            f"register it before, as {self.kind} '{self.name}'" if self.module == "__main__" else ""
        )
        return (
            " or ".join(filter(None, (install, named, registration))) or "install the package that brings it"
        )


def _package_of(kind: str, name: str, module: str) -> str:
    group = _REGISTRIES[kind].group if kind in _REGISTRIES else ""
    for entry in _entry_points(group, name):
        if entry.dist is not None and entry.module == module:
            return f"{entry.dist.name} {entry.dist.version}"
    from importlib.metadata import packages_distributions, version

    distributions = packages_distributions().get(module.partition(".")[0], [])
    return f"{distributions[0]} {version(distributions[0])}" if distributions else ""


def refuse_missing(needs: Sequence[Need], place: Place = NOWHERE) -> None:
    """Raises InputError for the first kind that is neither known nor installed."""
    for need in needs:
        registry = _REGISTRIES.get(need.kind)
        if registry is not None and need.name not in registry:
            raise InputError(
                "missing-plugin",
                found=f"{need.text}, which is not known here",
                expected="the plug-in that brings it",
                do=need.remedy,
                place=place,
            )


def named_for(needs: Iterable[Need]) -> list[str]:
    """Which of the modules that the user named bring the needed kinds, as they were named."""
    modules = {need.module for need in needs}
    return [
        name
        for name, module in _NAMED.items()
        if any(needed == module.__name__ or needed.startswith(f"{module.__name__}.") for needed in modules)
    ]


# Entries of an experiment that name one of several kinds, with options.


def meant(name: str, known: Collection[str], cutoff: float = 0.4) -> str:
    """A question after the known name nearest to a wrong one, for the advice of an error; "" where none is near."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def option_value(kind: type[Any], name: str, option: str, value: Any) -> Any:
    """Value of an option of a dataclass as the field of that name is typed, lists as tuples where it wants tuples.

    Raises InputError for a value of another type or out of range.
    """
    described = options_of(kind)[option]
    read = converted(described.hint, described.option, value)
    if read is not MISSING:
        return read
    # Loaded for what is wrong, and for values of other types: it takes as long as a small command.
    from pydantic import TypeAdapter, ValidationError

    # As JSON, in which types are strict and lists may be tuples all the same.
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
    """Name, kind and options of an entry `name` or `{key = name, option = value}`.

    Raises InputError for an unknown name or option.
    """
    options = {} if isinstance(entry, str) else {k: value for k, value in entry.items() if k != key}
    name = entry if isinstance(entry, str) else str(entry.get(key, ""))
    if name not in kinds:
        raise InputError(
            f"unknown-{key}",
            found=f"{key} '{name}'",
            expected="one of " + ", ".join(_names(kinds)),
            do=meant(name, _names(kinds))
            or "install the plug-in that brings it, or name its module under plugins",
        )
    kind = kinds[name]
    known = options_of(kind)
    for option in options:
        if option not in known:
            raise InputError(
                "unknown-option",
                found=f"option '{option}' of {key} '{name}'",
                expected="one of " + (", ".join(known) or "no option"),
                do=meant(option, known),
            )
    return name, kind, options


def _names(kinds: Mapping[str, Any]) -> Collection[str]:
    return kinds.names() if isinstance(kinds, Registry) else kinds


def fields_of(kind: Any) -> Mapping[str, Described]:
    """Options of a kind; none for one that is no dataclass."""
    return options_of(kind) if is_dataclass(kind) else {}


def kind_from_spec(
    entry: str | Mapping[str, Any],
    key: str,
    kinds: Mapping[str, Any],
    value: Callable[[Any, str, str, Any], Any] = option_value,
) -> Any:
    """The kind that an entry `name` or `{key = name, option = value}` describes.

    value: (kind, name, option, plain value) -> value of the option.
    Raises InputError for an unknown name, an unknown option, a missing one, or a value that it does not take.
    """
    name, kind, options = named_kind(entry, key, kinds, fields_of)
    missing = [
        option
        for option, described in fields_of(kind).items()
        if described.required and option not in options
    ]
    if missing:
        raise InputError(
            "missing-option", found=f"{key} '{name}' without {', '.join(missing)}", expected="all of them"
        )
    return kind(**{option: value(kind, name, option, given) for option, given in options.items()})


def kind_to_spec(
    instance: Any, key: str, name: str, plain: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """{key: name, option: value, ...} of a kind, from which `kind_from_spec` makes it again.

    What is None is left out: TOML cannot write it, and it is the default.
    """
    options = {option: plain(getattr(instance, option)) for option in fields_of(type(instance))}
    written = {option: list(v) if isinstance(v, tuple) else v for option, v in options.items()}
    return {key: name} | {option: v for option, v in written.items() if v is not None}
