"""dynid schema: the JSON schemas of dynid's files, for editors, and files to begin with."""

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
    MOTION = "motion"


def command(
    form: Annotated[Form, typer.Argument(help="experiment, motion or robot: which files.")] = Form.EXPERIMENT,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            help="Write a file to begin with (experiment, motion), and its schema beside it; must not exist.",
        ),
    ] = None,
) -> None:
    """Print the JSON schema of experiment.toml, motion.toml or a robot file, with which editors complete and check."""
    import json

    from dynid.base.errors import UsageError

    if form is Form.ROBOT:
        from dynid.robot.toml_schema import Description

        schema = Description.model_json_schema(by_alias=True)
    elif form is Form.MOTION:
        from dynid.excitation.settings import json_schema as motion_schema

        schema = motion_schema()
    else:
        from dynid.identification.schema import json_schema

        schema = json_schema()
    text = json.dumps(schema, indent=1)
    if template is None:
        say(text)
        return
    if form is Form.ROBOT:
        raise UsageError(
            "schema-template", found=f"--template of {form}", expected="--template of experiment or motion"
        )
    from dynid.base.files import refuse_existing
    from dynid.exporters.export import write_files

    beside = template.with_name(f"{form}.schema.json")
    refuse_existing(template, "choose another --template")
    begun = _begun(form, beside.name)
    write_files({beside: f"{text}\n".encode(), template: begun.encode()})
    say(f"wrote {template} and {beside}")


def _begun(form: Form, schema_file: str) -> str:
    if form is Form.MOTION:
        from dynid.excitation.settings import template_text as of_motion

        return of_motion(schema_file)
    from dynid.identification.schema import template_text

    return template_text(schema_file)
