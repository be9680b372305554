"""An NDNts application (``ndnts/peer.mjs``) that a test tells what to do."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from innet.ndn.address import FaceAddress

_FOLDER = Path(__file__).parent / "ndnts"


def missing() -> str | None:
    """Why NDNts cannot run here; ``None`` when it can."""
    if shutil.which("node") is None:
        return "Node.js is not installed (apt-get install nodejs npm)"
    if not (_FOLDER / "node_modules" / "@ndn" / "svs").is_dir():
        return "NDNts is not installed, or an older part of it (make interop)"
    return None


class NdntsPeer:
    """A running application, connected to the node at ``uri``.

    Attributes:
        public_key: of the ECDSA key named ``key`` that it signs its registrations with
            (SubjectPublicKeyInfo); empty without one.
    """

    def __init__(self, uri: str, key: str | None = None) -> None:
        self._key = key
        self.public_key = b""
        address = FaceAddress.parse(uri)
        self._address = (
            f"unix:{address.path}"
            if address.scheme == "unix"
            else f"{address.scheme}:{address.host}:{address.port}"
        )
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            "node",
            str(_FOLDER / "peer.mjs"),
            self._address,
            *(() if self._key is None else (self._key,)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        ready = await self._answer()
        assert ready["ready"]
        self.public_key = bytes.fromhex(ready["spki"])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def do(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Its answer to ``command``."""
        assert self._process is not None
        assert self._process.stdin is not None
        line = json.dumps({"do": command, **arguments}) + "\n"
        self._process.stdin.write(line.encode())
        answer = await self._answer()
        assert "error" not in answer, answer["error"]
        return answer

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer
