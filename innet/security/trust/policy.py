"""Trust policies: which key may sign which name, and which rule says so.

A policy is a file in the LightVerSec language (docs/trust.md). python-ndn compiles it and matches
names; this module adds the reason of every decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ndn.app_support.light_versec.checker import DEFAULT_USER_FNS, Checker
from ndn.encoding import Component

from innet._native import _core
from innet.names import Name, with_version, without_digest
from innet.security.trust.facts import Facts, Function, functions_of
from innet.security.trust.names import is_certificate_name, is_key_name, name_of
from innet.security.trust.policy_source import compile_policy, read_policy
from innet.tlv_numbers import ComponentType

if TYPE_CHECKING:
    from ndn.app_support.light_versec.binary import LvsModel

_ANY_ISSUERS = ((ComponentType.GENERIC, b"self"), (ComponentType.GENERIC, b"any"))
_ANY_VERSION = 0
"""Stand for issuer and version where a key is asked about, and not one of its certificates."""


@dataclass(frozen=True)
class PolicyDecision:
    """Whether a key may sign a name.

    Attributes:
        is_allowed: whether it may.
        rule: of the name, such as ``#contribution``; ``None`` when no rule is for such names.
        key_rule: of the key, when it may.
        reason: a sentence for people.
        bindings: what the patterns of both rules stand for.
    """

    is_allowed: bool
    rule: str | None
    key_rule: str | None
    reason: str
    bindings: Mapping[str, str] = field(default_factory=dict)


class _Match(NamedTuple):
    """A place of the model that a name leads to."""

    node: int
    rules: tuple[str, ...]
    context: dict[int, bytes]


class _Matcher(Checker):  # type: ignore[misc]  # python-ndn has no types
    """Matches names, and says what functions were asked on the way."""

    def __init__(self, model: LvsModel, functions: Mapping[str, Function]) -> None:
        self.asked: list[tuple[str, bytes, Sequence[bytes | None], bool]] = []
        super().__init__(model, {name: self._noting(name, f) for name, f in functions.items()})

    def matches(self, name: Name, context: Mapping[int, bytes]) -> Iterator[_Match]:
        """The nodes of the policy that ``name`` matches, with the patterns of ``context`` bound."""
        for node, found in self._match(_components(name), dict(context)):
            rules = tuple(self.model.nodes[node].rule_name)
            if rules:
                yield _Match(node, rules, dict(found))

    def signers_of(self, match: _Match) -> list[int]:
        """The nodes of the keys that may sign a name with this match."""
        return list(self.model.nodes[match.node].sign_cons)

    def rules_of(self, nodes: Sequence[int]) -> list[str]:
        """The rules of those nodes."""
        return list(dict.fromkeys(r for node in nodes for r in self.model.nodes[node].rule_name))

    def said(self, context: Mapping[int, bytes]) -> dict[str, str]:
        """The values of patterns, for people."""
        return {
            self._symbols[tag]: Component.to_str(value)
            for tag, value in context.items()
            if tag in self._symbols
        }

    def failure_on_the_way_to(self, node: int) -> str:
        """A sentence that names the function on the path to a node that returned false."""
        functions = self._functions_on_the_way_to(node)
        for name, value, arguments, result in self.asked:
            if name in functions and not result and None not in arguments:
                shown = ", ".join(Component.to_str(a) for a in arguments)
                return f"{name}({shown}) does not hold for {Component.to_str(value)}"
        return "its components are others"

    def _functions_on_the_way_to(self, node: int) -> set[str]:
        found: set[str] = set()
        while (parent := self.model.nodes[node].parent) is not None:
            for edge in self.model.nodes[parent].p_edges:
                if edge.dest == node:
                    options = (option for cons in edge.cons_sets for option in cons.options)
                    found |= {option.fn.fn_id for option in options if option.fn is not None}
            node = parent
        return found

    def _noting(self, name: str, function: Function) -> Function:
        def noted(value: bytes, arguments: Sequence[bytes | None]) -> bool:
            result = function(value, arguments)
            self.asked.append((name, value, arguments, result))
            return result

        return noted


class Policy:
    """A compiled policy.

    Attributes:
        name: as it was asked for.
        roots: rules of the anchors, whose keys need no certificate of another key.

    Example:
        >>> policy = Policy.load("store")
        >>> policy.decide("/lab/alice/data/v=1/seg=0", "/lab/alice/KEY/1").rule
        '#object'
        >>> policy.decide("/lab/bob/data/v=1/seg=0", "/lab/alice/KEY/1").is_allowed
        False
    """

    def __init__(self, model: LvsModel, name: str, facts: Facts | None = None) -> None:
        """``facts`` are those of the plans, for policies that ask for them."""
        self.name = name
        self._model = model
        functions = {**DEFAULT_USER_FNS, **functions_of(facts or {})}
        self._strict = _Matcher(model, functions)
        self._relaxed = _Matcher(model, dict.fromkeys(functions, lambda *_: True))
        self.roots: frozenset[str] = frozenset(self._strict.root_of_trust())

    @classmethod
    def load(cls, which: str, facts: Facts | None = None) -> Policy:
        """A shipped policy by its name, or one in a file.

        Raises:
            PolicyError: it does not exist, or is malformed; with line and column.
        """
        text, path = read_policy(which)
        return cls(compile_policy(text, path), which, facts)

    @classmethod
    def of_text(cls, text: str, path: Path | None = None) -> Policy:
        """A policy in the LightVerSec language.

        Raises:
            PolicyError: the text is malformed.
        """
        return cls(compile_policy(text, path), "policy" if path is None else str(path))

    def with_facts(self, facts: Facts) -> Policy:
        """This policy with the plans of other groups."""
        return Policy(self._model, self.name, facts)

    def rules(self) -> list[str]:
        """All rules."""
        return sorted({rule for node in self._model.nodes for rule in node.rule_name})

    def is_anchor(self, certificate: Name) -> bool:
        """Whether a certificate of that name can be the anchor of this policy."""
        return any(self.roots & set(m.rules) for m in self._strict.matches(certificate, {}))

    def decide(self, name: str | Name, key: str | Name) -> PolicyDecision:
        """Whether a key, or a certificate's key, may sign ``name``.

        The chain of certificates above the key is not looked at: that is a
        :class:`innet.security.trust.PolicyValidator`'s.

        Raises:
            SecurityError: one of them is not a name.
        """
        packet = without_digest(name_of(name) if isinstance(name, str) else name)
        signer = without_digest(name_of(key) if isinstance(key, str) else key)
        if not is_certificate_name(signer) and is_key_name(signer):
            # A rule may bind the issuer's id: the one that would allow it is taken.
            issuers = (*([packet[0]] if len(packet) else []), *_ANY_ISSUERS)
            candidates = [with_version(signer.append(*each), _ANY_VERSION) for each in issuers]
        else:
            candidates = [signer]
        decisions = [self._decide(packet, candidate, signer) for candidate in candidates]
        return next((decision for decision in decisions if decision.is_allowed), decisions[0])

    def allows(self, packet: Name, certificate: Name) -> bool:
        """Whether a certificate's key may sign ``packet``: :meth:`decide` without its reasons."""
        self._strict.asked.clear()
        return bool(self._strict.check(_components(packet), _components(certificate)))

    def _decide(self, packet: Name, certificate: Name, signer: Name) -> PolicyDecision:
        self._strict.asked.clear()
        packets = list(self._strict.matches(packet, {}))
        for match in packets:
            allowed = self._strict.signers_of(match)
            for key in self._strict.matches(certificate, match.context):
                if key.node in allowed:
                    return self._allow(packet, signer, match, key)
        return self._refuse(packet, certificate, signer, packets)

    def _allow(self, packet: Name, signer: Name, match: _Match, key: _Match) -> PolicyDecision:
        bindings = self._strict.said(key.context)
        rule, key_rule = match.rules[0], key.rules[0]
        above = self._strict.rules_of(self._strict.signers_of(key))
        chain = f", whose certificate {' or '.join(above)} signs" if above else ", an anchor"
        reason = (
            f"rule {rule} allows it: {packet} is to be signed by {key_rule}, and "
            f"{signer} is one{_with(bindings)}{chain}"
        )
        return PolicyDecision(True, rule, key_rule, reason, bindings)

    def _refuse(
        self, packet: Name, certificate: Name, signer: Name, packets: Sequence[_Match]
    ) -> PolicyDecision:
        if not packets:
            return self._refuse_name(packet)
        signable = [match for match in packets if self._strict.signers_of(match)]
        bindings = self._strict.said((signable or packets)[0].context)
        if not signable:
            rule = packets[0].rules[0]
            reason = f"{packet} is a name of {rule}, which no key may sign"
            return PolicyDecision(False, rule, None, reason, bindings)
        match = signable[0]
        wanted = " or ".join(self._strict.rules_of(self._strict.signers_of(match)))
        reason = (
            f"rule {match.rules[0]} refuses it: {packet} is to be signed by {wanted}"
            f"{_with(bindings)}, and {signer} is none: {self._why_not(match, certificate)}"
        )
        return PolicyDecision(False, match.rules[0], None, reason, bindings)

    def _refuse_name(self, packet: Name) -> PolicyDecision:
        shaped = [m for m in self._relaxed.matches(packet, {}) if self._relaxed.signers_of(m)]
        if not shaped:
            reason = f"no rule of the policy {self.name} is for names such as {packet}"
            return PolicyDecision(False, None, None, reason)
        reason = (
            f"no rule of the policy {self.name} is for {packet}: it looks like "
            f"{shaped[0].rules[0]}, but {self._strict.failure_on_the_way_to(shaped[0].node)}"
        )
        return PolicyDecision(False, None, None, reason)

    def _why_not(self, match: _Match, certificate: Name) -> str:
        """Why a certificate's key may not sign a name with this match."""
        wanted = self._strict.signers_of(match)
        for key in self._relaxed.matches(certificate, match.context):
            if key.node in wanted:
                failure = self._strict.failure_on_the_way_to(key.node)
                return f"it looks like {key.rules[0]}, but {failure}"
        for key in self._relaxed.matches(certificate, {}):
            if key.node in wanted:
                differing = {t: v for t, v in key.context.items() if match.context.get(t, v) != v}
                said = self._strict.said(differing).items()
                return f"its {' and '.join(f'{name} is {value}' for name, value in said)}"
        for key in self._strict.matches(certificate, {}):
            return f"it is a key of {key.rules[0]}"
        return "no rule is for keys such as this one"


def _components(name: Name) -> list[bytes]:
    """The components of a name as python-ndn takes them, each with type and length."""
    elements = _core.read_elements(name.value())
    return [_core.encode_element(kind, value) for kind, value in elements]


def _with(bindings: Mapping[str, str]) -> str:
    named = [f"{name}={value}" for name, value in bindings.items()]
    return f" ({', '.join(named)})" if named else ""
