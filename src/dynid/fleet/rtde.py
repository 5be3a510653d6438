"""Reads joint positions, velocities and currents of a Universal Robots controller from its RTDE socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import numpy as np

from dynid.base import InputError, Place, ResourceError, UsageError
from dynid.fleet.stream import StreamRows
from dynid.robot import RobotModel

PORT, RATE, VERSION, JOINTS = 30004, 125.0, 2, 6
# Rows yielded together: a fifth of a second.
AT_ONCE = 25
# s: time without a package after which the controller counts as disconnected.
SILENCE = 2.0
REQUEST_VERSION, SETUP_OUTPUTS, START, DATA, TEXT = 86, 79, 83, 85, 77
FIELDS = (
    ("timestamp", "DOUBLE"),
    ("actual_q", "VECTOR6D"),
    ("actual_qd", "VECTOR6D"),
    ("actual_current", "VECTOR6D"),
)
SCHEME = "rtde://"


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
            package = _package(link)
            if package is not None and package[0] == DATA:
                waiting.append(struct.unpack(">d6d6d6d", package[1][1:]))
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
    for kind, payload, wanted in steps:
        link.sendall(struct.pack(">HB", len(payload) + 3, kind) + payload)
        answer = _package(link)
        while answer is not None and answer[0] == TEXT:
            answer = _package(link)
        if answer is None or answer[0] != kind or not answer[1].endswith(wanted):
            raise InputError(
                "rtde-protocol",
                found=f"answer {answer!r}",
                expected=f"RTDE of version {VERSION} with {names.decode()}",
                place=Place(file=address),
            )


def _package(link: socket.socket) -> tuple[int, bytes] | None:
    # Type and payload of the next package; None if the controller is disconnected or sends nothing.
    head = _bytes(link, 3)
    if head is None:
        return None
    size, kind = struct.unpack(">HB", head)
    body = _bytes(link, size - 3)
    return None if body is None else (kind, body)


def _bytes(link: socket.socket, count: int) -> bytes | None:
    received = b""
    while len(received) < count:
        try:
            part = link.recv(count - len(received))
        except OSError:
            return None
        if not part:
            return None
        received += part
    return received
