"""Parse column names into groups of columns and the joints they belong to."""

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

# Between the words of a joint's name, any separator is accepted: shoulder_pan, ShoulderPan; joint1, joint-1.
_BETWEEN_WORDS = re.compile(
    r"[_\-. /]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
# Positions where a word of a column name may begin or end.
_BOUNDARY = re.compile(r"(?<![^\W_])|(?![^\W_])|(?<=[a-z\d])(?=[A-Z])")
_PLACE = "\0"
# Names in a printed list.
_LISTED = re.compile(r"""['"]([^'",\[\]]+)['"]""")
# Address of an object in a drive, with its subindex. Its digits are not joint numbers.
_ADDRESS = re.compile(r"(?<![^\W_])0x[0-9A-Fa-f]+(?:[/:.](?:0x)?[0-9A-Fa-f]+)?(?![^\W_])")


@dataclass(frozen=True)
class Family:
    """Columns whose names differ only in a joint or a number.

    Attributes
    ----------
    template : str
        Common name with {joint}, {number} or {index}.
    columns : tuple of str
        Columns in the robot's joint order if `named`, otherwise in the order of their numbers.
    joints : tuple of str
        Joints that the columns belong to.
    named : bool
        Whether the columns are assigned to joints by name.
    first : int
        Lowest number, 0 or 1.
    missing : tuple of str
        Joints without a column.
    meaning : Meaning
        Signal, role and unit.
    labels : str
        Text columns whose cells name the joint of each number.
    in_part : bool
        Whether the columns contain joint names without their common prefix.
    ordered : tuple of str
        Evidence for the order of the numbers, if it was determined.

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
        """Number of columns in excess of one per joint."""
        return max(0, len(self.columns) - len(self.joints)) if not self.named else 0


@dataclass(frozen=True)
class Labels:
    """Text columns that name the joint of each number.

    Attributes
    ----------
    template : str
        Common name of the text columns.
    joint_of : dict
        Joint by number.

    """

    template: str
    joint_of: Mapping[int, str]

    def counted_from(self, first: int) -> Labels:
        """The same joints, numbered from `first`, for example for columns from 1 next to a list that counts from 0."""
        more = first - min(self.joint_of)
        return replace(self, joint_of={k + more: joint for k, joint in self.joint_of.items()})


# Signal of a group whose name contains only this text and the joint, if no other group has that signal. "u"
# is the input in the equations of motion.
_ALONE = {
    "": Meaning("position", said_by="columns named only by the joints are their positions"),
    "v": Meaning("velocity", said_by="name"),
    **dict.fromkeys(("u", "control", "controls", "ctrl"), Meaning("effort", said_by="name")),
    **dict.fromkeys(
        ("enc", "encoder", "pulse", "pulses", "count", "counts"), Meaning("position", said_by="name")
    ),
}
# Other names of the joints in Universal Robots' manuals and programs, by the names in the robot's URDF.
_OTHERWISE = {
    "shoulder_pan": "base",
    "shoulder_lift": "shoulder",
    "elbow": "elbow",
    "wrist_1": "wrist_1",
    "wrist_2": "wrist_2",
    "wrist_3": "wrist_3",
}
# Minimum number of joints named in full for a group, even if the robot has more joints: one arm of two, a leg
# of four. Shortened names must cover two thirds of the joints.
_LEAST_IN_FULL = 2


def families(
    columns: Sequence[str],
    joints: Sequence[str],
    known: Sequence[Preset],
    bag: bool = False,
    labels: Labels | None = None,
) -> list[Family]:
    """Group the columns by joint or number, with the meaning of each group from presets or from its words.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    joints : sequence of str
        Names of the joints.
    known : sequence of Preset
        Presets that match the robot, best match first.
    bag : bool
        Whether the columns come from a bag.
    labels : Labels or None
        Joint of each number according to the log's text columns. Groups with other numbers ignore it.

    """
    left = list(dict.fromkeys(columns))
    labelled: list[Family] = []
    for template, by_number in _numbered_groups(left, len(labels.joint_of)) if labels is not None else ():
        shifted = labels.counted_from(min(by_number)) if labels is not None else None
        if shifted is not None and by_number.keys() == shifted.joint_of.keys():
            labelled.append(_labelled(template, by_number, joints, shifted, known, bag))
            left = [column for column in left if column not in by_number.values()]
    members_of: list[tuple[str, dict[str, str] | dict[int, str]]] = []
    for template, by_joint in _named_groups(left, joints):
        members_of.append((template, by_joint))
        left = [column for column in left if column not in by_joint.values()]
    numbered = sorted(_numbered_groups(left, len(joints)), key=lambda entry: -len(entry[1]))
    for template, by_number in numbered:
        members = {k: c for k, c in by_number.items() if c in left}
        if len(members) == len(by_number):
            members_of.append((template, members))
            left = [column for column in left if column not in members.values()]
    if len(joints) == 1:
        of_rows = {
            name for name, meaning in single(left, known) if meaning.quantity in ("time", "trajectory")
        }
        members_of += [(column, {joints[0]: column}) for column in left if column not in of_rows]
    groups = [
        *labelled,
        *(_family(template, members, joints, known, bag) for template, members in members_of),
    ]
    return _with_bare(_with_axes_of_currents(groups))


def _with_axes_of_currents(groups: list[Family]) -> list[Family]:
    """Reclassify "q_current" as a current if it is the q axis of a motor's field, not a present position q.

    This holds if there is also a "d_current", or a group whose name calls it a position in words. The q axis
    produces the torque.
    """

    def is_of_field(group: Family) -> bool:
        spelt = words(group.template)
        if group.meaning.quantity != "position" or ("q", "current") not in pairwise(spelt):
            return False
        direct = tuple("d" if word == "q" else word for word in spelt)
        return any(
            words(other.template) == direct
            or (
                other.meaning.quantity == "position"
                and other.meaning.role in ("", "measured")
                and "q" not in words(other.template)
            )
            for other in groups
        )

    current = Meaning("current", said_by="name")
    return [replace(group, meaning=current) if is_of_field(group) else group for group in groups]


def _with_bare(groups: list[Family]) -> list[Family]:
    """Assign a signal to groups with an otherwise empty name if no other group has that signal."""
    known = {group.meaning.quantity for group in groups}
    of_effort = known & {"torque", "effort", "current", "raw"}
    for letter, meaning in _ALONE.items():
        bare = [
            k
            for k, group in enumerate(groups)
            if not group.meaning.quantity and _letters(group.template) == letter
        ]
        if (
            len(bare) == 1
            and meaning.quantity not in known
            and not (meaning.quantity == "effort" and of_effort)
        ):
            groups = [
                replace(group, meaning=meaning) if k in bare else group for k, group in enumerate(groups)
            ]
    return groups


def _letters(template: str) -> str | None:
    """Words of a name besides the joint or number and words without meaning; None if nothing is left."""
    place = re.search(r"\{(joint|number|index)\}", template)
    spelt = words(template.replace(place.group(), " ") if place else template)
    letters = " ".join(word for word in spelt if word not in PLAIN_WORDS | MEASURED)
    return letters if place or letters else None


def columns_of_slide(joint: str, columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Column and unit of a joint's position, velocity and effort, if the name states a unit of length, speed or force.

    A signal is left out if several columns match, or if the name marks it as commanded or computed.
    """
    matches: dict[str, list[tuple[str, str]]] = {kind: [] for kind in ("position", "velocity", "effort")}
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
            matches[kind].append((column, stated[1]))
    return {kind: entries[0] for kind, entries in matches.items() if len(entries) == 1}


def naming(joint: str, columns: Iterable[str]) -> list[str]:
    """Columns whose names contain the joint's name as separate words."""
    return [column for column in columns if _bounded(joint, column) is not None]


def joint_labels(texts: Mapping[str, Iterable[object]], joints: Sequence[str]) -> Labels | None:
    """Text columns whose cells are joint names and constant over all rows; None if there are none.

    A single column may also contain a printed Python list: in ['elbow', 'wrist'], the joints have the numbers
    0 and 1.

    Parameters
    ----------
    texts : dict
        Cells by column.
    joints : sequence of str
        Names of the joints.

    """
    for template, by_number in _numbered_groups(list(texts), 1):
        cells = {k: {str(cell) for cell in texts[column]} for k, column in by_number.items()}
        named = {k: next(iter(values)) for k, values in cells.items() if len(values) == 1}
        listed_joints = [joint for joint in named.values() if joint in joints]
        if len(named) == len(by_number) and len(listed_joints) == len(set(listed_joints)) >= min(
            _LEAST_IN_FULL, len(joints)
        ):
            return Labels(_numbered_as(template, min(named)), named)
    for column, text in texts.items():
        lists = {str(cell) for cell in text}
        listed = _LISTED.findall(next(iter(lists))) if len(lists) == 1 else []
        listed_joints = [joint for joint in listed if joint in joints]
        if len(set(listed)) == len(listed) and len(listed_joints) >= min(_LEAST_IN_FULL, len(joints)):
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
    """Groups of columns by joint name, largest first."""
    groups: dict[str, dict[str, str]] = {}
    in_full: set[str] = set()
    for aliases in _aliases(joints):
        fresh: dict[str, dict[str, str]] = {}
        for column in columns:
            for joint, alias in sorted(aliases.items(), key=lambda entry: -len(entry[1])):
                place = _bounded(alias, column)
                if place is not None:
                    template = _with_places(column, alias)
                    fresh.setdefault(template, {}).setdefault(joint, column)
                    break
        taken = {c: template for template, group in groups.items() for c in group.values()}
        for template, group in fresh.items():
            others = {taken[c] for c in group.values() if c in taken}
            # A later alias replaces a group if it covers all of its columns and more joints.
            fuller = others == {template} and groups[template].items() < group.items()
            # If joint names have no common prefix, some may match in full by coincidence: e1 next to
            # joint_a1.
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
        # Drop parts of a longer numbered run that only look like names of some joints.
        if len(group) >= (_LEAST_IN_FULL if template in in_full else 2 * len(joints) / 3)
        and max(numbered.get(c, 0) for c in group.values()) <= len(group)
    ]
    return sorted(kept, key=lambda entry: -len(entry[1]))


def _lettered_groups(columns: Sequence[str], joints: Sequence[str]) -> dict[str, dict[str, str]]:
    """Groups of columns by the one letter that remains of each joint name without the common prefix.

    Joints axis_x or joint_1_x match columns that contain x. Because a letter alone is weak evidence, a group
    must cover all joints at one place in the name, and each column must contain only one of the letters.
    Units in brackets do not count.
    """
    common = _common_prefix(joints)
    rest = {joint: _BETWEEN_WORDS.split(joint[len(common) :]) for joint in joints}
    letters = {joint: "".join(part for part in parts if not part.isdigit()) for joint, parts in rest.items()}
    distinct = len(set(letters.values())) == len(letters)
    if (
        not common
        or not distinct
        or not all(len(letter) == 1 and letter.isalpha() for letter in letters.values())
    ):
        return {}
    groups: dict[str, dict[str, str]] = {}
    for column in columns:
        name = BRACKETED_UNIT.sub("", column)
        places = {joint: place for joint, letter in letters.items() if (place := _bounded(letter, name))}
        if len(places) == 1:
            joint, (start, end) = next(iter(places.items()))
            groups.setdefault(column[:start] + _PLACE + column[end:], {}).setdefault(joint, column)
    return {template: group for template, group in groups.items() if len(group) == len(joints)}


def _aliases(joints: Sequence[str]) -> list[dict[str, str]]:
    """Aliases of the joints: full names, names without the common prefix, and both without "joint"."""

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
    short = {joint: name.removesuffix("_joint") for joint, name in ways[1].items()}
    if set(short.values()) == set(_OTHERWISE):
        ways.append({joint: _OTHERWISE[name] for joint, name in short.items()})
    kept = []
    for k, way in enumerate(ways):
        in_full = k == 0
        names = [alias.strip("_-. /") for alias in way.values()]
        # A single letter counts if it is a full name, such as x, y and z of a gantry, but not if it is a
        # remainder.
        shortest = 1 if in_full else 2
        if len(set(names)) == len(names) and all(len(n) >= shortest and not n.isdigit() for n in names):
            kept.append(dict(zip(way, names, strict=True)))
    return kept


def _common_prefix(joints: Sequence[str]) -> str:
    """Common prefix of all names, up to the last separator."""
    if len(joints) < 2:
        return ""
    first, last = min(joints), max(joints)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    at = max(first[:same].rfind(mark) for mark in "_-./ ")
    return first[: at + 1]


def _bounded(alias: str, column: str) -> tuple[int, int] | None:
    """Start and end of a joint name in a column name, with any separators between its words; None if absent."""
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
    """Replace each occurrence of a joint name by a placeholder, as in elbow/q_elbow, where a file name precedes it."""
    while (place := _bounded(alias, column)) is not None:
        column = column[: place[0]] + _PLACE + column[place[1] :]
    return column


def _numbered_groups(columns: Sequence[str], n: int) -> list[tuple[str, dict[int, str]]]:
    """Groups of column names with consecutive numbers at one place, from 0 or 1, at least one per joint.

    A run of exactly one column per joint may start at any number, such as a motor address.
    """
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        addresses = [address.span() for address in _ADDRESS.finditer(column)]
        for match in re.finditer(r"\d+", column):
            if any(a <= match.start() < b for a, b in addresses):
                continue
            # A number inside a name may belong to the robot, so every number is tried.
            template = column[: match.start()] + _PLACE + column[match.end() :]
            groups.setdefault(template, {})[int(match.group())] = column
            # The joint number may occur several times: joint1/q1.
            everywhere = re.sub(rf"(?<!\d){match.group()}(?!\d)", _PLACE, column)
            groups.setdefault(everywhere, {})[int(match.group())] = column
    runs = []
    for template, members in groups.items():
        numbers = sorted(members)
        for first in (0, 1):
            run = [k for k in numbers if k >= first]
            whole = run == list(range(first, first + len(run)))
            if whole and len(run) == len(numbers) and len(run) >= n and (n > 1 or first in members):
                runs.append((template, {k: members[k] for k in run}))
                break
        else:
            if len(numbers) == n > 1 and numbers[-1] - numbers[0] == n - 1:
                runs.append((template, {k: members[k] for k in numbers}))
    return runs
