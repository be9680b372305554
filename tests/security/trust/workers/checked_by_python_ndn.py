"""A job whose rank 0 checks what all nodes sign as a program of python-ndn would: from the anchor.

It knows the policy file, the groups' plans and the anchor, and gets packets and certificates from
the node of its host.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from Cryptodome.PublicKey import ECC
from Cryptodome.Signature import eddsa
from ndn.app_support.light_versec import Checker, compile_lvs
from ndn.app_support.light_versec.checker import DEFAULT_USER_FNS
from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import InterestParam, Name, SignatureType, parse_data

import innet
from innet.cluster.emulation.runs import find_run
from innet.cluster.run_status import group_facts
from innet.ndn import Client, ReceivedData, encode_interest
from innet.ndn.certificates import certificate_fetch
from innet.node.node_config import RUN_ID_VARIABLE
from innet.security import NodeKeys
from innet.security.keys import KEYS_VARIABLE
from innet.security.trust import Certificate, Policy, PolicyValidator, PrivateKey, sign_data
from innet.security.trust.facts import functions_of
from innet.security.trust.names import name_of
from innet.security.trust.policy_source import read_policy

TIMEOUT_MS = 20_000


class PythonNdn:
    """Fetches by python-ndn, and believes what its LightVerSec checker and the anchor allow."""

    def __init__(self, app: NDNApp, checker: Checker, anchor: bytes) -> None:
        self._app = app
        self._checker = checker
        self._anchor = anchor

    async def fetch(self, name: str, node: str | None = None) -> bytes:
        """The packet of that name, where ``node`` says so from there."""
        options: dict[str, Any] = {} if node is None else {"forwarding_hint": [f"/n/{node}"]}
        param = InterestParam(lifetime=TIMEOUT_MS, **options)
        _, _, context = await self._app.express(name, pass_all, interest_param=param)
        return bytes(context["raw_packet"])

    async def believe(self, packet: bytes) -> None:
        """Follow the certificates from a packet up to the anchor; all by the policy."""
        name, _, _, signature = parse_data(packet)
        locator = signature.signature_info.key_locator.name
        allowed = self._checker.check(name, locator)
        assert allowed, f"{Name.to_str(name)} may not be signed by {Name.to_str(locator)}"
        anchor_name, _, anchor_key, _ = parse_data(self._anchor)
        key_bits = anchor_key
        if [bytes(part) for part in locator] != [bytes(part) for part in anchor_name]:
            certificate = await self.fetch(Name.to_str(locator))
            await self.believe(certificate)
            _, _, key_bits, _ = parse_data(certificate)
        assert signature.signature_info.signature_type == SignatureType.ED25519
        message = b"".join(bytes(part) for part in signature.signature_covered_part)
        key = eddsa.new(ECC.import_key(bytes(key_bits)), "rfc8032")
        key.verify(message, bytes(signature.signature_value_buf))


def exported_anchor(run_id: str) -> bytes:
    """What the command says that a user takes."""
    command = [sys.executable, "-m", "innet", "trust", "anchor", "--run", run_id]
    return subprocess.run(command, capture_output=True, check=True).stdout


async def check_by_python_ndn(names: dict[str, str], checker: Checker, anchor: bytes) -> None:
    """Each name, with the node to ask for it."""
    app = NDNApp()
    checked = asyncio.Event()

    async def check() -> None:
        client = PythonNdn(app, checker, anchor)
        for name, node in names.items():
            await client.believe(await client.fetch(name, node))
        checked.set()
        app.shutdown()

    await app.main_loop(check())
    assert checked.is_set()


async def check_by_our_validator(
    name: str, node: str, policy: Policy, anchor: Certificate, stolen: ReceivedData
) -> None:
    """It believes the packet until its certificate expires, and never one of another's name."""
    async with Client() as client:

        def validator_at(time: datetime) -> PolicyValidator:
            return PolicyValidator(
                policy, [anchor], fetch=certificate_fetch(client), now=lambda: time
            )

        validator = validator_at(datetime.now(UTC))
        reply = await client.exchange(
            encode_interest(name, forwarding_hint=f"/n/{node}", lifetime_s=20)
        )
        packet = reply.data
        believed = await validator.judge(packet)
        assert believed.is_valid, believed.reason
        refused = await validator.judge(stolen)
        assert "does not hold for h0" in refused.reason, refused.reason
        late = await validator_at(anchor.validity.not_after + timedelta(seconds=1)).judge(packet)
        assert "has expired" in late.reason, late.reason


def signed_by_this_rank(name: str) -> ReceivedData:
    """A packet of that name, truly signed with the key of this rank."""
    key = NodeKeys.load(Path(os.environ[KEYS_VARIABLE])).objects
    private = PrivateKey.from_raw_ed25519(bytes.fromhex(key.secret))
    return sign_data(name_of(name), b"another sum", private, name_of(key.name))


def main() -> None:
    with innet.init(algorithm="inc") as comm:
        comm.allreduce(np.full(64, comm.rank, np.float32))
        if comm.rank == 0:
            comm.publish("model", b"weights")
            run = find_run(os.environ[RUN_ID_VARIABLE])
            facts = group_facts(run)
            (group,) = (prefix for prefix in facts if prefix.endswith(".inc"))
            text = exported_anchor(run.run_id)
            anchor = Certificate.from_text(text)
            checker = Checker(
                compile_lvs(read_policy("job")[0]), {**DEFAULT_USER_FNS, **functions_of(facts)}
            )
            names = {
                f"{group}/0/sum.f32/seq=0/seg=0": "h0",
                f"{group}/1/sum.f32/seq=0/seg=0": "h1",
                f"{group}/0-1/sum.f32/seq=0/seg=0": "s0",
                f"{group}/obj/0/model/32=manifest/seg=0": "h0",
            }
            asyncio.run(check_by_python_ndn(names, checker, anchor.wire))
            of_rank_1 = f"{group}/1/sum.f32/seq=0/seg=0"
            stolen = signed_by_this_rank(of_rank_1)
            assert not checker.check(Name.from_str(of_rank_1), Name.from_str(str(stolen.key_name)))
            policy = Policy.load("job", facts)
            asyncio.run(check_by_our_validator(of_rank_1, "h1", policy, anchor, stolen))
            print("all are believed")
        comm.barrier()


main()
