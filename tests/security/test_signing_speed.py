"""What benchmarks of signatures are told: of keys that fit, and of work that was done."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core


def ed25519_pair() -> tuple[_core.SigningKey, _core.SigningKey]:
    private = Ed25519PrivateKey.generate()
    return (
        _core.SigningKey("ed25519", "/k", private.private_bytes_raw()),
        _core.SigningKey("ed25519", "/k", private.public_key().public_bytes_raw()),
    )


@pytest.mark.parametrize("speed", [_core.signing_speed, _core.manifest_speed])
def test_signing_and_verifying_have_a_positive_cost(speed):
    assert all(taken_s > 0 for taken_s in speed(*ed25519_pair(), 8000, 3))


@pytest.mark.parametrize("speed", [_core.signing_speed, _core.manifest_speed])
def test_mismatched_keys_give_no_measurement(speed):
    with pytest.raises(ValueError, match="does not verify"):
        speed(ed25519_pair()[0], ed25519_pair()[1], 1000, 2)
    with pytest.raises(ValueError, match="larger than a packet"):
        speed(*ed25519_pair(), 1 << 20, 1)


def test_each_library_for_gmac_is_measured():
    seconds = _core.gmac_speed(8000, 3)
    assert _core.build_information()["gmac"] in seconds
    assert _core.build_information()["openssl"] in seconds
    assert all(taken_s > 0 for taken_s in seconds.values())


def test_sequential_and_batched_hashing_are_measured():
    seconds = _core.sha256_speed(8000, 5, 2)
    assert set(seconds) == {_core.build_information()[key] for key in ("openssl", "sha256")}
    assert all(taken_s > 0 for taken_s in seconds.values())
