"""dynid schema: JSON schemas of dynid's files for editors, and templates."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say


class Form(StrEnum):
    """Kind of file."""

    EXPERIMENT = "experiment"
    ROBOT = "robot"
    MOTION = "motion"


def command(
    form: Annotated[
        Form, typer.Argument(help="Kind of file: experiment, motion or robot.")
    ] = Form.EXPERIMENT,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            help="Template file to write (experiment, motion), with its schema in the same folder; must not exist.",
        ),
    ] = None,
) -> None:
    """Print the JSON schema of experiment.toml, motion.toml or a robot file, for completion and checks in editors."""
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

    schema_file = template.with_name(f"{form}.schema.json")
    refuse_existing(template, "choose another --template")
    content = _template(form, schema_file.name)
    write_files({schema_file: f"{text}\n".encode(), template: content.encode()})
    say(f"wrote {template} and {schema_file}")


def _template(form: Form, schema_file: str) -> str:
    if form is Form.MOTION:
        from dynid.excitation.settings import template_text as of_motion

        return of_motion(schema_file)
    from dynid.identification.schema import template_text

    return template_text(schema_file)
