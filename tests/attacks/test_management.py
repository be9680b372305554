"""Commands of who has no right to give them: refused, and counted."""

from __future__ import annotations

from innet._native import _core
from innet.ndn.wire import encode_interest, parse_data
from innet.observe.packets.names import name_value
from innet.security.signers import DigestSigner, HmacSigner, Signer
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

_SECRET = b"the operator's secret"
_FORBIDDEN = 403
_STATUS_CODE = 0x66
_CONTROL_RESPONSE = 0x65


def registration(signer: Signer) -> bytes:
    """The Interest that registers ``/stolen``, in the shape of packet format v0.3."""
    parameters = _core.encode_element(0x68, _core.encode_element(0x07, name_value("/stolen")))
    name = _core.Name("/localhost/nfd/rib/register").append(8, parameters)
    return encode_interest(name, signer=signer, parameters=b"")


def status_code(by: Neighbour) -> int:
    """The code of the ControlResponse that comes."""
    _, packet = by.receive("data")
    ((kind, value),) = _core.read_elements(parse_data(packet).content)
    assert kind == _CONTROL_RESPONSE
    return next(_core.read_number(v) for k, v in _core.read_elements(value) if k == _STATUS_CODE)


def management_counter(node: NodeAmongStrangers, name: str) -> int:
    return int(node.node.status()["management"][name])


def test_commands_require_permission() -> None:
    with NodeAmongStrangers(1) as node:
        (far,) = node.neighbours
        (program,) = node.add_programs(1)
        operator = HmacSigner("/operator/KEY/1", _SECRET)
        stranger = HmacSigner("/stranger/KEY/1", b"the stranger's secret")
        forger = HmacSigner("/operator/KEY/1", b"the stranger's secret")
        node.node.authorise_commands([_core.SigningKey("hmac", "/operator/KEY/1", _SECRET)])
        for wrong in (stranger, forger, DigestSigner()):
            program.send(registration(wrong))
            assert status_code(program) == _FORBIDDEN
        assert management_counter(node, "forbidden") == 3
        right = registration(operator)
        program.send(right)
        assert status_code(program) == 200
        assert management_counter(node, "routes") == 1
        program.send(right)
        assert status_code(program) == _FORBIDDEN
        assert management_counter(node, "replayed") == 1
        far.send(registration(operator))
        assert node.counted("scope_violations", far) == 1
