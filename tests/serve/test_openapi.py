"""The description of a server, and its page."""

from dataclasses import fields

from starlette.testclient import TestClient

from espnet_diverse.serve.fields import RESPONSE_FORMATS, Asked
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.models import Models
from espnet_diverse.serve.openapi import PATHS, STREAM, description
from espnet_diverse.serve.transcriptions import api


def test_it_has_every_path_and_every_field():
    app, described = api(Models(["one"], None, 1), Limits()), description(Asked)
    routes = {route.path.replace("name:path", "model"): getattr(route, "methods", None) for route in app.routes}
    assert routes.keys() == PATHS == {*described["paths"], STREAM}
    for path, methods in described["paths"].items():
        assert {method.upper() for method in methods} == routes[path] - {"HEAD"}
    for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
        content = described["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"]
        found = content["schema"]["properties"]
        assert {name.removesuffix("[]") for name in found} == {"file", *(option.name for option in fields(Asked))}
        assert found["response_format"]["enum"] == list(RESPONSE_FORMATS) and all(found[each]["type"] for each in found)
        assert found["temperature"]["maximum"] == 1 and found["include[]"]["items"]["enum"] == ["logprobs"]
        assert all(one["description"] for one in found.values())


def test_the_page_loads_nothing_and_names_every_field():
    with TestClient(api(Models(["one"], None, 1), Limits())) as client:
        text = client.get("/docs").text
        assert client.get("/openapi.json").json() == description(Asked)
    assert not [word for word in ("src=", "href=", "<script", "http:", "https:") if word in text]
    assert all(f"<code>{option.name}" in text for option in fields(Asked))
