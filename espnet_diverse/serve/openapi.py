"""The description of a server for programs (OpenAPI), and the same as a page for people."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from espnet_diverse import __version__
from espnet_diverse.option_checks import Options, Rule
from espnet_diverse.untrusted.shown_text import escaped

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAME = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
METRICS_PATH = "/metrics"
_GET = {
    "/health": "whether the server runs; needs no key",
    METRICS_PATH: "numbers of requests, refusals and seconds, for Prometheus",
    "/openapi.json": "this description",
    "/docs": "this description, as a page",
    "/v1/models": "the names of the models",
    "/v1/models/{model}": "a model",
}
_POST = {
    "/v1/audio/transcriptions": "the text of a recording",
    "/v1/audio/translations": "the translation of a recording",
}
STREAM = "/v1/audio/stream"
PATHS = {*_GET, *_POST, STREAM}
"""Paths of the server; OpenAPI has no websockets, so that `STREAM` is not in the description."""


def description(form: type[Options]) -> dict[str, Any]:
    """The description of the server, whose requests have the fields `form` and a file."""
    file = {"type": "string", "format": "binary", "description": "the recording, in any common format"}
    schema = {"type": "object", "required": ["file"], "properties": {"file": file, **dict(_properties(form))}}
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    paths: dict[str, Any] = {path: {"get": _operation(reason)} for path, reason in _GET.items()}
    paths["/v1/models/{model}"]["get"]["parameters"] = [_NAME]
    paths |= {path: {"post": {**_operation(reason), "requestBody": body}} for path, reason in _POST.items()}
    key = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": "espnet-diverse serve", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"securitySchemes": key}}


def page(described: dict[str, Any]) -> str:
    """The description as HTML, which loads nothing else."""
    rows = ""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            rows += f"<h2>{method.upper()} {escaped(path)}</h2><p>{escaped(operation['summary'])}</p>"
            for content in operation.get("requestBody", {}).get("content", {}).values():
                shown = content["schema"]["properties"].items()
                rows += "<dl>" + "".join(f"<dt><code>{name}</code><dd>{_shown(one)}" for name, one in shown) + "</dl>"
    title = escaped("{title} {version}".format(**described["info"]))
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>{rows}'


def _operation(text: str) -> dict[str, Any]:
    refused = {"description": "refused: {error: {message, type, param, code}}"}
    return {"summary": text, "responses": {"200": {"description": text}, "4XX": refused}, "security": [{}, {"key": []}]}


def _properties(form: type[Options]) -> Iterator[tuple[str, dict[str, Any]]]:
    for option in fields(form):
        rule: Rule = option.metadata["rule"]
        of = rule.of or rule
        schema: dict[str, Any] = {"type": _TYPES[of.kind], "description": rule.help}
        schema |= {"enum": list(of.words)} if of.words else {}
        schema |= {key: bound for key, bound in (("minimum", of.least), ("maximum", of.most)) if bound is not None}
        if rule.kind is list:
            inner = {key: value for key, value in schema.items() if key != "description"}
            schema = {"type": "array", "items": inner, "description": rule.help}
        yield f"{option.name}[]" if rule.kind is list else option.name, schema | _default(option.default)


def _default(value: Any) -> dict[str, Any]:
    return {} if value in (MISSING, "", ()) else {"default": list(value) if isinstance(value, tuple) else value}


def _shown(schema: dict[str, Any]) -> str:
    words = schema.get("items", schema).get("enum", [])
    return escaped(f"{schema['description']}{f' ({", ".join(words)})' if words else ''}")
