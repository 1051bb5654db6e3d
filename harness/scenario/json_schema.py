"""JSON Schemas for editors: the schema.json beside the scenarios and beside the laws."""

import json

from pydantic import BaseModel


def editor_schema(model: type[BaseModel]) -> str:
    """The model's schema as pretty JSON, keys in the order of the models."""
    schema = model.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2) + "\n"
