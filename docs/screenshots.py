#!/usr/bin/env python3
"""Take the pictures of pages that the documentation shows; needs the extra `browser`, a Chromium and trained models.

    make demo
    jupyter execute examples/contest.ipynb   # or its commands, which write the folder CONTEST_DIR
    docs/screenshots.py RUN DATA_DIR CONTEST_DIR --output_dir docs

RUN is the directory of the demo's model, DATA_DIR its data directory `test`. Pictures are 1280 pixels wide, and have
128 colours so that each is small; with `--width 390` they show what a phone shows. The browser needs a font for the
Chinese texts, such as WenQuanYi Micro Hei.
"""

import argparse
import io
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
READY = "#go:not([disabled])"
HEIGHT = 6000  # of the window: what sticks to its edge then covers nothing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("run", "data_dir", "contest_dir"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--width", type=int, default=1280)
    given = parser.parse_args()
    (alignment,) = given.run.glob("decode/*test/alignment.cer.html")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": given.width, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(120_000)
        with serving(given.run, given.data_dir) as address:
            page.goto(address)
            show_heads(page)
            save(page, given.output_dir / "page_demo.png", "#maps h3 >> nth=1")  # up to the second kind of map
        page.goto(alignment.absolute().as_uri())
        save(page, given.output_dir / "page_alignment.png", "li >> nth=4")
        page.goto((given.contest_dir / "contest.html").absolute().as_uri())
        save(page, given.output_dir / "page_contest.png", "h2 >> nth=1")
        chromium.close()


@contextmanager
def serving(run: Path, data_dir: Path):
    """The address of the page of a model, while it is served."""
    command = [sys.executable, "-m", "espnet_diverse", "demo", run, "--examples", data_dir, "--port", "0"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as server:
        try:
            yield next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            server.terminate()


def show_heads(page: Page) -> None:
    """Transcribe the first example and show the heads of the decoder."""
    page.wait_for_selector("#clips button")
    page.click("#clips button >> nth=0")
    page.wait_for_selector("#result:not([hidden])")
    page.wait_for_selector(READY)
    page.click("#show")
    page.wait_for_selector("#maps canvas")


def save(page: Page, path: Path, end: str) -> None:
    """Write what is above the element `end`."""
    page.wait_for_timeout(500)  # fonts and transitions
    found = page.locator(end).bounding_box()
    assert found is not None, end
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": found["y"] - 8}
    image = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {image.width} x {image.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
