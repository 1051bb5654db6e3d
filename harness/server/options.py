"""What `tailbreak serve` can be told: the one frozen model, with every default."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from harness.base.api_key import read_api_key
from harness.base.errors import SetupError
from harness.server.faults import NO_FAULTS, Faults, read_faults
from harness.server.pool_options import DEFAULT_POOLS, PoolOptions, read_pools

WEIGHTS_FOLDER = Path(__file__).parent / "weights"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

LogLevel = Literal["debug", "info", "warning", "error"]


def _to_faults(value: object) -> Faults:
    """Take faults as they are, or as the command line writes them."""
    return value if isinstance(value, Faults) else read_faults(str(value))


def _to_texts(pools: tuple[PoolOptions, ...]) -> list[str]:
    return [str(pool) for pool in pools]


def default_threads() -> int:
    """One core is the HTTP front's, the rest compute."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


class ServerOptions(BaseModel):
    """Options of one server.

    Attributes:
        max_model_len: Longest context; None takes the model's own limit.
        max_num_batched_tokens: Tokens one engine step may run.
        kv_tokens: Token slots of the KV arena, for both paths.
        max_queued_requests: Sequences that may wait beyond those that run; more are answered 429.
        pool: Engine processes; the first runs the baseline and all that asks for no pool.
        seed: Where the seeds of requests that bring none come from, in their order of arrival; None
            draws fresh ones.
        journal: SQLite file; None makes a temporary one without a name.
        api_key_env: Name of the environment variable that holds the key.
        client_timeout: Seconds a client may take to send a request, or leave an answer unread.
        genai_metrics: Whether `/metrics` has OpenTelemetry's generative AI names too.
        faults: What is planted, for checking a harness; nothing by default.
        engine_grace_s: How long a front whose engine died still answers, with errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = "tiny"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    max_num_seqs: Annotated[int, Field(ge=1, le=256)] = 8
    max_model_len: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    max_num_batched_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 512
    kv_tokens: Annotated[int, Field(ge=64, le=10_000_000, multiple_of=16)] = 2560
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(default_factory=default_threads)
    pool: Annotated[
        tuple[PoolOptions, ...], PlainValidator(read_pools), PlainSerializer(_to_texts)
    ] = DEFAULT_POOLS
    max_queued_requests: Annotated[int, Field(ge=0, le=1_000_000)] = 256
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    journal: Path | None = None
    api_key_env: str | None = None
    client_timeout: Annotated[float, Field(gt=0, le=3600)] = 30.0
    insecure: bool = False
    log_level: LogLevel = "warning"
    genai_metrics: bool = False
    faults: Annotated[Faults, PlainValidator(_to_faults), PlainSerializer(str)] = NO_FAULTS
    engine_grace_s: float = 3.0

    @property
    def model_folder(self) -> Path:
        """Where weights and tokenizer lie."""
        return WEIGHTS_FOLDER / "tiny" if self.model == "tiny" else Path(self.model)

    @property
    def model_name(self) -> str:
        """The name clients use."""
        return "tiny" if self.model == "tiny" else self.model_folder.name

    def of_pool(self, pool: PoolOptions) -> Self:
        """Give the options of one pool's engine; pools that name no threads share the server's."""
        n_sharing = sum(each.threads is None for each in self.pool)
        values = {
            "pool": (pool,),
            "max_num_seqs": pool.seqs or self.max_num_seqs,
            "max_num_batched_tokens": pool.batched_tokens or self.max_num_batched_tokens,
            "kv_tokens": pool.kv_tokens or self.kv_tokens,
            "threads": pool.threads or max(1, self.threads // n_sharing),
        }
        return self.model_copy(update=values)

    def require_safe(self) -> str | None:
        """Return the API key, if any, and refuse to be open to a network without one.

        Raises:
            SetupError: The key's variable holds no key, or a network host is asked for without one.
        """
        name = self.api_key_env
        key = None if name is None else read_api_key(name, "--api-key-env")
        if self.host not in LOOPBACK and key is None and not self.insecure:
            raise SetupError(
                f"--host {self.host} opens the server to a network without a key. "
                "Give --api-key-env NAME, or --insecure if that is meant, or stay on 127.0.0.1."
            )
        return key
