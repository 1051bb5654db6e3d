import pytest

from harness.server.block_manager import BLOCK_SIZE
from harness.server.engine import Engine
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import BASELINE
from tests.unit.server import build


def steps(subject: Engine, n_steps: int) -> None:
    """Run a few steps."""
    watch = Stopwatch(GcPauses())
    for _ in range(n_steps):
        subject.step(watch)
        assert subject.scheduler.check_integrity() == []
        watch.restart(watch.last_ns)


def n_cached(subject: Engine, number: int, tokens: list[int], n_output: int = 3) -> int:
    """Run one prompt; how much of it came from the cache."""
    each = build.sequence(number, tokens, n_output, mode=build.CACHED)
    return build.run_dry(subject, [each]).ends[number].n_cached


@pytest.mark.parametrize(
    ("length", "expected"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (160, 144), (161, 160)]
)
def test_all_full_blocks_but_the_last_token_come_from_the_cache(length: int, expected: int) -> None:
    """A repeated prompt is cached up to its last full block, its last token never."""
    subject = build.engine()
    assert n_cached(subject, 0, build.prompt(length)) == 0
    assert n_cached(subject, 1, build.prompt(length)) == expected
    assert subject.scheduler.n_cache_hits == expected
    assert subject.scheduler.n_cache_queries == 2 * length


def test_only_the_common_beginning_is_shared() -> None:
    """A prompt that departs inside a block shares the blocks before it, and no later equal ones."""
    subject = build.engine()
    first = build.prompt(100)
    other = first.copy()
    other[40] += 1
    n_cached(subject, 0, first)
    assert n_cached(subject, 1, other) == 32
    # The second block of `first` in another place is another block: its hash is chained.
    assert n_cached(subject, 2, first[16:60]) == 0


def test_an_answer_is_cached_for_the_next_turn() -> None:
    """What was generated counts as prefix when it comes back as prompt, to the computed block."""
    subject = build.engine()
    prompt = build.prompt(30)
    answer = build.run_dry(subject, [build.sequence(0, prompt, 40, mode=build.CACHED)]).tokens[0]
    # 69 tokens have keys and values: nothing was computed behind the last one.
    assert n_cached(subject, 1, [*prompt, *answer, 5, 6, 7]) == 64


def test_a_block_is_found_only_when_it_is_computed() -> None:
    """A prompt that comes while its twin is being read shares what the twin has computed."""
    subject = build.engine(max_num_batched_tokens=64)
    subject.add(build.sequence(0, build.prompt(161), 3, mode=build.CACHED))
    steps(subject, 1)
    twin = build.sequence(1, build.prompt(161), 3, mode=build.CACHED)
    outcome = build.run_dry(subject, [twin])
    assert outcome.ends[1].n_cached == 64
    assert outcome.tokens[0] == outcome.tokens[1]


def test_a_shared_block_is_held_once() -> None:
    """Two sequences with a common beginning occupy it once."""
    subject = build.engine()
    subject.add(build.sequence(0, build.prompt(65), 9, mode=build.CACHED))
    steps(subject, 1)
    assert subject.scheduler.n_held == 80
    subject.add(build.sequence(1, build.prompt(65), 9, mode=build.CACHED))
    steps(subject, 1)
    assert subject.scheduler.n_held == 80 + BLOCK_SIZE


def test_the_longest_unused_prefix_is_given_up_first() -> None:
    """Under memory pressure the prompt used last stays, and the beginning outlives the end."""
    subject = build.engine(kv_tokens=256)
    old, used, big = (build.prompt(81, salt=salt) for salt in range(3))
    n_cached(subject, 0, old)
    n_cached(subject, 1, used)
    assert subject.scheduler.n_kept == 160
    assert n_cached(subject, 2, used) == 80
    assert n_cached(subject, 3, big, n_output=60) == 0
    assert n_cached(subject, 4, used) == 80
    # 9 blocks were needed, 6 free, so three of the old prompt's five are gone: the last three.
    assert n_cached(subject, 5, old) == 32


def test_cancelled_while_being_read_leaves_only_computed_blocks() -> None:
    """A cancelled sequence frees its slots at once; what it had computed may be shared."""
    subject = build.engine(max_num_batched_tokens=64)
    subject.add(build.sequence(0, build.prompt(161), 3, mode=build.CACHED))
    steps(subject, 1)
    subject.cancel(0)
    assert subject.scheduler.n_held == 0
    assert subject.scheduler.check_integrity() == []
    alone = build.run_dry(build.engine(), [build.sequence(1, build.prompt(161), 12)])
    again = build.sequence(1, build.prompt(161), 12, mode=build.CACHED)
    outcome = build.run_dry(subject, [again])
    assert outcome.ends[1].n_cached == 64
    assert outcome.tokens[1] == alone.tokens[1]


def test_the_other_layout_empties_the_cache() -> None:
    """Contiguous ranges overwrite the arena, so nothing is found after them; paged modes keep."""
    subject = build.engine()
    prompt = build.prompt(100)
    n_cached(subject, 0, prompt)
    build.run_dry(subject, [build.sequence(1, build.prompt(50, salt=1), 3, mode=build.PAGED)])
    assert n_cached(subject, 2, prompt) == 96
    build.run_dry(subject, [build.sequence(3, build.prompt(50, salt=1), 3, mode=BASELINE)])
    assert subject.scheduler.n_kept == 0
    assert n_cached(subject, 4, prompt) == 0


def test_sequences_without_the_feature_leave_no_trace() -> None:
    """Plain `paged_kv` neither enters blocks nor finds any."""
    subject = build.engine()
    for number in range(2):
        each = build.sequence(number, build.prompt(100), 3, mode=build.PAGED)
        assert build.run_dry(subject, [each]).ends[number].n_cached == 0
    assert subject.scheduler.n_kept == 0
    assert n_cached(subject, 2, build.prompt(100)) == 0


def test_answers_from_cached_prefixes_are_the_same_together() -> None:
    """Sequences that share prefixes in one tight batch answer as each does alone."""
    shared = build.prompt(70)
    prompts = [shared + build.prompt(10 + 7 * salt, salt=salt)[1:] for salt in range(6)]
    subject = build.engine(kv_tokens=512, max_num_batched_tokens=64)
    sequences = [
        build.sequence(number, prompt, 20, mode=build.CACHED)
        for number, prompt in enumerate(prompts)
    ]
    together = build.run_dry(subject, sequences)
    assert sum(end.n_cached for end in together.ends.values()) > 0
    for number, prompt in enumerate(prompts):
        alone = build.run_dry(build.engine(), [build.sequence(number, prompt, 20)]).tokens[number]
        upto = build.first_close_call(prompt, alone)
        assert together.tokens[number][:upto] == alone[:upto]
        assert upto > 10
