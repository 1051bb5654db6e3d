"""Publishing into a Grafana: folders, boards and annotations over its HTTP API (10 and newer).

grafana-api speaks the protocol; here its answers are doubted. It retries nothing, reads any page as
JSON and follows redirects that turn a POST into a GET, so: health and version are asked first,
calls that may be repeated are, answers are bounded, and each way to fail has its own words. Nothing
is done by numeric ids, whose routes newer Grafanas have switched off.
"""

from __future__ import annotations

import io
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import requests
from grafana_api.grafana_api import GrafanaException
from grafana_api.grafana_face import GrafanaFace

from harness.base.api_key import hide_key
from harness.base.errors import SetupError

Json = dict[str, Any]
TIMEOUT_S: Final = 10.0
ALLOWED: Final = "allowed http://HOST:PORT or https://HOST of a Grafana"
PAUSES_S: Final = (0.2, 1.0)
"""Waits before a call that may be repeated is tried again."""
MAX_BYTES: Final = 16 << 20
OLDEST: Final = 10
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """A board as Grafana keeps it."""

    uid: str
    url: str
    version: int


class Grafana:
    """One Grafana that has answered.

    Attributes:
        url: its address.
        version: what it says it is; `unknown` where it hides that.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._face = _face(self.url, token)
        self._token = token
        self.version = "unknown"

    @classmethod
    def connect(cls, url: str, token: str) -> Self:
        """A Grafana whose health, version and consent to the token were asked.

        Raises:
            SetupError: nobody there, no Grafana, too old, not healthy, or the token is refused.
        """
        grafana = cls(url, token)
        health = grafana._call("health", lambda: grafana._face.api.GET("/health"))
        if not isinstance(health, dict) or "database" not in health:
            raise SetupError(f"{grafana.url} is no Grafana: /api/health says {str(health)[:80]!r}")
        if health["database"] != "ok":
            raise SetupError(f"Grafana at {grafana.url} says of its database: {health['database']}")
        grafana.version = str(health.get("version") or "unknown")
        major = grafana.version.partition(".")[0]
        if major.isdigit() and int(major) < OLDEST:
            raise SetupError(
                f"{grafana.url} is Grafana {grafana.version}, allowed {OLDEST} or newer"
            )
        grafana._call("folders", lambda: grafana._face.api.GET("/folders?limit=1"))  # the token
        return grafana

    def folder(self, title: str) -> str:
        """The uid of the folder with this title, made where there is none."""
        found = self._folder_titled(title)
        if found is None:
            try:
                made = self._call("folder", lambda: self._face.folder.create_folder(title))
                return str(made["uid"])
            except _RefusedError as error:
                if error.status not in {409, 412}:  # somebody else was faster
                    raise
                found = self._folder_titled(title)
        if found is None:
            raise SetupError(f"{self.url} has a folder {title!r} that this token may not see")
        return found

    def datasource(self, name: str) -> tuple[str, str]:
        """Uid and name of a data source that is given by its uid or its name.

        Raises:
            SetupError: there is none; the message lists those there are.
        """
        quoted = urllib.parse.quote(name, safe="")
        for route in (f"/datasources/uid/{quoted}", f"/datasources/name/{quoted}"):
            try:
                found = self._call("data source", partial(self._face.api.GET, route))
            except _RefusedError as error:
                if error.status != 404:
                    raise
            else:
                return str(found["uid"]), str(found["name"])
        known = self._call("data sources", self._face.datasource.list_datasources)
        names = ", ".join(sorted(str(each["name"]) for each in known)) or "none"
        raise SetupError(f"{self.url} has no data source {name!r}, allowed {names}")

    def push(self, board: Json, folder_uid: str) -> Pushed:
        """Put a board into a folder, over the one with its uid where there is one."""
        value = {
            "dashboard": board, "folderUid": folder_uid, "overwrite": True,
            "message": "tailbreak dashboards push",
        }  # fmt: skip
        kept = self._call(
            f"board {board['uid']}", lambda: self._face.dashboard.update_dashboard(value)
        )
        if kept["status"] != "success" or kept["uid"] != board["uid"]:
            raise SetupError(f"{self.url} did not keep {board['uid']}: {str(kept)[:200]}")
        return Pushed(
            uid=kept["uid"], url=_absolute(self.url, str(kept["url"])), version=int(kept["version"])
        )

    def board(self, uid: str) -> Json | None:
        """A board as Grafana would give it to anybody, or None."""
        try:
            found = self._call(f"board {uid}", lambda: self._face.dashboard.get_dashboard(uid))
        except _RefusedError as error:
            if error.status == 404:
                return None
            raise
        kept: Json = found["dashboard"]
        return kept

    def annotations(self, tag: str) -> list[Json]:
        """The annotations that carry a tag."""
        query = urllib.parse.urlencode({"tags": tag, "limit": 10_000, "type": "annotation"})
        found = self._call("annotations", lambda: self._face.api.GET(f"/annotations?{query}"))
        return list(found)

    def annotate(self, *, start_ms: int, end_ms: int, text: str, tags: list[str]) -> int:
        """Add a region, or a point where both times are one; never tried twice."""
        made = self._call(
            "annotation",
            lambda: self._face.annotations.add_annotation(
                time_from=start_ms, time_to=end_ms, tags=tags, text=text
            ),
            may_repeat=False,
        )
        return int(made["id"])

    def _folder_titled(self, title: str) -> str | None:
        folders = self._call("folders", self._face.folder.get_all_folders)
        return next((str(each["uid"]) for each in folders if each["title"] == title), None)

    def _call(self, what: str, call: Callable[[], Any], *, may_repeat: bool = True) -> Any:
        """The answer of a call, whose keys may then be read; else an error in words."""
        for pause in (*(PAUSES_S if may_repeat else ()), None):
            try:
                return _Answer.of(call(), self.url, what)
            except GrafanaException as error:
                if pause is None or error.status_code not in _AGAIN:
                    raise self._refused(what, error) from error
            except requests.exceptions.TooManyRedirects as error:
                raise SetupError(
                    f"{self.url} sends elsewhere; give the address that it sends to "
                    "(often https:// or a path behind a proxy)"
                ) from error
            except requests.exceptions.JSONDecodeError as error:
                raise SetupError(
                    f"{self.url} is no Grafana, or a proxy stands before it: its answer for "
                    f"{what} is not JSON"
                ) from error
            except (requests.exceptions.RequestException, UnicodeError) as error:
                if pause is None:
                    raise SetupError(
                        f"no Grafana answers at {self.url}: {_short(error)}"
                    ) from error
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _refused(self, what: str, error: GrafanaException) -> _RefusedError:
        status = int(error.status_code)
        said = error.response.get("message") if isinstance(error.response, dict) else None
        hint = {
            401: "; set GRAFANA_TOKEN to a service account's token",
            403: "; the token's service account needs the role Editor",
            404: "" if said else f"; is {self.url} the root of a Grafana?",
            410: "; this Grafana has removed the call",
            412: "; somebody changed it meanwhile: push again",
        }.get(status, "")
        text = hide_key(str(said or "no reason given")[:300], self._token)
        return _RefusedError(status, f"{self.url} refused {what} ({status}): {text}{hint}")


class _RefusedError(SetupError):
    """Grafana said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Answer(dict[str, Any]):
    """An object of which a missing key is told in words."""

    def __init__(self, value: Json, url: str, what: str) -> None:
        super().__init__(value)
        self._told = (url, what)

    def __missing__(self, key: str) -> Any:
        url, what = self._told
        raise SetupError(f"{url} is no Grafana that is known here: {what} came without {key!r}")

    @staticmethod
    def of(value: Any, url: str, what: str) -> Any:
        """Objects told of, also inside a list; anything else as it is."""
        if isinstance(value, list):
            return [_Answer.of(each, url, what) for each in value]
        return _Answer(value, url, what) if isinstance(value, dict) else value


def _face(url: str, token: str) -> GrafanaFace:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        raise SetupError(f"got {url!r}, {error}; {ALLOWED}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SetupError(f"got {url!r}, {ALLOWED}")
    if parts.username or parts.password:
        raise SetupError("a URL with a password in it ends up in logs; set GRAFANA_TOKEN instead")
    path = parts.path.strip("/")
    face = GrafanaFace(
        auth=token, host=parts.netloc, protocol=parts.scheme, timeout=TIMEOUT_S,
        url_path_prefix=f"{path}/" if path else "",
    )  # fmt: skip
    face.api.s.max_redirects = 0
    face.api.s.stream = True
    face.api.s.hooks["response"].append(_bound)
    return face


def _bound(response: requests.Response, *_: Any, **__: Any) -> None:
    """Read no more of an answer than any Grafana would send."""
    body = response.raw.read(MAX_BYTES + 1, decode_content=True)
    if len(body) > MAX_BYTES:
        raise requests.exceptions.ContentDecodingError(f"more than {MAX_BYTES >> 20} MiB")
    response.raw = io.BytesIO(body)


def _absolute(base: str, path: str) -> str:
    """Grafana tells paths from its root, below which a proxy may have put it."""
    return urllib.parse.urljoin(base + "/", path)


def _short(error: Exception) -> str:
    """The innermost reason of a failed connection."""
    inner: BaseException = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__  # type: ignore[assignment]
    return str(inner)[:200]
