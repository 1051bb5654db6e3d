from pathlib import Path

import pytest
from pydantic import BaseModel

from harness.scenario.json_schema import editor_schema
from harness.scenario.schema import Scenario
from harness.server.truth.law import Law
from tests.golden_file import require_golden


@pytest.mark.parametrize(
    ("path", "model"), [("scenarios/schema.json", Scenario), ("scenarios/laws/schema.json", Law)]
)
def test_the_schema_for_editors_is_current(path: str, model: type[BaseModel]) -> None:
    """The file is what the models say today."""
    require_golden(Path(path), editor_schema(model))
