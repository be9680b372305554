"""The broker of a run, for programs of the user who launched it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import aiomqtt

from innet.cluster.emulation.runs import RunRecord
from innet.errors import TelemetryError
from innet.settings import SETTINGS_NAME, Settings
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.door import DOOR_NAME, client_of, client_through


@dataclass(frozen=True, slots=True)
class RunBroker:
    """A broker and the way to it: the run's door, or from elsewhere the network."""

    url: BrokerUrl | None
    door: Path | None = None

    def client(self) -> aiomqtt.Client:
        """A client, not connected yet; call it inside an event loop."""
        if self.door is not None:
            return client_through(self.door, self.url)
        if self.url is None:
            raise TelemetryError("no broker: give the URL of one, or a run of this machine")
        return client_of(self.url)


def broker_of(record: RunRecord) -> RunBroker:
    """The broker that a run of this machine publishes to.

    Raises:
        TelemetryError: it has none.
    """
    if record.broker is None:
        raise TelemetryError(
            f"{record.run_id} runs without telemetry (--broker none). `innet status "
            f"{record.run_id} --watch` shows it all the same."
        )
    settings = Settings.load(record.run_dir / SETTINGS_NAME)
    url = BrokerUrl.of_setting(settings.telemetry.broker)
    return RunBroker(url, record.run_dir / DOOR_NAME)
