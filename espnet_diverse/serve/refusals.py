"""Answers to requests that are not served, in the form of OpenAI: {"error": {"message", "type", "param", "code"}}."""

import logging
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from espnet_diverse.errors import UserError
from espnet_diverse.serve.metrics import METRICS

log = logging.getLogger(__name__)

_RETRY_SECONDS = {HTTPStatus.TOO_MANY_REQUESTS: 1, HTTPStatus.SERVICE_UNAVAILABLE: 5}
_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.INTERNAL_SERVER_ERROR: "server_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "server_error",
    HTTPStatus.GATEWAY_TIMEOUT: "server_error",
}


class RefusedError(Exception):
    """A request that is not served.

    Args:
        status: Status of the answer.
        message: The fault and the advice, in one line.
        code: OpenAI's code of the error, if there is one.
        param: Name of the wrong parameter.
        reason: For the metrics, if it is neither the code nor the status, such as "queue".
    """

    def __init__(
        self, status: HTTPStatus, message: str, code: str | None = None, param: str | None = None, reason: str = ""
    ):
        super().__init__(message)
        self.status, self.code, self.param, self.reason = status, code, param, reason


def busy(message: str, what: str) -> RefusedError:
    """The refusal of a request that may be sent again later, because `what` is busy."""
    return RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, "rate_limit_exceeded", reason=what)


def unavailable(message: str, reason: str) -> RefusedError:
    """The refusal of a request that the server as a whole cannot take now."""
    return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, "service_unavailable", reason=reason)


def as_refusal(error: Exception) -> RefusedError:
    """The refusal for an error; an error that only the owner of the server can fix is logged."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, UserError):
        return RefusedError(HTTPStatus.BAD_REQUEST, str(error), param=getattr(error, "name", None))
    log.error("a request failed", exc_info=error)
    message = f"the model failed ({type(error).__name__}); see the terminal of the server for details"
    return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, message)


def error_body(error: RefusedError) -> dict[str, Any]:
    """The error in OpenAI's form; it is counted."""
    METRICS.add("refused_total", reason=error.reason or error.code or error.status.name.lower())
    kind = _TYPES.get(error.status, "invalid_request_error")
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}


def error_response(error: RefusedError) -> Response:
    """The answer to a request that is not served."""
    headers = {}
    if error.status in _RETRY_SECONDS:
        headers["Retry-After"] = str(_RETRY_SECONDS[error.status])
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), error.status, headers)


async def handle_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for our errors."""
    return error_response(as_refusal(error))


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for its own errors: an unknown path, or a method that is not allowed there."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail.lower()}"
    return error_response(RefusedError(HTTPStatus(error.status_code), message))
