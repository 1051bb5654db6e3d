import json
from typing import Any

import pytest

from harness.base.errors import RecordError
from harness.plan.build import build_plan
from harness.plan.codec import plan_from_json, plan_to_json
from tests.make_records import make_scenario


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("scenario",), 5),
        (("seed",), "x"),
        (("cells",), []),
        (("cells",), {"a": 1}),
        (("cells", 0), None),
        (("cells", 0, "id"), 5),
        (("cells", 0, "id"), "another"),
        (("cells", 0, "factors"), []),
        (("cells", 0, "factors"), {}),
        (("cells", 0, "factors", "prompt_tokens"), "x"),
        (("cells", 0, "accelerated"), "paged_kv\r\nX-Other: 1"),
        (("cells", 0, "accelerated"), True),
        (("cells", 0, "factors", "accelerated"), "paged_kv"),
        (("cells", 0, "concurrency"), "8"),
        (("cells", 0, "sampling"), None),
        (("segments", 0), []),
        (("segments", 0, "id"), None),
        (("segments", 0, "cell"), "c99"),
        (("segments", 1, "id"), "c00-r0"),
        (("segments", 0, "requests"), []),
        (("segments", 0, "requests", "index"), []),
        (("segments", 0, "requests", "index", 0), "0"),
        (("segments", 0, "requests", "is_warmup", 0), 0),
        (("segments", 0, "requests", "offset_ns", 0), 5),
        (("segments", 0, "requests", "max_tokens", 0), None),
    ],
)
def test_a_damaged_or_edited_plan_is_told(path: tuple[str | int, ...], value: Any) -> None:
    """Whatever is of another kind, twice there or missing ends here, with the file's name."""
    plan = json.loads(json.dumps(plan_to_json(build_plan(make_scenario()))))
    plan["segments"].sort(key=lambda segment: str(segment["id"]))
    holder = plan
    for key in path[:-1]:
        holder = holder[key]
    assert holder[path[-1]] != value
    holder[path[-1]] = value
    with pytest.raises(RecordError, match=r"plan\.json: "):
        plan_from_json(plan)
