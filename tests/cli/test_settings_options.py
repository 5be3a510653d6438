"""Values of options that are made from settings."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dynid.cli.options import with_settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25", 25),
        ("14.7, 9,6.8", [14.7, 9, 6.8]),
        ("[14.7, 9]", [14.7, 9]),
        ("{ elbow = 9.0 }", {"elbow": 9.0}),
        (".1", 0.1),
        ("1.", 1.0),
        ("-.5, 2., 3", [-0.5, 2.0, 3]),
        ("{ elbow = .5 }", {"elbow": 0.5}),
        ("auto", "auto"),
        ("v1.", "v1."),
        ("a, b", "a, b"),
    ],
)
def test_values_are_toml_whose_text_needs_no_quotes_and_lists_no_brackets(text: str, value: object) -> None:
    seen: dict[str, Any] = {}

    def command(written: dict[str, Any]) -> None:
        seen.update(written)

    app = typer.Typer()
    app.command()(with_settings(command))
    result = CliRunner().invoke(app, ["--kp", text])
    assert result.exit_code == 0, result.output
    assert seen == {"drive": {"kp": value}}
