"""Starts the controller's publisher, if the run has a broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from innet.settings import TelemetrySettings
from innet.telemetry.broker_url import NONE, BrokerUrl
from innet.telemetry.messages import ControllerStatus, State
from innet.telemetry.service_source import ServiceSource
from innet.telemetry.topics import CONTROLLER, controller_topics


class ControllerSource(ServiceSource):
    """The source of the controller of a run."""

    def __init__(self, run: str, generation: int) -> None:
        """``generation`` counts how often the controller was started again."""
        super().__init__(run, CONTROLLER, controller_topics(run))
        self._generation = generation

    def status(self, state: State) -> bytes:
        """The payload of its status."""
        return ControllerStatus(
            run=self.run,
            state=state,
            pid=os.getpid(),
            since_s=self.since_s,
            generation=self._generation,
        ).payload()


class ControllerTelemetry:
    """The controller's telemetry, as a context manager; nothing at all without a broker."""

    def __init__(
        self, source: ControllerSource, run_dir: Path, settings: TelemetrySettings
    ) -> None:
        """
        Args:
            source: what is published.
            run_dir: where the way to the broker is.
            settings: of the run, with the broker that the launcher has opened.
        """
        self._publisher = None
        if settings.broker == NONE:
            return
        from innet.telemetry.door import DOOR_NAME
        from innet.telemetry.publisher import Publisher

        url = BrokerUrl.of_setting(settings.broker)
        self._publisher = Publisher(source, run_dir / DOOR_NAME, url)

    def __enter__(self) -> Self:
        """Begin to publish, in the background."""
        if self._publisher is not None:
            self._publisher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Say that the controller ends in order."""
        if self._publisher is not None:
            self._publisher.stop()
