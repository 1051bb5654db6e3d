"""The JSON Schema of `report.json`, for other programs and for editors.

It is generated from the models and committed as docs/report.schema.json; a test holds the two
together. `python -m harness.report.json_schema` writes it anew.
"""

import json
from pathlib import Path
from typing import Final

from harness.report.schema import Report

SCHEMA_FILE: Final = Path(__file__).parents[2] / "docs" / "report.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def render_schema() -> str:
    """The schema as text, two spaces deep, with a newline at the end."""
    schema = {
        "$schema": DIALECT,
        **Report.model_json_schema(by_alias=True, mode="serialization"),
        "title": "tailbreak report.json, schema 1",
    }
    return json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


def write_schema(path: Path = SCHEMA_FILE) -> Path:
    """Write the schema; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_schema(), encoding="utf-8")
    return path


if __name__ == "__main__":
    write_schema()
