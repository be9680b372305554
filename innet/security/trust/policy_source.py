"""Reads policies: files in the LightVerSec language, which python-ndn compiles.

Errors state line and column. Source of the language: "LightVerSec",
documentation of python-ndn, application support.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from itertools import chain
from math import prod
from pathlib import Path

import lark
from ndn.app_support.light_versec.binary import LvsModel
from ndn.app_support.light_versec.checker import DEFAULT_USER_FNS, Checker, LvsModelError
from ndn.app_support.light_versec.compiler import Compiler, SemanticError
from ndn.app_support.light_versec.grammar import lvs_grammar
from ndn.app_support.light_versec.parser import FnCall, LvsFile, Parser, Pattern, RuleId

from innet.errors import PolicyError
from innet.security.trust.facts import functions_of

SHIPPED = ("job", "pool", "store")
"""Policies that innet contains."""

_MAX_BYTES = 1 << 18
_MAX_CHAINS = 1 << 14
_MAX_COMPONENTS = 64
_COMPILER_ERRORS = (
    SemanticError,
    LvsModelError,
    lark.exceptions.LarkError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of python-ndn's compiler for invalid files, some of them Python's own."""


def read_policy(which: str) -> tuple[str, Path | None]:
    """The text of a policy, and where it is: a shipped one by its name, or a file.

    Raises:
        PolicyError: it does not exist.
    """
    if which in SHIPPED:
        return (
            resources.files("innet.security.trust") / "policies" / f"{which}.lvs"
        ).read_text(), None
    path = Path(which)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PolicyError(
            f"cannot read the policy: {error.strerror}; give a file, or a policy of innet: "
            f"{', '.join(SHIPPED)}",
            path=path,
        ) from error
    if len(data) > _MAX_BYTES:
        raise PolicyError(f"a policy has at most {_MAX_BYTES} bytes, this {len(data)}", path=path)
    try:
        return data.decode(), path
    except UnicodeDecodeError as error:
        raise PolicyError(f"this is not text: {error.reason}", path=path) from error


def compile_policy(text: str, path: Path | None = None) -> LvsModel:
    """The model of a policy.

    Raises:
        PolicyError: the text is not a policy; with the line, and the column where there is one.
    """
    try:
        file: LvsFile = _parser().parse(text)
    except lark.UnexpectedInput as error:
        message, (at_line, at_column) = _describe(error, text)
        raise PolicyError(message, path=path, line=at_line, column=at_column) from error
    except _MalformedComponent as error:
        raise PolicyError(
            f"{error.token} is not a component of a name",
            path=path,
            line=error.token.line,
            column=error.token.column,
        ) from error
    except _COMPILER_ERRORS as error:
        raise PolicyError(f"python-ndn cannot read it: {error}", path=path) from error
    _require_size(file, path)
    _require_patterns(file, text, path)
    try:
        model = Compiler(file).compile()
        unknown = _functions_in(model) - functions_of({}).keys() - DEFAULT_USER_FNS.keys()
    except _COMPILER_ERRORS as error:
        raise _semantic_error(str(error), text, path) from error
    if unknown:
        name = min(unknown)
        known = sorted((*functions_of({}), *DEFAULT_USER_FNS))
        line, column = _place(text, name)
        raise PolicyError(
            f"there is no function {name}; there are {', '.join(known)}",
            path=path,
            line=line,
            column=column,
        )
    return model


def _functions_in(model: LvsModel) -> set[str]:
    functions: set[str] = Checker(model, {})._model_fns
    return functions


@cache
def _parser() -> lark.Lark:
    return lark.Lark(lvs_grammar, parser="lalr", transformer=_LocatingParser())


class _MalformedComponent(Exception):
    """A string that is not a component; the token knows where it stands."""

    def __init__(self, token: lark.Token) -> None:
        super().__init__(str(token))
        self.token = token


class _LocatingParser(Parser):  # type: ignore[misc]  # python-ndn has no types
    """python-ndn's own, which does not say where a component is malformed."""

    @staticmethod
    def component_from_str(args: list[lark.Token]) -> object:
        try:
            return Parser.component_from_str(args)
        except (ValueError, LookupError, OverflowError) as error:
            raise _MalformedComponent(args[0]) from error


def _require_size(file: LvsFile, path: Path | None) -> None:
    """Refuse policies that take too long to expand: nested rules multiply."""
    if not file.rules:
        raise PolicyError("there is no rule, so no key could sign anything", path=path)
    by_name: dict[str, list[tuple[list[str], int, int]]] = {}
    for rule in file.rules:
        inner = [part.id for part in rule.name.p if isinstance(part, RuleId)]
        ways = max(1, len(rule.comp_cons))
        by_name.setdefault(rule.id.id, []).append((inner, ways, len(rule.name.p) - len(inner)))
    sizes: dict[str, tuple[int, int]] = {}

    def size_of(name: str, above: frozenset[str]) -> tuple[int, int]:
        if name in sizes or name in above or name not in by_name:
            return sizes.get(name, (1, 0))  # the compiler reports loops and gaps
        if len(above) > _MAX_COMPONENTS:
            raise PolicyError(f"rule {name} lies within too many others", path=path)
        chains = length = 0
        for inner, ways, own in by_name[name]:
            parts = [size_of(other, above | {name}) for other in inner]
            chains += ways * prod(part[0] for part in parts)
            length = max(length, own + sum(part[1] for part in parts))
        if chains > _MAX_CHAINS or length > _MAX_COMPONENTS:
            raise PolicyError(
                f"rule {name} stands for {chains} names of up to {length} components; a policy has "
                f"at most {_MAX_CHAINS} of {_MAX_COMPONENTS}",
                path=path,
            )
        sizes[name] = chains, length
        return sizes[name]

    if sum(size_of(name, frozenset())[0] for name in by_name) > _MAX_CHAINS:
        raise PolicyError(f"the rules stand for more than {_MAX_CHAINS} names", path=path)


def _require_patterns(file: LvsFile, text: str, path: Path | None) -> None:
    """Refuse constraints on patterns that no name has."""
    known = {p.id for rule in file.rules for p in rule.name.p if isinstance(p, Pattern)}
    for rule in file.rules:
        for constraint in chain.from_iterable(rule.comp_cons):
            calls = [option for option in constraint.options if isinstance(option, FnCall)]
            named = [constraint.pat, *constraint.options, *(a for call in calls for a in call.args)]
            for pattern in named:
                if isinstance(pattern, Pattern) and pattern.id not in known:
                    line, column = _place(text, pattern.id)
                    raise PolicyError(
                        f"rule {rule.id.id} has a constraint with {pattern.id}, which is a part of "
                        "no name",
                        path=path,
                        line=line,
                        column=column,
                    )


def _describe(error: lark.UnexpectedInput, text: str) -> tuple[str, tuple[int, int]]:
    """The error in words, and its line and column."""
    lines = text.rstrip().splitlines() or [""]
    is_end = isinstance(error, lark.UnexpectedToken) and error.token.type == "$END"
    if is_end or error.pos_in_stream is None:
        return "the policy ends in the middle of a rule", (len(lines), len(lines[-1]) + 1)
    found = error.token if isinstance(error, lark.UnexpectedToken) else text[error.pos_in_stream]
    return f"{str(found)!r} cannot stand here; {_expected(error)}", (error.line, error.column)


def _expected(error: lark.UnexpectedInput) -> str:
    names = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    names |= set(getattr(error, "allowed", None) or ())
    said = {
        "STR": 'a "component"',
        "TAG_IDENT": "a pattern",
        "RULE_IDENT": "a #rule",
        "FN_IDENT": "a $function",
        "SLASH": "/",
        "COLON": ":",
        "LBRACE": "{",
        "RBRACE": "}",
        "LPAR": "(",
        "RPAR": ")",
        "COMMA": ",",
        "VBAR": "|",
        "$END": "the end",
        "AMPERSAND": "&",
        "__ANON_0": "<=",
    }
    words = sorted({said[name] for name in names if name in said})
    return f"expected {', '.join(words)}" if words else "see docs/trust.md for the language"


def _semantic_error(message: str, text: str, path: Path | None) -> PolicyError:
    """With the line of the first rule or pattern that python-ndn's message names."""
    found = re.search(r"[#$][A-Za-z_]\w*", message) or re.search(
        r"(?<=Pattern )[A-Za-z]\w*", message
    )
    line, column = _place(text, found[0]) if found else (None, None)
    if "never occurs before" in message:
        message = (
            "a constraint has a pattern that is not known where it stands: it may have those of "
            "its own rule, and of rules that others are made of; so put the pattern into a rule "
            "that names begin with"
        )
    return PolicyError(
        message or "the rules contradict each other", path=path, line=line, column=column
    )


def _place(text: str, word: str) -> tuple[int | None, int | None]:
    """Line and column of a word, the first time that it stands outside of a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("//")[0]
        if found := re.search(rf"{re.escape(word)}\b", code):
            return number, found.start() + 1
    return None, None
