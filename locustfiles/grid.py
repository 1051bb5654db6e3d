"""Works through a scenario's grid on any OpenAI-compatible server.

locust -f locustfiles/grid.py --headless --scenario scenarios/quickstart.toml --host http://...

Users, load and length come from the scenario; -u, -r and -t are not needed. Over several processes:
--processes 2. On Locust's page: leave --headless out. Your own classes beside it: docs/load.md.
"""

from harness.load.users import GridUser

__all__ = ["GridUser"]
