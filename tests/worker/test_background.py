"""What communicators do apart from their programs: at which times, and how often."""

from __future__ import annotations

from innet.worker.background import Alarm
from tests.manual_background import ManualBackground


def test_an_alarm_set_to_several_times_fires_once_at_each() -> None:
    clock, rung = ManualBackground(), []

    def ring() -> None:
        rung.append(clock.now_s)
        alarm.set(10 * (clock.now_s // 10 + 1))

    alarm = Alarm(clock, ring)
    for time_s in (10, 7, 3, 5):
        alarm.set(time_s)
    clock.run_until(35)
    assert rung == [3, 10, 20, 30]
