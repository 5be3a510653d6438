"""What is left of a bag that was cut off: whole records counted from the front, without trusting its index."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ROS1_MAGIC = b"#ROSBAG V"
MCAP_MAGIC = b"\x89MCAP0\r\n"
SQLITE_MAGIC = b"SQLite format 3\0"
_MCAP_MESSAGE, _MCAP_CHUNK, _MCAP_FOOTER = 0x05, 0x06, 0x02


def intact_part(path: Path) -> str:
    """Says in words what a truncated bag still holds; empty if nothing shows that it was cut off."""
    if path.is_dir():
        found = [intact_part(one) for one in sorted(path.iterdir()) if one.suffix in (".mcap", ".db3")]
        return "; ".join(text for text in found if text)
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = file.seek(0, 2)
            if head.startswith(MCAP_MAGIC):
                return _mcap(file, size)
            if head.startswith(ROS1_MAGIC):
                return _ros1(file, size)
            if head.startswith(SQLITE_MAGIC) and len(head) == 100:
                return _sqlite(head, size)
    except (OSError, struct.error):
        return ""
    return ""


def _mcap(file: BinaryIO, size: int) -> str:
    file.seek(len(MCAP_MAGIC))
    times: list[int] = []
    spans: list[tuple[int, int]] = []
    ended = False
    for kind, head in _mcap_records(file, size):
        if kind == _MCAP_MESSAGE:
            times = [min([*times[:1], head[1]]), max([*times[-1:], head[1]])]
        elif kind == _MCAP_CHUNK:
            spans.append((head[0], head[1]))
        ended = kind == _MCAP_FOOTER
    if ended:
        return ""
    count = f"{len(spans)} whole chunk(s)"
    ends = [*times, *(time for span in spans for time in span)]
    return _said(count, size, (max(ends) - min(ends)) * 1e-9 if ends else 0.0)


def _mcap_records(file: BinaryIO, size: int) -> Iterator[tuple[int, tuple[int, int]]]:
    while True:
        lead = file.read(9)
        if len(lead) < 9:
            return
        kind, length = lead[0], struct.unpack("<Q", lead[1:])[0]
        start = file.tell()
        if start + length > size:
            return
        head = file.read(min(length, 16))
        file.seek(start + length)
        if kind == _MCAP_MESSAGE and len(head) >= 14:
            yield kind, (0, struct.unpack_from("<Q", head, 6)[0])
        else:
            yield kind, struct.unpack("<QQ", head) if len(head) == 16 else (0, 0)


def _ros1(file: BinaryIO, size: int) -> str:
    file.seek(0)
    file.readline()
    chunks, first, last = 0, 0, 0
    index, reached = 0, file.tell()
    while True:
        parts = []
        for _ in range(2):
            lead = file.read(4)
            length = struct.unpack("<I", lead)[0] if len(lead) == 4 else size
            if file.tell() + length > size:
                cut = index == 0 or reached < size
                return _said(f"{chunks} whole chunk(s)", size, last - first) if cut else ""
            parts.append((file.tell(), length))
            file.seek(length, 1)
        reached = file.tell()
        (at, length), (body, body_length) = parts
        file.seek(at)
        header = file.read(min(length, 4096))
        if b"op=\x03" in header:
            index = struct.unpack_from("<Q", header, header.index(b"index_pos=") + 10)[0]
        elif b"op=\x05" in header:
            chunks += 1
        elif b"op=\x04" in header and body_length >= 8:
            file.seek(body)
            begin = struct.unpack("<I", file.read(4))[0]
            file.seek(body + body_length - 12)
            end = struct.unpack("<I", file.read(4))[0]
            first, last = min(first or begin, begin), max(last, end)
        file.seek(reached)
        if reached == size:
            return _said(f"{chunks} whole chunk(s)", size, last - first) if index == 0 else ""


def _sqlite(head: bytes, size: int) -> str:
    page: int = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages = struct.unpack(">I", head[28:32])[0]
    if pages == 0 or size >= pages * page:
        return ""
    return f"{size // page} of {pages} pages of the database are there, {size} bytes"


def _said(count: str, size: int, seconds: float) -> str:
    return f"{count} of messages over {seconds:.3g} s are intact in its {size} bytes"
