"""Sums of running groups move away from links that another job fills."""

from __future__ import annotations

from collections import defaultdict

import pytest

from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import KnownJob, LaunchRecord
from innet.cluster.control.load_watch import LoadWatch
from innet.errors import PlanError
from innet.kv.tenant import Tenant
from innet.node.messages import GroupReport, NodeReading, WorkerReport
from innet.plans import Plan, ProcessorCosts, make_plan
from innet.settings import PlacementSettings, Settings
from innet.topology import load_topology
from innet.topology.routes import Routes
from tests.cluster.control.hand_driven import HandDriven
from tests.plans.test_processor import costs_of

TOPOLOGY = load_topology("leaf-spine:2x2x4").with_overrides(rate_bps=1e8)
HOSTS = ("h0", "h1", "h4", "h5")
OTHERS = ("h2", "h3", "h6", "h7")
OWN_BPS = 2e7


class MeasuredNetwork(HandDriven):
    """Two jobs, of which one has a group; each node reports rates that a test sets."""

    def __init__(self, processor: ProcessorCosts | None = None, **placement: object) -> None:
        settings = Settings(placement=PlacementSettings.model_validate(placement))
        super().__init__(Controller(TOPOLOGY, settings=settings, processor=processor))
        self.busy: dict[str, float] = {}
        self.rates_bps: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._sent_bytes: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._counted_s = 0.0
        self.reading_of = self._reading
        self.open_job(OTHERS)
        self.open_job(HOSTS)
        self.incarnations = {host: self.attach(host, pid) for pid, host in enumerate(HOSTS)}
        for host in HOSTS:
            self.join_group("g0", "inc", list(HOSTS), host)
        self.watch_nodes()
        for link in TOPOLOGY.links:
            for near, far in (link.nodes, reversed(link.nodes)):
                is_own = near in HOSTS or far in HOSTS
                between = near not in TOPOLOGY.hosts and far not in TOPOLOGY.hosts
                self.rates_bps[near, far] = OWN_BPS if is_own else OWN_BPS / 2 * between

    def placed(self) -> Plan:
        """The plan of the group as it is placed now."""
        (group,) = self.plans()
        ((_, placed),) = group["plans"].values()
        return Plan.from_dict(placed)

    def moves(self) -> int:
        """How often sums have moved."""
        return sum(report.kind == "sums_moved" for report in self.reports)

    def _reading(self, node: str) -> NodeReading:
        passed_s, self._counted_s = self.now_s - self._counted_s, self.now_s
        for link, rate_bps in self.rates_bps.items():
            self._sent_bytes[link] += rate_bps * passed_s / 8
        sent = {to: int(n) for (source, to), n in self._sent_bytes.items() if source == node}
        cpu_s = self.busy.get(node, 0.0) * self.now_s
        return NodeReading(time_s=self.now_s, cpu_s=cpu_s, sent_bytes=sent)


def roots(plan: Plan) -> list[str]:
    return sorted(root.node for root in plan.roots)


def test_sums_move_when_another_job_fills_a_link_for_long_and_keep_their_expression():
    network = MeasuredNetwork(interval_s=2, confirmations=3)
    before = network.placed()
    network.pass_time(20)
    assert roots(before) == roots(network.placed()) == ["spine0", "spine1"]
    network.rates_bps["leaf0", "spine0"] = 95e6
    network.pass_time(24)
    assert network.moves() == 0, "a burst moves nothing"
    network.pass_time(32)
    after = network.placed()
    assert network.moves() == 1
    assert roots(after) == ["spine1"]
    assert all(after.expression(i) == before.expression(i) for i in before.intervals)
    placed = network.told_by("place_group")
    assert set(placed) == set(HOSTS)
    assert "spine1" in {node for node, method, _ in network.told[-40:] if method == "install_group"}


def test_sums_return_once_the_link_is_free_but_not_before_the_pause():
    network = MeasuredNetwork(interval_s=1, confirmations=1, pause_s=100)
    network.rates_bps["leaf0", "spine0"] = 95e6
    network.rates_bps["leaf0", "h0"] = network.rates_bps["h0", "leaf0"] = OWN_BPS
    network.pass_time(10)
    assert roots(network.placed()) == ["spine1"]
    # the load moves to the other spine
    network.rates_bps["leaf0", "spine0"], network.rates_bps["leaf0", "spine1"] = 0.0, 99e6
    network.pass_time(90)
    assert network.moves() == 1
    network.pass_time(120)
    assert network.moves() == 2
    assert roots(network.placed()) == ["spine0"]


@pytest.mark.parametrize(("moves", "expected"), [(True, ["spine1"]), (False, ["spine0", "spine1"])])
def test_a_restarted_controller_leaves_movable_sums_in_place(moves, expected):
    network = MeasuredNetwork(interval_s=1, confirmations=1)
    network.rates_bps["leaf0", "spine0"] = 95e6
    network.pass_time(10)
    ((prefix, (made, placed)),) = network.plans()[0]["plans"].items()
    group = GroupReport(
        name="g0",
        number=1,
        algorithm="inc",
        ranks=HOSTS,
        plans={prefix: made},
        placed={prefix: placed},
        ready=True,
        left=False,
        failure=None,
    )

    def answer(node: str, method: str, _params: object) -> object:
        if method != "memberships" or node not in HOSTS:
            return None
        worker = WorkerReport(node=node, pid=1, incarnation=1, failed=None, groups=[group])
        return worker.model_dump()

    jobs = {network.job.name: KnownJob(job=network.job)}
    successor = HandDriven(
        Controller(
            TOPOLOGY,
            settings=Settings(placement=PlacementSettings(moves=moves)),
            record=LaunchRecord(generation=1, jobs=jobs),
        ),
        answer,
    )
    ((_, placed),) = successor.plans()[0]["plans"].values()
    assert roots(Plan.from_dict(placed)) == expected
    rules = {n: params["rules"] for n, params in successor.told_by("install_group").items()}
    assert [spine for spine in ("spine0", "spine1") if spine in rules] == expected


def test_sums_move_away_from_a_switch_that_another_job_keeps_busy():
    adding = costs_of(added_byte_s=3e-8, shared=False, segment_bytes=8192)
    network = MeasuredNetwork(adding, interval_s=1, confirmations=1)
    for leaf in ("leaf0", "leaf1"):  # not more than half of a link
        network.rates_bps[leaf, "spine0"] = network.rates_bps["spine0", leaf] = 50e6
    network.pass_time(10)
    assert network.moves() == 0
    network.busy["spine0"] = 1.0
    network.pass_time(20)
    assert roots(network.placed()) == ["spine1"]


@pytest.mark.parametrize("own_bps", [0.0, OWN_BPS])
def test_a_group_does_not_move_because_of_its_own_traffic_or_when_idle(own_bps):
    network = MeasuredNetwork(interval_s=1, confirmations=1)
    for link in network.rates_bps:
        network.rates_bps[link] = network.rates_bps[link] * own_bps / OWN_BPS * 4.5
    if not own_bps:
        network.rates_bps["leaf0", "spine0"] = 95e6
    network.pass_time(30)
    assert network.moves() == 0


def test_traffic_of_a_job_on_its_hosts_links_does_not_count_as_load():
    watch = LoadWatch(TOPOLOGY, 1)
    plan = make_plan("inc", TOPOLOGY, HOSTS, roots=["spine0"])
    own = {("leaf0", "spine0"): 4e7, ("h0", "leaf0"): 4e7, ("h1", "leaf0"): 4e7}
    others = {("leaf0", "spine0"): 3e7}
    for time_s in (0, 2):
        for node in ("leaf0", "h0", "h1", "h4", "h5"):
            sent = {
                to: int((own.get((node, to), 0) + others.get((node, to), 0)) * time_s / 8)
                for to in TOPOLOGY.links_of[node]
            }
            if node in ("h4", "h5"):
                sent["leaf1"] = int(4e7 * time_s / 8)
            watch.on_reading(node, NodeReading(time_s=time_s, cpu_s=time_s / 2, sent_bytes=sent))
    told = watch.own_traffic([plan], Routes(TOPOLOGY))
    assert told["leaf0", "spine0"] == pytest.approx(4e7)
    load = watch.load(told)
    assert load.link_bps == {"leaf0": {"spine0": pytest.approx(3e7)}}
    # of half a core, the part that is others' of what goes through
    assert load.processor["leaf0"] == pytest.approx(0.5 * 3 / 15, abs=0.01)
    assert watch.load({}).link_bps["leaf0"]["spine0"] == pytest.approx(7e7)


def test_the_traffic_of_a_host_with_several_links_is_their_sum():
    topology = load_topology("rails:4x2").with_overrides(rate_bps=1e8)
    watch = LoadWatch(topology, 1)
    for time_s in (0, 2):
        for node in topology.hosts:
            sent = dict.fromkeys(("r0", "r1"), int(4e7 * time_s / 8))
            watch.on_reading(node, NodeReading(time_s=time_s, cpu_s=0, sent_bytes=sent))
    told = watch.own_traffic([make_plan("inc", topology, ("h0", "h1"))], Routes(topology))
    assert told == {
        ends: pytest.approx(4e7)
        for host in ("h0", "h1")
        for rail in ("r0", "r1")
        for ends in ((host, rail), (rail, host))
    }
    assert set(watch.load(told).link_bps) == {"h2", "h3"}


def test_a_setting_or_a_named_root_prevents_moves():
    for algorithm, moves in (("inc", False), ("inc:roots=spine0+spine1", True)):
        network = MeasuredNetwork(interval_s=1, confirmations=1, moves=moves)
        if ":" in algorithm:
            for host in HOSTS:
                network.leave_groups([("g0", 1)], host)
            for host in HOSTS:
                network.join_group("g0", algorithm, list(HOSTS), host)
        network.rates_bps["leaf0", "spine0"] = 95e6
        network.pass_time(30)
        assert network.moves() == 0


def test_a_new_job_gets_the_free_hosts_below_the_least_used_switches():
    network = MeasuredNetwork()
    network.rates_bps["leaf0", "spine0"] = network.rates_bps["leaf0", "spine1"] = 95e6
    network.pass_time(10)
    load = network.load()
    assert load["load"]["link_bps"]["leaf0"]["spine0"] == pytest.approx(95e6, rel=0.01)
    assert set(load["jobs"]) == {"j1", "j2"}
    network.close_job(network.job)
    job = network.admit_job(None, None, 1, 2)
    assert job.hosts == ("h4", "h5")


def test_a_pool_member_behind_busy_links_is_home_to_fewer_blocks():
    network = MeasuredNetwork()
    tenant = Tenant("acme", bytes(range(32)))
    part = {
        "tenant": tenant.component,
        "key": tenant.public_key.model_dump(),
        "capacity_bytes": 1000,
        "weight": 1,
    }
    network.pass_time(10)
    network.open_pool("h4", network.incarnations["h4"], **part)
    for spine in ("spine0", "spine1"):
        network.rates_bps[spine, "leaf0"] = 98e6
    network.pass_time(20)
    for host in ("h0", "h5"):
        network.open_pool(host, network.incarnations[host], **part)
    expected = {"h4": 1000, "h0": 250, "h5": 1000}
    assert network.pool_members(tenant.component) == expected
    network.rates_bps.clear()
    network.pass_time(40)
    assert network.pool_members(tenant.component) == expected


def test_the_next_group_is_planned_around_the_load_on_all_its_ranks():
    network = MeasuredNetwork()
    network.rates_bps["leaf0", "spine0"] = 95e6
    network.pass_time(10)
    answers = [network.join_group("g1", "auto", list(HOSTS), host) for host in HOSTS]
    assert len({str(answer["load"]) for answer in answers}) == 1
    assert answers[0]["load"]["link_bps"]["leaf0"]["spine0"] > 8e7
    (inc,) = (plan for plan in answers[0]["plans"].values() if plan["algorithm"] == "inc")
    assert [node for _, node in inc["roots"]] == ["spine1"]


def test_a_job_gets_no_hosts_behind_a_lost_switch():
    network = HandDriven(Controller(TOPOLOGY))
    network.lose_switch("leaf0", "leaf0 was killed", returns=True)
    assert network.load()["out_of_reach"] == ["h0", "h1", "h2", "h3"]
    assert network.admit_job(None, ranks=4).hosts == ("h4", "h5", "h6", "h7")
    with pytest.raises(PlanError, match="has 0: jobs run on the other 8, or no path leads there"):
        network.admit_job(None, ranks=1)
    network.restore_switch("leaf0")
    assert network.admit_job(None, ranks=4).hosts == ("h0", "h1", "h2", "h3")


def test_a_host_counts_as_late_while_nodes_report_it():
    watch = LoadWatch(TOPOLOGY, 1)
    watch.on_reading("h1", NodeReading(time_s=1, cpu_s=0, late=("rank 0 (h0)",)))
    assert watch.take_late_labels() == {"rank 0 (h0)"}
    assert watch.take_late_labels() == set(), "h1 has ended, and waits for nobody"


def test_sums_return_to_their_planned_places():
    network = MeasuredNetwork(interval_s=1, confirmations=1, pause_s=0)
    network.rates_bps["leaf0", "spine0"] = 95e6
    network.pass_time(10)
    assert roots(network.placed()) == ["spine1"]
    # the other job uses a part of the other link: each spine can make half of the sums
    network.rates_bps["leaf0", "spine0"], network.rates_bps["leaf0", "spine1"] = 0.0, 55e6
    network.pass_time(30)
    ((made, placed),) = network.plans()[0]["plans"].values()
    assert placed == made
