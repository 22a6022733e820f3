"""Error responses: a status, a message, and when to try again."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INTERNAL = "the server has failed; its operator finds the cause in its log"


class HTTPError(Exception):
    """Ends the handling of a request with an error response; ``retry_after`` is in seconds."""

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message)  # a process may pickle it
        self.status, self.message, self.headers = status, message, dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, round(retry_after)))

    def __str__(self) -> str:
        return self.message


def bad_request(message: str) -> HTTPError:
    """Status 400: the same request would fail again."""
    return HTTPError(400, f"Invalid request: {message}")


def place_of(error: BaseException) -> str:
    """The type of an exception and its line in the code: nothing of a client's text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"


def error_body(path: str, status: int, message: str) -> dict[str, Any]:
    """The body of an error as clients of the contract at ``path`` read it."""
    if path.startswith(("/v2/", "/v3/")):
        return {"message": message}
    if path.startswith("/deeplx"):
        return {"code": status, "message": message}
    if path.startswith(("/v1/chat", "/v1/models")):
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        code = {401: "invalid_api_key", 404: "model_not_found"}.get(status)
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return {"error": message}
