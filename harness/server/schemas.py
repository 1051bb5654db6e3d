"""What a request body may say: strict models, one per route.

A field is known, in range, and used, or the request is refused; how a refusal is worded is `body`'s
business. Every field's description is its allowed range in words, for refusals and for OpenAPI.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

MAX_BODY_BYTES: Final = 1 << 20
MAX_CHOICES: Final = 16
"""Most choices per prompt, and most prompts per request."""
_MAX_TOKENS: Final = 1 << 20
_MAX_LOGPROBS: Final = 20
_MAX_MESSAGES: Final = 1024

StopText = Annotated[str, Field(min_length=1, max_length=64)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]


class Body(BaseModel):
    """An object of a request; a null counts as absent, as OpenAI's clients mean it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}


class StreamOptions(Body):
    """What a stream tells beside the text."""

    include_usage: bool = Field(default=False, description="true or false")
    continuous_usage_stats: bool = Field(default=False, description="true or false")


class GenerationBody(Body):
    """Fields every generating route knows.

    Attributes:
        operation: OpenTelemetry's name of what is asked.
    """

    operation: ClassVar[str] = "text_completion"
    model: str | None = Field(default=None, description="the id /v1/models lists")
    max_tokens: int | None = Field(
        default=None, ge=1, le=_MAX_TOKENS, description=f"an integer from 1 to {_MAX_TOKENS}"
    )
    temperature: float = Field(default=1.0, ge=0, le=2, description="a number from 0 to 2")
    top_p: float = Field(default=1.0, gt=0, le=1, description="a number above 0, at most 1")
    top_k: int = Field(
        default=0, ge=-1, le=1 << 20, description=f"an integer to {1 << 20}; 0 or -1 for off"
    )
    min_p: float = Field(default=0.0, ge=0, le=1, description="a number from 0 to 1")
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2, description="a number from -2 to 2")
    presence_penalty: float = Field(default=0.0, ge=-2, le=2, description="a number from -2 to 2")
    repetition_penalty: float = Field(
        default=1.0, ge=0.01, le=2, description="a number from 0.01 to 2"
    )
    penalty_decay: float = Field(default=1.0, ge=0, le=2, description="a number from 0 to 2")
    penalty_window: int = Field(
        default=-1, ge=-1, le=_MAX_TOKENS, description=f"an integer from -1 to {_MAX_TOKENS}"
    )
    seed: int | None = Field(
        default=None, ge=-(1 << 63), lt=1 << 63, description="an integer of 64 bits"
    )
    stop: StopText | Annotated[list[StopText], Field(max_length=4)] = Field(
        default_factory=list, description="a string or up to 4, of 1 to 64 characters each"
    )
    ignore_eos: bool = Field(default=False, description="true or false")
    cot_depth: int = Field(default=0, ge=0, le=16, description="an integer from 0 to 16")
    cot_step_tokens: int = Field(default=32, ge=1, le=256, description="an integer from 1 to 256")

    @property
    def output_limit(self) -> int | None:
        """Longest answer asked for."""
        return self.max_tokens

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Stop strings as a tuple."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def n_choices(self) -> int:
        """Answers asked for per prompt."""
        return 1

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell beside each token; None for no logprobs."""
        return None


class InferBody(GenerationBody):
    """`POST /v1/infer`."""

    prompt: str = Field(description="a string")


class ChoicesBody(GenerationBody):
    """What the OpenAI routes add."""

    n: int = Field(
        default=1, ge=1, le=MAX_CHOICES, description=f"an integer from 1 to {MAX_CHOICES}"
    )
    stream: bool = Field(default=False, description="true or false")
    stream_options: StreamOptions | None = Field(
        default=None,
        description='an object such as {"include_usage": true}, and only with stream = true',
    )

    @property
    def n_choices(self) -> int:
        """Answers asked for per prompt."""
        return self.n

    @field_validator("stream_options")
    @classmethod
    def _require_stream(cls, value: StreamOptions, info: ValidationInfo) -> StreamOptions:
        """Refuse options that only a stream would honour."""
        if not info.data.get("stream"):
            raise ValueError("without stream")
        return value


class CompletionBody(ChoicesBody):
    """`POST /v1/completions`."""

    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=MAX_CHOICES)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_CHOICES)]
    ) = Field(
        description=f"a string, a list of token ids, or a list of up to {MAX_CHOICES} of either"
    )
    logprobs: int | None = Field(
        default=None, ge=0, le=_MAX_LOGPROBS, description=f"an integer from 0 to {_MAX_LOGPROBS}"
    )

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """Every prompt, as text or as ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return self.prompt

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell."""
        return self.logprobs


class TextPart(Body):
    """A part of a message; only text is understood."""

    type: Literal["text"] = Field(description='"text", the only kind this build reads')
    text: str = Field(description="a string")


class ChatMessage(Body):
    """One turn; the model knows two roles, so `system` and `developer` are read as a user's."""

    role: Literal["system", "developer", "user", "assistant"] = Field(
        description="system, developer, user or assistant"
    )
    content: str | list[TextPart] = Field(
        description='a string or a list of {"type": "text", "text": ...}'
    )

    @property
    def text(self) -> str:
        """The turn's text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


_MESSAGES_RANGE: Final = (
    f"1 to {_MAX_MESSAGES} of {{role: system, developer, user or assistant; content: text}}"
)


class ChatBody(ChoicesBody):
    """`POST /v1/chat/completions`."""

    operation: ClassVar[str] = "chat"
    messages: list[ChatMessage] = Field(
        min_length=1, max_length=_MAX_MESSAGES, description=_MESSAGES_RANGE
    )
    max_completion_tokens: int | None = Field(
        default=None,
        ge=1,
        le=_MAX_TOKENS,
        description=f"an integer from 1 to {_MAX_TOKENS}, equal to max_tokens if both are given",
    )
    logprobs: bool = Field(default=False, description="true or false")
    top_logprobs: int = Field(
        default=0,
        ge=0,
        le=_MAX_LOGPROBS,
        description=f"an integer from 0 to {_MAX_LOGPROBS}, above 0 only with logprobs = true",
    )

    @field_validator("max_completion_tokens")
    @classmethod
    def _require_one_limit(cls, value: int, info: ValidationInfo) -> int:
        """Refuse two different output limits."""
        if info.data.get("max_tokens") not in {None, value}:
            raise ValueError("differs from max_tokens")
        return value

    @field_validator("top_logprobs")
    @classmethod
    def _require_logprobs(cls, value: int, info: ValidationInfo) -> int:
        """Refuse a count of logprobs that are not asked for."""
        if value > 0 and not info.data.get("logprobs"):
            raise ValueError("without logprobs")
        return value

    @property
    def output_limit(self) -> int | None:
        """Longest answer asked for, under either name."""
        return self.max_tokens or self.max_completion_tokens

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell."""
        return self.top_logprobs if self.logprobs else None


class TokenizeBody(Body):
    """`POST /tokenize`: exactly one of the three."""

    model: str | None = Field(default=None, description="the id /v1/models lists")
    prompt: str | None = Field(default=None, description="a string")
    prompts: list[str] | None = Field(default=None, description="a list of strings")
    messages: list[ChatMessage] | None = Field(
        default=None, min_length=1, max_length=_MAX_MESSAGES, description=_MESSAGES_RANGE
    )
    add_special_tokens: bool = Field(
        default=True, description="true or false, and not with messages"
    )


class DetokenizeBody(Body):
    """`POST /detokenize`."""

    model: str | None = Field(default=None, description="the id /v1/models lists")
    tokens: list[TokenId] = Field(description="a list of token ids")
