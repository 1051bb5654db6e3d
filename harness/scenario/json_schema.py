"""JSON Schema of a scenario file, for editors: `scenarios/schema.json` is this text."""

import json

from harness.scenario.schema import Scenario


def scenario_json_schema() -> str:
    """The schema as pretty JSON, keys in the order of the models."""
    schema = Scenario.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2) + "\n"
