"""`tailbreak scrape` on real endpoints: the table, the files, and what is refused."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.base.errors import SetupError
from harness.cli.main import app
from harness.metrics.window import Telemetry
from harness.records.telemetry import read_telemetry_file
from tests.metrics_page import MetricsPage, metrics_page

VLLM = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{pid="1"}} 3
vllm:num_requests_running{{pid="2"}} 0
vllm:num_requests_waiting 0
vllm:gpu_cache_usage_perc 0.25
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total {tokens}
vllm:time_to_first_token_seconds_bucket{{le="0.1"}} {ttft}
vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {ttft}
vllm:time_to_first_token_seconds_sum {ttft}
vllm:time_to_first_token_seconds_count {ttft}
"""


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    with metrics_page(VLLM.format(tokens=100, ttft=4)) as served:
        yield served


def scrape(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["scrape", *arguments], env={"COLUMNS": "160"})


def test_figures_of_a_known_server(page: MetricsPage, tmp_path: Path) -> None:
    """Values, folds and growth of the time it looked; the server's own names beside them."""

    def serve_some() -> None:
        while len(page.paths) < 3:  # the first look, and a scrape
            time.sleep(0.005)
        page.text = VLLM.format(tokens=160, ttft=10)

    threading.Thread(target=serve_some, daemon=True).start()
    out, told = tmp_path / "t.parquet", tmp_path / "t.json"
    result = scrape(
        page.url, "--seconds", "0.8", "--every", "0.2", "--out", str(out), "--json", str(told)
    )
    assert result.exit_code == 0, result.output
    assert "vLLM" in result.output
    (endpoint,) = json.loads(told.read_text())["endpoints"]
    assert endpoint["engine"] == "vllm"
    assert endpoint["n_failed"] == 0
    found = {each["name"]: each for each in endpoint["quantities"]}
    assert found["llm:requests_running"]["now"] == 3
    assert found["llm:kv_usage_ratio"]["mean"] == 0.25
    assert found["llm:kv_usage_ratio"]["said_by"].startswith("vllm:gpu_cache_usage_perc (")
    assert found["llm:output_tokens_total"]["now"] == 160
    window = Telemetry(read_telemetry_file(out)).window()
    assert window.increase("llm:output_tokens_total") == 60
    seconds = window.end_s - window.start_s
    assert found["llm:output_tokens_total"]["per_s"] == pytest.approx(60 / seconds)
    assert found["llm:ttft_seconds"]["p50"] == pytest.approx(0.05)
    assert "llm:itl_seconds" not in found, "what it does not tell is not there"
    assert any("without llm:e2e_seconds" in doubt for doubt in endpoint["doubts"])


def test_an_unknown_endpoint_says_what_is_there(page: MetricsPage) -> None:
    """No quantity is made up for it."""
    page.text = "node_load1 0.5\n"
    result = scrape(page.url, "--seconds", "0")
    assert result.exit_code == 0
    assert "of no inference server that is known, 1 series; 1 names: node_load1" in result.output


def test_nobody_there_is_an_error_that_says_so(page: MetricsPage, tmp_path: Path) -> None:
    """An address without metrics, one without a server, a folder that is not there."""
    page.status = 404
    for arguments, words in (
        ([page.url], "HTTP status 404"),
        (["http://127.0.0.1:9"], "refused"),
        ([page.url, "--json", str(tmp_path / "no" / "x.json")], "there is no folder"),
    ):
        result = scrape(*arguments)
        assert isinstance(result.exception, SetupError)
        assert words in str(result.exception)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:1/\u00e9", "foo", "", "http://127.0.0.1:1/m?k=\u00e9"]
)
def test_what_is_no_address_is_told(url: str) -> None:
    """An address that cannot be asked is an error that says what is allowed."""
    error = scrape(url).exception
    assert isinstance(error, SetupError)
    assert "allowed is http://HOST:PORT/PATH" in str(error)


def test_a_file_never_takes_the_place_of_a_folder_or_a_device(
    page: MetricsPage, tmp_path: Path
) -> None:
    """What cannot become the file is refused before the look, and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for out, words in ((tmp_path, "this is a folder"), (pipe, "no plain file")):
        error = scrape(page.url, "--out", str(out)).exception
        assert isinstance(error, SetupError)
        assert words in str(error)
    assert pipe.is_fifo()
    assert not page.paths
