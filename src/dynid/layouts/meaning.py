"""Quantity, unit and role (measured or commanded) of a column, from its name or from a recorder's preset."""

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

# Camel case, capitals and numbers form separate words; the time column of rostopic starts with "%".
_WORD = re.compile(
    r"[%‰]|(?<![A-Za-z])(?:[mk]N\.?m|kN|mA|N[mM])(?![A-Za-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    r"|加速度|时间|时刻|位置|角度|速度|力矩|扭矩|转矩|电流|温度|关节|目标|指令|期望|实际|反馈|测量|轴"
    r"|時間|時刻|角速度|トルク|電流|温度|関節|軸|指令|実測|시간|위치|각도|각속도|속도|토크|전류|온도|관절|목표|실제|[а-яё]+",
)
# German compounds that are split into two words.
_COMPOUND = re.compile(
    r"(?<![a-z])(ist|soll|motor|achs|gelenk)(?=position|winkel|lage|moment|dreh|strom|geschw)", re.IGNORECASE
)
# Derivatives of a capital letter: dQ, ddTheta.
_DERIVATIVE = re.compile("(?<![A-Za-z])(dd?)(Q|Theta)(?![a-z])")
# Dots above a letter are derivatives; accents are not.
_DERIVED = re.compile("([qθ])(\u0307\u0307|[\u0307\u0308])")
_GREEK = {"θ": "theta", "τ": "tau", "ω": "omega"}
_CYRILLIC = re.compile("[А-ЯЁ]")
_ACCENTS = re.compile("[\u0300-\u036f]")
BRACKETED_UNIT = re.compile(r"\s*[\[(]\s*([A-Za-zА-я/%‰*·.^° ]+?)\s*[\])]\s*$")

_POSITION = {"q", "qs", "pos", "position", "positions", "angle", "angles", "theta", "th", "qpos", "jpos", "qj",
             "winkel", "lage", "angolo", "angulo", "posizione", "posicion", "位置", "角度", "위치", "각도", "угол",
             "положение", "позиция"}  # fmt: skip
_SYMBOLS = {"q", "th", "theta"}
# "qp" is used in Italian, Spanish and French theses: q punto, q point.
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
# Durations, or time since the start: time_from_start.
_SPANS = {"duration"}
# Counts of a controller's clock or of its rows.
TICKS = {"tick", "ticks"}
# Quantities that count as an effort.
EFFORTS = ("torque", "effort", "current", "raw")
_EFFORT = {"effort", "efforts", "eff"}
_TRAJECTORY = {"traj", "trajectory", "episode", "run", "experiment", "motion", "segment", "trial"}
MEASURED = {"actual", "act", "meas", "measured", "measure", "measurement", "fb", "feedback", "present", "real",
             "msr", "mes", "ist", "mesure", "misurato", "medido", "实际", "反馈", "测量", "実測", "실제"}  # fmt: skip
# Words for "measured" in a signal's name. At the start of a recorder's column name they mean nothing.
_SENSED = {"sensor", "sensed"}
_COMMANDED = {"cmd", "command", "commanded", "commands", "des", "desired", "target", "targets", "tgt", "ref",
              "reference", "goal", "set", "setpoint", "sp", "soll", "action", "nominal", "planned", "plan", "ipo", "d",
              "r", "c", "input", "control", "ctrl", "interpolated", "demand", "demanded", "request", "requested",
              "wanted", "consigne", "consigna", "目标", "指令", "期望", "목표", "заданный", "задание"}  # fmt: skip
# Drives use these words for a torque computed from their current; they also denote a model's torque.
_ESTIMATED = {"est", "estimated", "estimate"}
_MODEL = {"model", "hat", "ext", "external", "gravity", "grav", "ff", "feedforward",
          "friction", "dyn", "err", "error", "errors", "residual", "dist", "disturbance", "deviation", "predicted",
          "pred", "calculated", "calc", "computed", "cmptd", "theoretical", "bias", "limit", "limits", "max", "min",
          "std", "offset", "contact", "collision"}  # fmt: skip
_FILTERED = {"filt", "filtered", "filter", "smooth", "smoothed", "lp", "lowpass"}
_UNPROCESSED = {"raw", "unfiltered", "uncalibrated"}
_MOTOR = {"motor", "motors", "m"}
# Parts that move before or inside the gears.
_INSIDE = {"motor", "motors", "rotor", "gear", "gearbox"}
_OF_MOTORS = {"qm": "q", "dqm": "dq", "qdm": "dq", "thetam": "theta", "dthetam": "dtheta"}
# Words for the hand or the base; such a column is not a joint signal, whatever its other words.
_NOT_OF_JOINTS = {"tcp", "tool", "flange", "pose", "cartesian", "cart", "wrench", "ft", "imu", "ee", "twist", "force",
                  "forces", "voltage", "voltages", "mode", "modes", "frame", "camera", "finger", "fingers",
                  "enable", "enabled", "status", "flag", "age"}  # fmt: skip
# "Joint1_Force": simulators use this name for the effort of any joint, also for the torque of a revolute one.
_FORCE, _JOINT = {"force", "forces"}, {"joint", "joints", "axis", "axes", "j"}
# Words that carry no information about the quantity.
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
# Letters that count as a unit only in brackets, or at the end of a name after a matching quantity.
_LETTERS = {"s": ("time", "s"), "a": ("current", "A"), "m": ("position", "m"),
            **dict.fromkeys(("rot", "rots", "rotations"), ("position", "turn")),
            "с": ("time", "s"), "а": ("current", "A")}  # fmt: skip
_BEHIND = {
    "s": _TIME,
    "с": _TIME,
    "a": _CURRENT | {"motor"},
    **dict.fromkeys(("rot", "rots", "rotations"), _POSITION),
}
# Units of prismatic joints, in brackets or as the last words of a name. Units that are also words count in
# brackets only.
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
# Units of prismatic joints in logs of recorders that write SI units.
_SI_OF_SLIDES = {"rad": "m", "rad/s": "m/s", "N m": "N"}
# Quantities that follow from the unit if no other word states one: "Achse1 [Grad]", "J1_rad".
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
    """Meaning of columns according to their name or a preset.

    Attributes
    ----------
    quantity : str
        Quantity as in presets; "effort" for a torque or a current, empty if unknown.
    role : str
        Whether it is measured or commanded; empty if not stated.
    unit : str
        Unit; "unknown" if not stated.
    units : tuple of str
        Possible units.
    percent : tuple of str
        Words of joints in percent of their motors' range, whatever the unit of the others.
    said_by : str
        "name", or the preset's title with its source.
    doubt, actuator : str
        As in presets.

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
    percent: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Words of a name in lower case, numbers included."""
    plain = _DERIVED.sub(
        lambda match: "d" * (1 + (match[2] != "\u0307")) + match[1], unicodedata.normalize("NFKD", name)
    )
    for letter, spelt in _GREEK.items():
        plain = plain.replace(letter, spelt)
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))  # recombine Hangul
    plain = _COMPOUND.sub(
        r"\1 ", plain if plain.isascii() else _CYRILLIC.sub(lambda match: match[0].lower(), plain)
    )
    plain = _DERIVATIVE.sub(lambda match: match[0].lower(), plain)
    return tuple(word.lower() for word in _WORD.findall(plain))


def is_filtered(template: str) -> bool:
    """Whether the name marks the signal as filtered."""
    return bool(set(words(template)) & _FILTERED)


def is_unprocessed(template: str) -> bool:
    """Whether the name marks the signal as unprocessed."""
    return bool(set(words(template)) & _UNPROCESSED)


def is_written_unit(text: str) -> bool:
    """Whether the text is a unit as written in names and in header lines."""
    return text.lower() in {
        *_UNITS,
        *_LETTERS,
        *(unit for units in UNITS_OF_SLIDES.values() for unit in units),
    }


def without_units(template: str) -> tuple[str, ...]:
    """Words of a name without units."""
    return tuple(word for word in words(BRACKETED_UNIT.sub("", template)) if word not in _UNITS)


def single(columns: Iterable[str], known: Sequence[Preset]) -> list[tuple[str, Meaning]]:
    """Meanings of ungrouped columns, of which time and trajectory are used."""
    return [(name, meaning_of(name, "", known, False)) for name in columns]


def most_fitting(columns: Sequence[str], known: Sequence[Preset], bag: bool = False) -> tuple[Preset, ...]:
    """Presets sorted by the number of columns that they match, because "timestamp" differs between presets.

    Presets that match no signal of the log are not used for its clock.
    """

    def hits(preset: Preset, clocks: bool = True) -> int:
        return sum(
            any(
                _is(entry, column, "{number}" if "{" in entry.columns else "", (column,))
                for column in columns
            )
            if "{joint}" not in entry.columns
            else any(_joint_entry(entry, column) for column in columns)
            for entry in preset.channel
            if entry.bag == bag and (clocks or entry.quantity != "time")
        )

    known = [preset if bag or hits(preset, clocks=False) > 0 else preset.without_clocks() for preset in known]
    # A preset for this robot is more specific than one for all robots.
    counted = [(bool(preset.robots) and hits(preset) > 0, hits(preset), preset) for preset in known]
    return tuple(entry for *_, entry in sorted(counted, key=lambda entry: (-entry[0], -entry[1])))


def _joint_entry(entry: ChannelEntry, column: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"\{joint\}", entry.columns)]
    return re.search(".+".join(parts) + "$", column, flags=re.IGNORECASE) is not None


def meaning_of(
    template: str, place: str, known: Sequence[Preset], bag: bool, columns: Sequence[str] = ()
) -> Meaning:
    """Meaning of a column name according to the presets, otherwise according to its words.

    Parameters
    ----------
    template : str
        Name with a placeholder for the joint.
    place : str
        The placeholder.
    known : sequence of Preset
        Presets that match the log, best match first.
    bag : bool
        Whether the columns come from a bag.
    columns : sequence of str
        Columns that the template stands for.

    """
    stated = _stated_unit(template, place)
    for preset in known:
        for entry in preset.channel:
            if entry.bag == bag and _is(entry, template, place, columns):
                citation = preset.said(entry.source)
                unit, doubt = entry.unit, entry.doubt
                if stated and stated[1] != unit:
                    unit, doubt = stated[1], f"the name says {stated[1]}, {preset.title} says {entry.unit}"
                return Meaning(
                    entry.quantity, entry.role, unit, citation, entry.side, doubt,
                    ordered=preset.order is not None, unordered=entry.unordered, units=tuple(entry.units),
                    percent=tuple(entry.percent),
                    actuator=entry.actuator,
                )  # fmt: skip
    return _by_words(template, place, stated)


def meaning_of_slides(meaning: Meaning, template: str, place: str) -> Meaning:
    """Meaning of the columns of prismatic joints: length, velocity or force in m, m/s and N."""
    stated = unit_of_slide(template, place)
    if meaning.said_by not in ("", "name"):
        return replace(meaning, unit=stated[1] if stated else _SI_OF_SLIDES.get(meaning.unit, meaning.unit))
    return _by_words(template, place, stated or _stated_unit(template, place), slides=True)


def unit_of_slide(template: str, place: str) -> tuple[str, str] | None:
    """Quantity and unit of length, speed or force stated in a name; None if there is none."""
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
    """Whether a name matches a preset with any separators; words before it must carry no information."""
    if entry.bag or not place or "{" not in entry.columns:
        # Names in bags and of clocks must match exactly, because they are too short for a tolerant
        # comparison.
        if entry.columns.replace("{joint}", place).lower() == template.lower():
            return True
        # In a drive's recording, the file name identifies the joint: vesc_1/encoder_position.
        of_file, mark, signal = template.rpartition("/")
        plain = bool(mark) and not entry.bag and entry.quantity != "time"
        return plain and place in of_file and entry.columns.lower() == signal.lower()
    wanted = _spelt(entry.columns)
    by_joint = "{joint}" in entry.columns
    if by_joint:
        return place == "{joint}" and _ends(_spelt(_without_unit(template, place)), wanted)
    numbers = [
        tuple("#" if w.isdigit() else w for w in words(_without_unit(column, ""))) for column in columns
    ]
    return bool(numbers) and all(_ends(number, wanted) for number in numbers)


def _ends(name: Sequence[str], wanted: Sequence[str]) -> bool:
    at = len(name) - len(wanted)
    head, tail = tuple(name[: max(at, 0)]), tuple(name[max(at, 0) :])
    short = len("".join(wanted).replace("#", "")) <= 2
    return tail == tuple(wanted) and (not head or (not short and all(_says_nothing(word) for word in head)))


def names_signal(word: str) -> bool:
    """Whether a word denotes a joint signal or an axis of motor current."""
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
    """Quantity and unit stated in a name; None if there is none."""
    bracket = BRACKETED_UNIT.search(template)
    if bracket:
        text = bracket.group(1).strip().lower()
        return _UNITS.get(text) or _LETTERS.get(text)
    spelt = words(template.replace(place, " ") if place else template)
    # A whole name is not a unit, but a word after the joint may be one, as in elbow_deg, and so may a line of
    # units: Nm[0], Nm[1], ...
    alone = spelt[1:] in ((), ("s",)) and spelt[:1] != () and spelt[0] not in _TURNS
    least = 0 if place and (alone or template.startswith(place)) else 1
    for k in range(len(spelt) - 1, least - 1, -1):
        word = spelt[k]
        if word in _TURNS and k < len(spelt) - 1:
            continue  # "rev" may stand for a revolute joint
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
    """Text in square brackets at the end of a name that is neither a unit nor a known word; empty if there is none."""
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
    # "q_dot" and "theta_dot" are velocities, "q_ddot" is an acceleration.
    for dot, kind in (("ddot", "ddq"), ("dot", "dq")):
        if dot in spelt and set(spelt) & _POSITION:
            spelt = [kind if word == dot else word for word in spelt if word not in _POSITION]
    if "j" in spelt and "tau" in spelt:  # tau_J in Franka's logs
        spelt.remove("j")
    of_motors = bool(set(spelt) & set(_OF_MOTORS))
    spelt = [_OF_MOTORS.get(word, word) for word in spelt]
    if slides or set(spelt) & _JOINT or (place == "{joint}" and place in template):
        spelt = ["effort" if word in _FORCE else word for word in spelt]
    have = set(spelt)
    if place == "":
        return _alone(have, spelt, stated)
    # The sampling time of a joint's value is not a signal of the joint.
    stamped = have & _STAMPS and not stated
    # Signals in a drive's status message are measured: status.torque is not a status.
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
        return Meaning(
            "other", role, UNKNOWN, "name"
        )  # current of a motor's direct axis, which produces no torque
    if "current" in kinds and len(kinds) > 1:
        other = [kind for kind in kinds if kind != "current"]
        if (stated and stated[0] == "current") or (other == ["effort"] and pair in _EFFORT):
            kinds = ["current"]
        elif other in (["torque"], ["effort"]):
            return Meaning("effort", role, stated[1] if stated else UNKNOWN, "name")
        else:  # "current position" means the present position
            kinds, role = other, role or "measured"
    # A unit outweighs a symbol, because the dot of a derivative is easily lost.
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
            quantity, role, UNKNOWN, "name", doubt=f"the name says '{strange}', which is not a known unit"
        )
    # theta_m1: "m" before the number means motor; after the number it may be the metres of a prismatic joint.
    inside = have & _INSIDE or "m" in words(template.partition(place)[0])[1:]
    motor = of_motors or (bool(inside) and quantity in ("position", "velocity"))
    return Meaning(quantity, role, unit, "name", motor=motor)


def _before_current(spelt: Sequence[str]) -> str:
    """The word before that for current; empty if there is none."""
    return next((before for before, word in pairwise(spelt) if word in _CURRENT - {"i"}), "")


def role_of(spelt: Sequence[str], have: set[str]) -> str:
    """Role stated by the words of a name: measured, commanded, estimated or model; empty if none is.

    Parameters
    ----------
    spelt : sequence of str
        Words in order.
    have : set of str
        The same words as a set.

    """
    if have & _MODEL:
        return "model"
    # Single letters mean "desired" only after another word: q_d, tau_J_d.
    commanded = have & _COMMANDED - {"d", "r", "c"}
    if commanded or (len(spelt) > 1 and spelt[-1] in ("d", "r", "c")):
        return "commanded"
    if have & _ESTIMATED:
        return "estimated"
    return "measured" if have & (MEASURED | _SENSED) else ""


def _signal_words() -> set[str]:
    """Words of measured or commanded joint signals, without the ambiguous letters "d", "r" and "c"."""
    return set().union(*(kind for _, kind in KINDS), _COMMANDED - {"d", "r", "c"})


def _alone(have: set[str], spelt: Sequence[str], stated: tuple[str, str] | None) -> Meaning:
    of_signal = have & _TIME == {"t"} and have & _signal_words()  # a "t" of a torque or a joint: T_des, T_pos
    clock = have & (_TIME | TICKS) and not of_signal
    if (clock or have & _SPANS) and not have & {"step", "delta", "execution"}:
        stated = _UNITS.get(spelt[0]) if stated is None and len(spelt) == 1 else stated  # "millis"
        unit = stated[1] if stated and stated[0] == "time" else UNKNOWN
        return Meaning("time", "spare" if have & (_SPANS | {"start", "end"}) else "", unit, "name")
    if have & _TRAJECTORY and not have & set().union(*(kind for _, kind in KINDS)):
        return Meaning("trajectory", "", UNKNOWN, "name")
    return Meaning("", role_of(spelt, have), UNKNOWN, "")
