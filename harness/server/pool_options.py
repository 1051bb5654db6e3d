"""`--pool NAME=DEVICE[,key=value...]`: the words of one pool.

A pool is an engine process of its own: a device, a dtype, and its share of the limits. What a pool
does not say it takes from the server (`ServerOptions.of_pool`). Whether the device is there is
found out by the engine that is to run on it (`device`).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Dtype = Literal["float32", "bfloat16"]

SHORT_DTYPES: Final[dict[Dtype, str]] = {"float32": "fp32", "bfloat16": "bf16"}
"""How `X-MC-Accel: device_pool:bf16` names a dtype."""
ANY_POOL: Final = "device_pool"
MOST_POOLS: Final = 16
ALLOWED: Final = (
    "NAME=DEVICE[,key=value...], such as fast=cpu,seqs=2 or big=cuda:0,dtype=bfloat16; NAME of "
    "a-z, 0-9, _ and -, DEVICE cpu or one of torch's (cuda:0, npu:0, xpu, ...), keys seqs, "
    "batched_tokens, kv_tokens, threads and dtype (float32 or bfloat16), each at most once"
)


class PoolOptions(BaseModel):
    """One pool; None stands for the server's own value.

    Attributes:
        seqs: Sequences that run together there.
        batched_tokens: Tokens one of its steps may run.
        kv_tokens: Token slots of its own KV arena.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,32}$")]
    device: Annotated[str, Field(pattern=r"^[a-z]{1,16}(:[0-9]{1,3})?$")]
    seqs: Annotated[int, Field(ge=1, le=256)] | None = None
    batched_tokens: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    kv_tokens: Annotated[int, Field(ge=64, le=10_000_000, multiple_of=16)] | None = None
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    dtype: Dtype = "float32"

    def __str__(self) -> str:
        """The text that `read_pool` reads as the same pool."""
        keys = self.model_dump(exclude={"name", "device"}, exclude_defaults=True)
        return ",".join([f"{self.name}={self.device}", *(f"{key}={keys[key]}" for key in keys)])


DEFAULT_POOLS: Final = (PoolOptions(name="cpu", device="cpu"),)


def dtype_word(dtype: Dtype) -> str:
    """The word of `X-MC-Accel` that names the pools of a dtype."""
    return f"{ANY_POOL}:{SHORT_DTYPES[dtype]}"


def read_pool(text: str) -> PoolOptions:
    """Read the option's words.

    Raises:
        ValueError: A word is unknown, out of range, or given twice; says what is allowed.
    """
    first, *words = [word.strip() for word in text.split(",")]
    name, _, device = first.partition("=")
    pairs = [word.partition("=") for word in words]
    keys = [key for key, _, _ in pairs]
    if len(set(keys)) < len(keys) or set(keys) & {"name", "device"}:
        raise _refusal(text)
    values = {key: value for key, _, value in pairs}
    try:
        return PoolOptions.model_validate({"name": name, "device": device, **values})
    except ValidationError as error:
        details = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise _refusal(text, f" ({details})") from error


def read_pools(texts: object) -> tuple[PoolOptions, ...]:
    """Take pools as they are, or as the command line and a scenario write them; none: one of CPU.

    Raises:
        ValueError: One is not allowed, two have one name, or there are too many.
    """
    if not isinstance(texts, list | tuple):
        raise ValueError(f"{texts!r} is no list; allowed is a list of {ALLOWED}")  # noqa: TRY004  pydantic takes no TypeError
    pools = tuple(each if isinstance(each, PoolOptions) else read_pool(str(each)) for each in texts)
    names = [pool.name for pool in pools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two pools are named {', '.join(twice)}; give each a name of its own")
    if len(pools) > MOST_POOLS:
        raise ValueError(f"{len(pools)} pools; allowed are up to {MOST_POOLS}")
    return pools or DEFAULT_POOLS


def _refusal(text: str, details: str = "") -> ValueError:
    return ValueError(f"{text!r} is not allowed{details}; allowed is {ALLOWED}")
