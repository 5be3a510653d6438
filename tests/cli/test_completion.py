"""Values of options complete in a shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = "import sys; sys.argv = ['dynid']; from dynid.cli.main import main; main()"


def completed(words: str) -> list[str]:
    """Proposals of bash for the last of the words of a command line."""
    asked = {"_DYNID_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", START], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ("dynid export run --format ", {"urdf", "mjcf", "playground", "c", "table"}),
        ("dynid export run --width n", {"noise"}),
        ("dynid identify --method w", {"wls"}),
        ("dynid identify --rows ", {"torque", "energy", "all"}),
        ("dynid check --velocity m", {"measured"}),
        ("dynid identify --accept tilted", {"tilted-base"}),
        ("dynid limits --geometry ", {"collision", "visual"}),
        ("dynid payload --tool k", {"kuka"}),
        ("dynid simulate --simulator m", {"mujoco"}),
        ("dynid simulate --controller c", {"computed-torque"}),
        ("dynid explain tilted-b", {"tilted-base"}),
    ],
)
def test_values_of_options_are_proposed(words: str, some: set[str]) -> None:
    proposed = completed(words)
    assert some <= set(proposed)
    assert all(value.startswith(words.rpartition(" ")[2]) for value in proposed)
