"""The MQTT broker of a run: ``embedded``, ``none`` or a URL."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from innet.errors import TelemetryError

EMBEDDED: Final = "embedded"
NONE: Final = "none"

_DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
_EXPECTED = "write embedded, none, or mqtt[s]://[user:password@]host[:port]"


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """An MQTT broker and how to log in to it.

    >>> BrokerUrl.parse("mqtts://ann:s%40me@broker.example")
    BrokerUrl(host='broker.example', port=8883, tls=True, username='ann')
    """

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = None

    @classmethod
    def parse(cls, text: str) -> BrokerUrl:
        """Read a URL."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            # The error would show what it takes for a port or a host: a password with a slash.
            raise TelemetryError(
                f"the broker's URL is malformed: its port is no number up to 65535, or its "
                f"password has characters that are not percent-encoded; {_EXPECTED}"
            ) from None
        if parts.scheme not in _DEFAULT_PORTS:
            raise TelemetryError(
                f"a broker cannot be reached by {parts.scheme or 'no scheme'!r}; {_EXPECTED}"
            )
        if not parts.hostname:
            raise TelemetryError(f"the broker's URL names no host; {_EXPECTED}")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise TelemetryError(f"a broker's URL ends with its port; {_EXPECTED}")
        return cls(
            host=parts.hostname,
            port=port or _DEFAULT_PORTS[parts.scheme],
            tls=parts.scheme == "mqtts",
            username=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
        )

    @classmethod
    def of_setting(cls, broker: str) -> BrokerUrl | None:
        """The broker that ``telemetry.broker`` names; ``None`` for the embedded one."""
        return None if broker == EMBEDDED else cls.parse(broker)

    def tls_context(self) -> ssl.SSLContext | None:
        """Verifies the broker by the system's authorities, or those in ``SSL_CERT_FILE``."""
        return ssl.create_default_context() if self.tls else None

    def __str__(self) -> str:
        """The URL as it may be shown: without the password."""
        login = "" if self.username is None else f"{quote(self.username, safe='')}@"
        scheme = "mqtts" if self.tls else "mqtt"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{login}{host}:{self.port}"

    def __repr__(self) -> str:
        who = "" if self.username is None else f", username={self.username!r}"
        return f"BrokerUrl(host={self.host!r}, port={self.port}, tls={self.tls}{who})"
