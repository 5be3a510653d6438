"""What is left of a bag that was cut off: whole records counted from the front, without trusting its index."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

ROS1_MAGIC = b"#ROSBAG V"
MCAP_MAGIC = b"\x89MCAP0\r\n"
SQLITE_MAGIC = b"SQLite format 3\0"
_MCAP_FOOTER, _MCAP_MESSAGE, _MCAP_CHUNK, _MCAP_INDEX = 0x02, 0x05, 0x06, 0x07


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
    chunks, count = 0, 0
    ends: list[int] = []
    while True:
        lead = file.read(9)
        length = struct.unpack("<Q", lead[1:])[0] if len(lead) == 9 else size
        start = file.tell()
        if start + length > size:
            return _said(chunks, count, size, ends)
        head = file.read(min(length, 16))
        if lead[0] == _MCAP_FOOTER:
            return ""
        if lead[0] == _MCAP_MESSAGE and len(head) >= 14:
            count += 1
            ends = _extended(ends, struct.unpack_from("<Q", head, 6))
        elif lead[0] == _MCAP_CHUNK and len(head) == 16:
            chunks += 1
            ends = _extended(ends, struct.unpack("<QQ", head))
        elif lead[0] == _MCAP_INDEX and len(head) >= 6:
            count += struct.unpack_from("<I", head, 2)[0] // 16
        file.seek(start + length)


def _ros1(file: BinaryIO, size: int) -> str:
    file.seek(0)
    file.readline()
    chunks, count = 0, 0
    ends: list[int] = []
    indexed = True
    while file.tell() < size:
        places = []
        for _ in range(2):
            lead = file.read(4)
            length = struct.unpack("<I", lead)[0] if len(lead) == 4 else size
            places.append((file.tell(), length))
            if file.seek(length, 1) > size:
                return _said(chunks, count, size, ends)
        (at, length), (body, body_length) = places
        file.seek(at)
        header = file.read(min(length, 4096))
        if b"op=\x03" in header and b"index_pos=" in header:
            indexed = struct.unpack_from("<Q", header, header.index(b"index_pos=") + 10)[0] > 0
        chunks += b"op=\x05" in header
        if b"op=\x04" in header and body_length >= 12:
            # Entries of the index behind a chunk: seconds, nanoseconds, place.
            count += body_length // 12
            for entry in (body, body + body_length - 12):
                file.seek(entry)
                seconds, nanoseconds = struct.unpack("<II", file.read(8))
                ends = _extended(ends, [seconds * 1_000_000_000 + nanoseconds])
        file.seek(body + body_length)
    return "" if indexed else _said(chunks, count, size, ends)


def _sqlite(head: bytes, size: int) -> str:
    page: int = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages = struct.unpack(">I", head[28:32])[0]
    if pages == 0 or size >= pages * page:
        return ""
    return f"{size // page} of {pages} pages of its database are there"


def _extended(ends: Sequence[int], times: Sequence[int]) -> list[int]:
    return [min(*ends, *times, times[0]), max(*ends, *times, times[0])]


def _said(chunks: int, count: int, size: int, ends: Sequence[int]) -> str:
    seconds = (ends[1] - ends[0]) * 1e-9 if ends else 0.0
    return f"{chunks} chunk(s) and {count} messages of the index, over {seconds:.3g} s, are whole in its {size} bytes"
