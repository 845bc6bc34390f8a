"use strict";
// What the page has more with a script: times of the reader's own zone, figures under the pointer or by the arrow keys, keys,
// finding while one writes, and a fresh page now and then. It asks for nothing but the page itself, and changes nothing.

const REFRESH_MS = 10000;
// An answer that takes longer is none.
const LIMIT_MS = 30000;
// After the last letter that was written, before the server is asked to find.
const WRITING_MS = 300;
const AGES = ["up to 1s", "1s - 2s", "2s - 5s", "5s - 10s", "10s - 20s", "20s - 30s", "30s - 1m", "1m - 2m", "2m - 5m",
  "5m - 10m", "10m - 30m", "30m - 1h", "1h - 2h", "2h - 6h", "6h - 12h", "12h - 1d", "1d - 7d", "over 7d"];
const HINT = "Point at a picture, or press the left arrow, for the figures of a time.";
const SVG = "http://www.w3.org/2000/svg";

// The column whose figures are told; -1 for none.
let column = -1;
let asked = 0;
// The newest question has no answer yet: no fresh page is asked for in between, which would be in the way of what the reader
// asked for, and of ever finding out that nobody answers.
let isWaiting = false;
// The question that is put when he writes no more.
let later = 0;
// The figures behind the pictures, once they were read.
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

// [from, step, column...], a column being 0 or [unknown, swapped, back, waited, ages...].
function track() {
  const section = one(".detail");
  if (!tracked) { tracked = section ? JSON.parse(section.dataset.track) : [0, 1]; }
  return tracked;
}

function words(at, step, figures) {
  // The last one is not over yet.
  const time = new Date(Math.min(at + step, Date.now())).toLocaleString();
  if (!figures) { return time + ": no scan"; }
  const [unknown, swapped, back, waited, ...ages] = figures;
  const parts = [size(ages.reduce((sum, kib) => sum + kib, unknown)) + " in memory", size(swapped) + " in swap"];
  if (back >= 0) { parts.push(back + " refaults a minute"); }
  if (waited >= 0) { parts.push("a process waited " + (waited / 100).toFixed(2) + "% of the time"); }
  const aged = ages.map((kib, age) => (kib > 0 ? AGES[age] + ": " + size(kib) : "")).filter((text) => text);
  if (unknown > 0) { aged.push("unknown: " + size(unknown)); }
  return time + ": " + parts.join(", ") + (aged.length ? ". By age, " + aged.join(", ") : "");
}

function tell(which) {
  const [from, step, ...columns] = track();
  column = Math.max(-1, Math.min(columns.length - 1, which));
  all(".cursor").forEach((old) => old.remove());
  one(".readout").textContent = column < 0 ? HINT : words(from + column * step, step, columns[column]);
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

function point(event) {
  const field = event.target.closest && event.target.closest(".timed");
  if (!field) { return; }
  const box = field.getBoundingClientRect();
  const columns = track().length - 2;
  tell(Math.floor(((event.clientX - box.left) / box.width) * columns));
}

function find() {
  const wanted = one("input[type=search]").value;
  for (const row of all(".list tbody tr")) {
    row.hidden = !row.querySelector("a").title.includes(wanted);
  }
}

// The server has what is not here: where the field no longer narrows what it was asked for, or more tenants are there than are
// listed, it is asked to find. (The story: whoever cleared the field went on seeing only what it had found before.)
function search() {
  find();
  clearTimeout(later);
  const field = one("input[type=search]");
  const isNarrower = field.value.includes(field.defaultValue) && !one(".list .note");
  if (field.value !== field.defaultValue && !isNarrower) { later = setTimeout(() => load(found(), "replaceState"), WRITING_MS); }
}

// The address of what is to be found.
function found() {
  return location.origin + "/?" + new URLSearchParams(new FormData(one("form")));
}

// Puts a page's content in the place of this one's, and leaves the reader where he was.
function replace(text) {
  // Its style and its script are those that are here.
  const part = text.slice(text.indexOf("<main"), text.indexOf("</main>"));
  const main = new DOMParser().parseFromString(part, "text/html").querySelector("main");
  if (!main) { return false; }
  const field = one("input[type=search]");
  // What was not asked for yet; what was asked for is in the new page.
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
  begin();
  [one(".list .scroll"), one(".actions")].forEach((box, n) => { if (box) { box.scrollTop = scrolled[n]; } });
  if (isWriting) {
    one("input[type=search]").focus();
    one("input[type=search]").setSelectionRange(...caret);
  }
  const again = link && all(".list tbody a").find((row) => row.title === link);
  if (again) { again.focus({ preventScroll: true }); }
  return true;
}

// What the server has at an address, and in words why it has nothing that can be shown.
async function answered(url) {
  const asking = { credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(LIMIT_MS) };
  try {
    const answer = await fetch(url, asking);
    // Its cookie ends with the process that gave it.
    if (answer.status === 401) { return ["", "pagetide was started anew: open this page with ?token=TOKEN once more"]; }
    if (!answer.ok && answer.status !== 404) { return ["", "the answer is " + answer.status]; }
    return [await answer.text(), "what was answered is no page"];
  } catch (_) { return ["", "pagetide serve does not answer"]; }
}

// `remembering` is how the browser's history has it: pushState, replaceState, or none of both.
async function load(url, remembering) {
  asked += 1;
  const mine = asked;
  isWaiting = true;
  const [text, why] = await answered(url);
  // Somebody has asked for another one since.
  if (mine !== asked) { return; }
  isWaiting = false;
  if (text && remembering) { history[remembering](null, "", url); }
  const isShown = text && replace(text);
  one(".asof").classList.toggle("stale", !isShown);
  // Told once: who reads with his ears would hear it at each try.
  const told = isShown ? "" : " - " + why;
  if (one(".why").textContent !== told) { one(".why").textContent = told; }
}

function refresh() {
  if (!document.hidden && !isWaiting) { load(location.href); }
}

function go(link) {
  column = -1;
  clearTimeout(later);
  const row = link.closest(".list tbody tr");
  if (row) {
    // Before the answer is there, so that the next key goes on from here.
    all("tr.chosen").forEach((old) => old.classList.remove("chosen"));
    row.classList.add("chosen");
  }
  load(link.href, "pushState");
}

function step(by) {
  const rows = all(".list tbody tr").filter((row) => !row.hidden);
  const at = rows.findIndex((row) => row.classList.contains("chosen"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  if (!row) { return; }
  row.scrollIntoView({ block: "nearest" });
  const link = row.querySelector("a");
  link.focus({ preventScroll: true });
  go(link);
}

function press(event) {
  const isWriting = event.target.matches && event.target.matches("input");
  if (event.ctrlKey || event.altKey || event.metaKey) { return; }
  // Of a table that is wider than its place arrows show the rest.
  const box = event.target.closest && event.target.closest(".detail .scroll");
  if (box && event.key.startsWith("Arrow") && box.scrollWidth > box.clientWidth) { return; }
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    "/": () => one("input[type=search]").focus(),
    1: () => go(all("nav a")[0]),
    2: () => go(all("nav a")[1]),
    3: () => go(all("nav a")[2]),
    ArrowLeft: () => tell(column < 0 ? track().length - 3 : Math.max(0, column - 1)),
    ArrowRight: () => tell(column < 0 ? track().length - 3 : column + 1),
    Escape: () => tell(-1),
  };
  if (isWriting && event.key === "Escape") { event.target.blur(); return; }
  if (isWriting || !keys[event.key]) { return; }
  event.preventDefault();
  keys[event.key]();
}

function click(event) {
  const link = event.target.closest && event.target.closest("a");
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.origin !== location.origin) { return; }
  event.preventDefault();
  go(link);
}

// Of more tenants than are listed the server has the rest.
function submit(event) {
  event.preventDefault();
  clearTimeout(later);
  load(found(), "pushState");
}

// After each page that was put in place.
function begin() {
  tracked = null;
  showTimes();
  search();
  tell(column);
  one("form").addEventListener("submit", submit);
  one("input[type=search]").addEventListener("input", search);
}

document.addEventListener("pointermove", point);
document.addEventListener("keydown", press);
document.addEventListener("click", click);
window.addEventListener("popstate", () => { clearTimeout(later); load(location.href); });
document.addEventListener("visibilitychange", refresh);
begin();
setInterval(refresh, REFRESH_MS);
