"""One rank's part in one round of masked aggregation; it does no input or output.

The protocol of Bonawitz et al. (CCS 2017, figure 4) without its round for active adversaries:

1. everybody tells everybody two public keys, and a commitment to a seed of its own;
2. everybody deals shares of its private masking key and of its seed to all, each encrypted for its
   receiver;
3. everybody adds to its residues a mask of its own seed, and one with each other rank, which the
   other subtracts; the masked residues are summed;
4. for each rank in the sum, everybody reveals its share of that rank's seed; for each that dropped
   out, its share of that rank's masking key. So the masks that the sum still has become known.

Never both of one rank: with both, a late message of a rank that seemed to have dropped out could be
unmasked. A rank that was asked for both refuses.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256, Hash

from innet.errors import CollectiveError, SecurityError
from innet.masking.fixed_point import FixedPoint, Residues
from innet.masking.mask_stream import SEED_BYTES, add_mask, agreed_seed
from innet.masking.shamir import SHARE_BYTES, Randomness, combine, split

_KEY_BYTES = 32
ADVERTISED_BYTES = 3 * _KEY_BYTES
"""Public key for shares, public key for masks, commitment to the seed."""
DEALT_BYTES = 2 * SHARE_BYTES + 16
"""Shares of the masking key and of the seed, and the tag of their encryption."""
_ONLY_NONCE = bytes(12)


class MaskedRound:
    """The secrets of one rank in one round.

    Args:
        rank: of this process among those that begin the round.
        ranks: how many these are.
        threshold: how many must be left at the end: more than half.
        context: what tells this round from all others, the same on all its ranks.
        random: where secrets come from.

    Raises:
        CollectiveError: the threshold is not more than half of the ranks, or more than all.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        threshold: int,
        context: bytes,
        random: Randomness = secrets.token_bytes,
    ) -> None:
        if not ranks // 2 < threshold <= ranks:
            raise CollectiveError(
                f"threshold={threshold} of {ranks} ranks: it must be more than half of them, or "
                "two parts of the group could each unmask what the other must not"
            )
        self._rank, self._ranks, self._threshold = rank, ranks, threshold
        self._context = context
        self._random = random
        self._share_key = X25519PrivateKey.from_private_bytes(random(_KEY_BYTES))
        self._mask_key = X25519PrivateKey.from_private_bytes(random(_KEY_BYTES))
        self._seed = random(SEED_BYTES)
        self._advertised: list[bytes] = []
        self._own_shares = b""
        self._dealt: list[bytes] = []
        self._revealed_without: frozenset[int] | None = None

    def advertise(self) -> bytes:
        """What all ranks are told: 96 bytes."""
        keys = (self._share_key.public_key(), self._mask_key.public_key())
        return b"".join(key.public_bytes_raw() for key in keys) + _commitment(self._seed)

    def deal(self, advertised: Sequence[bytes]) -> list[bytes]:
        """For each rank, what it is to get: 148 bytes, which it alone can read.

        Args:
            advertised: what each rank has told.

        Raises:
            SecurityError: what a rank has told cannot be used.
        """
        if len(advertised) != self._ranks or {len(a) for a in advertised} != {ADVERTISED_BYTES}:
            raise SecurityError(f"the keys of {self._ranks} ranks are needed, of 96 bytes each")
        self._advertised = list(advertised)
        shares = [
            b"".join(pair)
            for pair in zip(
                self._split(self._mask_key.private_bytes_raw()),
                self._split(self._seed),
                strict=True,
            )
        ]
        self._own_shares = shares[self._rank]
        return [
            bytes(DEALT_BYTES)
            if other == self._rank
            else self._cipher(self._rank, other).encrypt(_ONLY_NONCE, shares[other], None)
            for other in range(self._ranks)
        ]

    def mask(self, residues: Residues, point: FixedPoint, dealt: Sequence[bytes]) -> Residues:
        """The residues with all masks of this rank: uniform for who has not the seeds.

        Args:
            residues: of this rank's values.
            point: how they were made.
            dealt: what each rank has dealt to this one.
        """
        self._dealt = list(dealt)
        masked = residues.copy()
        add_mask(masked, self._seed, 1)
        for other in range(self._ranks):
            if other != self._rank:
                seed = self._pair_seed(self._mask_key, self._rank, other)
                add_mask(masked, seed, _sign(self._rank, other))
        return point.reduced(masked)

    def reveal(self, dropped: Collection[int]) -> bytes:
        """A share for each rank, in their order: of its masking key if it dropped out, else seed.

        Raises:
            SecurityError: too few ranks are left, another set was revealed for before, or what a
                rank has dealt is not for this one.
        """
        without = frozenset(dropped)
        if self._ranks - len(without) < self._threshold:
            raise SecurityError(
                f"{self._ranks - len(without)} of {self._ranks} ranks are left, and the threshold "
                f"is {self._threshold}: nothing is unmasked, and the round is lost"
            )
        if self._revealed_without not in (None, without):
            raise SecurityError(
                "this rank has unmasked the round for other ranks already. It does not do so for "
                "two sets of ranks: that would show what one rank has added"
            )
        self._revealed_without = without
        shares = [self._shares_of(owner) for owner in range(self._ranks)]
        return b"".join(
            share[:SHARE_BYTES] if owner in without else share[SHARE_BYTES:]
            for owner, share in enumerate(shares)
        )

    def unmask(
        self,
        total: Residues,
        point: FixedPoint,
        dropped: Collection[int],
        revealed: Mapping[int, bytes],
    ) -> Residues:
        """The sum of the residues of all ranks that did not drop out.

        Args:
            total: of their masked residues.
            point: how residues are made.
            dropped: the ranks that are not in it.
            revealed: what ranks have revealed, by rank: of as many as the threshold, or more.

        Raises:
            SecurityError: too few have revealed, or what they did does not fit the commitments.
        """
        if len(revealed) < self._threshold:
            raise SecurityError(
                f"{len(revealed)} ranks have revealed their shares, and the threshold is "
                f"{self._threshold}: the round is lost"
            )
        needed = dict(sorted(revealed.items())[: self._threshold])
        sum_of_all = total.copy()
        for owner in range(self._ranks):
            at = slice(owner * SHARE_BYTES, (owner + 1) * SHARE_BYTES)
            secret = combine({rank: shares[at] for rank, shares in needed.items()})
            if owner in dropped:
                self._remove_pairs_of(owner, secret, dropped, sum_of_all)
                continue
            if _commitment(secret) != self._advertised[owner][2 * _KEY_BYTES :]:
                raise _misfit(owner)
            add_mask(sum_of_all, secret, -1)
        return point.reduced(sum_of_all)

    def _remove_pairs_of(
        self,
        dropped_rank: int,
        secret: bytes,
        dropped: Collection[int],
        total: Residues,
    ) -> None:
        key = X25519PrivateKey.from_private_bytes(secret)
        if key.public_key().public_bytes_raw() != self._mask_public(dropped_rank):
            raise _misfit(dropped_rank)
        for other in range(self._ranks):
            if other not in dropped:
                seed = self._pair_seed(key, dropped_rank, other)
                add_mask(total, seed, -_sign(other, dropped_rank))

    def _split(self, secret: bytes) -> list[bytes]:
        return split(secret, self._threshold, self._ranks, self._random)

    def _shares_of(self, owner: int) -> bytes:
        if owner == self._rank:
            return self._own_shares
        try:
            return self._cipher(owner, self._rank).decrypt(_ONLY_NONCE, self._dealt[owner], None)
        except InvalidTag as error:
            raise SecurityError(
                f"what rank {owner} has dealt to rank {self._rank} is not what it encrypted: "
                "somebody on the way has changed it, or its program is another"
            ) from error

    def _cipher(self, dealer: int, receiver: int) -> AESGCM:
        """For one message: the key is of this round, this dealer and this receiver alone."""
        other = receiver if dealer == self._rank else dealer
        purpose = b"shares %d to %d " % (dealer, receiver) + self._context
        return AESGCM(agreed_seed(self._share_key, self._advertised[other][:_KEY_BYTES], purpose))

    def _pair_seed(self, key: X25519PrivateKey, owner: int, other: int) -> bytes:
        """Of the mask between the owner of ``key`` and another rank."""
        purpose = b"mask %d and %d " % (min(owner, other), max(owner, other)) + self._context
        return agreed_seed(key, self._mask_public(other), purpose)

    def _mask_public(self, rank: int) -> bytes:
        return self._advertised[rank][_KEY_BYTES : 2 * _KEY_BYTES]


def _sign(rank: int, other: int) -> int:
    """Of two ranks, the lower adds their mask, and the higher subtracts it."""
    return 1 if rank < other else -1


def _commitment(seed: bytes) -> bytes:
    digest = Hash(SHA256())
    digest.update(b"innet mask seed" + seed)
    return digest.finalize()


def _misfit(rank: int) -> SecurityError:
    return SecurityError(
        f"the shares of rank {rank}'s secret give another than it has committed itself to: a rank "
        "has given a wrong share, and the round is lost"
    )
