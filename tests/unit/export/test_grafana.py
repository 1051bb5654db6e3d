"""Publishing against Grafana's documented contract; no real Grafana was available."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.boards import BOARDS
from harness.base.errors import SetupError
from harness.export import grafana as publishing
from harness.export.grafana import Grafana
from tests.grafana_contract import TOKEN, Store, grafana

LINES = ("10.4.19", "11.6.0", "12.4.1", "13.0.0")
BOARD = BOARDS[0].to_json()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize("version", LINES)
def test_boards_are_kept_and_pushed_again(version: str) -> None:
    """A folder is made once, boards replace themselves by uid, and come back as they were sent."""
    with grafana(Store(version)) as url:
        target = Grafana.connect(url, TOKEN)
        assert target.version == version
        folder = target.folder("tailbreak")
        assert [target.push(b.to_json(), folder).version for b in BOARDS] == [1] * len(BOARDS)
        again = target.push(BOARD, target.folder("tailbreak"))
        assert (again.uid, again.version) == ("tailbreak-run", 2)
        assert again.url == f"{url}/d/tailbreak-run/tailbreak-run"
        kept = target.board("tailbreak-run")
        assert kept is not None
        assert kept["panels"] == BOARD["panels"]
        assert target.board("nobody") is None


@pytest.mark.parametrize("version", LINES)
def test_only_calls_that_every_line_has_are_made(version: str) -> None:
    """Nothing by numeric id, nothing that 11 or 13 have removed."""
    with grafana(store := Store(version)) as url:
        target = Grafana.connect(url, TOKEN)
        target.push(BOARD, target.folder("x"))
        target.datasource("abc123")
        target.annotate(start_ms=1, end_ms=2, text="t", tags=["a"])
    assert all(
        call.partition(" ")[2] in {
            "/api/health", "/api/folders", "/api/dashboards/db", "/api/datasources/uid/abc123",
            "/api/annotations",
        }
        for call in store.calls
    )  # fmt: skip


def test_below_a_path_of_a_proxy() -> None:
    """A Grafana at /grafana is found, and its links are whole."""
    with grafana(Store(prefix="/grafana")) as url:
        target = Grafana.connect(url + "/", TOKEN)
        assert target.push(BOARD, target.folder("x")).url == f"{url}/d/tailbreak-run/tailbreak-run"


def test_datasource_by_uid_and_by_name() -> None:
    """Either names it; an unknown one is refused with those there are."""
    with grafana(Store()) as url:
        target = Grafana.connect(url, TOKEN)
        assert target.datasource("abc123") == ("abc123", "Main Prometheus")
        assert target.datasource("Main Prometheus") == ("abc123", "Main Prometheus")
        with pytest.raises(SetupError, match="no data source 'x/y', allowed Main Prometheus"):
            target.datasource("x/y")


def test_annotations_are_regions_found_by_tag() -> None:
    """What was posted is found by its tag, with both its times."""
    with grafana(Store()) as url:
        target = Grafana.connect(url, TOKEN)
        target.annotate(start_ms=1000, end_ms=2000, text="cell c00", tags=["tailbreak", "run:a b"])
        (found,) = target.annotations("run:a b")
        assert (found["time"], found["timeEnd"], found["text"]) == (1000, 2000, "cell c00")
        assert target.annotations("run:other") == []


def test_calls_that_may_be_repeated_are() -> None:
    """Two failures of a gateway are ridden out; an annotation is sent once."""
    with grafana(store := Store()) as url:
        target = Grafana.connect(url, TOKEN)
        folder = target.folder("x")
        store.trouble = [(502, "bad gateway"), (503, "wait")]
        assert target.push(BOARD, folder).version == 1
        store.trouble = [(502, "bad gateway")]
        with pytest.raises(SetupError, match=r"refused annotation \(502\)"):
            target.annotate(start_ms=1, end_ms=1, text="t", tags=[])
    assert store.calls.count("POST /api/annotations") == 1


def test_a_folder_that_another_made_meanwhile() -> None:
    """Losing the race for a folder finds the winner's."""
    with grafana(store := Store()) as url:
        target = Grafana.connect(url, TOKEN)
        real = target._folder_titled
        store.folders.append({"id": 9, "uid": "theirs", "title": "x"})
        target._folder_titled = lambda title: (  # type: ignore[method-assign]
            None if not any(c == "POST /api/folders" for c in store.calls) else real(title)
        )
        assert target.folder("x") == "theirs"


TROUBLES: dict[str, tuple[Callable[[Store], None], str]] = {
    "proxy page": (lambda s: s.trouble.append((200, "<html>log in</html>")), "is not JSON"),
    "empty": (lambda s: s.trouble.append((200, "")), "is not JSON"),
    "other JSON": (lambda s: s.trouble.append((200, '["a"]')), "is no Grafana: /api/health says"),
    "redirect": (lambda s: s.trouble.append((302, "/login")), "sends elsewhere"),
    "no route": (lambda s: s.trouble.append((404, "nothing")), "is .* the root of a Grafana"),
    "sick": (
        lambda s: s.trouble.append((200, '{"database": "failing"}')),
        "says of its database: failing",
    ),
    "always busy": (lambda s: s.trouble.extend([(503, "x")] * 3), r"refused health \(503\)"),
    "old": (lambda s: setattr(s, "version", "9.5.2"), "Grafana 9.5.2, allowed 10 or newer"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TROUBLES))
def test_each_trouble_has_its_words(name: str) -> None:
    """Whatever answers instead of a Grafana is told, with the address."""
    cause, words = TROUBLES[name]
    with grafana(store := Store()) as url:
        cause(store)
        with pytest.raises(SetupError, match=words) as caught:
            Grafana.connect(url, TOKEN)
    assert url in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_wrong_token_is_told_before_anything_is_sent() -> None:
    """Health needs no token, so the next question shows whether it is good."""
    with grafana(store := Store()) as url, pytest.raises(SetupError, match="set GRAFANA_TOKEN"):
        Grafana.connect(url, "wrong")
    assert store.calls == ["GET /api/health", "GET /api/folders"]


def test_nobody_there_and_no_address() -> None:
    """A closed port, a silent one, and what is no URL; passwords in it are refused unseen."""
    with pytest.raises(SetupError, match=r"no Grafana answers at http://127.0.0.1:1: .*refused"):
        Grafana.connect("http://127.0.0.1:1", TOKEN)
    for url in ("localhost:3000", "http://[::1"):
        with pytest.raises(SetupError, match="allowed http://HOST:PORT"):
            Grafana.connect(url, TOKEN)
    with pytest.raises(SetupError, match="GRAFANA_TOKEN") as caught:
        Grafana.connect("http://admin:hunter2@127.0.0.1:1", TOKEN)
    assert "hunter2" not in str(caught.value)


def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that accepts and says nothing does not hang the command."""
    monkeypatch.setattr(publishing, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(SetupError, match=r"no Grafana answers at .*timed out"):
            Grafana.connect(url, TOKEN)


def test_endless_answers_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer beyond the bound is an error and not memory."""
    monkeypatch.setattr(publishing, "MAX_BYTES", 1000)
    with grafana(store := Store()) as url:
        store.trouble = [(200, "x" * 5000)] * 3
        with pytest.raises(SetupError, match="more than"):
            Grafana.connect(url, TOKEN)


@pytest.mark.parametrize("lacks", ["status", "uid", "url"])
def test_answers_that_lack_a_key_are_told(lacks: str) -> None:
    """A success that says less than it should is no Python trace."""
    answer: dict[str, Any] = {
        "status": "success", "uid": BOARD["uid"], "url": "/d/x", "version": 1,
    }  # fmt: skip
    del answer[lacks]
    with grafana(store := Store()) as url:
        target = Grafana.connect(url, TOKEN)
        store.trouble = [(200, str(answer).replace("'", '"'))]
        with pytest.raises(SetupError, match=f"came without '{lacks}'"):
            target.push(BOARD, "f")
