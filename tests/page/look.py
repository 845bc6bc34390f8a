#!/usr/bin/env python3
"""Uses the dashboard in Debian's Chromium as a reader would, and checks what the page shows.

look.py URL TOKEN FOLDER    prints one line of JSON; screenshots go to FOLDER

"problems" in the JSON lists everything that is wrong; the test expects an empty list.
"""

import json
import sys
import time
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

CHROMIUM = "/usr/bin/chromium"
SCREENS = {"wide": (1440, 900), "laptop": (1100, 800), "phone": (360, 740)}


class Reader:
    """A window of the browser, and the problems found in it."""

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
        """The tenant of the marked row, also before the server's response has come."""
        return self.page.eval_on_selector("tr.chosen a", "link => link.title")

    def shown(self):
        """The tenant whose figures are shown."""
        return self.page.inner_text(".detail h2")

    def rows(self):
        return self.page.locator(".list tbody tr:visible").count()

    def wait_for(self, what, question):
        """Waits until `question` returns true; notes a problem after 10 s."""
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
    """Milliseconds from the request until the page shows something, including the server's time."""
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
    """Uses the page by keys alone."""
    page = reader.page
    first = reader.shown()
    page.keyboard.press("j")
    reader.wait_for("j goes down", lambda: reader.shown() != first)
    second = reader.shown()
    reader.expect("its row is marked", reader.chosen() == second)
    reader.expect("the address is the chosen one's", second.strip("/") in page.url.replace("%2F", "/"))
    page.keyboard.press("k")
    reader.wait_for("k goes back", lambda: reader.shown() == first)
    page.go_back()
    reader.wait_for("the browser goes back", lambda: reader.shown() == second)
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
    every = page.locator(".list tbody tr").count()
    reader.expect(f"{reader.rows()} of {every} are found", 0 < reader.rows() < every)
    page.keyboard.press("Escape")
    page.fill("input[type=search]", "")


def use_pointer(reader):
    page = reader.page
    page.locator(".heat .field").hover(position={"x": 200, "y": 100})
    reader.expect("figures under the pointer", "in memory" in page.inner_text(".readout"))
    page.locator("thead a", has_text="in memory").click()
    reader.wait_for("sorted", lambda: page.inner_text("thead a[aria-current]") == "in memory")
    page.locator("tbody a").first.click()
    reader.wait_for("chosen", lambda: reader.shown() == page.locator("tbody a").first.get_attribute("title"))


def use_keys_on_a_slow_line(reader):
    """Two presses of `j` go down two rows, though no response has come in between."""
    page = reader.page
    page.goto(reader.url + "?range=day")
    names = page.eval_on_selector_all(".list tbody a", "links => links.map((link) => link.title)")
    held = []
    page.route("**", lambda question: held.append(question))
    page.keyboard.press("j")
    page.keyboard.press("j")
    reader.expect(f"j and j choose {reader.chosen()}", reader.chosen() == names[2])
    reader.wait_for("both are asked for", lambda: page.evaluate("true") and len(held) >= 2)
    # The browser has cancelled a request that a later key replaced; continuing it fails.
    page.unroute("**")
    for question in held:
        try:
            question.continue_()
        except Error:
            pass
    reader.wait_for("the last one is shown", lambda: reader.shown() == names[2])


def find_tenants(reader):
    """The list always has the tenants that match the text in the field."""
    page = reader.page
    page.goto(reader.url + "?range=day")
    every = reader.rows()
    # If the reader clears the field after a search by the server, all tenants are listed again.
    page.goto(reader.url + "?range=day&find=t1")
    reader.expect("the server finds some", 0 < reader.rows() < every)
    page.fill("input[type=search]", "")
    reader.wait_for("a cleared field finds all", lambda: reader.rows() == every)
    reader.expect(f"the address has them all: {page.url}", "find=t1" not in page.evaluate("location.href"))
    # A note says that there are more tenants than are listed, so the page must request a search from the server.
    page.evaluate("document.querySelector('.list').insertAdjacentHTML('beforeend', '<p class=\"note\">more</p>')")
    page.locator("input[type=search]").press_sequentially("t1")
    reader.wait_for("the server is asked for the rest", lambda: "find=t1" in page.evaluate("location.href"))
    reader.expect("he goes on writing", page.evaluate("document.activeElement.selectionStart") == 2)


def scroll_by_keys(reader):
    """Arrow keys scroll a table that is wider than the screen, and do not move the cursor of the pictures."""
    page = reader.page
    # A tenant with too few scans has no curve yet, and so no such table.
    if page.locator(".detail summary").count() == 0:
        return
    page.set_viewport_size({"width": 280, "height": 740})
    page.locator(".detail summary").first.click()
    box = page.locator(".detail .scroll")

    def scrolled():
        box.focus()
        page.keyboard.press("ArrowRight")
        return box.evaluate("box => box.scrollLeft") > 0

    reader.wait_for("it is scrolled", scrolled)
    reader.expect("no figures are told", page.locator(".cursor").count() == 0)


def is_told_of_its_end(browser, url, token):
    """After a restart `serve` does not accept the old cookie: the page says so, and what to do. Returns the problems."""
    reader = Reader(browser, url, token, SCREENS["wide"], "light")
    reader.context.clear_cookies()
    reader.page.keyboard.press("j")
    reader.wait_for("a reader is told", lambda: "?token=" in reader.page.inner_text(".asof"))
    reader.expect("as a status", reader.page.locator(".asof.stale [role=status]").count() == 1)
    reader.end()
    # The browser also logs the refused request, which is no problem.
    return [problem for problem in reader.problems if "401" not in problem]


def is_fresh(reader):
    """The page updates itself regularly."""
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
                    use_keys_on_a_slow_line(reader)
                    find_tenants(reader)
                reader.page.goto(url + "?range=day&tenant=" + (sys.argv[4] if len(sys.argv) > 4 else "/"))
                is_narrow_enough(reader, f"{name}, one tenant")
                reader.page.screenshot(path=folder / f"{scheme}-{name}.png", full_page=name == "phone")
                if name == "phone":
                    scroll_by_keys(reader)
                reader.end()
                problems += [f"{scheme}, {name}: {problem}" for problem in reader.problems]
        problems += [f"anew: {problem}" for problem in is_told_of_its_end(browser, url, token)]
        browser.close()
    print(json.dumps({**found, "problems": problems}))


main()
