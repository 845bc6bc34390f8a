"use strict";
// What the page has more with a script: times of the reader's own zone, figures under the pointer or by the arrow keys, keys,
// finding while one writes, and a fresh page now and then. It asks for nothing but the page itself, and changes nothing.

const REFRESH_MS = 10000;
const AGES = ["up to 1s", "1s - 2s", "2s - 5s", "5s - 10s", "10s - 20s", "20s - 30s", "30s - 1m", "1m - 2m", "2m - 5m",
  "5m - 10m", "10m - 30m", "30m - 1h", "1h - 2h", "2h - 6h", "6h - 12h", "12h - 1d", "1d - 7d", "over 7d"];
const HINT = "Point at a picture, or press the left arrow, for the figures of a time.";
const SVG = "http://www.w3.org/2000/svg";

// The column whose figures are told; -1 for none.
let column = -1;
let asked = 0;
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
  if (!figures) { return time + ": nobody looked"; }
  const [unknown, swapped, back, waited, ...ages] = figures;
  const parts = [size(ages.reduce((sum, kib) => sum + kib, unknown)) + " in memory", size(swapped) + " in swap"];
  if (back >= 0) { parts.push(back + " pages came back a minute"); }
  if (waited >= 0) { parts.push("somebody waited " + (waited / 100).toFixed(2) + "% of the time"); }
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

// Puts a page's content in the place of this one's, and leaves the reader where he was.
function replace(text) {
  // Its style and its script are those that are here.
  const part = text.slice(text.indexOf("<main"), text.indexOf("</main>"));
  const main = new DOMParser().parseFromString(part, "text/html").querySelector("main");
  if (!main) { return false; }
  const search = one("input[type=search]");
  // What was not asked for yet; what was asked for is in the new page.
  const wanted = search.value === search.defaultValue ? null : search.value;
  const isWriting = document.activeElement === search;
  const link = document.activeElement && document.activeElement.title;
  const scrolled = [one(".list .scroll"), one(".actions")].map((box) => (box ? box.scrollTop : 0));
  const opened = all("details[open] > summary").map((summary) => summary.textContent);
  document.title = main.dataset.title;
  one("main").replaceWith(document.adoptNode(main));
  if (wanted !== null) { one("input[type=search]").value = wanted; }
  all("summary").forEach((summary) => { summary.parentElement.open = opened.includes(summary.textContent); });
  begin();
  [one(".list .scroll"), one(".actions")].forEach((box, n) => { if (box) { box.scrollTop = scrolled[n]; } });
  if (isWriting) { one("input[type=search]").focus(); }
  const again = link && all(".list tbody a").find((row) => row.title === link);
  if (again) { again.focus({ preventScroll: true }); }
  return true;
}

async function load(url, isNew) {
  asked += 1;
  const mine = asked;
  let text = "";
  try {
    const answer = await fetch(url, { credentials: "same-origin", cache: "no-store", redirect: "error" });
    text = answer.ok || answer.status === 404 ? await answer.text() : "";
  } catch (_) { text = ""; }
  // Somebody has asked for another one since.
  if (mine !== asked) { return; }
  if (text && isNew) { history.pushState(null, "", url); }
  const isShown = text && replace(text);
  one(".asof").classList.toggle("stale", !isShown);
}

function refresh() {
  if (!document.hidden) { load(location.href, false); }
}

function go(link) {
  column = -1;
  load(link.href, true);
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
  const fields = new URLSearchParams(new FormData(event.target));
  load(location.origin + "/?" + fields, true);
}

// After each page that was put in place.
function begin() {
  tracked = null;
  showTimes();
  find();
  tell(column);
  one("form").addEventListener("submit", submit);
  one("input[type=search]").addEventListener("input", find);
}

document.addEventListener("pointermove", point);
document.addEventListener("keydown", press);
document.addEventListener("click", click);
window.addEventListener("popstate", refresh);
document.addEventListener("visibilitychange", refresh);
begin();
setInterval(refresh, REFRESH_MS);
