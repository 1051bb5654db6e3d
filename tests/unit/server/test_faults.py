import gc
import time
from pathlib import Path

import pytest

from harness.base.errors import ScenarioError
from harness.cli.drive import server_options
from harness.scenario.read import parse_scenario
from harness.server.faults import (
    NO_FAULTS,
    SLOWABLE_PHASES,
    Pause,
    PlannedPauses,
    SlowedStopwatch,
    read_faults,
)
from harness.server.garbage import Garbage, spin_until
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.process import to_arguments
from harness.server.sequence import Mode, SamplingParams
from tests.unit.server import build

ALL_WORDS = (
    "attention:40%,ffn:2.5%,stall:300ms@5s,gc:100ms@2s,exhaust:1s@3s,store:20ms,alloc:1/9,"
    "drop:1/50,connections:200ms@4s,garbage:12.5MB/s,error:1/21"
)


def test_every_word_is_read() -> None:
    """Each word sets its own field, in seconds and shares."""
    read = read_faults(ALL_WORDS)
    assert read.slowdowns == {"attention": 0.4, "ffn": 0.025}
    assert read.stall == Pause(duration_s=0.3, period_s=5.0)
    assert read.gc == Pause(duration_s=0.1, period_s=2.0)
    assert read.exhaust == Pause(duration_s=1.0, period_s=3.0)
    assert read.alloc_every == 9
    assert read.store_delay_s == pytest.approx(0.02)
    assert (read.drop_every, read.error_every) == (50, 21)
    assert read.connections == Pause(duration_s=0.2, period_s=4.0)
    assert read.garbage_bytes_per_s == pytest.approx(12.5e6)
    assert read_faults(str(read)) == read


def test_nothing_is_planted_by_default() -> None:
    """Without the option, and with an empty one, there is no fault."""
    assert ServerOptions().faults == read_faults("") == NO_FAULTS
    assert to_arguments(ServerOptions()) == []


@pytest.mark.parametrize(
    "text",
    [
        *("attention", "attention:40", "attention:0%", "attention:1001%", "queue:40%", "cpu:40%"),
        *("stall:300ms", "stall:5s@5s", "stall:0ms@5s", "gc:1h@2h", "stall:300ms@"),
        *("store:-1ms", "store:20", "drop:0", "drop:1/0", "drop:2/50", "attention:40%,"),
        *("attention:40%,attention:20%", "stall:1ms@1s,stall:1ms@1s", "attention:40%;ffn:40%"),
        *("stall:99999999999s@999999999999s", "store:3601s", "store:" + "9" * 400 + "s"),
        *("attention:٤٠%", "store:٢s", "drop:1/٤"),
        *("connections:1s@1s", "connections:20ms", "error:0", "error:1/0", "error:5%"),
        *("garbage:0MB/s", "garbage:1001MB/s", "garbage:12", "garbage:12mb/s", "garbage:-1MB/s"),
        *("alloc:1/1", "alloc:1/0", "alloc:2/5", "alloc", "exhaust:1s@1s", "exhaust"),
    ],
)
def test_a_bad_word_is_refused(text: str) -> None:
    """What is unknown, out of range or given twice is refused with what is allowed."""
    with pytest.raises(ValueError, match=r"allowed is a comma list of PHASE:X% \(PHASE one of"):
        read_faults(text)


def test_faults_travel_as_text() -> None:
    """Command line and JSON carry the words; the engine reads the same faults from them."""
    options = ServerOptions.model_validate({"faults": ALL_WORDS})
    assert to_arguments(options) == ["--faults", ALL_WORDS]
    assert ServerOptions.model_validate(options.model_dump(mode="json")) == options


def test_a_scenario_can_plant_faults() -> None:
    """`[target.server] faults` reaches the server's options; a bad word names file and key."""
    text = Path("scenarios/quickstart.toml").read_text(encoding="utf-8")
    head = "[target.server]"
    planted = parse_scenario(text.replace(head, f'{head}\nfaults = "ffn:50%"'), "x.toml")
    assert server_options(planted, "x.toml").faults.slowdowns == {"ffn": 0.5}
    wrong = parse_scenario(text.replace(head, f'{head}\nfaults = "ffn"'), "x.toml")
    with pytest.raises(ScenarioError, match=r"target\.server\.faults: 'ffn' is not allowed"):
        server_options(wrong, "x.toml")


def test_a_slowed_phase_takes_its_share_more_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A phase slowed by 300 % is charged four times the time its work took, its neighbour once."""
    added: list[int] = []

    def spin_and_tell(until_ns: int) -> None:
        added.append(until_ns)
        spin_until(until_ns)

    monkeypatch.setattr("harness.server.faults.spin_until", spin_and_tell)
    watch = SlowedStopwatch(GcPauses(), {"ffn": 3.0})
    began_ns = watch.last_ns
    while time.perf_counter_ns() < began_ns + 2_000_000:
        pass
    worked_ns = time.perf_counter_ns() - began_ns
    watch.lap("ffn")
    assert watch.laps_ns["ffn"] >= 4 * worked_ns
    watch.lap("attention")
    assert len(added) == 1


def test_every_slowable_phase_is_one_the_engine_runs() -> None:
    """A penalised request is charged each phase that can be slowed."""
    params = SamplingParams(temperature=0.8, frequency=0.5, ignore_eos=True)
    end = build.run_dry(build.engine(), [build.sequence(0, build.prompt(20), 4, params=params)])
    assert {phase for phase in SLOWABLE_PHASES if end.ends[0].account[phase] > 0} == set(
        SLOWABLE_PHASES
    )


def nothing() -> None:
    """Stand in for the scheduler where nobody is resident."""


@pytest.mark.parametrize("phase", ["stall", "gc"])
def test_pauses_come_once_a_period_and_are_charged_to_their_phase(phase: str) -> None:
    """Nothing before the period is over, then one pause of at least the duration."""
    pauses = GcPauses().install()
    try:
        watch = Stopwatch(pauses)
        start_ns = watch.last_ns
        read = read_faults(f"{phase}:30ms@100s")
        planned = PlannedPauses(read, start_ns, nothing)
        planned.take(watch)
        assert watch.laps_ns == {}
        # Three periods have passed; what was missed is not made up for.
        planned = PlannedPauses(read, start_ns - 350 * 10**9, nothing)
        planned.take(watch)
        assert watch.laps_ns[phase] >= 30_000_000
        assert set(watch.laps_ns) <= {"stream", "stall", "gc"}
        laps = dict(watch.laps_ns)
        planned.take(watch)
        assert watch.laps_ns == laps
    finally:
        pauses.remove()


def test_the_planted_collection_is_a_real_one() -> None:
    """The interpreter's own collector runs once, for nearly all of the pause, and finds garbage."""
    before = gc.get_stats()[0]
    pauses = GcPauses().install()
    try:
        start_ns = time.perf_counter_ns() - 2 * 10**9
        PlannedPauses(read_faults("gc:50ms@1s"), start_ns, nothing).take(Stopwatch(pauses))
        assert pauses.total_ns > 45_000_000
    finally:
        pauses.remove()
    after = gc.get_stats()[0]
    assert after["collected"] > before["collected"]
    assert after["collections"] - before["collections"] <= 2


@pytest.mark.parametrize(("elapsed_s", "n_expected"), [(0.05, 122), (0.1, 244), (500.0, 244)])
def test_garbage_is_made_at_its_rate_and_not_made_up_for(elapsed_s: float, n_expected: int) -> None:
    """10 MB/s are 2,441 pieces of 4 KiB a second; an engine that slept owes a tenth of one."""
    gc.collect()
    gc.disable()
    try:
        watch = Stopwatch(GcPauses())
        Garbage(10e6, watch.last_ns - round(elapsed_s * 1e9)).make(watch)
    finally:
        gc.enable()
    # Nothing but a search can free them: each is a list that holds itself.
    assert n_expected <= gc.collect() <= n_expected + 40
    assert set(watch.laps_ns) == {"stream", "gc"}


def test_no_garbage_by_default() -> None:
    """A rate of nothing makes nothing and charges nothing."""
    watch = Stopwatch(GcPauses())
    Garbage(0.0, watch.last_ns - 10**9).make(watch)
    assert watch.laps_ns == {}


@pytest.mark.parametrize(("word", "phase"), [("stall", "stall"), ("exhaust", "kv_wait")])
def test_a_sequence_s_account_holds_the_planted_pause(word: str, phase: str) -> None:
    """Everybody resident is charged the pause, and the phases still partition the time."""
    subject = build.engine()
    watch = Stopwatch(GcPauses())
    each = build.sequence(0, build.prompt(20), 6)
    each.charged_until_ns = began_ns = watch.last_ns
    subject.add(each)
    faults = read_faults(f"{word}:20ms@100s")
    start_ns = watch.last_ns - 200 * 10**9
    planned = PlannedPauses(faults, start_ns, subject.scheduler.evict_all)
    account: dict[int, dict[str, int]] = {}
    until_ns = 0
    while subject.has_work:
        planned.take(watch)
        events = subject.step(watch)
        until_ns = events.until_ns
        watch.restart(until_ns)
        account = {**account, **{end.id: end.account for end in events.ends}}
    assert account[0][phase] >= 20_000_000
    assert sum(account[0].values()) == until_ns - began_ns


def test_exhausted_memory_is_taken_from_all_and_changes_no_token() -> None:
    """Every resident sequence is evicted and recomputed; the books stay right."""
    sequences = [build.sequence(number, build.prompt(30, salt=number), 8) for number in range(3)]
    expected = build.run_dry(build.engine(), sequences).tokens
    again = [build.sequence(number, build.prompt(30, salt=number), 8) for number in range(3)]
    subject = build.engine()
    for each in again:
        subject.add(each)
    watch = Stopwatch(GcPauses())
    for _ in range(4):
        subject.step(watch)
    assert len(subject.scheduler.resident) == 3
    subject.scheduler.evict_all()
    assert subject.scheduler.n_held == 0
    assert subject.scheduler.check_integrity() == []
    build.run_dry(subject, [])
    assert [each.n_evictions for each in again] == [1, 1, 1]
    assert {each.id: each.tokens[each.n_prompt :] for each in again} == expected


@pytest.mark.parametrize("mode", build.MODES)
@pytest.mark.parametrize("every", [2, 3, 5])
def test_failing_allocations_evict_and_change_no_token(mode: Mode, every: int) -> None:
    """In every mode, alone and together, sequences come to their end with the same tokens."""

    def outcome(faults: str) -> tuple[build.Outcome, int]:
        subject = build.engine(faults=faults)
        asked = [
            build.sequence(number, build.prompt(30, salt=number), 90, mode=mode)
            for number in range(3)
        ]
        return build.run_dry(subject, asked), subject.scheduler.n_evictions

    (plain, n_plain), (broken, n_broken) = outcome(""), outcome(f"alloc:1/{every}")
    assert n_plain == 0
    assert n_broken > 0
    for number, tokens in plain.tokens.items():
        close = build.first_close_call(build.prompt(30, salt=number), tokens)
        assert broken.tokens[number][:close] == tokens[:close]
        assert len(broken.tokens[number]) == 90
