"""Everything that is generated from this package, by its path below `dashboards/`.

The rendered files are committed: they are what a Grafana or a Prometheus reads. What is written by
hand beside them (provisioning, compose file, Prometheus's configuration) is copied along.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from dashboards.alerts import grafana_rules, prometheus_rules
from dashboards.boards import BOARDS

HERE: Final = Path(__file__).parent
DATASOURCE_UID: Final = "tailbreak-prometheus"
"""The uid that provisioning gives to Prometheus; boards themselves name none."""
BY_HAND: Final = ("prometheus.yml", "compose.yml", "provisioning", "rules")


def render() -> dict[str, str]:
    """Text by path; the same on every machine."""
    boards = {f"rendered/{board.uid}.json": _json(board.to_json()) for board in BOARDS}
    return {
        **boards,
        "rules/alerts.yml": prometheus_rules(),
        "provisioning/alerting/tailbreak.json": _json(grafana_rules(DATASOURCE_UID)),
    }


def write(folder: Path) -> list[Path]:
    """Write the whole tree into a folder; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != HERE.resolve():
        for name in BY_HAND:
            _copy(HERE / name, folder / name)
    written = []
    for name, text in render().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def drift(folder: Path = HERE) -> list[str]:
    """What in a folder is not as it would be rendered: one sentence each."""
    wanted = render()
    problems = []
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name}: missing")
        elif path.read_text(encoding="utf-8") != text:
            problems.append(f"{name}: not what the builders give")
    known = {Path(name).name for name in wanted}
    strangers = [p.name for p in sorted((folder / "rendered").glob("*")) if p.name not in known]
    return problems + [f"rendered/{name}: no builder makes it" for name in strangers]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
