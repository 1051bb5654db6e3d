"""From rows of drafts to a board: places, numbers, variables, links and annotations.

Panels flow from left to right in 24 columns; a row is as high as its highest panel. The same
drafts always give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboards import model
from dashboards.panels import Draft
from harness.metrics.catalogue.metric import Metric

TAG: Final = "tailbreak"
WIDTH: Final = 24
ALL: Final = model.Current(text=("All",), value=("$__all",))


@dataclass(frozen=True)
class Row:
    """A heading and what stands under it."""

    title: str
    panels: tuple[Draft, ...]


def build(
    *,
    name: str,
    title: str,
    text: str,
    variables: tuple[model.Variable, ...],
    rows: tuple[Row, ...],
    since: str = "now-15m",
    refresh: str = "5s",
) -> model.Board:
    """The board, with uid `tailbreak-<name>`."""
    return model.Board(
        uid=f"tailbreak-{name}",
        title=title,
        description=text,
        tags=(TAG,),
        time=model.TimeRange.model_validate({"from": since}),
        refresh=refresh,
        templating=model.Variables(list=variables),
        annotations=model.Annotations(
            list=(
                model.Annotation(
                    name="Runs", icon_color="blue", target=model.TagQuery(tags=(TAG,))
                ),
            )
        ),
        links=(model.Link(tags=(TAG,), title="tailbreak"),),
        panels=tuple(_placed(rows)),
    )


def _placed(rows: tuple[Row, ...]) -> list[model.RowPanel | model.Panel]:
    placed: list[model.RowPanel | model.Panel] = []
    y = 0
    for row in rows:
        where = model.GridPos(x=0, y=y, w=WIDTH, h=1)
        placed.append(model.RowPanel(id=len(placed) + 1, title=row.title, grid_pos=where))
        x, line, y = 0, 0, y + 1
        for draft in row.panels:
            if x + draft.w > WIDTH:
                x, line, y = 0, 0, y + line
            where = model.GridPos(x=x, y=y, w=draft.w, h=draft.h)
            placed.append(draft.place(len(placed) + 1, where))
            x, line = x + draft.w, max(line, draft.h)
        y += line
    return placed


def datasource() -> model.Variable:
    """Which Prometheus."""
    return model.Variable(
        name="datasource", label="Data source", type="datasource", query="prometheus",
        current=model.Current(text="default", value="default"), refresh=1,
    )  # fmt: skip


def label(name: str, title: str, metric: Metric, *within: str) -> model.Variable:
    """The values of a label, narrowed by other variables; all of them at first."""
    inside = ",".join(f'{other}=~"${other}"' for other in within)
    selector = metric.name + ("_count" if metric.type == "histogram" else "")
    query = f"label_values({selector}{{{inside}}}, {name})"
    return model.Variable(
        name=name, label=title, type="query", query=model.LabelQuery(query=query),
        definition=query, datasource=model.Source(), current=ALL, include_all=True,
        all_value=".*", multi=True, refresh=2, sort=3,
    )  # fmt: skip


def choice(name: str, title: str, values: tuple[str, ...], chosen: str) -> model.Variable:
    """One of a few values."""
    options = tuple(model.Current(text=v, value=v, selected=v == chosen) for v in values)
    return model.Variable(
        name=name, label=title, type="custom", query=",".join(values), options=options,
        current=model.Current(text=chosen, value=chosen),
    )  # fmt: skip
