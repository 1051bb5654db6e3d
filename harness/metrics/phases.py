"""The one list of phases into which a request's wall time is split.

The server stamps them, records carry them, attribution ranks them, reports and boards name them.
`BEYOND_SERVER` is what the client saw beyond the server's own account.
"""

from typing import Final

SERVER_PHASES: Final[dict[str, str]] = {
    "queue": "waiting for a slot, or for the running step to end",
    "kv_wait": "a slot is free, KV memory is not",
    "stall": "resident in the batch, not scheduled in a step",
    "tokenize": "text to token ids",
    "embed": "token embedding and rotary tables",
    "mask": "attention mask and index building",
    "attention": "attention projections and scores of the steps the request took part in",
    "ffn": "feed-forward layers and norms",
    "kv": "KV allocation, growth copy and writes",
    "penalty": "sampling penalties applied to logits",
    "sample": "output head, temperature, filters and the draw",
    "detokenize": "token ids to text",
    "store": "journal write",
    "stream": "handing events from engine to socket",
    "gc": "garbage-collection pauses",
}

BEYOND_SERVER: Final[dict[str, str]] = {
    "other": "server time that no phase names",
    "network": "transport, HTTP parsing and hand-over, as the client saw it",
    "client": "the load generator's own delay before the send",
    "think": "planned pauses between the calls of a chain",
}

COMPONENTS: Final[dict[str, str]] = {**SERVER_PHASES, **BEYOND_SERVER}
