"""Reads joint positions, velocities and currents of a Universal Robots controller from its RTDE socket."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from dynid.base import InputError, Place, ResourceError, UsageError
from dynid.fleet.stream import StreamRows
from dynid.robot import RobotModel

PORT, RATE, VERSION, JOINTS = 30004, 125.0, 2, 6
# Rows yielded together: a fifth of a second.
AT_ONCE = 25
# s: time without a package after which the controller counts as disconnected, and time for all answers before it sends.
SILENCE, HANDSHAKE = 2.0, 10.0
REQUEST_VERSION, SETUP_OUTPUTS, START, DATA, TEXT = 86, 79, 83, 85, 77
FIELDS = (
    ("timestamp", "DOUBLE"),
    ("actual_q", "VECTOR6D"),
    ("actual_qd", "VECTOR6D"),
    ("actual_current", "VECTOR6D"),
)
# The number of the selection, then one, six, six and six numbers.
_SAMPLE = struct.Struct(">B19d")
_HEAD = struct.Struct(">HB")
SCHEME = "rtde://"
_SHOWN = 100  # characters of an answer in a message


def rtde_rows(robot: RobotModel, address: str) -> Iterator[StreamRows]:
    """Yield rows of a controller until it stops sending; torque is motor current times drive gain.

    Nothing is written to the controller's registers.
    Source: Universal Robots, Real-Time Data Exchange (RTDE) guide, protocol version 2.

    Parameters
    ----------
    robot : RobotModel
        An arm of six joints with drive gains, N m/A.
    address : str
        rtde://HOST or rtde://HOST:PORT.

    Yields
    ------
    StreamRows
        Time, position, velocity and torque of 25 samples.

    Raises
    ------
    UsageError
        If the robot does not have six joints with drive gains.
    ResourceError
        If no controller answers.
    InputError
        If the answer is of another protocol.

    """
    gain = robot.drive.drive_gain
    if robot.n != JOINTS or len(gain) != JOINTS or not np.isfinite(gain).all():
        raise UsageError(
            "rtde-robot",
            found=f"{robot.n} joints, drive gains {np.round(gain, 6).tolist()}",
            expected="six joints with drive gains, because the controller measures currents",
            do="set drive_gain under [robot] of the experiment file, N m/A",
        )
    host, _, port = address.removeprefix(SCHEME).partition(":")
    try:
        link = socket.create_connection((host, int(port or PORT)), timeout=SILENCE)
    except (OSError, ValueError) as error:
        raise ResourceError(
            "rtde", found=f"{address}: {error}", expected="a controller that answers"
        ) from error
    with link:
        _agree(link, address)
        waiting: list[tuple[float, ...]] = []
        while True:
            package = _package(link, address)
            if package is not None and package[0] == DATA:
                if len(package[1]) != _SAMPLE.size:
                    raise _protocol(address, f"a sample of {len(package[1])} bytes", f"{_SAMPLE.size} bytes")
                waiting.append(_SAMPLE.unpack(package[1])[1:])
            if waiting and (package is None or len(waiting) >= AT_ONCE):
                table = np.array(waiting)
                waiting.clear()
                yield StreamRows(table[:, 0], table[:, 1:7], table[:, 13:] * gain, table[:, 7:13])
            if package is None:
                return


def _agree(link: socket.socket, address: str) -> None:
    names = ",".join(name for name, _ in FIELDS).encode()
    kinds = ",".join(kind for _, kind in FIELDS).encode()
    steps = (
        (REQUEST_VERSION, struct.pack(">H", VERSION), b"\x01"),
        # The answer begins with the number that the controller gives to the selection.
        (SETUP_OUTPUTS, struct.pack(">d", RATE) + names, kinds),
        (START, b"", b"\x01"),
    )
    end = time.monotonic() + HANDSHAKE
    for kind, payload, wanted in steps:
        with suppress(OSError):  # a controller that hung up does not answer
            link.sendall(_HEAD.pack(len(payload) + _HEAD.size, kind) + payload)
        answer = _package(link, address)
        while answer is not None and answer[0] == TEXT and time.monotonic() < end:
            answer = _package(link, address)
        if answer is None or answer[0] != kind or not answer[1].endswith(wanted):
            expected = f"RTDE of version {VERSION} with {names.decode()}"
            raise _protocol(address, f"answer {str(answer)[:_SHOWN]}", expected)


def _protocol(address: str, finding: str, expected: str) -> InputError:
    return InputError("rtde-protocol", found=finding, expected=expected, place=Place(file=address))


def _package(link: socket.socket, address: str) -> tuple[int, bytes] | None:
    # Type and payload of the next package; None if the controller is disconnected or sends nothing.
    head = _bytes(link, _HEAD.size)
    if head is None:
        return None
    size, kind = _HEAD.unpack(head)
    if size < _HEAD.size:
        raise _protocol(address, f"a package of {size} bytes", f"at least {_HEAD.size} bytes")
    body = _bytes(link, size - _HEAD.size)
    return None if body is None else (kind, body)


def _bytes(link: socket.socket, count: int) -> bytes | None:
    # A package that arrives byte by byte has as much time as a silent one.
    received, end = b"", time.monotonic() + SILENCE
    while len(received) < count:
        try:
            part = link.recv(count - len(received))
        except OSError:
            return None
        if not part or time.monotonic() > end:
            return None
        received += part
    return received
