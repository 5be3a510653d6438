"""Tasks for processes of the tests, which import nothing else."""

from __future__ import annotations

import os
import time


def deadly(number: int) -> int:
    """A task that ends its process where the number is 3, and takes 300 MB where it is 4."""
    if number == 3:
        os._exit(1)
    if number == 4:
        taken = bytearray(300_000_000)
        time.sleep(600.0)
        return len(taken)
    return number**2
