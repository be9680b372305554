"""One rank's part in one round of masked aggregation (sans-IO).

The protocol of Bonawitz et al. (CCS 2017, figure 4), with its consistency check for active
adversaries:

1. every rank advertises three public keys and a commitment to a random seed;
2. every rank deals shares of its private masking key and of its seed to the other ranks, each share
   encrypted for its receiver;
3. every rank adds to its residues the mask of its seed, and one mask per other rank, which the
   other rank subtracts; the masked residues are summed;
4. every surviving rank signs the set of ranks in the sum, once in a round;
5. with valid signatures of at least the threshold over the set that it signed itself, a rank
   reveals to each surviving rank, encrypted: its own seed; and for each dead rank, its share of
   that rank's seed if the rank is in the sum, or of its masking key if it is not.

A rank reveals only one of the two for each dead rank: with both, a late message of a rank that
seemed to have dropped out could be unmasked. No rank holds shares of its own secrets. In the paper
all ranks reveal shares of all seeds; here a surviving rank gives its own seed in their place, under
the same condition, so no secret has to be restored unless a rank died.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256, Hash

from innet.collectives.masked.fixed_point import FixedPoint, Residues
from innet.collectives.masked.primitives import (
    SEED_BYTES,
    SHARE_BYTES,
    Randomness,
    add_mask,
    agreement,
    combine,
    derived_key,
    split,
)
from innet.errors import CollectiveError, SecurityError

_KEY_BYTES = 32
ADVERTISED_BYTES = 4 * _KEY_BYTES
"""Public keys for encryption, for masks and for signatures; commitment to the seed."""
_TAG_BYTES = 16
DEALT_BYTES = 2 * SHARE_BYTES + _TAG_BYTES
"""Shares of the masking key and of the seed, and the tag of their encryption."""
SIGNATURE_BYTES = 64
_ONLY_NONCE = bytes(12)
"""The nonce of a key that encrypts one message."""
_NONCE_BYTES = 12


def require_majority(threshold: int, ranks: int) -> None:
    """Check a threshold.

    Raises:
        CollectiveError: it is not more than half of the ranks, or more than all.
    """
    if not ranks // 2 < threshold <= ranks:
        raise CollectiveError(
            f"threshold={threshold} of {ranks} ranks: it must be more than half of them, or two "
            "parts of the group could each unmask what the other must not, and no more than all. "
            f"Give MaskedSum a threshold of {ranks // 2 + 1} to {ranks}: with a threshold of t, "
            f"{ranks} - t ranks may die"
        )


def allowed_deaths(threshold: int, ranks: int) -> str:
    """How many ranks may die, and what changes it, in a sentence."""
    most, least = ranks - threshold, ranks // 2 + 1
    smaller = f", or give MaskedSum a threshold= of at least {least}" if threshold > least else ""
    return (
        f"The threshold is {threshold}, so {most or 'none'} of {ranks} ranks may die. Start more "
        f"ranks{smaller}"
    )


class MaskedRound:
    """The secrets of one rank in one round. They are in memory only, and end with the process.

    Args:
        rank: of this process among those that begin the round.
        ranks: how many these are.
        threshold: how many must be left at the end and agree on who is in the sum: more than half.
        context: what distinguishes this round from all others, the same on all its ranks.
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
        require_majority(threshold, ranks)
        self._rank, self._ranks, self._threshold = rank, ranks, threshold
        self._others = [other for other in range(ranks) if other != rank]
        self._context = context
        self._random = random
        self._sealing_key = X25519PrivateKey.from_private_bytes(random(_KEY_BYTES))
        self._mask_key = X25519PrivateKey.from_private_bytes(random(_KEY_BYTES))
        self._signing_key = Ed25519PrivateKey.from_private_bytes(random(_KEY_BYTES))
        self._seed = random(SEED_BYTES)
        self._advertised: list[bytes] = []
        self._sealing_secrets: dict[int, bytes] = {}
        self._shares: dict[int, bytes] = {}
        self._signed: frozenset[int] | None = None
        self._left: tuple[int, ...] = ()

    def advertise(self) -> bytes:
        """The keys and the commitment that all ranks need: 128 bytes, to be sent signed."""
        public = (
            self._sealing_key.public_key(),
            self._mask_key.public_key(),
            self._signing_key.public_key(),
        )
        return b"".join(key.public_bytes_raw() for key in public) + _commitment(self._seed)

    def deal(self, advertised: Sequence[bytes]) -> list[bytes]:
        """The message for each rank: 148 bytes that it alone can read; zeros for this rank.

        Args:
            advertised: by each rank.

        Raises:
            SecurityError: a rank advertised what cannot be used.
        """
        if len(advertised) != self._ranks or {len(a) for a in advertised} != {ADVERTISED_BYTES}:
            raise SecurityError(
                f"the keys of {self._ranks} ranks are needed, of {ADVERTISED_BYTES} bytes each"
            )
        self._advertised = list(advertised)
        self._sealing_secrets = {
            other: agreement(self._sealing_key, advertised[other][:_KEY_BYTES])
            for other in self._others
        }
        keys = self._split(self._mask_key.private_bytes_raw())
        seeds = self._split(self._seed)
        dealt = [bytes(DEALT_BYTES)] * self._ranks
        for other in self._others:
            cipher = self._cipher(b"shares", self._rank, other)
            dealt[other] = cipher.encrypt(_ONLY_NONCE, keys[other] + seeds[other], None)
        return dealt

    def receive(self, dealt: Sequence[bytes]) -> None:
        """Decrypt the shares that each rank dealt to this one.

        Raises:
            SecurityError: a message is not what that rank encrypted for this one.
        """
        for owner in self._others:
            try:
                shares = self._cipher(b"shares", owner, self._rank).decrypt(
                    _ONLY_NONCE, dealt[owner], None
                )
            except InvalidTag as error:
                raise SecurityError(
                    f"what rank {owner} dealt to rank {self._rank} is not what it encrypted: "
                    "it was changed on the way, or that rank runs another program"
                ) from error
            self._shares[owner] = shares

    def mask(self, residues: Residues, point: FixedPoint) -> Residues:
        """The residues with all masks of this rank: uniform without the seeds.

        Args:
            residues: of this rank's values.
            point: how they were made.
        """
        masked = residues.copy()
        add_mask(masked, self._seed, 1)
        for other in self._others:
            seed = self._pair_seed(self._mask_key, self._rank, other)
            add_mask(masked, seed, _sign(self._rank, other))
        return point.reduced(masked)

    def sign(self, included: Collection[int]) -> bytes:
        """This rank's signature that exactly these ranks are in the sum: one set in a round.

        Raises:
            SecurityError: this rank has signed another set, is not in this one, does not have the
                shares dealt to it, or the set is smaller than the threshold.
        """
        agreed = frozenset(included)
        if len(agreed) < self._threshold:
            raise self._too_few(f"{len(agreed)} of {self._ranks} ranks are in the sum")
        if self._rank not in agreed:
            raise SecurityError(
                f"rank {self._rank} is said to be missing in the sum that it is asked to unmask; "
                "it does not help. Find out who said so: the controller, or another rank"
            )
        if self._shares.keys() != set(self._others):
            raise SecurityError(f"rank {self._rank} does not have the shares dealt to it")
        if self._signed not in (None, agreed):
            raise SecurityError(
                f"rank {self._rank} has signed another set of ranks in this round. It does not "
                "sign two: that could show what one rank has added"
            )
        self._signed = agreed
        return self._signing_key.sign(self._statement(agreed))

    def reveal(self, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        """The secrets that each remaining rank needs to unmask the sum, encrypted for it.

        Args:
            signatures: of the ranks that are left, over the set that each has signed.

        Raises:
            SecurityError: fewer are left than the threshold, or one has not signed the set that
                this rank has signed.
        """
        included = self._require_agreement(signatures)
        self._left = tuple(sorted(signatures))
        revealed = self._seed + b"".join(
            self._share_of(owner, included) for owner in self._others if owner not in signatures
        )
        statement = self._statement(included)
        sealed = {}
        for other in self._left:
            if other != self._rank:
                # Drawn for each message: after another death the same key seals another one.
                nonce = self._random(_NONCE_BYTES)
                cipher = self._cipher(b"revelation", self._rank, other)
                sealed[other] = nonce + cipher.encrypt(nonce, revealed, statement)
        return sealed

    def revelation_bytes(self, left: int) -> int:
        """Length of the revelation to one rank when ``left`` ranks remain."""
        return _NONCE_BYTES + SEED_BYTES + (self._ranks - left) * SHARE_BYTES + _TAG_BYTES

    def unmask(self, total: Residues, point: FixedPoint, sealed: Mapping[int, bytes]) -> Residues:
        """The sum of the residues of the ranks in the set that was signed.

        Args:
            total: of their masked residues.
            point: how residues are made.
            sealed: what each other rank that is left has revealed to this one.

        Raises:
            SecurityError: a revelation was changed, or does not fit what was advertised.
        """
        if self._signed is None or not self._left:
            raise SecurityError("nothing is unmasked before the ranks that are left have agreed")
        included = self._signed
        revealed = {other: self._opened(other, sealed[other]) for other in self._left_others()}
        sum_of_all = total.copy()
        add_mask(sum_of_all, self._seed, -1)
        for other, contents in revealed.items():
            self._remove_seed_of(other, contents[:SEED_BYTES], sum_of_all)
        gone = [owner for owner in range(self._ranks) if owner not in self._left]
        for place, owner in enumerate(gone):
            at = slice(SEED_BYTES + place * SHARE_BYTES, SEED_BYTES + (place + 1) * SHARE_BYTES)
            shares = {other: contents[at] for other, contents in revealed.items()}
            shares[self._rank] = self._share_of(owner, included)
            secret = combine(dict(sorted(shares.items())[: self._threshold]))
            if owner in included:
                self._remove_seed_of(owner, secret, sum_of_all)
            else:
                self._remove_pairs_of(owner, secret, included, sum_of_all)
        return point.reduced(sum_of_all)

    def _require_agreement(self, signatures: Mapping[int, bytes]) -> frozenset[int]:
        if len(signatures) < self._threshold:
            raise self._too_few(f"{len(signatures)} of {self._ranks} ranks are left")
        signed = self._signed
        if signed is None or self._rank not in signatures:
            raise SecurityError(f"rank {self._rank} reveals nothing before it has signed")
        statement = self._statement(signed)
        others = [rank for rank in signatures if rank != self._rank]
        differing = sorted(
            rank
            for rank in others
            if rank not in signed or not self._is_signed(rank, signatures[rank], statement)
        )
        if differing:
            raise SecurityError(
                f"rank {self._rank} has signed that ranks {sorted(signed)} are in the sum, and "
                f"ranks {differing} have not: they learned of other deaths, or a signature was "
                "changed. Nothing is revealed, and the round is lost"
            )
        return signed

    def _is_signed(self, rank: int, signature: bytes, statement: bytes) -> bool:
        public = self._advertised[rank][2 * _KEY_BYTES : 3 * _KEY_BYTES]
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
        except (InvalidSignature, ValueError):
            return False
        return True

    def _statement(self, included: frozenset[int]) -> bytes:
        """The bytes that ranks sign: the set of ranks, and the round with its advertised keys."""
        bits = sum(1 << rank for rank in included).to_bytes((self._ranks + 7) // 8, "little")
        digest = Hash(SHA256())
        digest.update(b"".join(self._advertised))
        return b"innet masked sum of " + bits + digest.finalize() + self._context

    def _too_few(self, what: str) -> SecurityError:
        return SecurityError(
            f"{what}: nothing is unmasked, and the round is lost. "
            + allowed_deaths(self._threshold, self._ranks)
        )

    def _left_others(self) -> list[int]:
        return [rank for rank in self._left if rank != self._rank]

    def _opened(self, other: int, sealed: bytes) -> bytes:
        assert self._signed is not None
        cipher = self._cipher(b"revelation", other, self._rank)
        nonce, contents = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return cipher.decrypt(nonce, contents, self._statement(self._signed))
        except InvalidTag as error:
            raise SecurityError(
                f"rank {other} has revealed nothing that rank {self._rank} can open: it refused, "
                "or the message was changed on the way. The round is lost"
            ) from error

    def _share_of(self, owner: int, included: Collection[int]) -> bytes:
        """This rank's share of the one secret of ``owner`` that may become known."""
        shares = self._shares[owner]
        return shares[SHARE_BYTES:] if owner in included else shares[:SHARE_BYTES]

    def _remove_seed_of(self, owner: int, seed: bytes, total: Residues) -> None:
        if _commitment(seed) != self._advertised[owner][3 * _KEY_BYTES :]:
            raise _misfit(owner)
        add_mask(total, seed, -1)

    def _remove_pairs_of(
        self, dropped: int, secret: bytes, included: Collection[int], total: Residues
    ) -> None:
        key = X25519PrivateKey.from_private_bytes(secret)
        if key.public_key().public_bytes_raw() != self._mask_public(dropped):
            raise _misfit(dropped)
        for other in included:
            seed = self._pair_seed(key, dropped, other)
            add_mask(total, seed, -_sign(other, dropped))

    def _split(self, secret: bytes) -> dict[int, bytes]:
        return split(secret, self._threshold, self._others, self._random)

    def _cipher(self, what: bytes, sender: int, receiver: int) -> AESGCM:
        """The key is for this round, this kind of message, this sender and this receiver alone."""
        other = receiver if sender == self._rank else sender
        purpose = what + b" %d to %d " % (sender, receiver) + self._context
        return AESGCM(derived_key(self._sealing_secrets[other], purpose))

    def _pair_seed(self, key: X25519PrivateKey, owner: int, other: int) -> bytes:
        """The seed of the mask between the owner of ``key`` and another rank."""
        purpose = b"mask %d and %d " % (min(owner, other), max(owner, other)) + self._context
        return derived_key(agreement(key, self._mask_public(other)), purpose)

    def _mask_public(self, rank: int) -> bytes:
        return self._advertised[rank][_KEY_BYTES : 2 * _KEY_BYTES]


def _sign(rank: int, other: int) -> int:
    """The sign of the mask of two ranks: the lower rank adds it, the higher subtracts it."""
    return 1 if rank < other else -1


def _commitment(seed: bytes) -> bytes:
    digest = Hash(SHA256())
    digest.update(b"innet mask seed" + seed)
    return digest.finalize()


def _misfit(rank: int) -> SecurityError:
    return SecurityError(
        f"rank {rank}'s secret is not the one that it has committed itself to: a rank has given a "
        "wrong seed or share, and the round is lost"
    )
