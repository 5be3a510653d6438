"""Joint states as `ros2 topic echo --csv` prints them: no header line, the message's fields one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from dynid.base.numbers import number_of

_HEADER = ("header.stamp.sec", "header.stamp.nanosec", "header.frame_id")
# Of sensor_msgs/msg/JointState, in its order; any may be empty, and with two it is not said which.
_ARRAYS = {
    1: ("position",),
    2: ("position", "velocity_or_effort"),
    3: ("position", "velocity", "effort"),
}
_NANOSECONDS_PER_SECOND = 1_000_000_000


def joint_state_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of a row sec, nanosec, frame_id, names of m joints, and m numbers an array; else ()."""
    start = len(_HEADER)
    if len(cells) <= start or not (cells[0].isdigit() and cells[1].isdigit()) or _is_number(cells[2]):
        return ()
    if int(cells[1]) >= _NANOSECONDS_PER_SECOND:
        return ()
    rest = cells[start:]
    m = next((k for k, cell in enumerate(rest) if _is_number(cell)), len(rest))
    numbers = rest[m:]
    if not m or not all(rest[:m]) or len(set(rest[:m])) < m or not all(map(_is_number, numbers)):
        return ()
    arrays = _ARRAYS.get(len(numbers) // m) if len(numbers) % m == 0 else None
    if arrays is None:
        return ()
    return (*_HEADER, *(f"{field}[{i}]" for field in ("name", *arrays) for i in range(m)))


def _is_number(cell: str) -> bool:
    try:
        number_of(cell)
    except ValueError:
        return False
    return True
