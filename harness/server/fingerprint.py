"""`system_fingerprint`: equal where the same request with the same seed gives the same answer."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from harness.server.tokenizer import TOKENIZER_FILE

if TYPE_CHECKING:
    from harness.server.options import ServerOptions


def fingerprint_of(options: ServerOptions) -> str:
    """Digest the model's files: configuration, weights and tokenizer."""
    total = hashlib.sha256()
    folder = options.model_folder
    files = [folder / "config.json", folder / TOKENIZER_FILE, *sorted(folder.glob("*.safetensors"))]
    for file in files:
        if file.is_file():
            with file.open("rb") as data:
                total.update(hashlib.file_digest(data, "sha256").digest())
    return f"fp_{total.hexdigest()[:12]}"
