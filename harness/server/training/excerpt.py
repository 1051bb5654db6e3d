"""Write the load generator's prompt text: `python -m harness.server.training.excerpt --out FILE`.

Chapters of two novels (Pride and Prejudice first) alternate with chapters of the Bible (Genesis
first), plain prose in whole paragraphs, until the size asked for is reached.
"""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from harness.server.training.corpus import read_austen, read_bible

NOVELS = ("Pride And Prejudice, ", "Persuasion, ")
BOOKS = ("Genesis ", "Ruth ", "1 Samuel ", "Acts ")


def build_excerpt(root: Path, n_bytes: int) -> str:
    """Alternate novel and Bible chapters up to about `n_bytes`, ending with a whole chapter."""
    novels = _chapters_of(read_austen(root), NOVELS)
    books = _chapters_of(read_bible(root), BOOKS)
    chosen: list[str] = []
    size = 0
    for text in chain.from_iterable(zip(novels, books, strict=False)):
        if size >= n_bytes:
            break
        chosen.append(text)
        size += len(text.encode()) + 2
    return "\n\n".join(chosen) + "\n"


def _chapters_of(chapters: list[tuple[str, str]], prefixes: tuple[str, ...]) -> list[str]:
    """Texts of the chapters whose titles start with a prefix, in the order of the prefixes."""
    return [text for prefix in prefixes for title, text in chapters if title.startswith(prefix)]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m harness.server.training.excerpt")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the packages lie")
    parser.add_argument("--bytes", type=int, default=400_000, help="size to reach")
    options = parser.parse_args()
    options.out.write_text(build_excerpt(options.root, options.bytes), encoding="utf-8")


if __name__ == "__main__":
    main()
