"""Figures of one network: who sends what, and who adds."""

from __future__ import annotations

from typing import Final

from svg import BLUE, GREEN, GREY, INK, PALE_BLUE, Drawing, TextStyle

from innet.plans import Placed, Plan, Rule, bound_s, bytes_per_link, make_plan
from innet.topology import load_topology

STAR: Final = load_topology("star:4").with_overrides(rate_bps=10**9)
TENSOR_BYTES: Final = 16 << 20
_SUM: Final[TextStyle] = {"size": 15, "colour": GREEN, "bold": True}


def network_adds() -> Drawing:
    """Four hosts and the switch that adds their gradients."""
    plan = make_plan("inc", STAR)
    (rule,) = plan.rules
    sum_of = str(rule.interval)
    drawing = Drawing(
        820,
        372,
        "Four hosts send their gradients to a switch. The switch adds them, caches the sum under "
        "its name and sends it to every host.",
    )
    drawing.box(170, 28, 480, 104, fill=PALE_BLUE, stroke=BLUE, width=2)
    drawing.text(410, 52, f"switch {rule.node}", size=16, bold=True)
    added = " + ".join(f"g{operand.interval}" for operand in rule.operands)
    drawing.text(410, 82, f"Σ {sum_of} = {added}", size=21, bold=True, colour=GREEN)
    drawing.text(410, 103, "adds each segment when its four operands have arrived,", size=13)
    drawing.text(410, 121, "and caches the sum under its name", size=13)
    for rank, host in enumerate(plan.ranks):
        x = 100 + 206.7 * rank
        top = 410 + (x - 410) * 0.55
        drawing.box(x - 80, 252, 160, 66)
        drawing.text(x, 276, f"host {host}, rank {rank}", size=15, bold=True)
        drawing.text(x, 302, f"/job/g0/{rank}/sum.f32", size=12, is_name=True)
        drawing.line([(x - 16, 250), (top - 16, 138)], colour=BLUE, arrow=True)
        drawing.line([(top + 16, 134), (x + 16, 246)], colour=GREEN, arrow=True)
        middle = (x + top) / 2
        drawing.text(middle - 28, 196, f"g{rank}", colour=BLUE, anchor="end")
        drawing.text(middle + 28, 196, f"Σ {sum_of}", colour=GREEN, anchor="start", bold=True)
    drawing.text(215, 349, "Each gradient goes up its own link once.", colour=BLUE)
    drawing.text(
        590, 349, f"The sum /job/g0/{sum_of}/sum.f32 comes down each link once.", colour=GREEN
    )
    return drawing


def placements() -> Drawing:
    """The same sum of four ranks, placed by three algorithms."""
    drawing = Drawing(
        1000,
        412,
        "In-network aggregation adds on the switch, a ring adds along a chain of hosts, a "
        "parameter server adds on one host. The name of the result is the same.",
    )
    titles = {
        "inc": "in-network aggregation",
        "ring": "ring (one of 4 shards)",
        "ps": "parameter server",
    }
    for column, (algorithm, title) in enumerate(titles.items()):
        _panel(drawing, 14 + 326 * column, title, make_plan(algorithm, STAR))
    return drawing


def _panel(drawing: Drawing, left: float, title: str, plan: Plan) -> None:
    root = plan.roots[-1]
    x_of = {host: left + 46 + 76 * rank for rank, host in enumerate(plan.ranks)}
    drawing.text(left + 160, 34, title, size=17, bold=True)
    is_switch = root.node not in x_of
    drawing.box(
        left + 30,
        60,
        260,
        64,
        fill=PALE_BLUE if is_switch else "#ffffff",
        stroke=BLUE if is_switch else GREY,
    )
    drawing.text(left + 160, 84, "switch s0", bold=True)
    for host, x in x_of.items():
        drawing.line([(x, 124), (x, 190)], width=1, dashed=True)
        drawing.box(x - 33, 190, 66, 44)
        drawing.text(x, 217, host, bold=True)
    sums = _sums(plan, root)
    for rule in sums:
        _draw_operands(drawing, x_of, rule, left + 160)
    if not is_switch:
        for row, rule in enumerate(sums):
            drawing.text(left + 160, 296 + 19 * row, f"{rule.node}:  {_expression(rule)}", **_SUM)
    busiest = max(bytes_per_link(plan, STAR, TENSOR_BYTES).values()) / TENSOR_BYTES
    drawing.text(left + 160, 372, f"busiest link: {busiest:g} M", colour=INK, bold=True)
    took = bound_s(plan, STAR, TENSOR_BYTES)
    drawing.text(
        left + 160, 394, f"16 MiB at 1 Gbit/s: at least {took:.3f} s", size=13, colour=GREY
    )


def _sums(plan: Plan, root: Placed) -> list[Rule]:
    """The rules that lead to a root, the first to be evaluated first."""
    rules = {Placed(rule.interval, rule.node): rule for rule in plan.rules}
    found, pending = [], [root]
    while pending:
        if rule := rules.get(pending.pop()):
            found.append(rule)
            pending.extend(rule.operands)
    return found[::-1]


def _expression(rule: Rule) -> str:
    return f"{rule.interval} = {' + '.join(str(operand.interval) for operand in rule.operands)}"


def _draw_operands(drawing: Drawing, x_of: dict[str, float], rule: Rule, middle: float) -> None:
    """Arrows from the nodes of the operands to the node that adds them."""
    if rule.node not in x_of:
        drawing.text(middle, 110, _expression(rule), **_SUM)
    for operand in rule.operands:
        x = x_of[operand.node]
        if rule.node not in x_of:
            drawing.line([(x, 188), (x, 128)], colour=BLUE, arrow=True)
        elif operand.node != rule.node:
            to = x_of[rule.node]
            drawing.arc((x, 236), (to, 238), 14 + abs(to - x) / 6, colour=BLUE)
