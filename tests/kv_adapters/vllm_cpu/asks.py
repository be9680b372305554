"""Asks a vLLM server the same prompts in turn, without its own cache, and prints each answer.

    python asks.py PORT MODEL

A line is ``answered``, the prompt's number, the tokens that the server has loaded for it and the
answer; or ``down`` when the server does not run, ``failed`` when it answers with an error, and
``late`` when it does not answer in time.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import time
import urllib.error
import urllib.request
from typing import Final

PROMPTS: Final = 4
WORDS: Final = 600
LOADABLE: Final = 512
"""Tokens of a prompt in whole chunks of the default size."""
BOUND_S: Final = 120.0
"""A request that takes longer hangs, however slow the machine is."""
_LEAST_SPELLED: Final = 2
"""Words of the model before this one have other names."""
_HITS: Final = "vllm:external_prefix_cache_hits_total{"
_PAUSE_S: Final = 0.3
"""Between requests, so that a server that starts gets processor time."""


def prompt(number: int) -> str:
    """A prompt with no prefix in common with those of other numbers."""
    first = 7 + 2 * number
    return " ".join(f"w{(first * (place + 1)) % 251 + _LEAST_SPELLED}" for place in range(WORDS))


class Server:
    """A server of this machine."""

    def __init__(self, port: str, model: str) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._model = model

    def answer(self, number: int) -> str:
        """The line of a prompt that is answered."""
        before = self._loaded_tokens()
        self._request("/reset_prefix_cache", {})
        body = {
            "model": self._model,
            "prompt": prompt(number),
            "max_tokens": 16,
            "temperature": 0,
            "ignore_eos": True,
        }
        answer = json.loads(self._request("/v1/completions", body))
        loaded, text = self._loaded_tokens() - before, answer["choices"][0]["text"]
        return f"answered {number} {loaded} {text.strip()}"

    def _loaded_tokens(self) -> int:
        lines = self._request("/metrics").splitlines()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(_HITS))

    def _request(self, path: str, body: dict[str, object] | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
            return str(answer.read().decode())


def asked(server: Server, number: int) -> str:
    """What became of a prompt."""
    try:
        return server.answer(number)
    except TimeoutError:
        return f"late {number}"
    except urllib.error.HTTPError as error:
        return f"failed {number} {error.code} {error.read()!r}"
    except (OSError, http.client.HTTPException):
        return "down"


def main() -> None:
    """Ask until this process is ended."""
    server = Server(*sys.argv[1:])
    for number in itertools.cycle(range(PROMPTS)):
        line = "down"
        while line == "down":
            time.sleep(_PAUSE_S)
            line = asked(server, number)
            print(line, flush=True)


if __name__ == "__main__":
    main()
