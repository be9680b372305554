"""vLLM's connector, loaded by vLLM and driven by its own scheduler, on two hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

from vllm.config import VllmConfig

from innet.kv.adapters.vllm import connector
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.engine import BLOCK, CHUNK, Engine, make_config

PROMPT = [(7 * place) % 500 for place in range(4 * CHUNK + BLOCK + 1)]
"""Four chunks, a block and a token."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> VllmConfig:
    """Made once: vLLM imports the model's class in a process of its own for it."""
    return make_config(tmp_path_factory.mktemp("model"))


@pytest.fixture(params=[False, True], ids=["layer by layer", "between steps"])
def engines(
    request: pytest.FixtureRequest, config: VllmConfig, hosts: Hosts
) -> Iterator[tuple[Engine, Engine]]:
    """At hosts ``a`` and ``b``."""
    config.kv_transfer_config.kv_connector_extra_config["load_between_steps"] = request.param
    made = []
    for name in ("a", "b"):
        with hosts.at(name, connector):
            made.append(Engine(config))
    yield made[0], made[1]
    for engine in made:
        with hosts.at("a", connector):
            engine.close()


def test_what_one_engine_computes_another_loads(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    assert one.serve(PROMPT).computed_tokens == len(PROMPT)
    hosts.hosts["a"].settle()
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_prompt_that_goes_on_otherwise_loads_what_is_common(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    hosts.hosts["a"].settle()
    prompt = PROMPT[: 2 * CHUNK] + [501] * CHUNK
    served = other.serve(prompt)
    assert served.is_right
    assert served.computed_tokens == len(prompt) - 2 * CHUNK


def test_at_least_one_token_is_computed(hosts: Hosts, engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    prompt = PROMPT[: 2 * CHUNK]
    one.serve(prompt)
    hosts.hosts["a"].settle()
    served = other.serve(prompt)
    assert served.is_right
    assert served.computed_tokens == CHUNK


def test_what_the_engine_has_itself_is_not_loaded_again(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    hosts.hosts["a"].settle()
    # A block more than a chunk: the second chunk is loaded without its first block.
    other.serve(PROMPT[: CHUNK + BLOCK])
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def _forge(hosts: Hosts) -> None:
    hosts.home.forges = True


@pytest.mark.parametrize("fault", [_forge])
def test_a_poisoned_block_is_a_load_error_and_computed(
    hosts: Hosts, engines: tuple[Engine, Engine], fault: Callable[[Hosts], None]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    hosts.hosts["a"].settle()
    fault(hosts)
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens >= len(PROMPT)


def test_a_home_out_of_reach_is_a_miss(hosts: Hosts, engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    one.serve(PROMPT)
    hosts.hosts["a"].settle()
    hosts.home.reachable = False
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT)
