"""Trace ids: what a request was called in its `traceparent` header, worked out of its record's key.

Nothing is stored: run, session, segment and index give the same id wherever they are known, so that
records, exemplars and the target's own traces find each other.
"""

from hashlib import blake2b


def trace_id(run: str, session: int, segment: str, index: int) -> str:
    """The 32 hexadecimal digits that name one request of a run; all calls of a chain share them."""
    return _digits(f"{run}\n{session}\n{segment}\n{index}", 16)


def traceparent(trace: str, call: int = 0) -> str:
    """The header of one call, sampled; `call` numbers the calls of a chain.

    Source: W3C Trace Context, section 3.2 (version 00).
    """
    span = _digits(f"{trace}\n{call}", 8)
    return f"00-{trace}-{span}-01"


def _digits(text: str, n_bytes: int) -> str:
    return _non_zero(blake2b(text.encode(), digest_size=n_bytes).digest()).hex()


def _non_zero(digest: bytes) -> bytes:
    """Zeros alone would be no id."""
    return digest if any(digest) else digest[:-1] + b"\x01"
