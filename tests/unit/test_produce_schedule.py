import math

from penstock.produce.producer import Schedule


def test_events_fall_due_by_the_clock() -> None:
    schedule = Schedule(start_s=100.0, rate_eps=1_000, total=math.inf)
    assert [schedule.due(now) for now in (100.0, 100.5, 160.0)] == [0, 500, 60_000]


def test_no_more_than_the_total_falls_due() -> None:
    assert Schedule(start_s=100.0, rate_eps=1_000, total=300).due(200.0) == 300


def test_behind_is_how_long_ago_the_next_event_was_due() -> None:
    schedule = Schedule(start_s=100.0, rate_eps=1_000, total=10_000)
    assert schedule.behind_ms(sent=500, now_s=102.0) == 1_500
    assert schedule.behind_ms(sent=5_000, now_s=102.0) == 0


def test_a_schedule_that_is_done_is_not_behind() -> None:
    assert Schedule(start_s=100.0, rate_eps=1_000, total=300).behind_ms(sent=300, now_s=500.0) == 0
