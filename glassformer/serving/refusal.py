"""What a client gets instead of an answer: a status, a sentence, and when to try again."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INTERNAL = "the server has failed; its operator finds the cause in its log"


class Refusal(Exception):  # noqa: N818  # a refused request is no error of ours
    """Ends the handling of a request; ``retry_after`` are seconds."""

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message)  # as a worker sends it, too
        self.status, self.message = status, message
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, round(retry_after)))

    def __str__(self) -> str:
        return self.message


def bad_request(message: str) -> Refusal:
    """One for a request that would be refused again."""
    return Refusal(400, f"Invalid request: {message}")


def place_of(error: Exception) -> str:
    """The kind of a fault and its line in the code: nothing of a client's text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"


def error_body(path: str, status: int, message: str) -> dict[str, Any]:
    """The body of a refusal as the clients of the contract at ``path`` read it."""
    if path.startswith("/v2/"):
        return {"message": message}
    if path.startswith(("/v1/chat", "/v1/models")):
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        fallback = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind.get(status, fallback), "code": None}}
    return {"error": message}
