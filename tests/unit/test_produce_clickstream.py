import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.produce.chunk import FATE_OF_FLAW, Fate, Flaw, Timing
from penstock.produce.clickstream import CART, ClickChunk, Clicks, ClickstreamPlan
from penstock.produce.workload import DELAYED_MIN_MS, OUT_OF_ORDER_MAX_MS, REPEAT_AFTER_MS

PLAN = ClickstreamPlan(users=20_000, products=500)
START_MS = 1_800_000_000_000


def run(
    plan: ClickstreamPlan, *, producer: str = "p1", rate_eps: int = 10_000, seconds: int = 20
) -> ClickChunk:
    """A run in chunks of 10 ms."""
    clicks = Clicks(plan, producer, rate_eps)
    chunks = [clicks.chunk(rate_eps // 100, START_MS + 10 * tick) for tick in range(100 * seconds)]
    columns = {name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in vars(chunks[0])}
    return ClickChunk(**columns)


def same(one: ClickChunk, two: ClickChunk) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in vars(one))


@pytest.fixture(scope="module")
def clicks() -> ClickChunk:
    return run(PLAN)


def test_the_same_plan_gives_the_same_records(clicks: ClickChunk) -> None:
    assert same(clicks, run(PLAN))


def test_another_seed_or_producer_gives_others(clicks: ClickChunk) -> None:
    assert not same(clicks, run(ClickstreamPlan(seed=8, users=20_000, products=500)))
    assert not same(clicks, run(PLAN, producer="p2"))


def test_every_chunk_has_the_size_asked_for_copies_included() -> None:
    clicks = Clicks(ClickstreamPlan(duplicate=0.9, malformed=0, invalid=0, out_of_order=0), "p1", 1000)
    assert [len(clicks.chunk(n, START_MS + 200 * i)) for i, n in enumerate([7, 0, 1, 1000, 3, 50])] == [
        7, 0, 1, 1000, 3, 50,
    ]  # fmt: skip


def test_sequence_numbers_have_no_gap_and_only_copies_repeat_them(clicks: ClickChunk) -> None:
    first = clicks[clicks.timing != Timing.REPEATED]
    assert np.array_equal(first.seq, np.arange(len(first)))


def test_a_copy_equals_its_original_and_comes_later(clicks: ClickChunk) -> None:
    copies = clicks[clicks.timing == Timing.REPEATED]
    originals = clicks[clicks.timing != Timing.REPEATED][copies.seq]
    assert len(copies) > 100
    assert len(np.unique(copies.seq)) == len(copies)
    for name in ("user", "kind", "product", "price_cents", "ts_ms", "created_ms", "flaw"):
        assert np.array_equal(getattr(copies, name), getattr(originals, name)), name
    sent_ms = START_MS + 10 * (np.flatnonzero(clicks.timing == Timing.REPEATED) // 100)  # 100 to a chunk
    assert (sent_ms - copies.created_ms).min() >= REPEAT_AFTER_MS


def test_the_shares_are_those_of_the_plan(clicks: ClickChunk) -> None:
    fresh = clicks[clicks.timing != Timing.REPEATED]
    fate = FATE_OF_FLAW[fresh.flaw]
    copies = int((clicks.timing == Timing.REPEATED).sum())
    for count, share in (
        ((fate == Fate.MALFORMED).sum(), PLAN.malformed),
        ((fate == Fate.INVALID).sum(), PLAN.invalid),
        ((fresh.timing == Timing.OUT_OF_ORDER).sum(), PLAN.out_of_order),
        ((fresh.timing == Timing.DELAYED).sum(), PLAN.delayed),
        ((fresh.timing == Timing.LATE).sum(), PLAN.late),
        (copies, PLAN.duplicate),
    ):
        expected = share * len(fresh)
        assert abs(count - expected) < 6 * expected**0.5, (count, expected)
    assert set(np.unique(clicks.flaw)) == set(Flaw)


def test_event_times_lie_as_far_back_as_their_timing_says(clicks: ClickChunk) -> None:
    back_ms = clicks.created_ms - clicks.ts_ms
    for timing, low, high in (
        (Timing.PROMPT, 0, 0),
        (Timing.REPEATED, 0, 0),
        (Timing.OUT_OF_ORDER, 1, OUT_OF_ORDER_MAX_MS),
        (Timing.DELAYED, DELAYED_MIN_MS, PLAN.delayed_max_ms),
        (Timing.LATE, PLAN.late_min_ms, 2 * PLAN.late_min_ms),
    ):
        found = back_ms[clicks.timing == timing]
        assert low <= found.min()
        assert found.max() <= high


def test_a_user_clicks_about_every_think_time_and_leaves_after_the_mean_number_of_clicks() -> None:
    plan = ClickstreamPlan(users=1_000_000, products=50, mean_clicks=5, duplicate=0)
    clicks = run(plan, rate_eps=2_000, seconds=60)
    users, first, count = np.unique(clicks.user, return_index=True, return_counts=True)
    whole = first < len(clicks) // 2  # those who came early have left by the end
    assert 4.7 < count[whole].mean() < 5.3
    last = len(clicks) - 1 - np.unique(clicks.user[::-1], return_index=True)[1]
    many = whole & (count > 3)
    stay_ms = clicks.created_ms[last[many]] - clicks.created_ms[first[many]]
    assert 900 < (stay_ms / (count[many] - 1)).mean() < 1_100
    assert len(users) > 10_000


def test_only_carts_and_purchases_have_a_price_and_only_invalid_ones_a_negative(clicks: ClickChunk) -> None:
    assert np.array_equal(clicks.price_cents != 0, clicks.kind >= CART)
    assert np.array_equal(clicks.price_cents < 0, clicks.flaw == Flaw.NEGATIVE)


def test_an_impossible_plan_is_refused_with_every_reason() -> None:
    with pytest.raises(PenstockError, match=r"(?s)mean_clicks.*shares.*late_min_ms"):
        ClickstreamPlan(mean_clicks=0, malformed=0.9, invalid=0.2, late_min_ms=10)
