"""Paths of the page, and its application."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from espnet_diverse.demo.examples import Example
from espnet_diverse.demo.task_services import ModelService
from espnet_diverse.errors import ConfigError
from espnet_diverse.serve.application import application, in_thread
from espnet_diverse.serve.bodies import Bodies
from espnet_diverse.serve.live import close_with
from espnet_diverse.serve.refusals import RefusedError, busy

BODY = "application/octet-stream"
"""Content type of the page's requests; other origins could send it only with the consent of the server."""
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def page(service: ModelService, examples: Sequence[Example] = ()) -> Starlette:
    """The application of the page, with examples."""
    endpoints = _Page(service, examples)
    static = [_file(path) for path in files(__package__).joinpath("page").iterdir()]
    return application(
        [
            *static,
            Route("/about", endpoints.about),
            Route("/examples/{number:int}", endpoints.example),
            Route("/run", partial(endpoints.serve, service.run), methods=["POST"]),
            Route("/heads", partial(endpoints.serve, service.heads), methods=["POST"]),
            WebSocketRoute("/live", endpoints.live),
            Route("/v1/{path:path}", _of_programs, methods=["GET", "POST"]),
        ]
    )


def _file(file: Traversable) -> Route:
    """A file of the page; index.html is the page itself."""
    content, kind = file.read_bytes(), _KINDS[Path(file.name).suffix]

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return Route("/" if file.name == "index.html" else f"/{file.name}", endpoint)


async def _of_programs(request: Request) -> Response:
    message = "this is a page for people; programs are answered by: espnet-diverse serve --model NAME=MODEL"
    raise RefusedError(HTTPStatus.NOT_FOUND, f"{request.url.path}: {message}")


class _Page:
    def __init__(self, service: ModelService, examples: Sequence[Example]):
        self.service, self.bodies, self.examples = service, Bodies(service.limits), examples
        self._places = asyncio.Semaphore(service.limits.waiting)

    async def about(self, request: Request) -> Response:
        examples = [{"name": example.name, "reference": example.reference} for example in self.examples]
        return JSONResponse({**self.service.about(), "examples": examples})

    async def example(self, request: Request) -> Response:
        number = request.path_params["number"]
        if number >= len(self.examples):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(self.examples[number].content, media_type=BODY)

    async def live(self, websocket: WebSocket) -> None:
        await websocket.accept()
        if self.service.live is not None:
            await self.service.live.serve(websocket, websocket.query_params)
            return
        reason = "this model does not stream; send the whole recording"
        await close_with(websocket, ConfigError(reason))

    async def serve(self, method: Callable, request: Request) -> Response:
        if request.headers.get("Content-Type") != BODY:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {BODY}")
        async with self.bodies.body(request) as body:
            if self._places.locked():
                raise busy(f"{self.service.limits.waiting} requests are already waiting; try again later", "queue")
            async with self._places:
                return JSONResponse(await in_thread(method, body, dict(request.query_params)))
