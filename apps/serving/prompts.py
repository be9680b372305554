"""Prompts that share beginnings: documents, and many questions about each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gpt.corpus import Corpus

Tokens = npt.NDArray[np.int64]
"""The tokens of a prompt: its bytes."""


@dataclass(frozen=True)
class Request:
    """A prompt that a client sends.

    Attributes:
        number: among all requests, from 0.
        document: that it begins with.
        tokens: of the document and the question.
    """

    number: int
    document: int
    tokens: Tokens


@dataclass(frozen=True)
class Workload:
    """Documents and requests, the same on every rank.

    Attributes:
        documents: pieces of the standard library's source files.
        requests: in the order in which they are sent, each about a random document.
    """

    documents: list[Tokens]
    requests: list[Request]

    @property
    def longest_tokens(self) -> int:
        """The number of tokens of the longest prompt."""
        return max(len(request.tokens) for request in self.requests)

    @classmethod
    def of_standard_library(
        cls,
        *,
        documents: int,
        document_tokens: int,
        requests: int,
        question_tokens: int,
        seed: int,
    ) -> Workload:
        """Random pieces of the source files as documents, and others as questions.

        Args:
            documents: how many.
            document_tokens: of the longest; the others are shorter, down to a quarter of it.
            requests: how many.
            question_tokens: of each.
            seed: of all that is random.
        """
        text = Corpus.of_standard_library().text.numpy()
        random = np.random.default_rng(seed)

        def piece(size: int) -> Tokens:
            start = int(random.integers(len(text) - size))
            return text[start : start + size].astype(np.int64)

        least = max(1, document_tokens // 4)
        sizes = np.linspace(document_tokens, least, documents).astype(int)
        pieces = [piece(size) for size in sizes]
        chosen = random.integers(documents, size=requests)
        return cls(
            documents=pieces,
            requests=[
                Request(number, int(about), np.concatenate([pieces[about], piece(question_tokens)]))
                for number, about in enumerate(chosen)
            ],
        )
