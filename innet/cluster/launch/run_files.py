"""The files of a run that its processes read: settings, keys and jobs, and their paths."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

from innet.cluster.control.jobs import Job
from innet.cluster.emulation.local_fabric import (
    has_memory_links,
    has_only_memory,
    with_windows_of_memory,
)
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.runs import writing_into
from innet.cluster.emulation.segmentation import (
    block_segment_bytes,
    bulk_segment_bytes,
    segment_bytes,
)
from innet.ndn.address import INNET_VARIABLE, NDN_VARIABLE
from innet.node.command_keys import load_command_certificate
from innet.node.controller_client import CONTROLLER_SOCKET_NAME
from innet.node.messages import job_of
from innet.plans import ProcessorCosts
from innet.private_files import write_private
from innet.security.key_dealer import Authorities, KeyDealer
from innet.security.keys import CERTIFICATES_SUFFIX, KEYS_VARIABLE, OPERATOR_KEY_NAME, OperatorKey
from innet.security.trust.keys import PublicKey
from innet.settings import SETTINGS_VARIABLE, SecuritySettings, Settings
from innet.topology.credit import with_timers_for
from innet.worker.job_file import JOB_VARIABLE, JobFile, OnDeath


class RunFiles:
    """Writes the files of a run into its directory, and passes their paths to processes."""

    def __init__(self, network: Network, settings: Settings) -> None:
        """The network need not be up yet."""
        self._network = network
        self._settings = settings

    def keys_path(self, node: str) -> Path:
        """The keys of a switch, or of the rank on a host."""
        return self._network.run_dir / f"{node}.keys"

    def certificates_path(self, job: Job) -> Path:
        """The certificates of a job's ranks."""
        return self._network.run_dir / f"{job.name}{CERTIFICATES_SUFFIX}"

    def node_variables(self) -> dict[str, str]:
        """Variables that name the settings file, for every node."""
        return {SETTINGS_VARIABLE: str(self._network.settings_path), "PYTHONUNBUFFERED": "1"}

    def switch_variables(self, switch: str) -> dict[str, str]:
        """Variables that name the settings and keys of a switch."""
        return {**self.node_variables(), KEYS_VARIABLE: str(self.keys_path(switch))}

    def worker_variables(self, node: str, job_path: Path) -> dict[str, str]:
        """Variables that name the job, settings and keys of a node's worker."""
        return {
            SETTINGS_VARIABLE: str(self._network.settings_path),
            **self._ndn_environment(node),
            JOB_VARIABLE: str(job_path),
            KEYS_VARIABLE: str(self.keys_path(node)),
        }

    def _ndn_environment(self, node: str) -> dict[str, str]:
        """Variables in which NDN programs, also foreign ones, find the forwarder of their host."""
        if not self._settings.ndn.unix:
            return {}
        uri = f"unix://{self._network.config(node).ndn_socket}"
        return {INNET_VARIABLE: uri, NDN_VARIABLE: uri}

    def write(self, authority: PublicKey) -> KeyDealer:
        """Write settings, the operator's key and the switches'; returns the dealer of job keys."""
        settings = with_timers_for(self._network.topology, self._settings)
        if has_only_memory(self._network.topology, self._network.mode, settings):
            settings = with_windows_of_memory(settings)
        write_private(self._network.settings_path, settings.model_dump_json(indent=2))
        operator = OperatorKey.generate()
        operator.save(self._network.run_dir / OPERATOR_KEY_NAME)
        security = self._settings.security
        dealer = KeyDealer(
            self._network.topology.switches,
            security.signature,
            authorities=Authorities(
                operator.public,
                authority.spki.hex(),
                [
                    load_command_certificate(path, datetime.now(UTC))
                    for path in self._settings.ndn.commands_by
                ],
            ),
            policy=_policy_text(security),
            key_lifetime_s=security.key_lifetime_s,
        )
        for switch, keys in dealer.switches.items():
            keys.save(self.keys_path(switch))
        return dealer

    def write_job(
        self, job: Job, on_worker_death: OnDeath, processor: ProcessorCosts | None
    ) -> Path:
        """Write the file that describes a job to its ranks."""
        slowest = self._network.topology.slowest_link_bps
        described = JobFile(
            name=job_of(job.prefix),
            ranks=job.hosts,
            topology=self._network.topology.model_dump_json(),
            slowest_link_bps=slowest if math.isfinite(slowest) else None,
            segment_bytes=segment_bytes(
                self._network.topology,
                in_memory=has_memory_links(self._network.mode, self._settings),
            ),
            bulk_segment_bytes=bulk_segment_bytes(self._network.topology, self._network.mode),
            block_segment_bytes=block_segment_bytes(self._network.topology, self._network.mode),
            controller_socket=Path(CONTROLLER_SOCKET_NAME),
            certificates=Path(self.certificates_path(job).name),
            on_worker_death=on_worker_death,
            processor=processor,
        )
        path = self._network.run_dir / f"{job.name}.job"
        with writing_into(self._network.run_dir):
            path.write_text(described.model_dump_json(indent=2))
        return path


def _policy_text(security: SecuritySettings) -> str | None:
    """The policy of a run's jobs, checked.

    Raises:
        PolicyError: it cannot be read; with line and column.
    """
    if security.signature != "ed25519":
        return None
    from innet.security.trust.policy_source import compile_policy, read_policy

    text, path = read_policy(security.policy)
    compile_policy(text, path)
    return text
