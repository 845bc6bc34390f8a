#!/usr/bin/env python3
"""The dashboard in Debian's Chromium: what a reader does with it, and what he sees.

look.py URL TOKEN FOLDER    prints one line of JSON; screenshots go to FOLDER

What is wrong is in "problems": an empty list is what the test wants.
"""

import json
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
SCREENS = {"wide": (1440, 900), "laptop": (1100, 800), "phone": (360, 740)}


class Reader:
    """A browser's window, and what went wrong in it."""

    def __init__(self, browser, url, token, size, scheme):
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="Europe/Berlin"
        )
        self.page = self.context.new_page()
        self.problems = []
        self.asked = []
        self.url = url
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda said: self.note(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.note(f"error: {error}"))
        self.page.goto(f"{url}?token={token}", wait_until="load")

    def note(self, what):
        self.problems.append(what)

    def expect(self, what, is_so):
        if not is_so:
            self.note(what)

    def chosen(self):
        return self.page.eval_on_selector("tr.chosen a", "link => link.title")

    def wait_for(self, what, question):
        """Until a question has the answer true."""
        for _ in range(200):
            if question():
                return
            time.sleep(0.05)
        self.note(f"{what}: did not come")

    def end(self):
        for address in self.asked:
            self.expect(f"asked for {address}", address.startswith(self.url) or address == "data:,")
        self.context.close()


def paint(reader):
    """Milliseconds until something stands there, the server's answer included."""
    page = reader.page
    page.goto(reader.url + "?range=day", wait_until="load")
    painted = "performance.getEntriesByName('first-contentful-paint')"
    reader.wait_for("something stands there", lambda: page.evaluate(painted + ".length") > 0)
    return page.evaluate(painted + "[0].startTime")


def is_narrow_enough(reader, name):
    wide = reader.page.evaluate("document.documentElement.scrollWidth")
    room = reader.page.evaluate("document.documentElement.clientWidth")
    reader.expect(f"{name}: {wide} pixels wide in {room}", wide <= room)


def use_keys(reader):
    """By keys alone."""
    page = reader.page
    first = reader.chosen()
    page.keyboard.press("j")
    reader.wait_for("j goes down", lambda: reader.chosen() != first)
    second = reader.chosen()
    reader.expect("the address is the chosen one's", second.strip("/") in page.url.replace("%2F", "/"))
    page.keyboard.press("k")
    reader.wait_for("k goes back", lambda: reader.chosen() == first)
    page.go_back()
    reader.wait_for("the browser goes back", lambda: reader.chosen() == second)
    page.keyboard.press("2")
    reader.wait_for("2 is a day", lambda: page.inner_text("nav a[aria-current]") == "day")
    page.keyboard.press("ArrowLeft")
    told = page.inner_text(".readout")
    reader.expect(f"figures are told: {told}", "in memory" in told)
    reader.expect("a line stands in each picture", page.locator(".cursor").count() == page.locator(".timed").count())
    page.keyboard.press("ArrowLeft")
    reader.expect("another time has other figures", page.inner_text(".readout") != told)
    page.keyboard.press("Escape")
    reader.expect("figures go", "in memory" not in page.inner_text(".readout"))
    page.keyboard.press("/")
    page.keyboard.type("t1")
    shown = page.locator(".list tbody tr:visible").count()
    every = page.locator(".list tbody tr").count()
    reader.expect(f"{shown} of {every} are found", 0 < shown < every)
    page.keyboard.press("Escape")
    page.fill("input[type=search]", "")


def use_pointer(reader):
    page = reader.page
    page.locator(".heat .field").hover(position={"x": 200, "y": 100})
    reader.expect("figures under the pointer", "in memory" in page.inner_text(".readout"))
    page.locator("thead a", has_text="in memory").click()
    reader.wait_for("sorted", lambda: page.inner_text("thead a[aria-current]") == "in memory")
    page.locator("tbody a").first.click()
    reader.wait_for("chosen", lambda: reader.chosen() == page.locator("tbody a").first.get_attribute("title"))


def is_fresh(reader):
    """A new page is asked for by itself."""
    before = len(reader.asked)
    reader.page.locator(".keys summary").click()
    reader.page.wait_for_timeout(11000)
    reader.expect("it asks for a fresh page", len(reader.asked) > before)
    reader.expect("what was opened is open", reader.page.locator(".keys[open]").count() == 1)
    reader.expect("it is not stale", reader.page.locator(".asof.stale").count() == 0)


def main():
    url, token, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    found, problems = {}, []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found["chromium"] = browser.version
        for scheme in ["light", "dark"]:
            for name, size in SCREENS.items():
                reader = Reader(browser, url, token, size, scheme)
                is_narrow_enough(reader, name)
                if (scheme, name) == ("light", "wide"):
                    found["paints_ms"] = [round(paint(reader)) for _ in range(5)]
                    use_keys(reader)
                    use_pointer(reader)
                    is_fresh(reader)
                reader.page.goto(url + "?range=day&tenant=" + (sys.argv[4] if len(sys.argv) > 4 else "/"))
                is_narrow_enough(reader, f"{name}, one tenant")
                reader.page.screenshot(path=folder / f"{scheme}-{name}.png", full_page=name == "phone")
                reader.end()
                problems += [f"{scheme}, {name}: {problem}" for problem in reader.problems]
        browser.close()
    print(json.dumps({**found, "problems": problems}))


main()
