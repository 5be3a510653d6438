"""What a column's name says by its words, or by a recorder's preset: quantity, unit, measured or commanded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from dynid.base.records import dataclass
from dynid.layouts.presets import UNKNOWN, ChannelEntry, Preset
from dynid.log.mapping import RATED

# Camel case, runs of capitals and numbers are words of their own; "%" begins the time column of rostopic.
_WORD = re.compile(
    r"[%‰]|(?<![A-Za-z])(?:[mk]N\.?m|kN|mA|N[mM])(?![A-Za-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    r"|加速度|时间|时刻|位置|角度|速度|力矩|扭矩|转矩|电流|温度|关节|目标|指令|期望|实际|反馈|测量|轴"
    r"|時間|時刻|角速度|トルク|電流|温度|関節|軸|指令|実測|시간|위치|각도|각속도|속도|토크|전류|온도|관절|목표|실제|[а-яё]+",
)
# German makes one word of two.
_COMPOUND = re.compile(
    r"(?<![a-z])(ist|soll|motor|achs|gelenk)(?=position|winkel|lage|moment|dreh|strom|geschw)", re.IGNORECASE
)
# Derivatives whose letter is a capital: dQ, ddTheta.
_DERIVATIVE = re.compile("(?<![A-Za-z])(dd?)(Q|Theta)(?![a-z])")
# Dots above a letter are derivatives, accents are not.
_DERIVED = re.compile("([qθ])(\u0307\u0307|[\u0307\u0308])")
_GREEK = {"θ": "theta", "τ": "tau", "ω": "omega"}
_CYRILLIC = re.compile("[А-ЯЁ]")
_ACCENTS = re.compile("[\u0300-\u036f]")
BRACKETED_UNIT = re.compile(r"\s*[\[(]\s*([A-Za-zА-я/%‰*·.^° ]+?)\s*[\])]\s*$")

_POSITION = {"q", "qs", "pos", "position", "positions", "angle", "angles", "theta", "th", "qpos", "jpos", "qj",
             "winkel", "lage", "angolo", "angulo", "posizione", "posicion", "位置", "角度", "위치", "각도", "угол",
             "положение", "позиция"}  # fmt: skip
_SYMBOLS = {"q", "th", "theta"}
# "qp" is that of Italian, Spanish and French theses: q punto, q point.
_VELOCITY = {"dq", "qd", "qp", "dqs", "qds", "vel", "velo", "velocity", "velocities", "speed", "speeds", "omega",
             "qvel", "dtheta", "qdot", "thetadot", "jvel", "geschwindigkeit", "drehzahl", "vitesse", "velocita",
             "velocidad", "速度", "角速度", "속도", "각속도", "скорость"}  # fmt: skip
_ACCELERATION = {
    "ddq",
    "qdd",
    "qpp",
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
_TORQUE = {"tau", "taus", "torque", "torques", "trq", "torq", "tor", "moment", "moments", "tq", "jtorque", "tauj",
           "drehmoment", "couple", "coppia", "momento", "力矩", "扭矩", "转矩", "トルク", "토크", "момент"}  # fmt: skip
_CURRENT = {"current", "currents", "cur", "curr", "i", "iq", "amps", "amp", "ampere", "amperes", "strom", "courant",
            "corrente", "corriente", "电流", "電流", "전류", "ток"}  # fmt: skip
_RAW = {"load", "loads", "pwm", "duty"}
_TEMPERATURE = {"temp", "temperature", "temperatures", "temperatur", "温度", "온도", "температура"}
_TIME = {"t", "time", "timestamp", "stamp", "times", "timestamps", "clock", "timer", "utime", "tm", "ts", "elapsed",
         "zeit", "zeitstempel", "millis", "micros", "temps", "tempo", "tiempo", "时间", "时刻", "時間", "時刻", "시간",
         "время"}  # fmt: skip
_STAMPS = {"time", "timestamp", "stamp", "times", "timestamps", "zeitstempel"}
# How long something lasts, or since the beginning: time_from_start.
_SPANS = {"duration"}
# Of a controller's own clock, or counts of its rows.
TICKS = {"tick", "ticks"}
# Quantities that are an effort of some sort.
EFFORTS = ("torque", "effort", "current", "raw")
_EFFORT = {"effort", "efforts", "eff"}
_TRAJECTORY = {"traj", "trajectory", "episode", "run", "experiment", "motion", "segment", "trial"}
MEASURED = {"actual", "act", "meas", "measured", "measure", "measurement", "fb", "feedback", "present", "real",
             "msr", "mes", "ist", "mesure", "misurato", "medido", "实际", "反馈", "测量", "実測", "실제"}  # fmt: skip
# These say so of a signal, and nothing before the name of a recorder's column.
_SENSED = {"sensor", "sensed"}
_COMMANDED = {"cmd", "command", "commanded", "commands", "des", "desired", "target", "targets", "tgt", "ref",
              "reference", "goal", "set", "setpoint", "sp", "soll", "action", "nominal", "planned", "plan", "ipo", "d",
              "r", "c", "input", "interpolated", "demand", "demanded", "request", "requested", "wanted",
              "consigne", "consigna", "目标", "指令", "期望", "목표", "заданный", "задание"}  # fmt: skip
# Drives call what they make of their current so; a model's torque is called so, too.
_ESTIMATED = {"est", "estimated", "estimate"}
_MODEL = {"model", "hat", "ext", "external", "gravity", "grav", "ff", "feedforward",
          "friction", "dyn", "err", "error", "errors", "residual", "dist", "disturbance", "deviation", "predicted",
          "pred", "calculated", "calc", "computed", "cmptd", "theoretical", "bias", "limit", "limits", "max", "min",
          "std", "offset", "contact", "collision"}  # fmt: skip
_FILTERED = {"filt", "filtered", "filter", "smooth", "smoothed", "lp", "lowpass"}
_UNPROCESSED = {"raw", "unfiltered", "uncalibrated"}
_MOTOR = {"motor", "motors", "m"}
# Of what turns before or within the gears.
_INSIDE = {"motor", "motors", "rotor", "gear", "gearbox"}
_OF_MOTORS = {"qm": "q", "dqm": "dq", "qdm": "dq", "thetam": "theta", "dthetam": "dtheta"}
# Of the hand or the base, not of joints, whatever else is said.
_NOT_OF_JOINTS = {"tcp", "tool", "flange", "pose", "cartesian", "cart", "wrench", "ft", "imu", "ee", "twist", "force",
                  "forces", "voltage", "voltages", "mode", "modes", "frame", "camera", "finger", "fingers",
                  "enable", "enabled", "status", "flag", "age"}  # fmt: skip
# "Joint1_Force": simulators say so of any joint's effort, and mean its torque where it turns.
_FORCE, _JOINT = {"force", "forces"}, {"joint", "joints", "axis", "axes", "j"}
# Words that say nothing of what is measured.
PLAIN_WORDS = {"joint", "joints", "axis", "axes", "arm", "robot", "state", "states", "observation", "data",
               "j", "field", "msg", "log", "values", "value", "link", "topic", "header", "actuator",
               "actuators", "a", "base", "rax", "achse", "achs", "gelenk", "axe", "eje", "asse", "giunto", "dof",
               "关节", "轴", "関節", "軸", "관절", "ось", "сустав", "звено"}  # fmt: skip
_TURNS = ("rev", "revs", "revolutions", "turn", "turns")
_UNITS = {
    "rad": ("position", "rad"), "radians": ("position", "rad"), "radian": ("position", "rad"),
    "deg": ("position", "deg"), "degree": ("position", "deg"), "degrees": ("position", "deg"),
    **dict.fromkeys(_TURNS, ("position", "turn")),
    **dict.fromkeys(("rev/s", "rps", "revs/s", "turn/s", "turns/s"), ("velocity", "turn/s")),
    "mrad": ("position", "mrad"), "mrad/s": ("velocity", "mrad/s"),
    **dict.fromkeys(("arcsec", "arcsecs", "arcsecond", "arcseconds"), ("position", "arcsec")),
    **dict.fromkeys(("arcmin", "arcmins", "arcminute", "arcminutes"), ("position", "arcmin")),
    "arcsec/s": ("velocity", "arcsec/s"), "arcmin/s": ("velocity", "arcmin/s"),
    "rad/s": ("velocity", "rad/s"), "rads": ("velocity", "rad/s"), "radps": ("velocity", "rad/s"),
    "deg/s": ("velocity", "deg/s"), "degs": ("velocity", "deg/s"), "degps": ("velocity", "deg/s"),
    "rpm": ("velocity", "rpm"), "nm": ("torque", "N m"), "n m": ("torque", "N m"),
    "n*m": ("torque", "N m"), "n.m": ("torque", "N m"), "n·m": ("torque", "N m"),
    "mnm": ("torque", "mN m"), "mn m": ("torque", "mN m"), "ncm": ("torque", "N cm"), "n cm": ("torque", "N cm"),
    **dict.fromkeys(("knm", "kn m", "kn*m", "kn.m", "kn·m"), ("torque", "kN m")),
    "ma": ("current", "mA"), "ampere": ("current", "A"),
    "amps": ("current", "A"), "ms": ("time", "ms"), "msec": ("time", "ms"), "us": ("time", "us"),
    "usec": ("time", "us"), "ns": ("time", "ns"), "nsec": ("time", "ns"), "sec": ("time", "s"),
    "°": ("position", "deg"), "°/s": ("velocity", "deg/s"), "u/min": ("velocity", "rpm"),
    "grad": ("position", "deg"), "grad/s": ("velocity", "deg/s"),
    "град": ("position", "deg"), "град/с": ("velocity", "deg/s"), "рад": ("position", "rad"),
    "рад/с": ("velocity", "rad/s"), **dict.fromkeys(("нм", "н м", "н*м", "н.м", "н·м"), ("torque", "N m")),
    "мс": ("time", "ms"), "ма": ("current", "mA"),
    "millis": ("time", "ms"), "micros": ("time", "us"),
    "secs": ("time", "s"), "seconds": ("time", "s"), "degc": ("temperature", "degC"),
    **dict.fromkeys(("%", "pct", "percent", "prozent"), ("raw", "% of rated torque")),
    **dict.fromkeys(("‰", "permille", "promille", "permil"), ("raw", "permille of rated torque")),
}  # fmt: skip
# What is a unit only where brackets or its place at the end behind a fitting quantity say so.
_LETTERS = {"s": ("time", "s"), "a": ("current", "A"), "m": ("position", "m"),
            **dict.fromkeys(("rot", "rots", "rotations"), ("position", "turn")),
            "с": ("time", "s"), "а": ("current", "A")}  # fmt: skip
_BEHIND = {
    "s": _TIME,
    "с": _TIME,
    "a": _CURRENT | {"motor"},
    **dict.fromkeys(("rot", "rots", "rotations"), _POSITION),
}
# Of joints that slide: by the last words of a name, or its bracket; those that are words, too, by brackets alone.
_WORDS_AND_UNITS = {"in"}
UNITS_OF_SLIDES = {
    "position": {"m": "m", "mm": "mm", "cm": "cm", **dict.fromkeys(("in", "inch", "inches"), "in")},
    "velocity": {
        "m/s": "m/s",
        "m s": "m/s",
        "mps": "m/s",
        "mm/s": "mm/s",
        "mm s": "mm/s",
        "mmps": "mm/s",
        **dict.fromkeys(("cm/s", "cm s", "cmps"), "cm/s"),
        **dict.fromkeys(("in/s", "inch/s", "inch s", "inches/s", "ips"), "in/s"),
    },
    "torque": {"n": "N", "kn": "kN"},
}
# What recorders that write SI units mean where a joint slides.
_SI_OF_SLIDES = {"rad": "m", "rad/s": "m/s", "N m": "N"}
# Quantities that a column has by its unit where no other word says more: "Achse1 [Grad]", "J1_rad".
_SAID_BY_UNIT = ("position", "velocity", "torque")
KINDS: tuple[tuple[str, set[str]], ...] = (
    ("acceleration", _ACCELERATION),
    ("velocity", _VELOCITY),
    ("position", _POSITION),
    ("torque", _TORQUE),
    ("effort", _EFFORT),
    ("raw", _RAW),
    ("temperature", _TEMPERATURE),
    ("current", _CURRENT),
)
_SIGNALS = frozenset().union(*(kind for _, kind in KINDS))


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


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Words of a name in lower case; numbers are words."""
    plain = _DERIVED.sub(
        lambda one: "d" * (1 + (one[2] != "\u0307")) + one[1], unicodedata.normalize("NFKD", name)
    )
    for letter, spelt in _GREEK.items():
        plain = plain.replace(letter, spelt)
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))  # Hangul in one piece again
    plain = _COMPOUND.sub(
        r"\1 ", plain if plain.isascii() else _CYRILLIC.sub(lambda one: one[0].lower(), plain)
    )
    plain = _DERIVATIVE.sub(lambda one: one[0].lower(), plain)
    return tuple(word.lower() for word in _WORD.findall(plain))


def is_filtered(template: str) -> bool:
    """Whether a name says that its values were filtered."""
    return bool(set(words(template)) & _FILTERED)


def is_unprocessed(template: str) -> bool:
    """Whether a name says that its values are those before something was made of them."""
    return bool(set(words(template)) & _UNPROCESSED)


def is_written_unit(text: str) -> bool:
    """Whether a text is a unit as names and lines of units write it."""
    return text.lower() in {*_UNITS, *_LETTERS, *(one for units in UNITS_OF_SLIDES.values() for one in units)}


def without_units(template: str) -> tuple[str, ...]:
    """The words of a name but for units."""
    return tuple(word for word in words(BRACKETED_UNIT.sub("", template)) if word not in _UNITS)


def single(columns: Iterable[str], known: Sequence[Preset]) -> list[tuple[str, Meaning]]:
    """Columns that stand alone, with what presets or their words say: of interest are time and trajectory."""
    return [(name, meaning_of(name, "", known, False)) for name in columns]


def most_fitting(columns: Sequence[str], known: Sequence[Preset], bag: bool = False) -> tuple[Preset, ...]:
    """The presets, those first that know most of the columns: "timestamp" means something else to each.

    Those that know no signal of the log say nothing of its clock.
    """

    def hits(preset: Preset, clocks: bool = True) -> int:
        return sum(
            any(_is(entry, one, "{number}" if "{" in entry.columns else "", (one,)) for one in columns)
            if "{joint}" not in entry.columns
            else any(_joint_entry(entry, one) for one in columns)
            for entry in preset.channel
            if entry.bag == bag and (clocks or entry.quantity != "time")
        )

    known = [one if bag or hits(one, clocks=False) > 0 else one.without_clocks() for one in known]
    # One that is made for this robot knows better than one for all.
    counted = [(bool(one.robots) and hits(one) > 0, hits(one), one) for one in known]
    return tuple(one for *_, one in sorted(counted, key=lambda found: (-found[0], -found[1])))


def _joint_entry(entry: ChannelEntry, column: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"\{joint\}", entry.columns)]
    return re.search(".+".join(parts) + "$", column, flags=re.IGNORECASE) is not None


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


def meaning_of_slides(said: Meaning, template: str, place: str) -> Meaning:
    """What columns of joints that slide are, of which presets or words say so much: in m, m/s and N, by a force."""
    stated = unit_of_slide(template, place)
    if said.said_by not in ("", "name"):
        return replace(said, unit=stated[1] if stated else _SI_OF_SLIDES.get(said.unit, said.unit))
    return _by_words(template, place, stated or _stated_unit(template, place), slides=True)


def unit_of_slide(template: str, place: str) -> tuple[str, str] | None:
    """The unit of length, speed or force that a name states: (quantity, unit)."""
    bracket = BRACKETED_UNIT.search(template)
    spelt = words(template.replace(place, " ") if place else template)
    ends = [bracket.group(1).strip().lower()] if bracket else [" ".join(spelt[-2:]), " ".join(spelt[-1:])]
    return next(
        (
            (quantity, units[end])
            for quantity, units in UNITS_OF_SLIDES.items()
            for end in ends
            if end in units and (bracket or end not in _WORDS_AND_UNITS)
        ),
        None,
    )


def _is(entry: ChannelEntry, template: str, place: str, columns: Sequence[str]) -> bool:
    """Whether a name is that of a preset, however its words are joined; words before it must say nothing else."""
    if entry.bag or not place or "{" not in entry.columns:
        # Names of bags and clocks are what they are: too little stands in them to be looser.
        if entry.columns.replace("{joint}", place).lower() == template.lower():
            return True
        # What a drive records says nothing of joints: the names of several files do, vesc_1/encoder_position.
        of_file, mark, own = template.rpartition("/")
        plain = bool(mark) and not entry.bag and entry.quantity != "time"
        return plain and place in of_file and entry.columns.lower() == own.lower()
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


def names_signal(word: str) -> bool:
    """Whether a word is one of a signal, or of an axis of a motor's currents."""
    return word in _signal_words() | _NOT_OF_JOINTS | {"d", "q"}


def _says_nothing(word: str) -> bool:
    other = MEASURED | _COMMANDED | _MODEL | _ESTIMATED | _MOTOR | _NOT_OF_JOINTS | _TIME
    meant = other.union(*(kind for _, kind in KINDS))
    return word in PLAIN_WORDS or word not in meant


@lru_cache(maxsize=4096)
def _spelt(text: str) -> tuple[str, ...]:
    parts = re.split(r"\{(?:joint|number|index)\}", text)
    out: list[str] = []
    for k, part in enumerate(parts):
        out += (["#"] if k else []) + list(words(part))
    return tuple(out)


@lru_cache(maxsize=4096)
def _without_unit(template: str, place: str) -> str:
    plain = BRACKETED_UNIT.sub("", template)
    spelt = words(plain.replace(place, " ") if place else plain)
    if len(spelt) > 1 and spelt[-1] in _UNITS and not plain.endswith(place or "\0"):
        return re.sub(rf"[^A-Za-z0-9]*{spelt[-1]}[^A-Za-z0-9]*$", "", plain, flags=re.IGNORECASE)
    return plain


def _stated_unit(template: str, place: str) -> tuple[str, str] | None:
    """The unit that a name itself states: (quantity, unit)."""
    bracket = BRACKETED_UNIT.search(template)
    if bracket:
        text = bracket.group(1).strip().lower()
        return _UNITS.get(text) or _LETTERS.get(text)
    spelt = words(template.replace(place, " ") if place else template)
    # A name is no unit, but what stands behind a joint's may be one, elbow_deg, or a line of units: Nm[0], Nm[1], ...
    alone = spelt[1:] in ((), ("s",)) and spelt[:1] != () and spelt[0] not in _TURNS
    least = 0 if place and (alone or template.startswith(place)) else 1
    for k in range(len(spelt) - 1, least - 1, -1):
        word = spelt[k]
        if word in _TURNS and k < len(spelt) - 1:
            continue  # "rev" of a revolute joint
        if word in _UNITS:
            if word in ("rad", "deg") and spelt[k + 1 : k + 2] in (("s",), ("per",), ("sec",)):
                return _UNITS[f"{word}/s"]
            if word in ("рад", "град") and spelt[k + 1 : k + 2] == ("с",):
                return _UNITS[f"{word}/с"]
            return _UNITS[word]
    if len(spelt) > 1 and spelt[-1] in _BEHIND and spelt[-1] not in spelt[:-1]:
        quantity, unit = _LETTERS[spelt[-1]]
        if set(spelt[:-1]) & _BEHIND[spelt[-1]]:
            return quantity, unit
    return None


def _strange_unit(template: str) -> str:
    """What a name has in square brackets at its end where that is neither a unit nor a word of a name; "" = nothing."""
    bracket = BRACKETED_UNIT.search(template)
    text = bracket.group(1).strip() if bracket and "[" in bracket.group() else ""
    known = text.lower() in _UNITS or text.lower() in _LETTERS
    return text if not known and all(map(_unheard_of, words(text))) else ""


def _unheard_of(word: str) -> bool:
    return _says_nothing(word) and word not in PLAIN_WORDS | _FILTERED | _UNPROCESSED | _SENSED


def _by_words(template: str, place: str, stated: tuple[str, str] | None, slides: bool = False) -> Meaning:
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
    if slides or set(spelt) & _JOINT or (place == "{joint}" and place in template):
        spelt = ["effort" if word in _FORCE else word for word in spelt]
    have = set(spelt)
    if place == "":
        return _alone(have, spelt, stated)
    # The time at which each joint's value was taken is none of its signals.
    stamped = have & _STAMPS and not stated
    # What a drive's status holds is measured: status.torque is no status of a torque.
    before = _SIGNALS & {*spelt[spelt.index("status") :]} if "status" in have else set()
    if (
        have & _NOT_OF_JOINTS - ({"status"} if before else set())
        or stamped
        or (stated and stated[0] == "time")
    ):
        return Meaning("other", role_of(spelt, have), UNKNOWN, "name")
    kinds = [name for name, vocabulary in KINDS if have & vocabulary]
    role = role_of(spelt, have)
    if "current" in kinds and (pair := _before_current(spelt)) == "d":
        return Meaning("other", role, UNKNOWN, "name")  # that of a motor's direct axis makes no torque
    if "current" in kinds and len(kinds) > 1:
        other = [kind for kind in kinds if kind != "current"]
        if (stated and stated[0] == "current") or (other == ["effort"] and pair in _EFFORT):
            kinds = ["current"]
        elif other in (["torque"], ["effort"]):
            return Meaning("effort", role, stated[1] if stated else UNKNOWN, "name")
        else:  # "current position" is the present one
            kinds, role = other, role or "measured"
    # A symbol says less than its unit: the dot that makes it a derivative is lost easily.
    if kinds == ["position"] and stated and stated[0] == "velocity" and have & _SYMBOLS:
        kinds = ["velocity"]
    if not kinds and stated and stated[0] in _SAID_BY_UNIT:
        kinds = [stated[0]]
    if len(kinds) != 1:
        return Meaning("", role, stated[1] if stated else UNKNOWN, "")
    unit = stated[1] if stated else UNKNOWN
    quantity = kinds[0]
    if stated and stated[1] in RATED and quantity in EFFORTS:
        return Meaning("raw", role, "raw" if quantity == "raw" else unit, "name")
    if stated and stated[0] != quantity and not (quantity == "effort" and stated[0] in ("torque", "current")):
        unit_in_words = "a share" if stated[1] in RATED else f"{stated[1]}, a unit of {stated[0]}"
        return Meaning(quantity, role, UNKNOWN, "name", doubt=f"the name says {unit_in_words}")
    if quantity == "effort" and stated:
        quantity = stated[0]
    if not stated and (strange := _strange_unit(template)):
        return Meaning(
            quantity, role, UNKNOWN, "name", doubt=f"the name says '{strange}', which is no unit here"
        )
    # theta_m1; behind the number it may be a slide's metres.
    inside = have & _INSIDE or "m" in words(template.partition(place)[0])[1:]
    motor = of_motors or (bool(inside) and quantity in ("position", "velocity"))
    return Meaning(quantity, role, unit, "name", motor=motor)


def _before_current(spelt: Sequence[str]) -> str:
    """The word before that of a current; "" = there is none."""
    return next((before for before, word in pairwise(spelt) if word in _CURRENT - {"i"}), "")


def role_of(spelt: Sequence[str], have: set[str]) -> str:
    """Whether words say measured, commanded, estimated or of a model; "" = they do not.    have: their set."""
    if have & _MODEL:
        return "model"
    # Single letters mean "desired" behind another word only: q_d, tau_J_d.
    commanded = have & _COMMANDED - {"d", "r", "c"}
    if commanded or (len(spelt) > 1 and spelt[-1] in ("d", "r", "c")):
        return "commanded"
    if have & _ESTIMATED:
        return "estimated"
    return "measured" if have & (MEASURED | _SENSED) else ""


def _signal_words() -> set[str]:
    """Words of a signal of joints, measured or wanted; "d", "r" and "c" alone say little."""
    return set().union(*(kind for _, kind in KINDS), _COMMANDED - {"d", "r", "c"})


def _alone(have: set[str], spelt: Sequence[str], stated: tuple[str, str] | None) -> Meaning:
    of_signal = have & _TIME == {"t"} and have & _signal_words()  # a torque's or a joint's t: T_des, T_pos
    clock = have & (_TIME | TICKS) and not of_signal
    if (clock or have & _SPANS) and not have & {"step", "delta", "execution"}:
        stated = _UNITS.get(spelt[0]) if stated is None and len(spelt) == 1 else stated  # "millis"
        unit = stated[1] if stated and stated[0] == "time" else UNKNOWN
        return Meaning("time", "spare" if have & (_SPANS | {"start", "end"}) else "", unit, "name")
    if have & _TRAJECTORY and not have & set().union(*(kind for _, kind in KINDS)):
        return Meaning("trajectory", "", UNKNOWN, "name")
    return Meaning("", role_of(spelt, have), UNKNOWN, "")
