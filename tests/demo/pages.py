"""The page of a service in a headless Chromium whose microphone is a file."""

import shutil
from contextlib import contextmanager
from types import SimpleNamespace

from serve.running import running

from espnet_diverse.demo.routes import page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DONE = "#go:not([disabled])"
CONTRAST = """
selector => {
  const light = colour => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(value => value / 255);
    const linear = parts.map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = element => {
    const colour = getComputedStyle(element).backgroundColor;
    return colour === "rgba(0, 0, 0, 0)" ? ground(element.parentElement) : colour;
  };
  return [...document.querySelectorAll(selector)].filter(element => element.checkVisibility()).map(element => {
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  });
}
"""  # of text and ground of the elements of a selector


class Listening:
    """A service that keeps the bodies and choices that were sent to it, in `sent`."""

    def __init__(self, service):
        self.service, self.sent = service, []
        self.about, self.heads = service.about, service.heads

    def __getattr__(self, name):
        return getattr(self.service, name)

    def run(self, body, choices):
        self.sent.append((body, choices))
        return self.service.run(body, choices)


@contextmanager
def serving(service, examples=()):
    """The server of the page of a service; its service is `Listening`."""
    listening = Listening(service)
    with running(page(listening, examples)) as server:
        server.service = listening
        yield server


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


def page_width(path, window):
    """The width of the page of a file in a window of some width."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": window, "height": 800})
        page.goto(path.as_uri())
        found = page.evaluate("document.documentElement.scrollWidth")
        chromium.close()
    return found


class Socket:
    """A websocket of a page: its address, and the messages that the page has sent."""

    def __init__(self, socket):
        self.url, self.sent = socket.url, []
        socket.on("framesent", lambda message: self.sent.append(message))


@contextmanager
def opening(browser):
    """A function that opens the page of a server, and gives it with what its console said and what it asked for."""
    contexts = []

    def opened_by(server, **look):
        context = browser.new_context(**look)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        heard = SimpleNamespace(said=[], asked=[], sockets=[])
        page.on("console", lambda message: heard.said.append(message.text))
        page.on("pageerror", lambda error: heard.said.append(str(error)))
        page.on("request", lambda request: heard.asked.append(request))
        page.on("websocket", lambda socket: heard.sockets.append(Socket(socket)))
        page.goto(server.url)
        page.wait_for_selector(DONE)
        return page, heard

    yield opened_by
    for context in contexts:
        context.close()
