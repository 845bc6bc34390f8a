"use strict";
// The page is complete without this script. The script adds: times in the reader's time zone, figures under the pointer or by
// arrow keys, keys, a search while the reader types, and regular updates. It requests only the page itself, and changes nothing.

const REFRESH_MS = 10000;
// Time limit for a response of the server.
const LIMIT_MS = 30000;
// Time after the last typed letter until the search is sent to the server.
const WRITING_MS = 300;
const AGES = ["up to 1s", "1s - 2s", "2s - 5s", "5s - 10s", "10s - 20s", "20s - 30s", "30s - 1m", "1m - 2m", "2m - 5m",
  "5m - 10m", "10m - 30m", "30m - 1h", "1h - 2h", "2h - 6h", "6h - 12h", "12h - 1d", "1d - 7d", "over 7d"];
const HINT = "Point at a picture, or press the left arrow, for the figures of a time.";
const SVG = "http://www.w3.org/2000/svg";

// Index of the column whose figures are shown; -1 for none.
let column = -1;
// Number of requests so far.
let requests = 0;
// Whether the newest request has no response yet. Meanwhile no update is requested: it would replace what the reader
// requested, and restart the time limit again and again, so that a server that does not respond would never be noticed.
let isWaiting = false;
// Timer of the search that is sent when the reader stops typing.
let searchTimer = 0;
// The figures behind the pictures; null until they are parsed.
let tracked = null;

function one(selector) { return document.querySelector(selector); }
function all(selector) { return Array.from(document.querySelectorAll(selector)); }

function size(kib) {
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (kib >= 1000 && unit < units.length - 1) { kib /= 1024; unit += 1; }
  return (kib >= 100 || Number.isInteger(kib) ? Math.round(kib) : kib.toFixed(1)) + " " + units[unit];
}

function showTimes() {
  const today = new Date().toDateString();
  for (const time of all("time")) {
    const at = new Date(Number(time.dataset.ms));
    const day = at.toDateString() === today ? "" : at.toLocaleDateString() + " ";
    time.textContent = day + at.toLocaleTimeString();
    time.dateTime = at.toISOString();
  }
}

// Returns the figures as [from, step, column...]. A column is 0, or [unknown, swapped, refaults, waited, ages...].
function track() {
  const section = one(".detail");
  if (!tracked) { tracked = section ? JSON.parse(section.dataset.track) : [0, 1]; }
  return tracked;
}

function describe(at, step, figures) {
  // The last column has not ended yet.
  const time = new Date(Math.min(at + step, Date.now())).toLocaleString();
  if (!figures) { return time + ": no scan"; }
  const [unknown, swapped, refaults, waited, ...ages] = figures;
  const parts = [size(ages.reduce((sum, kib) => sum + kib, unknown)) + " in memory", size(swapped) + " in swap"];
  if (refaults >= 0) { parts.push(refaults + " refaults a minute"); }
  if (waited >= 0) { parts.push("a process waited " + (waited / 100).toFixed(2) + "% of the time"); }
  const aged = ages.map((kib, age) => (kib > 0 ? AGES[age] + ": " + size(kib) : "")).filter((text) => text);
  if (unknown > 0) { aged.push("unknown: " + size(unknown)); }
  return time + ": " + parts.join(", ") + (aged.length ? ". By age, " + aged.join(", ") : "");
}

function showFigures(which) {
  const [from, step, ...columns] = track();
  column = Math.max(-1, Math.min(columns.length - 1, which));
  all(".cursor").forEach((old) => old.remove());
  one(".readout").textContent = column < 0 ? HINT : describe(from + column * step, step, columns[column]);
  if (column < 0) { return; }
  for (const field of all(".timed")) {
    const box = field.viewBox.baseVal;
    const line = document.createElementNS(SVG, "path");
    const x = ((column + 0.5) * box.width) / columns.length;
    line.setAttribute("class", "cursor");
    line.setAttribute("d", `M${x} 0V${box.height}`);
    field.append(line);
  }
}

function onPointerMove(event) {
  const field = event.target.closest && event.target.closest(".timed");
  if (!field) { return; }
  const box = field.getBoundingClientRect();
  const columns = track().length - 2;
  showFigures(Math.floor(((event.clientX - box.left) / box.width) * columns));
}

function find() {
  const wanted = one("input[type=search]").value;
  for (const row of all(".list tbody tr")) {
    row.hidden = !row.querySelector("a").title.includes(wanted);
  }
}

// Searches the listed tenants for the text in the field. Also requests a search from the server if the page may lack matching
// tenants: if the text does not contain the text of the last search, or if there are more tenants than are listed.
// (Regression: when the reader cleared the field, the list still had only the tenants of the last search.)
function search() {
  find();
  clearTimeout(searchTimer);
  const field = one("input[type=search]");
  const isNarrower = field.value.includes(field.defaultValue) && !one(".list .note");
  if (field.value !== field.defaultValue && !isNarrower) { searchTimer = setTimeout(() => load(searchAddress(), "replaceState"), WRITING_MS); }
}

// Returns the address of a search for the text in the field.
function searchAddress() {
  return location.origin + "/?" + new URLSearchParams(new FormData(one("form")));
}

// Replaces the content of this page by that of another page, and keeps focus, scroll positions and open parts.
function replace(text) {
  // Style and script of the new page are the same, so only its main part is used.
  const part = text.slice(text.indexOf("<main"), text.indexOf("</main>"));
  const main = new DOMParser().parseFromString(part, "text/html").querySelector("main");
  if (!main) { return false; }
  const field = one("input[type=search]");
  // The typed text, if the server has not searched for it yet; otherwise the text is in the new page.
  const wanted = field.value === field.defaultValue ? null : field.value;
  const isWriting = document.activeElement === field;
  const caret = [field.selectionStart, field.selectionEnd];
  const link = document.activeElement && document.activeElement.title;
  const scrolled = [one(".list .scroll"), one(".actions")].map((box) => (box ? box.scrollTop : 0));
  const opened = all("details[open] > summary").map((summary) => summary.textContent);
  document.title = main.dataset.title;
  one("main").replaceWith(document.adoptNode(main));
  if (wanted !== null) { one("input[type=search]").value = wanted; }
  all("summary").forEach((summary) => { summary.parentElement.open = opened.includes(summary.textContent); });
  preparePage();
  [one(".list .scroll"), one(".actions")].forEach((box, n) => { if (box) { box.scrollTop = scrolled[n]; } });
  if (isWriting) {
    one("input[type=search]").focus();
    one("input[type=search]").setSelectionRange(...caret);
  }
  const again = link && all(".list tbody a").find((row) => row.title === link);
  if (again) { again.focus({ preventScroll: true }); }
  return true;
}

// Requests a page; returns its text, and the message to show if this text is no page. The text is empty after an error.
async function fetchPage(url) {
  const asking = { credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(LIMIT_MS) };
  try {
    const answer = await fetch(url, asking);
    // The cookie is valid only until the `serve` that made it ends.
    if (answer.status === 401) { return ["", "pagetide was started anew: open this page with ?token=TOKEN once more"]; }
    if (!answer.ok && answer.status !== 404) { return ["", "the answer is " + answer.status]; }
    return [await answer.text(), "what was answered is no page"];
  } catch (_) { return ["", "pagetide serve does not answer"]; }
}

// Loads the page at an address and shows it. `remembering` is the function that records the address in the browser's history
// (pushState, replaceState), or undefined.
async function load(url, remembering) {
  requests += 1;
  const request = requests;
  isWaiting = true;
  const [text, why] = await fetchPage(url);
  // The reader has requested another page meanwhile.
  if (request !== requests) { return; }
  isWaiting = false;
  if (text && remembering) { history[remembering](null, "", url); }
  const isShown = text && replace(text);
  one(".asof").classList.toggle("stale", !isShown);
  // The text is set only if it has changed, because a screen reader would read it aloud at each try.
  const message = isShown ? "" : " - " + why;
  if (one(".why").textContent !== message) { one(".why").textContent = message; }
}

function refresh() {
  if (!document.hidden && !isWaiting) { load(location.href); }
}

function go(link) {
  column = -1;
  clearTimeout(searchTimer);
  const row = link.closest(".list tbody tr");
  if (row) {
    // The row is marked before the response comes, so that the next key moves on from this row.
    all("tr.chosen").forEach((old) => old.classList.remove("chosen"));
    row.classList.add("chosen");
  }
  load(link.href, "pushState");
}

function moveSelection(by) {
  const rows = all(".list tbody tr").filter((row) => !row.hidden);
  const at = rows.findIndex((row) => row.classList.contains("chosen"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  if (!row) { return; }
  row.scrollIntoView({ block: "nearest" });
  const link = row.querySelector("a");
  link.focus({ preventScroll: true });
  go(link);
}

function onKey(event) {
  const isWriting = event.target.matches && event.target.matches("input");
  if (event.ctrlKey || event.altKey || event.metaKey) { return; }
  // In a table that is wider than its box the arrow keys scroll.
  const box = event.target.closest && event.target.closest(".detail .scroll");
  if (box && event.key.startsWith("Arrow") && box.scrollWidth > box.clientWidth) { return; }
  const keys = {
    j: () => moveSelection(1),
    k: () => moveSelection(-1),
    "/": () => one("input[type=search]").focus(),
    1: () => go(all("nav a")[0]),
    2: () => go(all("nav a")[1]),
    3: () => go(all("nav a")[2]),
    ArrowLeft: () => showFigures(column < 0 ? track().length - 3 : Math.max(0, column - 1)),
    ArrowRight: () => showFigures(column < 0 ? track().length - 3 : column + 1),
    Escape: () => showFigures(-1),
  };
  if (isWriting && event.key === "Escape") { event.target.blur(); return; }
  if (isWriting || !keys[event.key]) { return; }
  event.preventDefault();
  keys[event.key]();
}

function onClick(event) {
  const link = event.target.closest && event.target.closest("a");
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.origin !== location.origin) { return; }
  event.preventDefault();
  go(link);
}

// Sends the search to the server, which also knows the tenants that are not listed.
function onSubmit(event) {
  event.preventDefault();
  clearTimeout(searchTimer);
  load(searchAddress(), "pushState");
}

// Prepares the page after its content was loaded or replaced.
function preparePage() {
  tracked = null;
  showTimes();
  search();
  showFigures(column);
  one("form").addEventListener("submit", onSubmit);
  one("input[type=search]").addEventListener("input", search);
}

document.addEventListener("pointermove", onPointerMove);
document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
window.addEventListener("popstate", () => { clearTimeout(searchTimer); load(location.href); });
document.addEventListener("visibilitychange", refresh);
preparePage();
setInterval(refresh, REFRESH_MS);
