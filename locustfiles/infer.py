"""The plain load test of a Monte-Carlo accelerated inference service: Locust alone, no tailbreak.

locust -f locustfiles/infer.py --headless -u 8 -r 8 -t 30s --host http://127.0.0.1:8000

MC_ACCEL=false measures the baseline path instead of the accelerated one.
"""

import os

from locust import HttpUser, between, task

PROMPT = "Write one sentence about the sea."
MAX_TOKENS = 32


class MCInferenceUser(HttpUser):  # type: ignore[misc]  # locust is not typed here
    """Posts a prompt and waits between calls, as an interactive user would."""

    wait_time = between(0.5, 2.0)

    @task  # type: ignore[untyped-decorator]
    def infer(self) -> None:
        """One inference."""
        self.client.post(
            "/v1/infer",
            json={"prompt": PROMPT, "max_tokens": MAX_TOKENS},
            headers={"X-MC-Accel": os.environ.get("MC_ACCEL", "true")},
        )
