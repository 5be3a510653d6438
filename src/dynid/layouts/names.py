"""Column names taken apart: which columns belong together, and to which joints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from dynid.base.records import dataclass
from dynid.layouts.meaning import (
    BRACKETED_UNIT,
    KINDS,
    MEASURED,
    PLAIN_WORDS,
    Meaning,
    meaning_of,
    role_of,
    single,
    unit_of_slide,
    words,
)
from dynid.layouts.presets import Preset

# Between words of a joint's name, which logs join as they like: shoulder_pan, ShoulderPan; joint1, joint-1.
_BETWEEN_WORDS = re.compile(
    r"[_\-. /]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
# Where a word may begin or end within a name.
_BOUNDARY = re.compile(r"(?<![^\W_])|(?![^\W_])|(?<=[a-z\d])(?=[A-Z])")
_PLACE = "\0"
# Names in a printed list.
_LISTED = re.compile(r"""['"]([^'",\[\]]+)['"]""")
# Of an object in a drive, with its subindex: no digit of it is the number of a joint.
_ADDRESS = re.compile(r"(?<![^\W_])0x[0-9A-Fa-f]+(?:[/:.](?:0x)?[0-9A-Fa-f]+)?(?![^\W_])")


@dataclass(frozen=True)
class Family:
    """Columns that differ in a joint or a number alone.

    template: their name with {joint}, {number} or {index}.    columns: by joint, in the robot's order, where names of
    joints were found; else by number.    named: whether they were.    first: the first number, 0 or 1.
    missing: joints without a column.    labels: the columns of text whose cells name the joint of each number.
    in_part: whether the columns hold the names of the joints without what these have in common.    ordered: what says
    which joints the numbers are of, where that was found out.
    """

    template: str
    columns: tuple[str, ...]
    joints: tuple[str, ...]
    named: bool
    first: int
    missing: tuple[str, ...]
    meaning: Meaning
    labels: str = ""
    in_part: bool = False
    ordered: tuple[str, ...] = ()

    @property
    def spare(self) -> int:
        """Columns beyond one a joint."""
        return max(0, len(self.columns) - len(self.joints)) if not self.named else 0


@dataclass(frozen=True)
class Labels:
    """Columns of text that name the joint of each number.    template: their name.    joint_of: by number."""

    template: str
    joint_of: Mapping[int, str]

    def counted_from(self, first: int) -> Labels:
        """The same joints, the first of them of another number: 1 of columns beside a list, which counts from 0."""
        more = first - min(self.joint_of)
        return replace(self, joint_of={k + more: joint for k, joint in self.joint_of.items()})


# What a group is whose name says nothing beside the joint but this letter, where no other group is of that quantity;
# "u" is the input of the equations of motion.
_ALONE = {
    "": Meaning("position", said_by="columns with the names of the joints alone are their positions"),
    "v": Meaning("velocity", said_by="name"),
    **dict.fromkeys(("u", "control", "controls", "ctrl"), Meaning("effort", said_by="name")),
    **dict.fromkeys(
        ("enc", "encoder", "pulse", "pulses", "count", "counts"), Meaning("position", said_by="name")
    ),
}
# What Universal Robots' own pages and programs call the joints of their descriptions.
_OTHERWISE = {
    "shoulder_pan": "base",
    "shoulder_lift": "shoulder",
    "elbow": "elbow",
    "wrist_1": "wrist_1",
    "wrist_2": "wrist_2",
    "wrist_3": "wrist_3",
}
# So many joints that are named in full have their columns, however many more the robot has: one arm of two, a leg of
# four. Shortened names have to cover two joints in three.
_LEAST_IN_FULL = 2


def families(
    columns: Sequence[str],
    joints: Sequence[str],
    known: Sequence[Preset],
    bag: bool = False,
    labels: Labels | None = None,
) -> list[Family]:
    """Columns grouped by joint or number, each group with what presets or its words say of it.

    known: presets that fit the robot, the most fitting one first.    bag: whether the columns are those of a bag.
    labels: what the log's own text says of the numbers; groups of another count are none of it.
    """
    left = list(dict.fromkeys(columns))
    labelled: list[Family] = []
    for template, by_number in _numbered_groups(left, len(labels.joint_of)) if labels is not None else ():
        own = labels.counted_from(min(by_number)) if labels is not None else None
        if own is not None and by_number.keys() == own.joint_of.keys():
            labelled.append(_labelled(template, by_number, joints, own, known, bag))
            left = [one for one in left if one not in by_number.values()]
    found: list[tuple[str, dict[str, str] | dict[int, str]]] = []
    for template, by_joint in _named_groups(left, joints):
        found.append((template, by_joint))
        left = [one for one in left if one not in by_joint.values()]
    numbered = sorted(_numbered_groups(left, len(joints)), key=lambda one: -len(one[1]))
    for template, by_number in numbered:
        members = {k: c for k, c in by_number.items() if c in left}
        if len(members) == len(by_number):
            found.append((template, members))
            left = [one for one in left if one not in members.values()]
    if len(joints) == 1:
        of_rows = {name for name, said in single(left, known) if said.quantity in ("time", "trajectory")}
        found += [(one, {joints[0]: one}) for one in left if one not in of_rows]
    groups = [*labelled, *(_family(template, members, joints, known, bag) for template, members in found)]
    return _with_bare(_with_axes_of_currents(groups))


def _with_axes_of_currents(found: list[Family]) -> list[Family]:
    """The groups; "q_current" is a current, and no present q, beside "d_current" or what is called a position in words.

    q and d are the axes of a motor's field: that of q makes the torque.
    """

    def is_of_field(one: Family) -> bool:
        spelt = words(one.template)
        if one.meaning.quantity != "position" or ("q", "current") not in pairwise(spelt):
            return False
        direct = tuple("d" if word == "q" else word for word in spelt)
        return any(
            words(other.template) == direct
            or (
                other.meaning.quantity == "position"
                and other.meaning.role in ("", "measured")
                and "q" not in words(other.template)
            )
            for other in found
        )

    current = Meaning("current", said_by="name")
    return [replace(one, meaning=current) if is_of_field(one) else one for one in found]


def _with_bare(found: list[Family]) -> list[Family]:
    """The groups, with a meaning for those that no other group's name says more of."""
    known = {one.meaning.quantity for one in found}
    of_effort = known & {"torque", "effort", "current", "raw"}
    for letter, meaning in _ALONE.items():
        bare = [
            k for k, one in enumerate(found) if not one.meaning.quantity and _letters(one.template) == letter
        ]
        if (
            len(bare) == 1
            and meaning.quantity not in known
            and not (meaning.quantity == "effort" and of_effort)
        ):
            found = [replace(one, meaning=meaning) if k in bare else one for k, one in enumerate(found)]
    return found


def _letters(template: str) -> str | None:
    """What a name says beside the joint or number and words that say nothing; None = nothing, without either."""
    place = re.search(r"\{(joint|number|index)\}", template)
    spelt = words(template.replace(place.group(), " ") if place else template)
    letters = " ".join(word for word in spelt if word not in PLAIN_WORDS | MEASURED)
    return letters if place or letters else None


def columns_of_slide(joint: str, columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Columns that name a joint and a unit of length, speed or force: (column, unit) of position, velocity, effort.

    Left out where several do, or the name says that it was commanded or computed.
    """
    found: dict[str, list[tuple[str, str]]] = {kind: [] for kind in ("position", "velocity", "effort")}
    for column in columns:
        place = _bounded(joint, column)
        if place is None:
            continue
        rest = f"{column[: place[0]]} {column[place[1] :]}"
        spelt, stated = words(BRACKETED_UNIT.sub("", rest)), unit_of_slide(rest, "")
        kinds = {
            "effort" if name == "torque" else name for name, vocabulary in KINDS if set(spelt) & vocabulary
        }
        kinds |= {"effort"} if "force" in spelt else set()
        if len(kinds) > 1 or role_of(spelt, set(spelt)) in ("commanded", "estimated", "model"):
            continue
        kind = "effort" if stated and stated[0] == "torque" else stated[0] if stated else ""
        if stated and kinds <= {kind}:
            found[kind].append((column, stated[1]))
    return {kind: one[0] for kind, one in found.items() if len(one) == 1}


def naming(joint: str, columns: Iterable[str]) -> list[str]:
    """Columns whose names hold that of a joint as a word."""
    return [column for column in columns if _bounded(joint, column) is not None]


def joint_labels(texts: Mapping[str, Iterable[object]], joints: Sequence[str]) -> Labels | None:
    """Columns of text whose cells are the names of joints, the same in every row; None = there are none.

    One column may list them, as Python prints a list: ['elbow', 'wrist'] are the joints of numbers 0 and 1.
    texts: cells by column.
    """
    for template, by_number in _numbered_groups(list(texts), 1):
        cells = {k: {str(one) for one in texts[column]} for k, column in by_number.items()}
        named = {k: next(iter(found)) for k, found in cells.items() if len(found) == 1}
        own = [one for one in named.values() if one in joints]
        if len(named) == len(by_number) and len(own) == len(set(own)) >= min(_LEAST_IN_FULL, len(joints)):
            return Labels(_numbered_as(template, min(named)), named)
    for column, text in texts.items():
        lists = {str(one) for one in text}
        listed = _LISTED.findall(next(iter(lists))) if len(lists) == 1 else []
        own = [one for one in listed if one in joints]
        if len(set(listed)) == len(listed) and len(own) >= min(_LEAST_IN_FULL, len(joints)):
            return Labels(column, dict(enumerate(listed)))
    return None


def _family(
    template: str,
    members: Mapping[str, str] | Mapping[int, str],
    joints: Sequence[str],
    known: Sequence[Preset],
    bag: bool,
) -> Family:
    of_joints = {str(k): c for k, c in members.items() if isinstance(k, str)}
    if of_joints:
        have = tuple(j for j in joints if j in of_joints)
        shown = template.replace(_PLACE, "{joint}")
        meaning = meaning_of(shown, "{joint}", known, bag, tuple(of_joints.values()))
        missing = tuple(j for j in joints if j not in of_joints)
        in_part = any(_bounded(joint, column) is None for joint, column in of_joints.items())
        columns = tuple(of_joints[joint] for joint in have)
        return Family(shown, columns, have, True, 1, missing, meaning, in_part=in_part)
    numbers = sorted(k for k in members if isinstance(k, int))
    shown = _numbered_as(template, numbers[0])
    ordered = tuple(str(members[k]) for k in numbers)  # type: ignore[index]  # of numbers only here
    meaning = meaning_of(template.replace(_PLACE, "{number}"), "{number}", known, bag, ordered)
    return Family(shown, ordered, tuple(joints), False, numbers[0], (), meaning)


def _labelled(
    template: str,
    members: Mapping[int, str],
    joints: Sequence[str],
    labels: Labels,
    known: Sequence[Preset],
    bag: bool,
) -> Family:
    column = {labels.joint_of[k]: name for k, name in members.items()}
    have = tuple(j for j in joints if j in column)
    missing = tuple(j for j in joints if j not in column)
    shown, ordered = _numbered_as(template, min(members)), tuple(column[j] for j in have)
    meaning = meaning_of(
        template.replace(_PLACE, "{number}"), "{number}", known, bag, tuple(members.values())
    )
    return Family(shown, ordered, have, True, min(members), missing, meaning, labels.template)


def _numbered_as(template: str, first: int) -> str:
    return template.replace(_PLACE, "{index}" if first == 0 else "{number}")


def _named_groups(columns: Sequence[str], joints: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Groups by names of joints, those that cover most joints first."""
    groups: dict[str, dict[str, str]] = {}
    in_full: set[str] = set()
    for aliases in _aliases(joints):
        fresh: dict[str, dict[str, str]] = {}
        for column in columns:
            for joint, alias in sorted(aliases.items(), key=lambda one: -len(one[1])):
                place = _bounded(alias, column)
                if place is not None:
                    template = _with_places(column, alias)
                    fresh.setdefault(template, {}).setdefault(joint, column)
                    break
        taken = {c: template for template, group in groups.items() for c in group.values()}
        for template, group in fresh.items():
            others = {taken[c] for c in group.values() if c in taken}
            # Where a way that comes later knows all columns of a group, and more joints, it is the right one.
            fuller = others == {template} and groups[template].items() < group.items()
            # Of joints whose names have nothing in common some may be called in full by chance: e1 beside joint_a1.
            if not others or (fuller and (template not in in_full or len(group) == len(joints))):
                groups[template] = group
                in_full |= {template} if all(aliases[joint] == joint for joint in group) else set()
    for template, group in _lettered_groups(columns, joints).items():
        if not any(set(group.values()) & set(other.values()) for other in groups.values()):
            groups[template] = group
    numbered = {c: len(g) for _, g in _numbered_groups(columns, len(joints)) for c in g.values()}
    kept = [
        (template, group)
        for template, group in groups.items()
        # Numbers of a longer run that only look like names of some of the joints.
        if len(group) >= (_LEAST_IN_FULL if template in in_full else 2 * len(joints) / 3)
        and max(numbered.get(c, 0) for c in group.values()) <= len(group)
    ]
    return sorted(kept, key=lambda one: -len(one[1]))


def _lettered_groups(columns: Sequence[str], joints: Sequence[str]) -> dict[str, dict[str, str]]:
    """Groups by the letters that are left of the joints' names without what all have in common: axis_x, joint_1_x by x.

    A letter alone says little: a group has all of them, at one place, and no column another one; that of a unit in
    brackets is none.
    """
    common = _common_prefix(joints)
    rest = {joint: _BETWEEN_WORDS.split(joint[len(common) :]) for joint in joints}
    letters = {joint: "".join(part for part in parts if not part.isdigit()) for joint, parts in rest.items()}
    distinct = len(set(letters.values())) == len(letters)
    if not common or not distinct or not all(len(one) == 1 and one.isalpha() for one in letters.values()):
        return {}
    groups: dict[str, dict[str, str]] = {}
    for column in columns:
        name = BRACKETED_UNIT.sub("", column)
        places = {joint: place for joint, one in letters.items() if (place := _bounded(one, name))}
        if len(places) == 1:
            joint, (start, end) = next(iter(places.items()))
            groups.setdefault(column[:start] + _PLACE + column[end:], {}).setdefault(joint, column)
    return {template: group for template, group in groups.items() if len(group) == len(joints)}


def _aliases(joints: Sequence[str]) -> list[dict[str, str]]:
    """Ways to call the joints: their names, then without what all have in common and without "joint"."""

    def without(text: str) -> str:
        return re.sub(
            r"(^|[_\-. /])joint([_\-. /]|$)",
            lambda m: "_" if m[1] and m[2] else "",
            text,
            flags=re.IGNORECASE,
        )

    common = _common_prefix(joints)
    ways = [
        {j: j for j in joints},
        {j: j[len(common) :] for j in joints},
        {j: without(j) for j in joints},
        {j: without(j[len(common) :]) for j in joints},
    ]
    own = {joint: name.removesuffix("_joint") for joint, name in ways[1].items()}
    if set(own.values()) == set(_OTHERWISE):
        ways.append({joint: _OTHERWISE[name] for joint, name in own.items()})
    kept = []
    for k, way in enumerate(ways):
        in_full = k == 0
        names = [alias.strip("_-. /") for alias in way.values()]
        # A letter is a name of its own, as of a gantry's x, y and z, but what is left of one by chance.
        shortest = 1 if in_full else 2
        if len(set(names)) == len(names) and all(len(n) >= shortest and not n.isdigit() for n in names):
            kept.append(dict(zip(way, names, strict=True)))
    return kept


def _common_prefix(joints: Sequence[str]) -> str:
    """What all names begin with, up to the last separator."""
    if len(joints) < 2:
        return ""
    first, last = min(joints), max(joints)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    at = max(first[:same].rfind(mark) for mark in "_-./ ")
    return first[: at + 1]


def _bounded(alias: str, column: str) -> tuple[int, int] | None:
    """Where a column holds the words of a name, however they are joined, as words of its own."""
    for match in _joined_in_any_way(alias).finditer(column):
        start, end = match.span()
        if start < end and _BOUNDARY.match(column, start) and _BOUNDARY.match(column, end):
            return start, end
    return None


@lru_cache(maxsize=4096)
def _joined_in_any_way(name: str) -> re.Pattern[str]:
    parts = [part for part in _BETWEEN_WORDS.split(name) if part]
    return re.compile(r"[_\-. /]?".join(map(re.escape, parts)), re.IGNORECASE)


def _with_places(column: str, alias: str) -> str:
    """A column with a place wherever it holds a joint's name: a file's name may stand before it, elbow/q_elbow."""
    while (place := _bounded(alias, column)) is not None:
        column = column[: place[0]] + _PLACE + column[place[1] :]
    return column


def _numbered_groups(columns: Sequence[str], n: int) -> list[tuple[str, dict[int, str]]]:
    """Groups of names that count at one place, as long as there are joints: 0, 1, ... or 1, 2, ...

    Just as many from another number are one, too: the addresses of motors.
    """
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        addresses = [one.span() for one in _ADDRESS.finditer(column)]
        for match in re.finditer(r"\d+", column):
            if any(a <= match.start() < b for a, b in addresses):
                continue
            # A number in a name's middle may be that of the robot: every place is tried.
            template = column[: match.start()] + _PLACE + column[match.end() :]
            groups.setdefault(template, {})[int(match.group())] = column
            # The number may stand in several places: joint1/q1.
            everywhere = re.sub(rf"(?<!\d){match.group()}(?!\d)", _PLACE, column)
            groups.setdefault(everywhere, {})[int(match.group())] = column
    found = []
    for template, members in groups.items():
        numbers = sorted(members)
        for first in (0, 1):
            run = [k for k in numbers if k >= first]
            whole = run == list(range(first, first + len(run)))
            if whole and len(run) == len(numbers) and len(run) >= n and (n > 1 or first in members):
                found.append((template, {k: members[k] for k in run}))
                break
        else:
            if len(numbers) == n > 1 and numbers[-1] - numbers[0] == n - 1:
                found.append((template, {k: members[k] for k in numbers}))
    return found
