"""Panels before they have a place: what is asked, how it is shown, what it means.

A builder gives one `Draft`; `dashboards.layout` gives drafts their place and number. Thresholds are
written as (value, colour): green below, and each value says from where on it is another colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dashboards import model

GREEN: Final = "green"
AMBER: Final = "orange"
RED: Final = "red"
BASELINE: Final = "#0072b2"
ACCELERATED: Final = "#d55e00"
Limits = tuple[tuple[float, str], ...]
_REFS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PATHS: Final = tuple(
    model.Override(
        matcher=model.Matcher(id="byRegexp", options=f"/{word}/"),
        properties=(model.Property(id="color", value={"mode": "fixed", "fixedColor": colour}),),
    )
    for word, colour in (("baseline", BASELINE), ("accelerated", ACCELERATED))
)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A panel without place and number."""

    type: Literal["timeseries", "stat", "heatmap", "table", "state-timeline"]
    title: str
    text: str
    targets: tuple[model.Target, ...]
    field_config: model.FieldConfig
    options: (
        model.GraphOptions
        | model.StateOptions
        | model.StatOptions
        | model.HeatOptions
        | model.TableOptions
    )
    transformations: tuple[model.Transformation, ...] = ()
    w: int = 8
    h: int = 8

    def place(self, number: int, position: model.GridPos) -> model.Panel:
        """The panel."""
        return model.Panel(
            id=number, type=self.type, title=self.title, description=self.text,
            grid_pos=position, targets=self.targets, field_config=self.field_config,
            options=self.options, transformations=self.transformations,
        )  # fmt: skip


def graph(
    title: str,
    text: str,
    queries: dict[str, str],
    *,
    unit: str,
    limits: Limits = (),
    w: int = 8,
    h: int = 8,
    is_log: bool = False,
    is_stacked: bool = False,
    has_exemplars: bool = False,
    is_history: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> Draft:
    """A time series panel; `queries` maps each legend to its PromQL."""
    style = model.GraphStyle(
        fill_opacity=60 if is_stacked else 8,
        line_interpolation="stepAfter" if is_history else "linear",
        show_points="always" if is_history else "auto",
        span_nulls=is_history,
        stacking=model.Stacking(mode="normal" if is_stacked else "none"),
        scale_distribution=model.Scale(type="log", log=10) if is_log else model.Scale(),
        thresholds_style=model.ThresholdsStyle(mode="dashed" if limits else "off"),
    )
    return Draft(
        type="timeseries", title=title, text=text, w=w, h=h,
        targets=_targets(queries, has_exemplars=has_exemplars),
        field_config=model.FieldConfig(
            defaults=model.Defaults(
                unit=unit, color=model.Color(mode="palette-classic"), min=low, max=high,
                thresholds=_steps(limits), custom=style,
            ),
            overrides=_PATHS,
        ),
        options=model.GraphOptions(),
    )  # fmt: skip


def stat(
    title: str,
    text: str,
    queries: dict[str, str],
    *,
    unit: str,
    limits: Limits = (),
    words: dict[str, tuple[str, str]] | None = None,
    none: str = "no data",
    w: int = 4,
    h: int = 4,
    decimals: int | None = None,
) -> Draft:
    """Big numbers; `words` maps a value to (text, colour), `none` is shown where nothing came."""
    return Draft(
        type="stat", title=title, text=text, w=w, h=h, targets=_targets(queries, is_instant=True),
        field_config=model.FieldConfig(
            defaults=model.Defaults(
                unit=unit, color=model.Color(mode="thresholds"), thresholds=_steps(limits),
                no_value=none, mappings=_mapped(words), decimals=decimals,
            )
        ),
        options=model.StatOptions(text_mode="auto" if len(queries) == 1 else "value_and_name"),
    )  # fmt: skip


def heat(title: str, text: str, query: str, *, unit: str = "s", w: int = 12, h: int = 8) -> Draft:
    """A heatmap of a histogram's buckets."""
    (target,) = _targets({"{{le}}": query})
    return Draft(
        type="heatmap", title=title, text=text, w=w, h=h,
        targets=(target.model_copy(update={"format": "heatmap", "exemplar": True}),),
        field_config=model.FieldConfig(
            defaults=model.Defaults(
                unit="short", color=model.Color(mode="thresholds"), thresholds=_steps(())
            )
        ),
        options=model.HeatOptions(y_axis=model.HeatAxis(unit=unit)),
    )  # fmt: skip


def table(
    title: str,
    text: str,
    query: str,
    columns: dict[str, str],
    *,
    unit: str,
    limits: Limits = (),
    w: int = 12,
    h: int = 8,
) -> Draft:
    """The series of one instant query as rows; `columns` maps labels and `Value` to headings."""
    (target,) = _targets({"": query}, is_instant=True)
    shape = model.Organize(
        exclude_by_name={"Time": True},
        rename_by_name=columns,
        index_by_name={name: index for index, name in enumerate(columns)},
    )
    return Draft(
        type="table", title=title, text=text, w=w, h=h,
        targets=(target.model_copy(update={"format": "table"}),),
        field_config=model.FieldConfig(
            defaults=model.Defaults(
                unit=unit, color=model.Color(mode="thresholds"), thresholds=_steps(limits),
                no_value="none",
            )
        ),
        options=model.TableOptions(),
        transformations=(model.Transformation(options=shape),),
    )  # fmt: skip


def states(
    title: str,
    text: str,
    queries: dict[str, str],
    *,
    words: dict[str, tuple[str, str]],
    w: int = 24,
    h: int = 6,
) -> Draft:
    """A timeline of states; `words` maps a value to (text, colour)."""
    return Draft(
        type="state-timeline", title=title, text=text, w=w, h=h, targets=_targets(queries),
        field_config=model.FieldConfig(
            defaults=model.Defaults(
                unit="short", color=model.Color(mode="thresholds"), thresholds=_steps(()),
                mappings=_mapped(words), custom=model.StateStyle(),
            )
        ),
        options=model.StateOptions(
            legend=model.Legend(display_mode="list", calcs=()), show_value="never"
        ),
    )  # fmt: skip


def _targets(
    queries: dict[str, str], *, is_instant: bool = False, has_exemplars: bool = False
) -> tuple[model.Target, ...]:
    return tuple(
        model.Target(
            ref_id=letter, expr=expr, legend_format=legend, instant=is_instant,
            range=not is_instant, exemplar=has_exemplars,
        )
        for letter, (legend, expr) in zip(_REFS, queries.items(), strict=False)
    )  # fmt: skip


def _steps(limits: Limits) -> model.Thresholds:
    """Green, and from each value on its colour; without limits nothing is judged."""
    first = model.Step(color=GREEN if limits else "text", value=None)
    return model.Thresholds(steps=(first, *(model.Step(color=c, value=v) for v, c in limits)))


def _mapped(words: dict[str, tuple[str, str]] | None) -> tuple[model.Mapping, ...]:
    if not words:
        return ()
    shown = {
        value: model.MappedValue(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(words.items())
    }
    return (model.Mapping(options=shown),)
