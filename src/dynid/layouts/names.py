"""Column names taken apart: which columns belong together, to which joints, and what their words say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dynid.layouts.presets import UNKNOWN, ChannelEntry, Preset

# Camel case, runs of capitals and numbers are words of their own; "%" begins the time column of rostopic.
_WORD = re.compile(
    r"%|(?<![A-Za-z])(?:mN\.?m|mA|N[mM])(?![A-Za-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    r"|加速度|时间|时刻|位置|角度|速度|力矩|扭矩|转矩|电流|温度|关节|目标|指令|期望|实际|反馈|测量|轴"
)
# Between words of a joint's name, which logs join as they like: shoulder_pan, ShoulderPan; joint1, joint-1.
_BETWEEN_WORDS = re.compile(
    r"[_\-. /]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
# Where a word may begin or end within a name.
_BOUNDARY = re.compile(r"(?<![^\W_])|(?![^\W_])|(?<=[a-z\d])(?=[A-Z])")
# German makes one word of two.
_COMPOUND = re.compile(
    r"(?<![a-z])(ist|soll|motor|achs|gelenk)(?=position|winkel|lage|moment|dreh|strom|geschw)", re.IGNORECASE
)
# Dots above a letter are derivatives, accents are not.
_DERIVED = re.compile("([qθ])(\u0307\u0307|[\u0307\u0308])")
_GREEK = {"θ": "theta", "τ": "tau", "ω": "omega"}
_ACCENTS = re.compile("[\u0300-\u036f]")
_PLACE = "\0"
_BRACKETED_UNIT = re.compile(r"\s*[\[(]\s*([A-Za-z/%*·.^° ]+?)\s*[\])]\s*$")

_POSITION = {
    "q",
    "qs",
    "pos",
    "position",
    "positions",
    "angle",
    "angles",
    "theta",
    "th",
    "qpos",
    "jpos",
    "qj",
    *("winkel", "lage", "angolo", "angulo", "posizione", "posicion", "位置", "角度"),
}
_VELOCITY = {"dq", "qd", "dqs", "qds", "vel", "velocity", "velocities", "speed", "speeds", "omega", "qvel", "dtheta",
             "qdot", "thetadot", "jvel", "geschwindigkeit", "drehzahl", "vitesse", "velocita", "velocidad",
             "速度"}  # fmt: skip
_ACCELERATION = {
    "ddq",
    "qdd",
    "acc",
    "accel",
    "acceleration",
    "accelerations",
    "qacc",
    "qddot",
    "ddtheta",
    "jerk",
    *("beschleunigung", "accelerazione", "aceleracion", "加速度"),
}
_TORQUE = {"tau", "taus", "torque", "torques", "trq", "moment", "moments", "tq", "jtorque", "tauj", "drehmoment",
           "couple", "coppia", "momento", "力矩", "扭矩", "转矩"}  # fmt: skip
_CURRENT = {"current", "currents", "cur", "curr", "i", "iq", "amps", "amp", "ampere", "amperes", "strom", "courant",
            "corrente", "corriente", "电流"}  # fmt: skip
_RAW = {"load", "loads", "pwm", "duty"}
_TEMPERATURE = {"temp", "temperature", "temperatures", "temperatur", "温度"}
_TIME = {"t", "time", "timestamp", "stamp", "times", "timestamps", "clock", "utime", "tm", "ts", "zeit", "zeitstempel",
         "millis", "micros", "temps", "tempo", "tiempo", "时间", "时刻"}  # fmt: skip
_EFFORT = {"effort", "efforts", "eff"}
_TRAJECTORY = {"traj", "trajectory", "episode", "run", "experiment", "motion", "segment", "trial"}
_MEASURED = {"actual", "act", "meas", "measured", "measure", "measurement", "fb", "feedback", "present", "real",
             "msr", "mes", "ist", "mesure", "misurato", "medido", "实际", "反馈", "测量"}  # fmt: skip
_COMMANDED = {"cmd", "command", "commanded", "commands", "des", "desired", "target", "targets", "tgt", "ref",
              "reference", "goal", "set", "setpoint", "sp", "soll", "action", "nominal", "planned", "plan", "ipo", "d",
              "r", "c", "input", "interpolated", "consigne", "consigna", "目标", "指令", "期望"}  # fmt: skip
# Drives call what they make of their current so; a model's torque is called so, too.
_ESTIMATED = {"est", "estimated", "estimate"}
_MODEL = {"model", "hat", "ext", "external", "gravity", "grav", "ff", "feedforward",
          "friction", "err", "error", "errors", "residual", "dist", "disturbance", "deviation", "predicted", "pred",
          "bias", "limit", "limits", "max", "min", "std", "offset", "contact", "collision"}  # fmt: skip
_FILTERED = {"filt", "filtered", "filter", "smooth", "smoothed", "lp", "lowpass"}
_MOTOR = {"motor", "motors", "m"}
_OF_MOTORS = {"qm": "q", "dqm": "dq", "qdm": "dq", "thetam": "theta", "dthetam": "dtheta"}
# Of the hand or the base, not of joints, whatever else is said.
_NOT_OF_JOINTS = {"tcp", "tool", "flange", "pose", "cartesian", "cart", "wrench", "ft", "imu", "ee", "twist", "force",
                  "forces", "voltage", "voltages", "mode", "modes", "frame", "camera", "finger", "fingers",
                  "enable", "enabled", "status", "flag"}  # fmt: skip
# "Joint1_Force": simulators say so of any joint's effort, and mean its torque where it turns.
_FORCE, _JOINT = {"force", "forces"}, {"joint", "joints", "axis", "axes"}
# Words that say nothing of what is measured.
_PLAIN = {"joint", "joints", "axis", "axes", "arm", "robot", "state", "states", "observation", "data", "j", "field",
          "msg", "log", "values", "value", "link", "topic", "header", "actuator", "actuators", "a", "base", "achse",
          "achs", "gelenk", "axe", "eje", "asse", "giunto", "dof", "关节", "轴"}  # fmt: skip
_UNITS = {
    "rad": ("position", "rad"), "radians": ("position", "rad"), "radian": ("position", "rad"),
    "deg": ("position", "deg"), "degree": ("position", "deg"), "degrees": ("position", "deg"),
    "rad/s": ("velocity", "rad/s"), "rads": ("velocity", "rad/s"), "radps": ("velocity", "rad/s"),
    "deg/s": ("velocity", "deg/s"), "degs": ("velocity", "deg/s"), "degps": ("velocity", "deg/s"),
    "rpm": ("velocity", "rpm"), "nm": ("torque", "N m"), "n m": ("torque", "N m"),
    "n*m": ("torque", "N m"), "n.m": ("torque", "N m"), "n·m": ("torque", "N m"),
    "mnm": ("torque", "mN m"), "ma": ("current", "mA"), "ampere": ("current", "A"),
    "amps": ("current", "A"), "ms": ("time", "ms"), "msec": ("time", "ms"), "us": ("time", "us"),
    "usec": ("time", "us"), "ns": ("time", "ns"), "nsec": ("time", "ns"), "sec": ("time", "s"),
    "°": ("position", "deg"), "°/s": ("velocity", "deg/s"), "u/min": ("velocity", "rpm"),
    "grad": ("position", "deg"), "grad/s": ("velocity", "deg/s"),
    "millis": ("time", "ms"), "micros": ("time", "us"),
    "secs": ("time", "s"), "seconds": ("time", "s"), "degc": ("temperature", "degC"),
    **dict.fromkeys(("pct", "percent", "prozent", "permille", "promille"), ("raw", "raw")),
}  # fmt: skip
# Letters that are a unit only where brackets or their place at the end behind a fitting quantity say so.
_LETTERS = {"s": ("time", "s"), "a": ("current", "A"), "m": ("position", "m"), "%": ("raw", "raw")}
# Quantities that a column has by its unit where no other word says more: "Achse1 [Grad]", "J1_rad".
_SAID_BY_UNIT = ("position", "velocity", "torque")
_KINDS: tuple[tuple[str, set[str]], ...] = (
    ("acceleration", _ACCELERATION),
    ("velocity", _VELOCITY),
    ("position", _POSITION),
    ("torque", _TORQUE),
    ("effort", _EFFORT),
    ("raw", _RAW),
    ("temperature", _TEMPERATURE),
    ("current", _CURRENT),
)


@dataclass(frozen=True)
class Meaning:
    """What columns are said to be.

    quantity: as in presets, "effort" for a torque or current, "" = unknown.    role: "" = not said.
    unit: "unknown" = not said.    units: those that it may be in.    said_by: "name" or the preset's title with its
    source.    doubt, actuator: see presets.
    """

    quantity: str = ""
    role: str = ""
    unit: str = UNKNOWN
    said_by: str = ""
    side: str | None = None
    doubt: str = ""
    ordered: bool = False
    unordered: bool = False
    motor: bool = False
    actuator: str | None = None
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Columns that differ in a joint or a number alone.

    template: their name with {joint}, {number} or {index}.    columns: by joint, in the robot's order, where names of
    joints were found; else by number.    named: whether they were.    first: the first number, 0 or 1.
    missing: joints without a column.    labels: the columns of text whose cells name the joint of each number.
    """

    template: str
    columns: tuple[str, ...]
    joints: tuple[str, ...]
    named: bool
    first: int
    missing: tuple[str, ...]
    meaning: Meaning
    labels: str = ""

    @property
    def spare(self) -> int:
        """Columns beyond one a joint."""
        return max(0, len(self.columns) - len(self.joints)) if not self.named else 0


@dataclass(frozen=True)
class Labels:
    """Columns of text that name the joint of each number.    template: their name.    joint_of: by number."""

    template: str
    joint_of: Mapping[int, str]


# What a group is whose name says nothing beside the joint but this letter, where no other group is of that quantity;
# "u" is the input of the equations of motion.
_ALONE = {
    "": Meaning("position", said_by="columns with the names of the joints alone are their positions"),
    "v": Meaning("velocity", said_by="name"),
    "u": Meaning("effort", said_by="name"),
}
# So many joints that are named in full have their columns, however many more the robot has: one arm of two, a leg of
# four. Shortened names have to cover two joints in three.
_LEAST_IN_FULL = 2


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Words of a name in lower case; numbers are words."""
    plain = _DERIVED.sub(
        lambda one: "d" * (1 + (one[2] != "\u0307")) + one[1], unicodedata.normalize("NFKD", name)
    )
    for letter, spelt in _GREEK.items():
        plain = plain.replace(letter, spelt)
    plain = _COMPOUND.sub(r"\1 ", _ACCENTS.sub("", plain))
    return tuple(word.lower() for word in _WORD.findall(plain))


def families(
    columns: Sequence[str],
    joints: Sequence[str],
    known: Sequence[Preset],
    bag: bool = False,
    labels: Labels | None = None,
) -> list[Family]:
    """Columns grouped by joint or number, each group with what presets or its words say of it.

    known: presets that fit the robot, the most fitting one first.    bag: whether the columns are those of a bag.
    labels: what the log's own text says of the numbers; groups with other numbers are none of it.
    """
    left = list(dict.fromkeys(columns))
    labelled: list[Family] = []
    for template, by_number in _numbered_groups(left, len(labels.joint_of)) if labels is not None else ():
        if labels is not None and by_number.keys() == labels.joint_of.keys():
            labelled.append(_labelled(template, by_number, joints, labels, known, bag))
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
    return _with_bare(
        [*labelled, *(_family(template, members, joints, known, bag) for template, members in found)]
    )


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
    """What a name says beside the joint or number and words that say nothing; None = it has neither."""
    place = re.search(r"\{(joint|number|index)\}", template)
    if place is None:
        return None
    spelt = words(template.replace(place.group(), " "))
    return " ".join(word for word in spelt if word not in _PLAIN | _MEASURED)


# Of a joint that slides: by the last words of a name, or its bracket.
_UNITS_OF_SLIDES = {
    "position": {"m": "m", "mm": "mm"},
    "velocity": {"m/s": "m/s", "m s": "m/s", "mps": "m/s", "mm/s": "mm/s", "mm s": "mm/s", "mmps": "mm/s"},
    "effort": {"n": "N", "kn": "kN"},
}


def columns_of_slide(joint: str, columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Columns that name a joint and a unit of length, speed or force: (column, unit) of position, velocity, effort.

    Left out where several do, or the name says that it was commanded or computed.
    """
    found: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _UNITS_OF_SLIDES}
    for column in columns:
        place = _bounded(joint, column)
        if place is None:
            continue
        rest = f"{column[: place[0]]} {column[place[1] :]}"
        bracket, spelt = _BRACKETED_UNIT.search(rest), words(_BRACKETED_UNIT.sub("", rest))
        ends = [bracket.group(1).strip().lower()] if bracket else [" ".join(spelt[-2:]), " ".join(spelt[-1:])]
        kinds = {
            "effort" if name == "torque" else name for name, vocabulary in _KINDS if set(spelt) & vocabulary
        }
        kinds |= {"effort"} if "force" in spelt else set()
        if len(kinds) > 1 or _role(spelt, set(spelt)) in ("commanded", "estimated", "model"):
            continue
        for kind, units in _UNITS_OF_SLIDES.items():
            unit = next((units[end] for end in ends if end in units), None)
            if unit is not None and kinds <= {kind}:
                found[kind].append((column, unit))
                break
    return {kind: one[0] for kind, one in found.items() if len(one) == 1}


def naming(joint: str, columns: Iterable[str]) -> list[str]:
    """Columns whose names hold that of a joint as a word."""
    return [column for column in columns if _bounded(joint, column) is not None]


def is_filtered(template: str) -> bool:
    """Whether a name says that its values were filtered."""
    return bool(set(words(template)) & _FILTERED)


def joint_labels(texts: Mapping[str, Iterable[object]], joints: Sequence[str]) -> Labels | None:
    """Columns of text whose cells are the names of joints, the same in every row; None = there are none.

    texts: cells by column.
    """
    for template, by_number in _numbered_groups(list(texts), 1):
        cells = {k: {str(one) for one in texts[column]} for k, column in by_number.items()}
        named = {k: next(iter(found)) for k, found in cells.items() if len(found) == 1}
        own = [one for one in named.values() if one in joints]
        if len(named) == len(by_number) and len(own) == len(set(own)) >= min(_LEAST_IN_FULL, len(joints)):
            return Labels(_numbered_as(template, min(named)), named)
    return None


def single(columns: Iterable[str], known: Sequence[Preset]) -> list[tuple[str, Meaning]]:
    """Columns that stand alone, with what presets or their words say: of interest are time and trajectory."""
    return [(name, meaning_of(name, "", known, False)) for name in columns]


def most_fitting(columns: Sequence[str], known: Sequence[Preset], bag: bool = False) -> tuple[Preset, ...]:
    """The presets, those first that know most of the columns: "timestamp" means something else to each."""

    def hits(preset: Preset) -> int:
        return sum(
            any(_is(entry, one, "{number}" if "{" in entry.columns else "", (one,)) for one in columns)
            if "{joint}" not in entry.columns
            else any(_joint_entry(entry, one) for one in columns)
            for entry in preset.channel
            if entry.bag == bag
        )

    # One that is made for this robot knows better than one for all.
    counted = [(bool(one.robots) and hits(one) > 0, hits(one), one) for one in known]
    return tuple(one for *_, one in sorted(counted, key=lambda found: (-found[0], -found[1])))


def _joint_entry(entry: ChannelEntry, column: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"\{joint\}", entry.columns)]
    return re.search(".+".join(parts) + "$", column, flags=re.IGNORECASE) is not None


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
        return Family(shown, tuple(of_joints[j] for j in have), have, True, 1, missing, meaning)
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
                    template = column[: place[0]] + _PLACE + column[place[1] :]
                    fresh.setdefault(template, {}).setdefault(joint, column)
                    break
        taken = {c for group in groups.values() for c in group.values()}
        for template, group in fresh.items():
            if not taken & set(group.values()):
                groups[template] = group
                in_full |= {template} if all(aliases[joint] == joint for joint in group) else set()
    numbered = {c: len(g) for _, g in _numbered_groups(columns, len(joints)) for c in g.values()}
    kept = [
        (template, group)
        for template, group in groups.items()
        # Numbers of a longer run that only look like names of some of the joints.
        if len(group) >= (_LEAST_IN_FULL if template in in_full else 2 * len(joints) / 3)
        and max(numbered.get(c, 0) for c in group.values()) <= len(group)
    ]
    return sorted(kept, key=lambda one: -len(one[1]))


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
    kept = []
    for in_full, way in zip((True, False, False, False), ways, strict=True):
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
        if _BOUNDARY.match(column, start) and _BOUNDARY.match(column, end):
            return start, end
    return None


@lru_cache(maxsize=4096)
def _joined_in_any_way(name: str) -> re.Pattern[str]:
    parts = [part for part in _BETWEEN_WORDS.split(name) if part]
    return re.compile(r"[_\-. /]?".join(map(re.escape, parts)), re.IGNORECASE)


def _numbered_groups(columns: Sequence[str], n: int) -> list[tuple[str, dict[int, str]]]:
    """Groups of names that count 0, 1, ... or 1, 2, ... at one place, as long as there are joints."""
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        for match in re.finditer(r"\d+", column):
            # A number in a name's middle may be that of the robot: every place is tried.
            template = column[: match.start()] + _PLACE + column[match.end() :]
            groups.setdefault(template, {})[int(match.group())] = column
    found = []
    for template, members in groups.items():
        numbers = sorted(members)
        for first in (0, 1):
            run = [k for k in numbers if k >= first]
            whole = run == list(range(first, first + len(run)))
            if whole and len(run) == len(numbers) and len(run) >= n and (n > 1 or first in members):
                found.append((template, {k: members[k] for k in run}))
                break
    return found


def meaning_of(
    template: str, place: str, known: Sequence[Preset], bag: bool, columns: Sequence[str] = ()
) -> Meaning:
    """What presets say of a name, else what its words say.    columns: those that the template stands for."""
    stated = _stated_unit(template, place)
    for preset in known:
        for entry in preset.channel:
            if entry.bag == bag and _is(entry, template, place, columns):
                said = preset.said(entry.source)
                unit, doubt = entry.unit, entry.doubt
                if stated and stated[1] != unit:
                    unit, doubt = stated[1], f"the name says {stated[1]}, {preset.title} says {entry.unit}"
                return Meaning(
                    entry.quantity, entry.role, unit, said, entry.side, doubt,
                    ordered=preset.order is not None, unordered=entry.unordered, units=tuple(entry.units),
                    actuator=entry.actuator,
                )  # fmt: skip
    return _by_words(template, place, stated)


def _is(entry: ChannelEntry, template: str, place: str, columns: Sequence[str]) -> bool:
    """Whether a name is that of a preset, however its words are joined; words before it must say nothing else."""
    if entry.bag or not place or "{" not in entry.columns:
        # Names of bags and clocks are what they are: too little stands in them to be looser.
        return entry.columns.replace("{joint}", place).lower() == template.lower()
    wanted = _spelt(entry.columns)
    by_joint = "{joint}" in entry.columns
    if by_joint:
        return place == "{joint}" and _ends(_spelt(_without_unit(template, place)), wanted)
    numbers = [tuple("#" if w.isdigit() else w for w in words(_without_unit(one, ""))) for one in columns]
    return bool(numbers) and all(_ends(one, wanted) for one in numbers)


def _ends(name: Sequence[str], wanted: Sequence[str]) -> bool:
    at = len(name) - len(wanted)
    head, tail = tuple(name[: max(at, 0)]), tuple(name[max(at, 0) :])
    short = len("".join(wanted).replace("#", "")) <= 2
    return tail == tuple(wanted) and (not head or (not short and all(_says_nothing(word) for word in head)))


def _says_nothing(word: str) -> bool:
    meant = set().union(
        *(kind for _, kind in _KINDS),
        _MEASURED,
        _COMMANDED,
        _MODEL,
        _ESTIMATED,
        _MOTOR,
        _NOT_OF_JOINTS,
        _TIME,
    )
    return word in _PLAIN or word not in meant


@lru_cache(maxsize=4096)
def _spelt(text: str) -> tuple[str, ...]:
    parts = re.split(r"\{(?:joint|number|index)\}", text)
    out: list[str] = []
    for k, part in enumerate(parts):
        out += (["#"] if k else []) + list(words(part))
    return tuple(out)


@lru_cache(maxsize=4096)
def _without_unit(template: str, place: str) -> str:
    plain = _BRACKETED_UNIT.sub("", template)
    spelt = words(plain.replace(place, " ") if place else plain)
    if len(spelt) > 1 and spelt[-1] in _UNITS and not plain.endswith(place or "\0"):
        return re.sub(rf"[^A-Za-z0-9]*{spelt[-1]}[^A-Za-z0-9]*$", "", plain, flags=re.IGNORECASE)
    return plain


def _stated_unit(template: str, place: str) -> tuple[str, str] | None:
    """The unit that a name itself states: (quantity, unit)."""
    bracket = _BRACKETED_UNIT.search(template)
    if bracket:
        text = bracket.group(1).strip().lower()
        return _UNITS.get(text) or _LETTERS.get(text)
    spelt = words(template.replace(place, " ") if place else template)
    for k in range(len(spelt) - 1, 0, -1):
        word = spelt[k]
        if word in _UNITS:
            if word in ("rad", "deg") and spelt[k + 1 : k + 2] in (("s",), ("per",), ("sec",)):
                return _UNITS[f"{word}/s"]
            return _UNITS[word]
    if len(spelt) > 1 and spelt[-1] in ("s", "a") and spelt[-1] not in spelt[:-1]:
        quantity, unit = _LETTERS[spelt[-1]]
        before = set(spelt[:-1])
        if before & (_TIME if quantity == "time" else _CURRENT | {"motor"}):
            return quantity, unit
    return None


def _by_words(template: str, place: str, stated: tuple[str, str] | None) -> Meaning:
    spelt = list(
        words(_without_unit(template, place).replace(place, " ") if place else _without_unit(template, place))
    )
    # "q_dot" and "theta_dot" are velocities, "q_ddot" accelerations.
    for dot, kind in (("ddot", "ddq"), ("dot", "dq")):
        if dot in spelt and set(spelt) & _POSITION:
            spelt = [kind if word == dot else word for word in spelt if word not in _POSITION]
    if "j" in spelt and "tau" in spelt:  # tau_J of Franka
        spelt.remove("j")
    of_motors = bool(set(spelt) & set(_OF_MOTORS))
    spelt = [_OF_MOTORS.get(word, word) for word in spelt]
    if set(spelt) & _JOINT or (place == "{joint}" and place in template):
        spelt = ["effort" if word in _FORCE else word for word in spelt]
    have = set(spelt)
    if place == "":
        return _alone(have, spelt, stated)
    if have & _NOT_OF_JOINTS:
        return Meaning("other", _role(spelt, have), UNKNOWN, "name")
    kinds = [name for name, vocabulary in _KINDS if have & vocabulary]
    role = _role(spelt, have)
    if "current" in kinds and len(kinds) > 1:
        other = [kind for kind in kinds if kind != "current"]
        if other in (["torque"], ["effort"]):
            return Meaning("effort", role, stated[1] if stated else UNKNOWN, "name")
        # "current position" is the present one.
        kinds, role = other, role or "measured"
    if not kinds and stated and stated[0] in _SAID_BY_UNIT:
        kinds = [stated[0]]
    if len(kinds) != 1:
        return Meaning("", role, stated[1] if stated else UNKNOWN, "")
    unit = stated[1] if stated else UNKNOWN
    quantity = kinds[0]
    if stated == _LETTERS["%"] and quantity in ("torque", "effort", "current"):  # of what is rated
        return Meaning("raw", role, unit, "name")
    if stated and stated[0] != quantity and not (quantity == "effort" and stated[0] in ("torque", "current")):
        return Meaning(
            quantity, role, UNKNOWN, "name", doubt=f"the name says {stated[1]}, a unit of {stated[0]}"
        )
    if quantity == "effort" and stated:
        quantity = stated[0]
    motor = of_motors or (bool(have & {"motor", "motors"}) and quantity in ("position", "velocity"))
    return Meaning(quantity, role, unit, "name", motor=motor)


def _role(spelt: Sequence[str], have: set[str]) -> str:
    if have & _MODEL:
        return "model"
    # Single letters mean "desired" behind another word only: q_d, tau_J_d.
    commanded = have & _COMMANDED - {"d", "r", "c"}
    if commanded or (len(spelt) > 1 and spelt[-1] in ("d", "r", "c")):
        return "commanded"
    if have & _ESTIMATED:
        return "estimated"
    return "measured" if have & _MEASURED else ""


def _alone(have: set[str], spelt: Sequence[str], stated: tuple[str, str] | None) -> Meaning:
    if have & _TIME and not have & {"start", "end", "duration", "step", "delta", "execution"}:
        if stated is None and len(spelt) == 1:  # "millis"
            stated = _UNITS.get(spelt[0])
        return Meaning("time", "", stated[1] if stated and stated[0] == "time" else UNKNOWN, "name")
    if have & _TRAJECTORY and not have & set().union(*(kind for _, kind in _KINDS)):
        return Meaning("trajectory", "", UNKNOWN, "name")
    return Meaning("", _role(spelt, have), UNKNOWN, "")
