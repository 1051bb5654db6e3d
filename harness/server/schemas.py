"""What a request body may say: strict models, and every refusal in words.

A field is known, in range, and used, or the request is answered 400 with the field, the value and
the range. Nothing is accepted and ignored.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from harness.server.api_error import ApiError

MAX_BODY_BYTES: Final = 1 << 20
_MAX_SHOWN: Final = 60
# Fields of the OpenAI and vLLM interfaces that this build lacks, with the values that ask nothing.
_NOT_SUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "best_of": (1,),
    "echo": (False,),
    "guided_json": (),
    "logit_bias": ({},),
    "logprobs": (False,),
    "min_tokens": (0,),
    "prompt_logprobs": (),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none",),
    "tools": ([],),
    "top_logprobs": (0,),
    "typical_p": (1, 1.0),
}

StopText = Annotated[str, Field(min_length=1, max_length=64)]
TokenId = Annotated[int, Field(ge=0)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StreamOptions(_Body):
    """What a stream tells beside the text."""

    include_usage: bool = Field(default=False, description="true or false")
    continuous_usage_stats: bool = Field(default=False, description="true or false")


class GenerationBody(_Body):
    """Fields every generating route knows; descriptions are the allowed range in words."""

    model: str | None = Field(default=None, description="the id /v1/models lists")
    max_tokens: int | None = Field(default=None, ge=1, description="an integer from 1 up")
    temperature: float = Field(default=1.0, ge=0, le=2, description="a number from 0 to 2")
    top_p: float = Field(default=1.0, gt=0, le=1, description="a number above 0, at most 1")
    top_k: int = Field(default=0, ge=-1, le=1 << 20, description="an integer; 0 or -1 for off")
    min_p: float = Field(default=0.0, ge=0, le=1, description="a number from 0 to 1")
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2, description="a number from -2 to 2")
    presence_penalty: float = Field(default=0.0, ge=-2, le=2, description="a number from -2 to 2")
    repetition_penalty: float = Field(
        default=1.0, gt=0, le=2, description="a number above 0, at most 2"
    )
    seed: int | None = Field(
        default=None, ge=-(1 << 63), lt=1 << 63, description="an integer of 64 bits"
    )
    stop: StopText | Annotated[list[StopText], Field(max_length=4)] = Field(
        default_factory=list, description="a string or up to 4, of 1 to 64 characters each"
    )
    n: int = Field(default=1, ge=1, le=1, description="1, the only value this build supports")
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


class InferBody(GenerationBody):
    """`POST /v1/infer`."""

    prompt: str = Field(description="a string")


class StreamingBody(GenerationBody):
    """What the OpenAI routes add."""

    stream: bool = Field(default=False, description="true or false")
    stream_options: StreamOptions | None = Field(
        default=None, description='an object such as {"include_usage": true}'
    )


class CompletionBody(StreamingBody):
    """`POST /v1/completions`."""

    prompt: str | Annotated[list[TokenId], Field(min_length=1)] = Field(
        description="a string or a list of token ids"
    )


class TextPart(_Body):
    """A part of a message; only text is understood."""

    type: Literal["text"]
    text: str


class ChatMessage(_Body):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """The turn's text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


_MESSAGES_RANGE: Final = "1 or more of {role: system, user or assistant; content: text}"


class ChatBody(StreamingBody):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1, description=_MESSAGES_RANGE)
    max_completion_tokens: int | None = Field(
        default=None,
        ge=1,
        description="an integer from 1 up, equal to max_tokens if both are given",
    )

    @field_validator("max_completion_tokens")
    @classmethod
    def _require_one_limit(cls, value: int, info: ValidationInfo) -> int:
        """Refuse two different output limits."""
        if info.data.get("max_tokens") not in {None, value}:
            raise ValueError("differs from max_tokens")
        return value

    @property
    def output_limit(self) -> int | None:
        """Longest answer asked for, under either name."""
        return self.max_tokens or self.max_completion_tokens


class TokenizeBody(_Body):
    """`POST /tokenize`: exactly one of the three."""

    model: str | None = Field(default=None, description="the id /v1/models lists")
    prompt: str | None = Field(default=None, description="a string")
    prompts: list[str] | None = Field(default=None, description="a list of strings")
    messages: list[ChatMessage] | None = Field(
        default=None, min_length=1, description=_MESSAGES_RANGE
    )
    add_special_tokens: bool = Field(default=True, description="true or false")


class DetokenizeBody(_Body):
    """`POST /detokenize`."""

    model: str | None = Field(default=None, description="the id /v1/models lists")
    tokens: list[TokenId] = Field(description="a list of token ids")


BodyT = TypeVar("BodyT", bound=_Body)


def parse_body(raw: bytes, schema: type[BodyT]) -> BodyT:
    """Read a request body.

    A null counts as absent, as OpenAI clients mean it.

    Raises:
        ApiError: Not JSON, not an object, or a field is unknown, missing or out of range.
    """
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"body: not valid JSON ({error})", code="invalid_json") from error
    if not isinstance(values, dict):
        raise ApiError(400, f"body: got {_shown(values)}, allowed a JSON object")
    values = {name: value for name, value in values.items() if value is not None}
    for name in values.keys() & _NOT_SUPPORTED.keys() - schema.model_fields.keys():
        if not any(_is_same(values[name], neutral) for neutral in _NOT_SUPPORTED[name]):
            raise ApiError(
                400,
                f"{name}: got {_shown(values[name])}, not supported by this build; leave it out",
                param=name,
                code="unsupported_parameter",
            )
        del values[name]
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, schema) from error


def _refusal(error: ValidationError, schema: type[_Body]) -> ApiError:
    """Word every problem as `field: got X, allowed Y`."""
    problems: dict[str, str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        place = [str(part) for part in detail["loc"]]
        name = place[0] if place else "body"
        field = schema.model_fields.get(name)
        if field is None:
            known = ", ".join(sorted(schema.model_fields))
            problems[name] = f"{name}: unknown parameter, allowed are {known}"
        elif detail["type"] == "missing" and len(place) == 1:
            problems[name] = f"{name}: missing, allowed {field.description}"
        else:
            index = [part for part in place[1:2] if part.isdigit()]
            where = ".".join([name, *index])
            got = "nothing" if detail["type"] == "missing" else _shown(detail["input"])
            problems.setdefault(name, f"{where}: got {got}, allowed {field.description}")
    return ApiError(
        400, "; ".join(problems.values()), param=next(iter(problems)), code="invalid_value"
    )


def _is_same(value: Any, neutral: Any) -> bool:
    return type(value) is type(neutral) and bool(value == neutral)


def _shown(value: Any) -> str:
    """Show a value briefly."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
