"""What control sockets do with a question: find who answers it, and never fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from innet.errors import HostTaken, InnetError
from innet.node.control.protocol import Answer, Request

Handler = Callable[..., Any]

_log = logging.getLogger(__name__)


class Answering:
    """Calls ``handlers[method](**params)``.

    A handler's :class:`InnetError` (or wrong parameters) becomes a refusal with its text; whatever
    else goes wrong in one is logged and refused too: the server goes on.
    """

    def __init__(self, handlers: Mapping[str, Handler], *, who: str) -> None:
        self._handlers = dict(handlers)
        self._who = who

    def answer(self, document: bytes) -> bytes:
        """The answer to a request, both as JSON."""
        try:
            return self._result(document).model_dump_json().encode()
        except PydanticSerializationError as error:
            _log.exception("%s: an answer is no JSON", self._who)
            refusal = Answer(ok=False, error=f"the answer is no JSON: {error}")
            return refusal.model_dump_json().encode()

    def _result(self, document: bytes) -> Answer:
        try:
            request = Request.model_validate_json(document)
            handler = self._handlers[request.method]
        except ValidationError as error:
            return Answer(ok=False, error=f"not a control request: {error}")
        except KeyError:
            known = ", ".join(sorted(self._handlers))
            return Answer(ok=False, error=f"unknown method {request.method!r}; known: {known}")
        try:
            return Answer(ok=True, result=handler(**request.params))
        except (InnetError, TypeError, ValueError, ValidationError) as error:
            is_taken = isinstance(error, HostTaken)
            return Answer(ok=False, error=str(error), is_host_taken=is_taken)
        except Exception as error:  # a defect in one handler must not end the node's control
            _log.exception("%s: %s failed", self._who, request.method)
            return Answer(ok=False, error=f"{type(error).__name__}: {error}")
