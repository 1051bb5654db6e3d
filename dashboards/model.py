"""The classic dashboard JSON (schema version 41, Grafana 11.6), as far as these boards use it.

Closed models: building a board through them and reading a rendered one back refuse every option
that is not written here, where Grafana itself ignores a misspelt one in silence. Field names are
Grafana's, in snake case. What is null is left out, so that Grafana's own default holds.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """Base of every part: frozen, closed, camel case outside."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )
    NULLS: ClassVar[frozenset[str]] = frozenset()
    """Where null has a meaning of its own."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {k: v for k, v in write(self).items() if v is not None or k in self.NULLS}


class Source(Part):
    """Where a query goes; the uid is the board's variable, never a fixed one."""

    type: Literal["prometheus"] = "prometheus"
    uid: Literal["${datasource}"] = "${datasource}"


class GridPos(Part):
    """Place in a grid of 24 columns."""

    x: Annotated[int, Field(ge=0, le=23)]
    y: Annotated[int, Field(ge=0)]
    w: Annotated[int, Field(ge=1, le=24)]
    h: Annotated[int, Field(ge=1)]


class Target(Part):
    """One query of a panel."""

    ref_id: str
    expr: str
    legend_format: str
    datasource: Source = Source()
    format: Literal["time_series", "heatmap", "table"] = "time_series"
    instant: bool = False
    range: bool = True
    exemplar: bool = False
    editor_mode: Literal["code"] = "code"


class Step(Part):
    """From this value on, this colour; the first step's value is null."""

    NULLS = frozenset({"value"})
    color: str
    value: float | None


class Thresholds(Part):
    """Colour steps."""

    mode: Literal["absolute"] = "absolute"
    steps: tuple[Step, ...]


class Color(Part):
    """How a series gets its colour."""

    mode: Literal["palette-classic", "thresholds", "fixed"]
    fixed_color: str | None = None


class Stacking(Part):
    """Whether series lie on top of each other."""

    mode: Literal["none", "normal"] = "none"
    group: Literal["A"] = "A"


class Scale(Part):
    """A linear or a logarithmic axis."""

    type: Literal["linear", "log"] = "linear"
    log: Literal[10] | None = None


class ThresholdsStyle(Part):
    """Whether thresholds are drawn as lines."""

    mode: Literal["off", "dashed"] = "off"


class GraphStyle(Part):
    """How a time series is drawn."""

    draw_style: Literal["line"] = "line"
    line_interpolation: Literal["linear", "stepAfter"] = "linear"
    line_width: int = 1
    fill_opacity: int = 0
    show_points: Literal["auto", "always", "never"] = "auto"
    span_nulls: bool = False
    stacking: Stacking = Stacking()
    scale_distribution: Scale = Scale()
    thresholds_style: ThresholdsStyle = ThresholdsStyle()


class StateStyle(Part):
    """How a state is drawn."""

    fill_opacity: int = 80
    line_width: int = 0


class MappedValue(Part):
    """What is shown instead of a value."""

    text: str
    color: str
    index: int


class Mapping(Part):
    """Words for values."""

    type: Literal["value"] = "value"
    options: dict[str, MappedValue]


class Matcher(Part):
    """Which fields an override is for."""

    id: Literal["byRegexp", "byName"]
    options: str


class Property(Part):
    """One overridden option."""

    id: Literal["color", "unit", "custom.lineStyle", "custom.fillOpacity", "custom.lineWidth"]
    value: Any


class Override(Part):
    """Options of some fields only."""

    matcher: Matcher
    properties: tuple[Property, ...]


class Defaults(Part):
    """Options of every field."""

    unit: str
    color: Color
    thresholds: Thresholds
    min: float | None = None
    max: float | None = None
    decimals: int | None = None
    no_value: str | None = None
    mappings: tuple[Mapping, ...] = ()
    custom: GraphStyle | StateStyle | None = None


class FieldConfig(Part):
    """How values are shown."""

    defaults: Defaults
    overrides: tuple[Override, ...] = ()


class Legend(Part):
    """Names of the series, with figures beside them."""

    show_legend: bool = True
    display_mode: Literal["list", "table"] = "table"
    placement: Literal["bottom", "right"] = "bottom"
    calcs: tuple[Literal["lastNotNull", "mean", "max", "min"], ...] = ("lastNotNull", "max")


class Tooltip(Part):
    """What the pointer shows."""

    mode: Literal["single", "multi"] = "multi"
    sort: Literal["none", "desc"] = "desc"


class GraphOptions(Part):
    """Options of a time series panel, and of a state timeline."""

    legend: Legend = Legend()
    tooltip: Tooltip = Tooltip()


class StateOptions(GraphOptions):
    """Options of a state timeline."""

    show_value: Literal["auto", "never"] = "auto"
    row_height: float = 0.9
    merge_values: bool = True


class Reduce(Part):
    """How a series becomes one number."""

    values: bool = False
    calcs: tuple[Literal["lastNotNull", "mean", "max", "min"], ...] = ("lastNotNull",)
    fields: Literal[""] = ""


class StatOptions(Part):
    """Options of a panel of big numbers."""

    reduce_options: Reduce = Reduce()
    orientation: Literal["auto"] = "auto"
    text_mode: Literal["auto", "value_and_name"] = "auto"
    color_mode: Literal["value", "background"] = "value"
    graph_mode: Literal["none", "area"] = "none"
    justify_mode: Literal["auto"] = "auto"
    wide_layout: bool = True


class HeatColor(Part):
    """The colours of a heatmap."""

    mode: Literal["scheme"] = "scheme"
    scheme: Literal["Blues"] = "Blues"
    scale: Literal["exponential"] = "exponential"
    exponent: float = 0.5
    steps: int = 64
    reverse: bool = False
    fill: str = "dark-blue"


class HeatAxis(Part):
    """The axis of the buckets."""

    unit: str
    axis_placement: Literal["left"] = "left"


class HeatLegend(Part):
    """The colour scale."""

    show: bool = True


class HeatTooltip(Part):
    """What the pointer shows of a bucket."""

    mode: Literal["single"] = "single"
    y_histogram: bool = True
    show_color_scale: bool = True


class HeatFilter(Part):
    """Empty buckets stay empty."""

    le: float = 1e-9


class HeatRows(Part):
    """Which side of a bucket its name is."""

    layout: Literal["auto"] = "auto"


class HeatExemplars(Part):
    """The colour of exemplars."""

    color: str = "rgba(213,94,0,0.8)"


class HeatOptions(Part):
    """Options of a heatmap."""

    y_axis: HeatAxis
    calculate: bool = False
    color: HeatColor = HeatColor()
    cell_gap: int = 0
    filter_values: HeatFilter = HeatFilter()
    rows_frame: HeatRows = HeatRows()
    show_value: Literal["never"] = "never"
    legend: HeatLegend = HeatLegend()
    tooltip: HeatTooltip = HeatTooltip()
    exemplars: HeatExemplars = HeatExemplars()


class TableOptions(Part):
    """Options of a table."""

    show_header: bool = True
    cell_height: Literal["sm"] = "sm"


class Organize(Part):
    """Columns left out and renamed."""

    exclude_by_name: dict[str, bool]
    rename_by_name: dict[str, str]
    index_by_name: dict[str, int]


class Transformation(Part):
    """What is done to a table before it is shown."""

    id: Literal["organize"] = "organize"
    options: Organize


class Panel(Part):
    """One picture."""

    id: int
    type: Literal["timeseries", "stat", "heatmap", "table", "state-timeline"]
    title: str
    description: str
    grid_pos: GridPos
    targets: tuple[Target, ...]
    field_config: FieldConfig
    options: GraphOptions | StateOptions | StatOptions | HeatOptions | TableOptions
    datasource: Source = Source()
    transformations: tuple[Transformation, ...] = ()
    plugin_version: str = "11.6.0"


class RowPanel(Part):
    """A heading over panels; what follows it belongs to it."""

    id: int
    title: str
    grid_pos: GridPos
    type: Literal["row"] = "row"
    collapsed: bool = False
    panels: tuple[Panel, ...] = ()


class Current(Part):
    """What is chosen."""

    text: str | tuple[str, ...]
    value: str | tuple[str, ...]
    selected: bool = True


class LabelQuery(Part):
    """What a variable asks Prometheus."""

    query: str
    ref_id: Literal["variable"] = "variable"


class Variable(Part):
    """One choice at the top of a board."""

    name: str
    label: str
    type: Literal["datasource", "query", "custom"]
    query: str | LabelQuery
    current: Current
    datasource: Source | None = None
    definition: str | None = None
    include_all: bool = False
    all_value: str | None = None
    multi: bool = False
    refresh: Literal[1, 2] | None = None
    sort: Literal[0, 3] = 0
    regex: str = ""
    hide: Literal[0] = 0
    options: tuple[Current, ...] = ()


class Variables(Part):
    """All of them."""

    list: tuple[Variable, ...]


class TagQuery(Part):
    """Annotations with all these tags."""

    type: Literal["tags"] = "tags"
    tags: tuple[str, ...]
    match_any: bool = False
    limit: int = 100


class BuiltIn(Part):
    """Grafana's own store of annotations."""

    type: Literal["grafana"] = "grafana"
    uid: Literal["-- Grafana --"] = "-- Grafana --"


class Annotation(Part):
    """A layer of marks over every time series."""

    name: str
    target: TagQuery
    icon_color: str
    datasource: BuiltIn = BuiltIn()
    enable: bool = True


class Annotations(Part):
    """All layers."""

    list: tuple[Annotation, ...]


class Link(Part):
    """Links to every board with a tag."""

    tags: tuple[str, ...]
    title: str
    type: Literal["dashboards"] = "dashboards"
    as_dropdown: bool = False
    include_vars: bool = False
    keep_time: bool = True
    target_blank: bool = False
    icon: Literal["external link"] = "external link"
    tooltip: str = ""
    url: str = ""


class TimeRange(Part):
    """What is shown at first."""

    from_: str = Field(alias="from")
    to: str = "now"


class Board(Part):
    """A whole dashboard; the null id keeps it from overwriting a stranger's."""

    NULLS = frozenset({"id"})
    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    time: TimeRange
    refresh: str
    templating: Variables
    annotations: Annotations
    links: tuple[Link, ...]
    panels: tuple[RowPanel | Panel, ...]
    id: None = None
    schema_version: Literal[41] = 41
    version: Literal[1] = 1
    editable: Literal[False] = False
    graph_tooltip: Literal[0, 1] = 1
    timezone: Literal["browser"] = "browser"
    fiscal_year_start_month: Literal[0] = 0

    def to_json(self) -> dict[str, Any]:
        """The object that Grafana reads."""
        return self.model_dump(mode="json", by_alias=True)
