"""Works through a scenario's grid on any OpenAI-compatible server.

locust -f locustfiles/grid.py --headless --scenario scenarios/quickstart.toml --host http://...

Users, load and length come from the scenario; -u, -r and -t are not needed.
"""

from harness.load.users import GridUser

__all__ = ["GridUser"]
