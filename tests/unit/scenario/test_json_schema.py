from pathlib import Path

from harness.scenario.json_schema import scenario_json_schema
from tests.golden_file import require_golden


def test_the_schema_for_editors_is_current() -> None:
    """scenarios/schema.json is what the models say today."""
    require_golden(Path("scenarios/schema.json"), scenario_json_schema())
