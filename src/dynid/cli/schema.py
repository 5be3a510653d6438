"""dynid schema: the JSON schema of experiment files, for editors, and a file to begin with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say


class Form(StrEnum):
    """What a schema is printed of."""

    EXPERIMENT = "experiment"
    ROBOT = "robot"


def command(
    form: Annotated[Form, typer.Argument(help="experiment or robot: which files.")] = Form.EXPERIMENT,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            help="Write an experiment file to begin with, and its schema beside it; must not exist.",
        ),
    ] = None,
) -> None:
    """Print the JSON schema of experiment.toml or of a robot file, with which editors complete and check."""
    import json

    from dynid.base.errors import UsageError

    if form is Form.ROBOT:
        from dynid.robot.toml_schema import Description

        schema = Description.model_json_schema(by_alias=True)
    else:
        from dynid.identification.schema import json_schema

        schema = json_schema()
    text = json.dumps(schema, indent=1)
    if template is None:
        say(text)
        return
    if form is not Form.EXPERIMENT:
        raise UsageError(
            "schema-template", found=f"--template of {form}", expected="--template of experiment"
        )
    from dynid.base.atomic_write import refuse_existing
    from dynid.exporters.files import write_files
    from dynid.identification.schema import template_text

    beside = template.with_name("experiment.schema.json")
    refuse_existing(template, "choose another --template")
    write_files({beside: f"{text}\n".encode(), template: template_text(beside.name).encode()})
    say(f"wrote {template} and {beside}")
