"""Answers to what is refused, in OpenAI's form."""

import json
import logging
from http import HTTPStatus

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.option_checks import OptionError
from espnet_diverse.serve.refusals import RefusedError, as_refusal, busy, error_response, unavailable


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (DataError("a.wav: is no audio"), 400, {"type": "invalid_request_error", "code": None, "param": None}),
        (
            OptionError("stream", "stream is no"),
            400,
            {"type": "invalid_request_error", "code": None, "param": "stream"},
        ),
        (busy("later", "queue"), 429, {"type": "rate_limit_error", "code": "rate_limit_exceeded", "param": None}),
        (unavailable("later", "draining"), 503, {"type": "server_error", "code": "service_unavailable"}),
        (
            RefusedError(HTTPStatus.NOT_FOUND, "no model", "model_not_found", "model"),
            404,
            {"type": "invalid_request_error", "code": "model_not_found", "param": "model"},
        ),
        (RefusedError(HTTPStatus.UNAUTHORIZED, "a key"), 401, {"type": "authentication_error", "code": None}),
        (RefusedError(HTTPStatus.FORBIDDEN, "a page"), 403, {"type": "permission_error", "code": None}),
    ],
    ids=lambda value: value if isinstance(value, int) else None,
)
def test_the_status_and_the_body_of_an_error(error, status, told):
    answer = error_response(as_refusal(error))
    body = json.loads(answer.body)["error"]
    assert answer.status_code == status and body["message"] == str(error) and body | told == body
    assert answer.headers.get("Retry-After") == ({429: "1", 503: "5"}.get(status))
    assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


def test_a_fault_of_ours_is_logged_and_not_told(caplog):
    with caplog.at_level(logging.ERROR):
        refusal = as_refusal(KeyError("a secret"))
    assert refusal.status == 500 and "secret" not in str(refusal) and "KeyError" in str(refusal)
    assert "a secret" in caplog.text and "KeyError" in caplog.text
