"""``innet kv list``, ``purge``, ``pin`` and ``unpin``: the blocks of a pool that is up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from innet.cli import options
from innet.cli.kv_lookups import prompt_tokens
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from innet.kv.labels import PoolInventory
    from innet.kv.pool.administration import BulkResult
    from innet.kv.pool.inventory import BlockFilter, FamilyInventory
    from innet.kv.pool_member import PoolMember

_POOL = "--on prod --tenant acme --secret acme.secret"
LIST_EXAMPLES = options.examples(f"innet kv list {_POOL}", f"innet kv list {_POOL} --json")
PURGE_EXAMPLES = options.examples(
    f"innet kv purge {_POOL} --adapter support-v2 --dry-run",
    f"innet kv purge {_POOL} --adapter support-v2",
    f"innet kv purge {_POOL} --model meta-llama/Llama-3.1-8B --older-than 60min",
    f"innet kv purge {_POOL} --model llama --tokens-file prompt.json",
    f"innet kv purge {_POOL} --all",
)
PIN_EXAMPLES = options.examples(
    f"innet kv pin {_POOL} --model llama --lease 10min",
    f"innet kv pin {_POOL} --model llama --tokens-file system-prompt.json",
)
UNPIN_EXAMPLES = options.examples(f"innet kv unpin {_POOL} --model llama")

On = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The network; the only one of this machine by default"),
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With which this machine joined, for HOST:PORT")
]
TenantName = Annotated[str, typer.Option(metavar="NAME", help="Owner of the blocks")]
Secret = Annotated[Path, typer.Option(metavar="FILE", help="The tenant's secret")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
Model = Annotated[
    str, typer.Option(help="Its name or path, the last part of that, or first digits of its digest")
]
AdapterName = Annotated[str, typer.Option("--adapter", help="Name of a LoRA adapter")]
Tokens = Annotated[
    str | None, typer.Option(metavar="ID,…", help="Token ids of a prompt, for its whole chunks")
]
TokensFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with the token ids: a list in JSON")
]
Salt = Annotated[str, typer.Option(help="Salt of the prompt")]
Everything = Annotated[bool, typer.Option("--all", help="All blocks of the tenant")]

_LEASE_S = 600.0
_ENGINE = "innet-kv"


@dataclass(frozen=True)
class PoolChoice:
    """The pool of a command."""

    on: str | None
    token_file: Path | None
    tenant: str
    secret: Path


@dataclass(frozen=True)
class Selection:
    """The blocks of a command."""

    model: str
    adapter: str
    tokens: list[int] | None
    salt: str
    is_all: bool
    older_than_s: float = 0.0

    def require_some(self) -> None:
        """
        Raises:
            BadParameter: nothing is selected, or everything and something.
        """
        some = bool(self.model or self.adapter or self.tokens or self.older_than_s)
        if some == self.is_all:
            raise typer.BadParameter(
                "say which blocks: --model, --adapter, --tokens or --older-than"
                if not some
                else "the other options choose some blocks; leave it out",
                param_hint="'--all'",
            )


def list_blocks(
    on: On = None,
    token_file: TokenFile = None,
    tenant: TenantName = "default",
    *,
    secret: Secret,
    as_json: AsJson = False,
) -> None:
    """List the blocks of a tenant's pool by model and adapter, at all of its processes.

    A block that several processes have counts at each. The age is that in a process: blocks on a
    disk begin anew when it starts.
    """
    with _opened(PoolChoice(on, token_file, tenant, secret)) as member:
        found = member.run(member.inventory())
    if as_json:
        say(json.dumps(_document(found, found.result), indent=2))
    else:
        _show(found)
    _require_all_answered(found.result, "what they have is not listed")


def purge(
    on: On = None,
    token_file: TokenFile = None,
    tenant: TenantName = "default",
    model: Model = "",
    adapter: AdapterName = "",
    tokens: Tokens = None,
    tokens_file: TokensFile = None,
    salt: Salt = "",
    older_than: Annotated[
        float | None,
        options.time_option(
            "--older-than", least_s=1, help="Only blocks that a process has had for as long"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be dropped, and drop nothing")
    ] = False,
    is_all: Everything = False,
    *,
    secret: Secret,
    as_json: AsJson = False,
) -> None:
    """Drop blocks from memory, disks and object storages of all processes of a pool.

    Pinned blocks are dropped as well, and the switches' caches are emptied. For ten seconds, copies
    that are on their way are refused. Mend an engine whose blocks are wrong before: what it
    computes later is kept again.
    """
    prompt = prompt_tokens(tokens, tokens_file, is_needed=False)
    selection = Selection(model, adapter, prompt, salt, is_all, older_than or 0.0)
    selection.require_some()

    def work(member: PoolMember, found: PoolInventory, blocks: BlockFilter) -> BulkResult:
        if dry_run:
            return member.run(member.inventory(blocks)).result
        return member.run(member.purge(blocks, progress=_progress))

    done = "would be dropped" if dry_run else "dropped"
    choice = PoolChoice(on, token_file, tenant, secret)
    _on_selected(choice, selection, work, done, as_json=as_json)


def pin(
    on: On = None,
    token_file: TokenFile = None,
    tenant: TenantName = "default",
    model: Model = "",
    adapter: AdapterName = "",
    tokens: Tokens = None,
    tokens_file: TokensFile = None,
    salt: Salt = "",
    lease: Annotated[
        float,
        options.time_option(
            "--lease", least_s=1, most_s=_LEASE_S, help="For how long", default="10min"
        ),
    ] = _LEASE_S,
    is_all: Everything = False,
    *,
    secret: Secret,
    as_json: AsJson = False,
) -> None:
    """Protect blocks from eviction where they are, for at most ten minutes; again renews it.

    Half of each tier can be pinned, and a process that ends loses its pins.
    """
    prompt = prompt_tokens(tokens, tokens_file, is_needed=False)
    selection = Selection(model, adapter, prompt, salt, is_all)
    selection.require_some()
    _on_selected(
        PoolChoice(on, token_file, tenant, secret),
        selection,
        lambda member, _, blocks: member.run(member.pin_matching(blocks, lease)),
        "pinned",
        as_json=as_json,
    )


def unpin(
    on: On = None,
    token_file: TokenFile = None,
    tenant: TenantName = "default",
    model: Model = "",
    adapter: AdapterName = "",
    tokens: Tokens = None,
    tokens_file: TokensFile = None,
    salt: Salt = "",
    is_all: Everything = False,
    *,
    secret: Secret,
    as_json: AsJson = False,
) -> None:
    """End what [cyan]innet kv pin[/] has pinned."""
    prompt = prompt_tokens(tokens, tokens_file, is_needed=False)
    selection = Selection(model, adapter, prompt, salt, is_all)
    selection.require_some()
    _on_selected(
        PoolChoice(on, token_file, tenant, secret),
        selection,
        lambda member, _, blocks: member.run(member.pin_matching(blocks, 0)),
        "no longer pinned by this command",
        as_json=as_json,
    )


@contextmanager
def _opened(choice: PoolChoice) -> Iterator[PoolMember]:
    """This process as a member that offers and keeps nothing."""
    from innet.cluster.emulation.runs import find_run
    from innet.kv.pool_member import PoolMember
    from innet.kv.pool_options import PoolOptions

    address = choice.on
    if address is None:
        address = find_run(None).run_id
    pool = PoolOptions(
        address=address,
        tenant=choice.tenant,
        secret=choice.secret,
        memory=0,
        engine=_ENGINE,
    )
    if choice.token_file is not None:
        pool["token_file"] = choice.token_file
    with PoolMember.open(**pool) as member:
        yield member


def _on_selected(
    choice: PoolChoice,
    selection: Selection,
    work: Callable[[PoolMember, PoolInventory, BlockFilter], BulkResult],
    done: str,
    *,
    as_json: bool,
) -> None:
    with _opened(choice) as member:
        found = member.run(member.inventory())
        result = work(member, found, _filter(found, selection))
    if as_json:
        say(json.dumps(_document(found, result), indent=2))
    else:
        for family in _counted(found, result):
            say(f"{found.model(family.model_digest)} ({family.layout}): {_amount(family)} {done}")
        total = sum(family.blocks for family in _counted(found, result))
        say(f"{total} blocks {done}, at {len(result.nodes)} processes")
    _require_all_answered(result, f"none of theirs is {done}")


def _filter(found: PoolInventory, selection: Selection) -> BlockFilter:
    from innet.kv.pool.inventory import BlockFilter

    digests: frozenset[str] = frozenset()
    if selection.model or selection.adapter or selection.tokens:
        digests = found.digests(selection.model, selection.adapter)
    hashes: frozenset[bytes] = frozenset()
    if selection.tokens:
        hashes = found.prompt_hashes(digests, selection.tokens, selection.salt)
    return BlockFilter(digests, hashes, round(selection.older_than_s))


def _counted(found: PoolInventory, result: BulkResult) -> list[FamilyInventory]:
    from innet.kv.labels import PoolInventory

    families = PoolInventory(result, found.labels).families()
    return [family for family in families if family.blocks]


def _amount(family: FamilyInventory) -> str:
    from innet.quantities import format_size

    return f"{family.blocks} blocks, {format_size(family.size_bytes)}"


def _progress(answered: int, of: int) -> None:
    say(f"{answered} of {of} processes have answered", err=True)


def _require_all_answered(result: BulkResult, consequence: str) -> None:
    """
    Raises:
        KVError: a process has not answered.
    """
    from innet.errors import KVError
    from innet.printable import printable

    if result.failed:
        causes = (f"{node} ({printable(why)})" for node, why in sorted(result.failed.items()))
        raise KVError(
            f"{len(result.failed)} processes have not answered: {', '.join(causes)}; "
            f"{consequence}. Run the command again when they are back"
        )


def _document(found: PoolInventory, result: BulkResult) -> dict[str, Any]:
    def described(family: FamilyInventory) -> dict[str, Any]:
        label = found.label(family.model_digest)
        known = {} if label is None else label.model_dump()
        return family.model_dump(exclude={"labels"}) | known

    return {
        "blocks": [described(family) for family in _counted(found, result)],
        "processes": {
            node: [each.model_dump(exclude={"labels"}) for each in families]
            for node, families in sorted(result.nodes.items())
        },
        "failed": result.failed,
    }


def _show(found: PoolInventory) -> None:
    from rich.table import Table

    from innet.quantities import format_size

    table = Table("model", "engine", "layout", "blocks", "size", "in", "pinned", "oldest")
    for family in _counted(found, found.result):
        label = found.label(family.model_digest)
        tiers = ", ".join(f"{count} {tier}" for tier, count in sorted(family.tiers.items()))
        table.add_row(
            found.model(family.model_digest),
            "" if label is None else label.engine,
            family.layout,
            str(family.blocks),
            format_size(family.size_bytes),
            tiers,
            str(family.pinned),
            _age(family.oldest_s),
        )
    if table.row_count:
        open_console(file_width=140).print(table)
    total = sum(family.blocks for family in _counted(found, found.result))
    say(f"{total} blocks at {len(found.result.nodes)} processes")


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
