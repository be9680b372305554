"""Which requests the server of the live view answers; sans-IO.

Loopback alone does not keep web pages out. A page can have its own name resolved to 127.0.0.1 (DNS
rebinding): its name stands in the Host header. A page can send requests to 127.0.0.1: its origin
stands in the Origin header. Other users of the machine can connect, and serve pages at other ports
of the same name: they lack the token, which serves once, so that a link in a history or a
screenshot opens nothing. The session is a secret that the page's scripts keep for its origin and
send in a header: a cookie would be sent to the servers of all ports.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN_BYTES: Final = 24
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers of every response: load nothing from elsewhere, and let no other page embed this one."""


class Refused(Exception):
    """A request that is not served.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def _new_secret() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


@dataclass
class Access:
    """The token, the sessions and the names of one server.

    Attributes:
        scheme: ``http`` or ``https``.
        port: where it serves.
        host: a name or address beside loopback's that requests may be for, as addresses have it.
        token: in the link; serves once.
    """

    scheme: str
    port: int
    host: str | None = None
    token: str = field(default_factory=_new_secret, repr=False)
    _sessions: set[str] = field(default_factory=set, repr=False)
    _is_spent: bool = False

    @property
    def link(self) -> str:
        """The address to open; the part after ``#`` is never sent, and in no log."""
        return f"{self.scheme}://{self.host or _LOOPBACK[0]}:{self.port}/#token={self.token}"

    def check(self, headers: Mapping[str, str]) -> None:
        """Check that a request is for this server and from its own page.

        Args:
            headers: by names in lower case.

        Raises:
            Refused: it is not.
        """
        host = headers.get("host", "").lower()
        if host not in self._hosts():
            raise Refused(
                421,
                f"this server is not {host or 'without a name'!r}. Open the link that innet "
                "printed, by the name in it.",
            )
        origin = headers.get("origin")
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if (origin is not None and origin.lower() != f"{self.scheme}://{host}") or (
            foreign and headers.get("sec-fetch-mode") != "navigate"
        ):
            raise Refused(
                403, "the request comes from another page. Open the link that innet printed."
            )

    def check_own_page(self, headers: Mapping[str, str]) -> None:
        """Check a request that changes something: it has to name its origin."""
        self.check(headers)
        if "origin" not in headers:
            raise Refused(403, "the request names no origin. Use the page that innet serves.")

    def open_session(self, token: str) -> str:
        """Exchange the token for the secret of a session.

        Raises:
            Refused: the token is wrong, or has served before.
        """
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Refused(
                403, "the link is not of this server. Open the link that innet printed last."
            )
        if self._is_spent:
            raise Refused(
                403,
                "the link was opened before, and serves once. Run the command again for a new one.",
            )
        self._is_spent = True
        session = _new_secret()
        self._sessions.add(session)
        return session

    def check_session(self, session: str | None) -> None:
        """Check the secret of a session.

        Raises:
            Refused: this server opened no such session.
        """
        given = (session or "").encode()
        if not any(hmac.compare_digest(given, known.encode()) for known in self._sessions):
            raise Refused(
                401,
                "this tab has no session. Open the link that innet printed, or load this page "
                "again while a tab with a session is open.",
            )

    def _hosts(self) -> set[str]:
        names = _LOOPBACK if self.host is None else (*_LOOPBACK, self.host.lower())
        return {f"{name}:{self.port}" for name in names}
