"""The page of a service in a headless Chromium whose microphone is a file."""

import shutil
import threading
from contextlib import contextmanager
from types import SimpleNamespace

from espnet_diverse.demo.server import Server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DONE = "#go:not([disabled])"


class Listening:
    """A service that keeps what was sent to it: the bodies and choices of /run in `sent`, of /live/part in `heard`."""

    def __init__(self, service):
        self.service, self.sent, self.heard = service, [], []
        self.about, self.heads, self.begin = service.about, service.heads, service.begin

    def run(self, body, choices):
        self.sent.append((body, choices))
        return self.service.run(body, choices)

    def hear(self, body, choices):
        self.heard.append((body, choices))
        return self.service.hear(body, choices)


@contextmanager
def serving(service):
    """The server of a service; its service is `Listening`."""
    with Server(0, service.limits) as server:
        server.service = Listening(service)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def launched(microphone):
    """A Chromium that hears the file `microphone`, again and again."""
    from playwright.sync_api import sync_playwright

    media = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    flags = ["--no-sandbox", "--disable-gpu", *media, f"--use-file-for-fake-audio-capture={microphone}"]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()


@contextmanager
def opening(browser):
    """A function that opens the page of a server, and gives it with what its console said and what it asked for."""
    contexts = []

    def opened_by(server, **look):
        context = browser.new_context(**look)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        heard = SimpleNamespace(said=[], asked=[])
        page.on("console", lambda message: heard.said.append(message.text))
        page.on("pageerror", lambda error: heard.said.append(str(error)))
        page.on("request", lambda request: heard.asked.append(request))
        page.goto(server.url)
        page.wait_for_selector(DONE)
        return page, heard

    yield opened_by
    for context in contexts:
        context.close()
