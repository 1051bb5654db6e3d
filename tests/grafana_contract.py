"""The part of Grafana's HTTP API that publishing uses, written from its public documentation.

No Grafana can be installed where this is developed, so this stands in for one: it answers as the
documentation of the lines 10, 11, 12 and 13 says, keeps what it is given, and refuses what they
refuse. What it does not prove: that a real Grafana draws the boards.
"""

import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

TOKEN = "glsa_test"
Json = dict[str, Any]


@dataclass
class Store:
    """What one Grafana keeps, and what was asked of it."""

    version: str = "11.6.0"
    prefix: str = ""
    folders: list[Json] = field(default_factory=list)
    boards: dict[str, Json] = field(default_factory=dict)
    annotations: list[Json] = field(default_factory=list)
    datasources: list[Json] = field(
        default_factory=lambda: [
            {"id": 1, "uid": "abc123", "name": "Main Prometheus", "type": "prometheus"}
        ]
    )
    calls: list[str] = field(default_factory=list)
    trouble: list[tuple[int, str]] = field(default_factory=list)
    """Answers given instead, one a call, before the real ones."""

    @property
    def line(self) -> int:
        """The major version."""
        return int(self.version.partition(".")[0])


Reply = tuple[int, Any]


def _missing(text: str) -> Reply:
    return 404, {"message": text}


def _health(store: Store, **_: Any) -> Reply:
    return 200, {"commit": "0123abc", "database": "ok", "version": store.version}


def _org(_store: Store, **_: Any) -> Reply:
    return 200, {"id": 1, "name": "Main Org."}


def _folders(store: Store, **_: Any) -> Reply:
    return 200, store.folders


def _new_folder(store: Store, body: Json, **_: Any) -> Reply:
    if any(each["title"] == body["title"] for each in store.folders):
        return 409, {
            "message": "a folder with the same name already exists in the current location"
        }
    uid = body.get("uid") or f"f{len(store.folders) + 1}"
    store.folders.append({"id": len(store.folders) + 1, "uid": uid, "title": body["title"]})
    return 200, store.folders[-1]


def _folder(store: Store, name: str, **_: Any) -> Reply:
    found = [each for each in store.folders if each["uid"] == name]
    return (200, found[0]) if found else _missing("folder not found")


def _datasource_by(key: str) -> Callable[..., Reply]:
    def reply(store: Store, name: str, **_: Any) -> Reply:
        found = [each for each in store.datasources if str(each[key]) == name]
        return (200, found[0]) if found else _missing("Data source not found")

    return reply


def _datasource_by_number(store: Store, name: str, **_: Any) -> Reply:
    if store.line >= 13:
        return _missing("Not found")  # behind the toggle datasourceLegacyIdApi
    return _datasource_by("id")(store, name)


def _datasources(store: Store, **_: Any) -> Reply:
    return 200, store.datasources


def _save(store: Store, body: Json, **_: Any) -> Reply:
    board = body["dashboard"]
    if not board.get("title"):
        return 400, {"message": "Dashboard title cannot be empty", "status": "empty-name"}
    if len(board["uid"]) > 40:
        return 400, {"message": "uid too long, max 40 characters"}
    folder = body.get("folderUid", "")
    if folder and not any(each["uid"] == folder for each in store.folders):
        return 400, {"message": "folder not found", "status": "not-found"}
    old = store.boards.get(board["uid"])
    if old and not body.get("overwrite") and board["version"] != old["dashboard"]["version"]:
        return 412, {
            "message": "The dashboard has been changed by someone else",
            "status": "version-mismatch",
        }
    same_name = [
        uid for uid, each in store.boards.items()
        if each["dashboard"]["title"] == board["title"] and each["folder"] == folder
    ]  # fmt: skip
    if same_name and same_name != [board["uid"]] and not body.get("overwrite"):
        return 412, {
            "message": "A dashboard with the same name in the folder already exists",
            "status": "name-exists",
        }
    version = old["dashboard"]["version"] + 1 if old else 1
    number = old["dashboard"]["id"] if old else len(store.boards) + 1
    kept = {**board, "id": number, "version": version}
    if store.line >= 12:
        kept["schemaVersion"] = 42  # newer lines read older boards and keep them as their own
    store.boards[board["uid"]] = {"dashboard": kept, "folder": folder}
    slug = re.sub(r"\W+", "-", board["title"].lower()).strip("-")
    return 200, {
        "id": number, "uid": board["uid"], "slug": slug, "status": "success", "version": version,
        "url": f"{store.prefix}/d/{board['uid']}/{slug}",
    }  # fmt: skip


def _board(store: Store, name: str, **_: Any) -> Reply:
    if name not in store.boards:
        return _missing("Dashboard not found")
    kept = store.boards[name]
    meta = {"folderUid": kept["folder"], "version": kept["dashboard"]["version"]}
    return 200, {"dashboard": kept["dashboard"], "meta": meta}


def _search(store: Store, query: dict[str, list[str]], **_: Any) -> Reply:
    wanted = set(query.get("tag", []))
    return 200, [
        {"uid": uid, "title": each["dashboard"]["title"], "type": "dash-db"}
        for uid, each in store.boards.items()
        if wanted <= set(each["dashboard"]["tags"])
    ]


def _find_annotations(store: Store, query: dict[str, list[str]], **_: Any) -> Reply:
    wanted = set(query.get("tags", []))
    limit = int(query.get("limit", ["100"])[0])
    return 200, [each for each in store.annotations if wanted <= set(each["tags"])][:limit]


def _annotate(store: Store, body: Json, **_: Any) -> Reply:
    if not body.get("text"):
        return 400, {
            "message": "Failed to save annotation",
            "error": "text field should not be empty",
        }
    number = len(store.annotations) + 1
    store.annotations.append({**body, "id": number})
    return 200, {"message": "Annotation added", "id": number}


def _removed(_store: Store, **_: Any) -> Reply:
    return _missing("Not found")


def _gone(_store: Store, **_: Any) -> Reply:
    return 410, {"message": "this API was removed"}


ROUTES: tuple[tuple[str, str, Callable[..., Reply]], ...] = (
    ("GET", "/api/health", _health),
    ("GET", "/api/org", _org),
    ("GET", "/api/folders", _folders),
    ("POST", "/api/folders", _new_folder),
    ("GET", "/api/folders/(?P<name>[^/]+)", _folder),
    ("GET", "/api/datasources", _datasources),
    ("GET", "/api/datasources/uid/(?P<name>[^/]+)", _datasource_by("uid")),
    ("GET", "/api/datasources/name/(?P<name>[^/]+)", _datasource_by("name")),
    ("GET", r"/api/datasources/(?P<name>\d+)", _datasource_by_number),
    ("POST", "/api/dashboards/db", _save),
    ("GET", "/api/dashboards/uid/(?P<name>[^/]+)", _board),
    ("GET", "/api/search", _search),
    ("GET", "/api/annotations", _find_annotations),
    ("POST", "/api/annotations", _annotate),
    ("GET", "/api/alert-notifications", _removed),
    ("GET", "/api/dashboards/db/(?P<name>[^/]+)", _gone),
)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        url = urllib.parse.urlsplit(self.path)
        path = url.path.removeprefix(self.store.prefix)
        self.store.calls.append(f"{method} {path}")
        if self.store.trouble:
            status, text = self.store.trouble.pop(0)
            self._send(status, text.encode(), "text/html")
            return
        status, value = self._reply(method, path, url.query, raw)
        self._send(status, json.dumps(value).encode(), "application/json")

    def _reply(self, method: str, path: str, query: str, raw: bytes) -> Reply:
        if path != "/api/health" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Invalid API key"}
        for wanted, pattern, reply in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and wanted == method:
                names = {key: urllib.parse.unquote(v) for key, v in found.groupdict().items()}
                body = json.loads(raw) if raw and raw != b"null" else {}
                asked = urllib.parse.parse_qs(query)
                return reply(self.store, body=body, query=asked, **names)
        return _missing("Not found")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status, HTTPStatus(status).phrase)
        if 300 <= status < 400:
            self.send_header("Location", body.decode())
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def grafana(store: Store) -> Iterator[str]:
    """Serve the contract; the address, its path prefix included."""
    handler = type("Handler", (_Handler,), {"store": store})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{store.prefix}"
        server.shutdown()
