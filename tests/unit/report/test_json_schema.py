import json

from harness.report.html import report_json
from harness.report.json_schema import SCHEMA_FILE, render_schema
from tests.unit.report.make_report import make_hard_report


def test_the_committed_schema_is_current() -> None:
    """docs/report.schema.json is what the models say: `python -m harness.report.json_schema`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == render_schema()


def test_the_schema_names_every_key_of_a_report() -> None:
    """A reader of the schema knows each key of report.json, and no other is allowed."""
    schema = json.loads(render_schema())
    report = json.loads(report_json(make_hard_report()))
    assert set(report) == set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert set(report["cells"][0]) == set(schema["$defs"]["Cell"]["properties"])
    assert set(report["breakpoints"][0]) == set(schema["$defs"]["Breakpoint"]["properties"])
    assert set(report["validity"]) == set(schema["$defs"]["Validity"]["properties"])
