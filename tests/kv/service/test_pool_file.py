"""Files of standing pools: what members are made of them, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.errors import InnetError
from innet.kv.pool_options import MemberOptions
from innet.kv.service.member import read, written
from innet.kv.service.pool_file import PoolFile

SECRET = "at least sixteen bytes"
INLINE = """
topology:
  nodes:
    h0: {kind: host}
    h1: {kind: host}
  links:
    - endpoints: ["h0:eth0", "h1:eth0"]
"""
POOL = """
pool:
  engines: 2
  folder: blocks
  replicas: 2
  events: true
  tenants:
    acme: {secret: acme.secret, memory: 1GiB, disk: 2GiB, weight: 3, model-name: llama}
    umbra: {secret: acme.secret}
"""


def pool_file(folder: Path, text: str) -> PoolFile:
    secret = folder / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    path = folder / "prod.yaml"
    path.write_text(text)
    return PoolFile(path)


def test_each_tenant_has_a_member_with_its_quota(tmp_path: Path) -> None:
    file = pool_file(tmp_path, INLINE + POOL)
    assert file.name == "prod"
    assert file.topology().workers_of == {h: (f"{h}.0", f"{h}.1", f"{h}.2") for h in ("h0", "h1")}
    acme, umbra = (MemberOptions.of(options) for options in read(written(file.members).encode()))
    assert (acme.tenant, umbra.tenant) == ("acme", "umbra")
    assert (acme.offered_memory_bytes, acme.offered_disk_bytes) == (1 << 30, 2 << 30)
    assert (umbra.offered_memory_bytes, umbra.offered_disk_bytes) == (256 << 20, 0)
    assert (acme.weight, acme.settings.replicas, acme.memory_bytes) == (3, 2, 0)
    assert acme.secret == umbra.secret == SECRET.encode()
    assert acme.folder == tmp_path / "blocks"
    assert acme.events == "run"
    assert (acme.model_name, umbra.model_name) == ("llama", "")


def test_an_object_storage_takes_the_place_of_the_disks(tmp_path: Path) -> None:
    file = pool_file(tmp_path, INLINE + POOL.replace("folder: blocks", "folder: s3://prod/blocks"))
    options = [MemberOptions.of(each) for each in read(written(file.members).encode())]
    assert {each.folder for each in options} == {"s3://prod/blocks"}


def test_an_object_storage_may_be_behind_the_disks(tmp_path: Path) -> None:
    text = POOL.replace("  engines", "  objects-url: s3://prod/blocks\n  engines")
    file = pool_file(tmp_path, INLINE + text.replace("disk: 2GiB", "disk: 2GiB, objects: 1TiB"))
    acme, umbra = (MemberOptions.of(options) for options in read(written(file.members).encode()))
    assert (acme.offered_objects_bytes, umbra.offered_objects_bytes) == (1 << 40, 0)
    assert {each.objects_url for each in (acme, umbra)} == {"s3://prod/blocks"}


def test_the_topology_may_be_a_file_beside_it_or_a_generator(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("name: two\n" + INLINE)
    for topology in ("two.yaml", "star:2"):
        file = pool_file(tmp_path, f"name: lab\ntopology: {topology}\n{POOL}")
        assert (file.name, len(file.topology().hosts)) == ("lab", 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topology: star:2", "expected the key 'pool', which is missing"),
        ("topology: star:2\npool: {tenants: {}}", "at least 1 entries"),
        ("topology: star:2\npool:\n  tenant: {}", r"prod.yaml:3: pool: unknown key 'tenant'"),
        (
            "topology: star:2\npool:\n  tenants:\n    acme: {secret: acme.secret, memory: big}",
            r"prod.yaml:4: pool.tenants.acme.memory",
        ),
        (
            "topology: star:2\npool:\n  tenants:\n    acme: {secret: acme.secret, disk: 1GiB}",
            r"prod.yaml:4: tenant acme: its disk has no folder\. Give the pool one$",
        ),
        (
            "topology: star:2\npool:\n  tenants:\n    acme: {secret: acme.secret, objects: 1GiB}",
            r"prod.yaml:4: tenant acme: .* Give the pool an objects-url, such as s3://bucket/blocks$",
        ),
        (
            "topology: star:2\npool:\n  objects-url: s3://prod/blocks\n  tenants:\n"
            "    acme: {secret: acme.secret, objects: 1GiB}",
            r"prod.yaml:5: tenant acme: its objects are behind a disk, and it has none\.",
        ),
        (
            "topology: star:2\npool:\n  tenants:\n    acme: {secret: acme.secret, memory: 0}",
            r"prod.yaml:4: tenant acme: it has no room",
        ),
        (
            "topology: star:2\n" + POOL.replace("blocks", "nope://blocks"),
            "prod.yaml:5: fsspec knows no",
        ),
        (
            f"topology: star:2\n{POOL}  objects-url: nope://blocks",
            r"prod.yaml:11: fsspec knows no storage 'nope'",
        ),
        (f"topology: star:2\n{POOL}  objects-url: /blocks", r"prod.yaml:11: expected the URL"),
        (f"topology: star:2\n{POOL}  objects-url: file://blocks", r"prod.yaml:11: .* is relative"),
        (f"topology: star:2\n{POOL}  copy-rate: 0", r"prod.yaml:11: pool.copy-rate: expected at"),
        (
            f"topology: star:2\n{POOL}  timeout: 0s",
            r"prod.yaml:11: pool.timeout: expected a number",
        ),
        (f"topology: star:2\n{POOL}  window: 0", r"prod.yaml:11: pool.window: expected at least 1"),
        ("topology: star:2\npool: {tenants: {a: {secret: nowhere}}}", "cannot read a tenant's"),
        (
            "topology: star:2\npool:\n  replicas: 5\n  tenants: {acme: {secret: acme.secret}}",
            r"prod.yaml:3: 5 replicas of a block need as many hosts, and the topology has 2\.",
        ),
        (f"topology: nowhere\n{POOL}", "no topology file 'nowhere'"),
        (f"{INLINE.replace('h1:eth0', 'h7:eth0')}{POOL}", "prod.yaml:7"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InnetError, match=message):
        pool_file(tmp_path, text).topology()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InnetError, match=r"none.yaml: cannot be read: No such file"):
        PoolFile(tmp_path / "none.yaml")
