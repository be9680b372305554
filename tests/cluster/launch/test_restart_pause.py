"""A process that dies again and again is started again less and less eagerly, but it is."""

from innet.cluster.launch.supervision import pause_before_restart_s


def test_pauses_double_up_to_a_few_seconds():
    pauses = [pause_before_restart_s(0.2, number) for number in range(1, 5000)]
    assert pauses[:3] == [0.2, 0.4, 0.8]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5.0


def test_a_longer_first_pause_is_kept():
    assert pause_before_restart_s(60.0, 7) == 60.0
