"""The table of what the server said: columns with figures, cells without, hostile names."""

from typing import Any

from harness.report.html import render_html
from harness.report.schema import ServerFigures, ServerSaid
from harness.report.server_table import build_server_table
from tests.unit.report.make_report import make_report

SILENT = dict.fromkeys(
    [
        "kv_usage_mean", "kv_usage_max", "running_mean", "waiting_mean", "waiting_max",
        "prefix_hit_share", "output_tokens_per_s", "preemptions", "queue_p99_s", "gc_pause_share",
    ]
)  # fmt: skip


def figures(cell: str, n_scrapes: int = 9, **values: Any) -> ServerFigures:
    return ServerFigures(**{"cell": cell, "n_scrapes": n_scrapes, **SILENT, **values})


def said(*cells: ServerFigures, engine: str = "vllm") -> ServerSaid:
    return ServerSaid(engine=engine, cells=list(cells), caveats=["one caveat"])


def test_columns_without_any_figure_are_left_out() -> None:
    """What is shown has its unit; a cell without says why."""
    report = make_report(
        telemetry=said(
            figures("c00", kv_usage_mean=0.25, queue_p99_s=0.0123), figures("c01", 1),
        )
    )  # fmt: skip
    table = build_server_table(report)
    assert table is not None
    assert table.columns == ("KV in use, mean", "Queue P99")
    assert [row.entries for row in table.rows] == [("25 %", "12.3 ms"), (None, None)]
    assert table.rows[1].reason == "measured for less than two scrapes"
    assert table.rows[0].label == "prompt_tokens 64, baseline"


def test_the_page_shows_it_and_only_where_there_is_one() -> None:
    """A section of its own, its place in the contents, the kind of server and the caveat."""
    page = render_html(make_report(telemetry=said(figures("c00", waiting_max=7.0))))
    assert '<li><a href="#server">Server</a></li>' in page
    assert "What the server said" in page
    assert "<bdi>vllm</bdi>" in page
    assert "one caveat." in page
    for none in (None, said(figures("c00"))):
        assert 'href="#server"' not in render_html(make_report(telemetry=none))


def test_a_server_cannot_write_into_the_page() -> None:
    """Its name is escaped and bounded, a cell that no one knows is text."""
    hostile = "<script>alert(1)</script>" + "x" * 500
    page = render_html(
        make_report(telemetry=said(figures(hostile, kv_usage_mean=0.5), engine=hostile))
    )
    assert "<script>alert" not in page
    assert "x" * 200 not in page.split('id="report-json"')[0]
