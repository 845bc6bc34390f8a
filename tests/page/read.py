#!/usr/bin/env python3
"""Opens a page of `report --html` as a file in Debian's Chromium, and compares it with the JSON of the same report.

read.py PAGE JSON FOLDER    prints one line of JSON; screenshots go to FOLDER

"problems" in the JSON lists everything that is wrong; the test expects an empty list.
"""

import json
import math
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
SCREENS = {"wide": (1100, 900), "phone": (360, 740)}
EDGES_S = [0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800]
WHOLE, GROUND = 1000, 80

# Each bar: its label, the bytes and drawn width (pixels) of each part, and the width of its box.
BARS = """title => {
  const figure = [...document.querySelectorAll("figure")].find(one => one.querySelector("figcaption").textContent === title);
  return [...figure.querySelectorAll("tr")].map(row => [row.querySelector("th").textContent,
    [...row.querySelectorAll("rect")].map(part => [Number(part.dataset.bytes), part.getBoundingClientRect().width]),
    row.querySelector("svg").getBoundingClientRect().width]);
}"""
# For each row of the heat map, the youngest first: whether anything is drawn in the last column.
HEAT = """() => {
  const field = document.querySelector(".heat .field"), box = field.viewBox.baseVal;
  const is_full = y => [...field.querySelectorAll("path:not(.grid)")].some(
    path => path.isPointInFill(new DOMPoint(box.width - 0.5, y + 0.5)));
  return Array.from({ length: box.height }, (_, row) => is_full(box.height - 1 - row));
}"""
# Height of the stacked ages in the last column, in the unit of the highest mark at the left, and that unit.
STACK = """() => {
  const mark = document.querySelector(".area .ys").lastElementChild;
  const [number, unit] = mark.textContent.split(" "), up = 1 - parseFloat(mark.getAttribute("y")) / 100;
  const field = document.querySelector(".area .field"), box = field.viewBox.baseVal;
  const is_full = y => [...field.querySelectorAll("path:not(.grid):not(.line)")].some(
    path => path.isPointInFill(new DOMPoint(box.width - 0.1, y)));
  let top = 0;
  while (top < box.height && !is_full(top + 0.5)) { top += 1; }
  return [Number(number) * (1 - top / box.height) / up, unit];
}"""
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]


class Page:
    """The page in a window of the browser, and the problems found in it."""

    def __init__(self, browser, path, report, size, scheme):
        width, height = size
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.report = report
        self.problems = []
        self.address = f"file://{path}"
        self.page.on("request", lambda request: self.expect(f"asked for {request.url}", request.url == self.address))
        self.page.on("console", lambda said: self.problems.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        self.page.goto(self.address, wait_until="load")

    def expect(self, what, is_so):
        if not is_so:
            self.problems.append(what)

    def same(self, what, drawn, told):
        self.expect(f"{what}: {drawn}, and the report says {told}", drawn == told)


def bins(report, kind):
    """Bytes by age class, summed over all nodes."""
    ages = [0] * len(EDGES_S)
    for node in report["page_age"]:
        for one in node["bins"]:
            ages[max(n for n, edge in enumerate(EDGES_S) if edge * 1000 <= one["older_than_ms"])] += one[kind]
    return ages


def is_to_scale(page, name, bars):
    """The width of each part is in proportion to its bytes, within a pixel. Each very small part may be drawn 0.3% wider."""
    most = max(sum(size for size, _ in parts) for _, parts, _ in bars)
    for label, parts, room in bars:
        little = max(1, sum(size < 0.003 * most for size, _ in parts))
        for size, drawn in parts:
            wanted = room * size / most
            page.expect(f"{name}, {label}: {drawn} pixels for {wanted}", abs(drawn - wanted) <= 1 + (0.0015 + 0.003 * little) * room)


def has_bars(page):
    report = page.report
    kinds = page.page.evaluate(BARS, "By kind")
    is_to_scale(page, "by kind", kinds)
    wanted = {
        "anonymous": sum(bins(report, "anon_bytes")),
        "file": sum(bins(report, "file_bytes")),
        "age unknown": report["unknown_age_bytes"],
        "in swap": report["swapped_bytes"],
    }
    drawn = {name: sum(size for size, _ in parts) for name, parts, _ in kinds}
    page.same("by kind", drawn, {name: size for name, size in wanted.items() if size > 0})
    ages = page.page.evaluate(BARS, "By age")
    is_to_scale(page, "by age", ages)
    both = [anon + file for anon, file in zip(bins(report, "anon_bytes"), bins(report, "file_bytes"))]
    drawn = [sum(size for size, _ in parts) for _, parts, _ in ages]
    page.same("by age", drawn, both[: len(drawn)])
    page.same("older than the oldest bar", sum(both[len(drawn) :]), 0)


def has_time(page):
    """The last column of each picture over time agrees with the report."""
    report = page.report
    both = [anon + file for anon, file in zip(bins(report, "anon_bytes"), bins(report, "file_bytes"))]
    full = page.page.evaluate(HEAT)
    page.same("ages in the heat map", full, [size > 0 for size in both][: len(full)])
    size, unit = page.page.evaluate(STACK)
    wanted = report["resident_bytes"] / 1024 ** UNITS.index(unit)
    page.expect(f"a stack of {size} {unit} for {wanted}", abs(size - wanted) <= 0.01 * wanted)
    rows = page.page.evaluate("[...document.querySelectorAll('[aria-label=\"over time, in numbers\"] tr')].length")
    # On a busy machine there may be times without a scan, which are empty in picture and table.
    columns = page.page.locator(".heat .hits rect").count()
    page.same("times in numbers", rows - 1, columns)


def place_of(report):
    """Returns a function that computes where a point of the curve must be drawn."""
    points = report["curve"]["points"]
    first, last = points[0]["bytes"], points[-1]["bytes"]
    rates = [point["refaults_per_minute"] for point in points if point["refaults_per_minute"] > 0]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    high = max(high, low + 1)

    def place(at):
        x = (at["bytes"] - first) * WHOLE // (last - first)
        rate = at["refaults_per_minute"]
        part = (math.log10(rate) - low) / (high - low) if rate > 0 else None
        return x, WHOLE - (0 if part is None else GROUND + part * (WHOLE - GROUND))

    return place


def near(drawn, wanted):
    return all(abs(one - other) <= 1 for one, other in zip(drawn, wanted))


def has_curve(page):
    curve, place = page.report["curve"], place_of(page.report)
    text = page.page.eval_on_selector("path.curve", "path => path.getAttribute('d')")
    drawn = [tuple(map(int, corner.split())) for corner in text[1:].split("L")]
    page.same("points of the curve", len(drawn), len(curve["points"]))
    for corner, point in zip(drawn, curve["points"]):
        page.expect(f"a point at {corner} of {point}", near(corner, place(point)))
    for name, chosen in [("limit", curve["recommended"]), ("bend", curve["knee"])]:
        dots = page.page.eval_on_selector_all(f"path.dot.{name}", "all => all.map(dot => dot.getAttribute('d'))")
        page.same(f"marks of the {name}", len(dots), 0 if chosen is None else 1)
        for dot in dots:
            at = tuple(map(int, dot[1:].removesuffix("h0").split()))
            page.expect(f"{name} at {at} of {chosen}", near(at, place(chosen)))


def is_text(page):
    """A hostile name of a program is shown as text, and adds no element to the page."""
    page.same("the heading", page.page.inner_text("h1"), page.report["command"].replace("\u202e", "\ufffd"))
    page.same("scripts and images", page.page.locator("script, img, iframe, link, object").count(), 0)


def is_for_keys(page):
    """Every table can be reached, and every closed part be opened, by keys alone."""
    reached = set()
    for _ in range(page.page.locator("summary, [tabindex]").count() + 2):
        page.page.keyboard.press("Tab")
        where = "[document.activeElement.tagName, document.activeElement.ariaLabel ?? document.activeElement.textContent]"
        kind, name = page.page.evaluate(where)
        if kind == "SUMMARY" and name not in reached:
            page.page.keyboard.press("Enter")
        reached.add(name)
    for name in ["The same in numbers", "over time, in numbers", "The curve in numbers", "the curve in numbers", "processes"]:
        page.expect(f"keys reach {name} of {sorted(reached)}", name in reached)
    page.same("closed after all were opened", page.page.locator("details:not([open])").count(), 0)


def main():
    path, report, folder = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])
    problems, backs = [], set()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ["light", "dark"]:
            for name, size in SCREENS.items():
                page = Page(browser, path, report, size, scheme)
                wide, room = page.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                page.expect(f"{wide} pixels wide in {room}", wide <= room)
                backs.add(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
                for check in [is_text, has_bars, has_time, has_curve]:
                    check(page)
                page.page.screenshot(path=folder / f"report-{scheme}-{name}.png", full_page=True)
                if (scheme, name) == ("dark", "wide"):
                    is_for_keys(page)
                    page.page.emulate_media(media="print")
                    page.page.screenshot(path=folder / "report-print.png", full_page=True)
                problems += [f"{scheme}, {name}: {problem}" for problem in page.problems]
                page.context.close()
        version = browser.version
        browser.close()
    if len(backs) != 2:
        problems.append(f"light and dark look alike: {backs}")
    print(json.dumps({"chromium": version, "problems": problems}))


main()
