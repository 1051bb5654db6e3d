import pytest

from harness.report import palette

TEXT_ON_GROUND = [
    (ink, ground)
    for ink in ("ink", "muted", "link", "good", "doubt", "bad")
    for ground in ("paper",)
] + [
    ("ink", "good-soft"), ("ink", "doubt-soft"), ("ink", "bad-soft"), ("ink", "surface"),
    ("ink", "target"), ("muted", "surface"), ("muted", "good-soft"), ("muted", "doubt-soft"),
    ("muted", "bad-soft"), ("good", "good-soft"), ("doubt", "doubt-soft"), ("bad", "bad-soft"),
]  # fmt: skip
MARKS = ["baseline", "accelerated", "measured"]


def _luminance(colour: str) -> float:
    def channel(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (channel(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(first: str, second: str) -> float:
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT_ON_GROUND)
def test_text_contrast(ink: str, ground: str, theme: str) -> None:
    """Text stands out from its ground by 4.5 to 1 in both themes."""
    roles = palette.ROLES
    assert _contrast(getattr(roles[ink], theme), getattr(roles[ground], theme)) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("step", range(palette.HEAT_STEPS))
def test_heat_contrast(step: int, theme: str) -> None:
    """The number in each square of the map can be read."""
    ink = getattr(palette.ROLES[f"heat-ink-{step}"], theme)
    assert _contrast(ink, getattr(palette.ROLES[f"heat-{step}"], theme)) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_heat_steps_are_ordered(theme: str) -> None:
    """The steps of the map are ordered by lightness, so that no hue is needed to read them."""
    steps = [
        _luminance(getattr(palette.ROLES[f"heat-{i}"], theme)) for i in range(palette.HEAT_STEPS)
    ]
    assert steps == sorted(steps, reverse=theme == "light")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("role", MARKS)
def test_lines_contrast(role: str, theme: str) -> None:
    """Lines stand out from the paper by 3 to 1."""
    paper = getattr(palette.ROLES["paper"], theme)
    assert _contrast(getattr(palette.ROLES[role], theme), paper) >= 3.0


@pytest.mark.parametrize("slot", [f"phase-{i}" for i in range(palette.PHASE_SLOTS)])
def test_letters_on_bars(slot: str) -> None:
    """The number in a bar can be read on its colour."""
    letters = "on-dark" if slot in palette.DARK_FILLS else "on-light"
    assert _contrast(palette.ROLES[letters].light, palette.ROLES[slot].light) >= 4.5


def test_stand_ins_are_distinct() -> None:
    """Each role is drawn with a colour of its own, even where two look alike."""
    assert len(palette.variables()) == len(palette.ROLES)
