"""`tailbreak dashboards`: Grafana's boards as files, into a Grafana, checked, and as pictures."""

import typer

from harness.cli.dashboards_annotate import annotate
from harness.cli.dashboards_check import check
from harness.cli.dashboards_picture import picture
from harness.cli.dashboards_push import push
from harness.cli.dashboards_render import render
from harness.cli.verb import add_verb

dashboards = typer.Typer(
    name="dashboards",
    help="Grafana's boards: files, publishing, checks, pictures.",
    epilog="Example: tailbreak dashboards push --url http://127.0.0.1:3000",
    no_args_is_help=True,
)

for _each in (render, push, check, annotate, picture):
    add_verb(dashboards, _each)
