"""Colours of the report: one name per role, drawn for light and for dark paper.

The data colours are those of Okabe and Ito, which stay apart for colour-blind readers; shape, dash
or text always says the same thing again. Pictures are drawn with a stand-in colour per role, and
`harness.report.svg` turns each stand-in into the CSS variable of that role, so that one picture
serves both themes. Contrast of text against its ground is checked in the tests.
"""

from typing import Final, NamedTuple


class Tone(NamedTuple):
    """One role's colour on light and on dark paper."""

    light: str
    dark: str


ROLES: Final[dict[str, Tone]] = {
    "paper": Tone("#ffffff", "#14171c"),
    "surface": Tone("#f5f6f8", "#1c2027"),
    "line": Tone("#d8dce2", "#363d48"),
    "ink": Tone("#171a1f", "#e9ecf0"),
    "muted": Tone("#57606b", "#a7b0bc"),
    "link": Tone("#005a8f", "#79c3f0"),
    "good": Tone("#00694f", "#3ecfa4"),
    "doubt": Tone("#855400", "#f2c14e"),
    "bad": Tone("#b02a1c", "#ff8f7d"),
    "good-soft": Tone("#e6f4ef", "#12302a"),
    "doubt-soft": Tone("#fdf3de", "#33290f"),
    "bad-soft": Tone("#fdebe7", "#3a1c18"),
    "target": Tone("#fff3c4", "#473a10"),
    "baseline": Tone("#0072b2", "#56b4e9"),
    "accelerated": Tone("#d55e00", "#e69f00"),
    "measured": Tone("#0072b2", "#56b4e9"),
    "phase-0": Tone("#d55e00", "#d55e00"),
    "phase-1": Tone("#0072b2", "#0072b2"),
    "phase-2": Tone("#56b4e9", "#56b4e9"),
    "phase-3": Tone("#e69f00", "#e69f00"),
    "phase-4": Tone("#009e73", "#009e73"),
    "phase-5": Tone("#cc79a7", "#cc79a7"),
    "phase-6": Tone("#f0e442", "#f0e442"),
    "phase-other": Tone("#a9b0ba", "#7d8590"),
    "on-light": Tone("#101216", "#101216"),
    "on-dark": Tone("#ffffff", "#ffffff"),
    "heat-0": Tone("#eef4fa", "#1d2a36"),
    "heat-1": Tone("#d3e4f2", "#1f3c54"),
    "heat-2": Tone("#a9cce6", "#215072"),
    "heat-3": Tone("#76add6", "#2a6a96"),
    "heat-4": Tone("#3f88bf", "#4d94c4"),
    "heat-5": Tone("#1c639d", "#85bce0"),
    "heat-6": Tone("#0b3f70", "#c9e4f7"),
    "heat-ink-0": Tone("#171a1f", "#e9ecf0"),
    "heat-ink-1": Tone("#171a1f", "#e9ecf0"),
    "heat-ink-2": Tone("#171a1f", "#ffffff"),
    "heat-ink-3": Tone("#171a1f", "#ffffff"),
    "heat-ink-4": Tone("#101216", "#101216"),
    "heat-ink-5": Tone("#ffffff", "#101216"),
    "heat-ink-6": Tone("#ffffff", "#101216"),
}
HEAT_STEPS: Final = 7
PHASE_SLOTS: Final = 7
DARK_FILLS: Final = frozenset({"phase-1"})  # white letters on these, black letters on the others

_FIRST_STAND_IN: Final = 0xA00000
_STAND_INS: Final = {name: f"#{_FIRST_STAND_IN + i:06x}" for i, name in enumerate(ROLES)}


def stand_in(role: str) -> str:
    """The colour to draw with; `variables` names what it becomes."""
    return _STAND_INS[role]


def variables() -> dict[str, str]:
    """CSS variable by stand-in colour."""
    return {colour: f"var(--{role})" for role, colour in _STAND_INS.items()}


def style_sheet() -> str:
    """The variables as CSS: light, dark by the reader's setting or button, light on paper."""
    light = "".join(f"--{role}:{tone.light};" for role, tone in ROLES.items())
    dark = "".join(f"--{role}:{tone.dark};" for role, tone in ROLES.items())
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark)"
        f"{{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
    )
