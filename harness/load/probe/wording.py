"""The texts that a probe sends."""

from typing import Final

GREEDY_PROMPT: Final = (
    "Write one long sentence about a harbour at night, with boats, lamps, rain and an old keeper"
)
"""Without a full stop: as a bare prompt it asks to be continued."""
_LINES: Final = (
    "The ferry left before sunrise and nobody on the pier looked up.",
    "A clerk counted barrels twice and wrote the smaller number down.",
    "Wind came over the hill, turned at the mill and lay down in the grass.",
    "She folded the letter, opened it again and read the second page first.",
    "In the yard a boy repaired a wheel while the horses waited in the shade.",
    "The bell rang nine times although it was hardly past eight.",
    "Two travellers shared a loaf and argued about the shortest road.",
    "Rain filled the barrels, the boots by the door and the road to town.",
)


def measured_prompt(number: int, salt: str) -> str:
    """Some 70 words that no other call sends: the salt comes first, so that no cache answers."""
    lines = [_LINES[(number + i) % len(_LINES)] for i in range(6)]
    return f"{salt}-{number}. {' '.join(lines)} Go on with this story."
