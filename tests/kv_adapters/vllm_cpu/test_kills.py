"""Engines, members and nodes of a standing pool are killed while vLLM servers answer over it.

Each answer is that of an engine that has computed the whole prompt, each arrives, and what was not
killed goes on.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.kv_adapters.running import require_vllm_for_processors

require_vllm_for_processors()

from tests.cluster.several_machines.machines import kill
from tests.kv_adapters.vllm_cpu.asks import LOADABLE, PROMPTS
from tests.kv_adapters.vllm_cpu.standing import ENGINES, StandingPool, on_machines, on_one_machine

_TIMEOUT_S: Final = 1800
"""Servers start in a minute, and much later beside other work."""


async def begin(pool: StandingPool) -> dict[int, str]:
    """Let both servers answer, the second one with what the first has computed; the answers."""
    for host in ENGINES:
        pool.serve(host)
    first = pool.ask(ENGINES[0])
    await first.answers_more(PROMPTS)
    computed = first.answers[:PROMPTS]
    assert [answer.loaded for answer in computed] == [0] * PROMPTS
    assert len({answer.text for answer in computed}) == PROMPTS, "equal answers would show nothing"
    await pool.ask(ENGINES[1]).loads_all_prompts()
    return {answer.prompt: answer.text for answer in computed}


async def kill_an_engine(pool: StandingPool, host: str) -> None:
    """The other one answers meanwhile; the restarted one loads what it had computed before."""
    kill(pool.servers[host])
    killed = pool.clients[host]
    await killed.finds_no_server()
    before = len(killed.answers)
    for other in {*ENGINES} - {host}:
        await pool.clients[other].answers_more()
    pool.serve(host)
    assert (await killed.answer_after(before)).loaded == LOADABLE


async def all_go_on(pool: StandingPool) -> None:
    """Both servers answer, and after some recomputation load again."""
    for client in pool.clients.values():
        await client.answers_more()
    for client in pool.clients.values():
        await client.loads_all_prompts()


def check_answers(pool: StandingPool, expected: dict[int, str]) -> None:
    """All of them were the right ones, whatever happened meanwhile."""
    for client in pool.clients.values():
        assert {answer.text == expected[answer.prompt] for answer in client.answers} == {True}


@pytest.mark.timeout(_TIMEOUT_S)
async def test_on_two_hosts_what_is_not_killed_goes_on_with_the_right_answers() -> None:
    async with on_one_machine() as pool:
        expected = await begin(pool)
        for node in (
            "h1.0",  # the member on an engine's host
            "h3.0",  # a home without an engine
            "h2",  # what connects an engine and a member to the others
        ):
            pool.process(node).kill()
            await all_go_on(pool)
        await kill_an_engine(pool, "h1")
        check_answers(pool, expected)


@pytest.mark.netns
@pytest.mark.timeout(_TIMEOUT_S)
async def test_on_machines_what_is_not_killed_goes_on_with_the_right_answers() -> None:
    async with on_machines() as pool:
        expected = await begin(pool)
        pool.process("h1.0").kill()
        await all_go_on(pool)
        kill(pool.agents["h3"])  # and all that it has started
        await all_go_on(pool)
        pool.join_machine("h3")
        await all_go_on(pool)
        check_answers(pool, expected)
