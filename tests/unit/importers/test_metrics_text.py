"""Metrics pages met in the field: each odd thing is read rightly, and none stops the rest."""

import math

import pytest

from harness.importers.metrics_text import MAX_BYTES, NoMetrics, Page, read_metrics


def read(text: str) -> Page:
    return read_metrics(text.encode())


def only(text: str) -> tuple[str, dict[str, str], float]:
    (((name, labels), value),) = read(text).values.items()
    return name, dict(labels), value


@pytest.mark.parametrize("text", ["-nan", "nan", "NaN", "+NaN"])
def test_no_number_yet_is_nan_and_does_not_fail_the_page(text: str) -> None:
    """llama.cpp writes -nan before its first decode; the next line is still read."""
    page = read(f"llamacpp:x {text}\ny 1\n")
    assert math.isnan(page.values["llamacpp:x", ()])
    assert page.values["y", ()] == 1


def test_colons_are_legal_in_names() -> None:
    """vLLM, SGLang and llama.cpp put one behind their prefix."""
    assert only('sglang:num_running_reqs{model_name="m"} 3') == (
        "sglang:num_running_reqs", {"model_name": "m"}, 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"my model", "my model"),
        (r"a\"b\\c\nd", 'a"b\\c\nd'),
        (r"/data/models/m.gguf", "/data/models/m.gguf"),
        (r"{x},y=", "{x},y="),
        (r"a} 7", "a} 7"),
        (r"# no comment", "# no comment"),
        (r"<<<NULL>>>", "<<<NULL>>>"),
        (r"\d\e", r"\d\e"),
        (r"", ""),
        (r"中 🌍", "中 🌍"),
    ],
)
def test_a_label_value_may_hold_anything(written: str, meant: str) -> None:
    """Spaces, braces, escapes and texts that look like something else stay the label's."""
    line = f'x{{a="1", m="{written}",z="2"}} 5.5'
    assert only(line) == ("x", {"a": "1", "m": meant, "z": "2"}, 5.5)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('x{m="a b"} 3 1700000000000', 3),
        ("x 3 1700000000.123", 3),
        ('x_bucket{le="1"} 3 # {trace_id="abc"} 0.7 1700000000.1', 3),
        ('x{m="a"}  3', 3),
        ("x\t3", 3),
        ('x {m="a",} 3', 3),
        ("x{} 3", 3),
        ("x 1.2345678e+07", 12345678),
        ("x +Inf", math.inf),
        ("x -Inf", -math.inf),
        ("x 3\r", 3),
    ],
)
def test_timestamps_exemplars_and_spaces_are_not_the_value(line: str, value: float) -> None:
    """The value is what stands behind the labels."""
    assert only(line)[2] == value


def test_unescaped_quotes_as_dcgm_exporter_writes_them() -> None:
    """Nothing is escaped there: quotes, commas and backslashes of a name stay in it."""
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",modelName="A "B", C",device="a\\new"} 4\n'
    page = read(text + 'x{a="x"} 1')
    assert page.values[
        "DCGM_FI_DEV_GPU_UTIL", (("device", "a\\new"), ("gpu", "0"), ("modelName", 'A "B", C'))
    ] == 4  # fmt: skip
    assert page.anomalies == {"labels without escapes": 1}
    assert page.values["x", (("a", "x"),)] == 1


def test_a_family_told_twice_is_counted_and_read() -> None:
    """A field that is rendered per GPU and per link has HELP and TYPE twice."""
    page = read(
        '# HELP x a\n# TYPE x counter\nx{gpu="0"} 1\n# HELP x b\n# TYPE x gauge\nx{nvlink="3"} 2'
    )
    assert page.kind_of("x") == "counter"
    assert sorted(page.values.values()) == [1, 2]
    assert page.anomalies == {"families declared twice": 1}


def test_a_series_that_comes_twice_keeps_its_first_value() -> None:
    """Also where the labels stand in another order; it is counted."""
    page = read('x{a="1",b="2"} 1\nx{b="2",a="1"} 9\n')
    assert list(page.values.values()) == [1]
    assert page.anomalies == {"series that came twice": 1}


def test_a_bucket_is_its_number_and_not_its_text() -> None:
    """1e+06, 1000000 and 1000000.0 are one bound, and +Inf has one spelling."""
    bounds = [
        only(f'x_bucket{{le="{text}"}} 1')[1]["le"]
        for text in ("1e+06", "1000000", "1000000.0", "+Inf", "inf", "0.50")
    ]
    assert bounds == ["1000000.0"] * 3 + ["+Inf"] * 2 + ["0.5"]


def test_start_times_are_told_from_what_is_counted() -> None:
    """`_created` is a kind of its own in either format; a gauge of that name alone is none."""
    page = read(
        "# TYPE x_total counter\nx_total 5\n# TYPE x_created gauge\nx_created 1.7e9\n"
        "# TYPE y counter\ny_total 5\ny_created 1.7e9\n"
        "# TYPE files_created gauge\nfiles_created 2\n"
    )
    kinds = {name: page.kind_of(name) for name, _ in page.values}
    assert kinds == {
        "x_total": "counter", "x_created": "created", "y_total": "counter", "y_created": "created",
        "files_created": "gauge",
    }  # fmt: skip


def test_kinds_of_samples_are_those_of_their_family() -> None:
    """A histogram's buckets, a counter with and without its suffix, and what nobody declared."""
    page = read("# TYPE h histogram\n# TYPE c counter\nh_bucket 1\nh_sum 1\nc_total 1\nc 1\nu 1")
    assert [page.kind_of(name) for name in ("h_bucket", "h_sum", "c_total", "c", "u")] == [
        "histogram", "histogram", "counter", "counter", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"\n\n", b"# EOF\n", b"# TYPE x counter\n", b"\xef\xbb\xbf"])
def test_an_empty_page_says_nothing(body: bytes) -> None:
    """A 200 with nothing in it has no data; that is not zero and not a failure of ours."""
    assert not read_metrics(body).has_data


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><html><body>502 Bad Gateway 1</body></html>",
        b"\n <html>\nnginx 1\nx 2\n</html>",
        b'{"detail": "Not Found"}',
        b"Internal Server Error",
        b"\x08\x01\x12\x03abc\x00\xff\n\x00\x01\n",
        b"x 1\nthis is\nno page\nof metrics\n",
    ],
)
def test_what_is_no_metrics_page_is_a_failure_and_never_zeros(body: bytes) -> None:
    """An error page, JSON, a text, protobuf: told with the start of what came."""
    with pytest.raises(NoMetrics, match="got"):
        read_metrics(body)


def test_the_message_shows_what_came_bounded_and_without_control_characters() -> None:
    """A terminal must not be driven by a server's bytes."""
    with pytest.raises(NoMetrics) as caught:
        read_metrics(b"\x1b[31mred" + b"z" * 10_000)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_blank_numbers_of_dcgm_are_dropped_from_gpu_metrics_only() -> None:
    """Each means "not there"; the same number elsewhere is a number."""
    blanks = [2147483632, 2147483635, 9223372036854775792, 9223372036854775795, 140737488355328]
    page = read("\n".join(f'DCGM_FI_X{{i="{blank}"}} {blank}' for blank in blanks) + "\nDCGM_Y 7")
    assert list(page.values.values()) == [7]
    assert page.anomalies == {"blank numbers of DCGM": len(blanks)}
    assert only("process_virtual_memory_max_bytes 140737488355328")[2] == 140737488355328
    assert only("DCGM_FI_X 2147483631")[2] == 2147483631


def test_pages_lines_and_labels_are_bounded() -> None:
    """Too long a page is refused, too long a line is counted, a long label value is cut."""
    with pytest.raises(NoMetrics, match="allowed are"):
        read_metrics(b"x" * (MAX_BYTES + 1))
    page = read('x{a="' + "b" * 20_000 + '"} 1\ny{a="' + "b" * 2_000 + '"} 2\n')
    assert page.anomalies == {"unreadable lines": 1}
    (((name, labels), value),) = page.values.items()
    assert (name, len(dict(labels)["a"]), value) == ("y", 1024, 2)
    many = ",".join(f'l{i}="1"' for i in range(100))
    assert read(f"x{{{many}}} 1\ny 1").anomalies == {"unreadable lines": 1}


@pytest.mark.parametrize("line", ["x", "x{a=b} 1", "x 1_000", "1x 2", 'x{a="b" 1', "x 0x1p3", "x}"])
def test_a_line_that_is_no_sample_is_counted_and_the_rest_is_read(line: str) -> None:
    """One odd line costs itself and nothing more."""
    page = read(f"{line}\ny 1\nz 2\n")
    assert set(page.values) == {("y", ()), ("z", ())}
    assert page.anomalies == {"unreadable lines": 1}


def test_heads_that_were_read_before_give_the_same_page() -> None:
    """The second scrape of a server is read from the first one's heads, to the same result."""
    text = b'x{a="1"} 5\ny 2 1700\nz{m="A "B""} 3\nx{a="1"} 6\n'
    heads: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}
    first, second = read_metrics(text, heads), read_metrics(text, heads)
    assert first.values == second.values == read_metrics(text).values
    assert heads["y"] == ("y", ())


def test_quoted_names_of_the_newer_format() -> None:
    """A name outside the old alphabet stands quoted among the labels."""
    assert only('{"gen_ai.server.duration", "a.b"="c"} 2') == (
        "gen_ai.server.duration", {"a.b": "c"}, 2,
    )  # fmt: skip
