"""What colluding ranks can compute from all that they have seen of masked rounds."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from unittest.mock import patch

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from innet.collectives.masked.fixed_point import FixedPoint, Residues
from innet.collectives.masked.masked_round import MaskedRound, _commitment, _sign
from innet.collectives.masked.primitives import SEED_BYTES, SHARE_BYTES, add_mask, combine
from innet.errors import SecurityError


@dataclass
class Seen:
    """All messages of one round, and the ranks' states, of which an adversary gets its own only.

    Attributes:
        parts: by rank.
        masked: what each rank has contributed.
        residues: what it wanted to hide.
        point: how residues are made.
        revealed: who has revealed, which ranks are left, which are in the sum, and to whom what.
    """

    parts: dict[int, MaskedRound] = field(default_factory=dict)
    masked: dict[int, Residues] = field(default_factory=dict)
    residues: dict[int, Residues] = field(default_factory=dict)
    point: FixedPoint | None = None
    revealed: list[tuple[int, frozenset[int], frozenset[int], Mapping[int, bytes]]] = field(
        default_factory=list
    )


class Coalition:
    """Some ranks and the whole network together.

    Args:
        seen: messages of a round.
        members: the ranks whose secrets it has.
    """

    def __init__(self, seen: Seen, members: Collection[int]) -> None:
        self._seen = seen
        self._members = members
        self._any = next(iter(seen.parts.values()))
        self._seeds: dict[int, bytes] = {}
        self._keys: dict[int, bytes] = {}
        self.seed_shares: dict[int, dict[int, bytes]] = {}
        self.key_shares: dict[int, dict[int, bytes]] = {}
        self._take_own()
        for sender, left, included, messages in seen.revealed:
            self._open(sender, left, included, messages)
        self._restore()

    def read(self, victim: int) -> Residues | None:
        """The residues of one rank, if they can be had of its masked ones."""
        if victim not in self._seeds or victim not in self._seen.masked:
            return None
        assert self._seen.point is not None
        residues = self._seen.masked[victim].copy()
        add_mask(residues, self._seeds[victim], -1)
        for other in self._seen.parts:
            if other == victim:
                continue
            owner = victim if victim in self._keys else other
            if owner not in self._keys:
                return None
            key = X25519PrivateKey.from_private_bytes(self._keys[owner])
            peer = other if owner == victim else victim
            add_mask(residues, self._any._pair_seed(key, owner, peer), -_sign(victim, other))
        return self._seen.point.reduced(residues)

    def _take_own(self) -> None:
        for member in self._members:
            part = self._seen.parts[member]
            self._seeds[member] = part._seed
            self._keys[member] = part._mask_key.private_bytes_raw()
            for owner, shares in part._shares.items():
                self._note(self.key_shares, owner, member, shares[:SHARE_BYTES])
                self._note(self.seed_shares, owner, member, shares[SHARE_BYTES:])

    def _open(
        self,
        sender: int,
        left: frozenset[int],
        included: frozenset[int],
        messages: Mapping[int, bytes],
    ) -> None:
        for receiver in set(messages) & set(self._members):
            part = self._seen.parts[receiver]
            sealed = messages[receiver]
            with contextlib.suppress(InvalidTag):
                contents = part._cipher(b"revelation", sender, receiver).decrypt(
                    sealed[:12], sealed[12:], part._statement(included)
                )
                self._seeds[sender] = contents[:SEED_BYTES]
                gone = [o for o in range(part._ranks) if o not in left and o != sender]
                for place, owner in enumerate(gone):
                    at = SEED_BYTES + place * SHARE_BYTES
                    known = self.seed_shares if owner in included else self.key_shares
                    self._note(known, owner, sender, contents[at : at + SHARE_BYTES])

    def _restore(self) -> None:
        """Try all shares that there are; what does not fit the advertised keys is no secret."""
        for owner, advertised in enumerate(self._any._advertised):
            with contextlib.suppress(SecurityError):
                seed = combine(self.seed_shares.get(owner, {}))
                if _commitment(seed) == advertised[96:]:
                    self._seeds[owner] = seed
            with contextlib.suppress(SecurityError):
                key = combine(self.key_shares.get(owner, {}))
                public = X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
                if public == advertised[32:64]:
                    self._keys[owner] = key

    @staticmethod
    def _note(known: dict[int, dict[int, bytes]], owner: int, holder: int, share: bytes) -> None:
        known.setdefault(owner, {})[holder] = share


@contextlib.contextmanager
def watching() -> Iterator[dict[tuple[bytes, ...], Seen]]:
    """Everything that ranks of this process do in masked rounds, by what was advertised in each."""
    rounds: dict[tuple[bytes, ...], Seen] = {}
    receive, mask, reveal = MaskedRound.receive, MaskedRound.mask, MaskedRound.reveal

    def seen_by(part: MaskedRound) -> Seen:
        seen = rounds.setdefault(tuple(part._advertised), Seen())
        seen.parts[part._rank] = part
        return seen

    def noting_receive(part: MaskedRound, dealt: list[bytes]) -> None:
        seen_by(part)
        receive(part, dealt)

    def noting_mask(part: MaskedRound, residues: Residues, point: FixedPoint) -> Residues:
        seen, masked = seen_by(part), mask(part, residues, point)
        seen.point = point
        seen.residues[part._rank] = point.reduced(residues)
        seen.masked[part._rank] = masked
        return masked

    def noting_reveal(part: MaskedRound, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        messages = reveal(part, signatures)
        assert part._signed is not None
        note = (part._rank, frozenset(signatures), part._signed, messages)
        seen_by(part).revealed.append(note)
        return messages

    with (
        patch.object(MaskedRound, "receive", noting_receive),
        patch.object(MaskedRound, "mask", noting_mask),
        patch.object(MaskedRound, "reveal", noting_reveal),
    ):
        yield rounds
