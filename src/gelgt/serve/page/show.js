// The pieces that the views are made of. Whatever comes from the server becomes text, never markup;
// the one exception is `adopt`, for pages that the server has escaped.

export const at = (id) => document.getElementById(id);

/** An element; attributes whose value is a function are listeners, false and null are left out. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const MISSING = "–";

/** At most so many significant digits, thousands grouped, as in the report. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return MISSING;
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent < -4 || exponent >= 7) {
    const power = [...String(exponent)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${plain(value / 10 ** exponent, digits - 1)} × 10${power}`;
  }
  return plain(value, Math.max(digits - 1 - exponent, 0));
}

function plain(value, decimals) {
  const options = { maximumFractionDigits: decimals, useGrouping: true };
  return value.toLocaleString("en-US", options).replace("-", "−");
}

export const count = (value) => Number(value).toLocaleString("en-US");

/** A probability; never 0 or 100 % where it is neither. */
export function percent(share) {
  if (typeof share !== "number") return MISSING;
  if (share > 0 && share < 0.0005) return "< 0.1\u00a0%";
  if (share < 1 && share >= 0.9995) return "> 99.9\u00a0%";
  return `${(100 * share).toFixed(1)}\u00a0%`;
}

/** A time of the server, which has no zone and means UTC, as people read it. */
export function moment(text) {
  if (!text) return MISSING;
  const parts = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(:\d\d)?)?/.exec(text);
  if (!parts) return String(text);
  const seconds = parts[3] && parts[3] !== ":00" ? parts[3] : "";
  return parts[2] ? `${parts[1]} ${parts[2]}${seconds} UTC` : parts[1];
}

/** The parts of a key as texts: the form that addresses and requests have it in. */
export const keyParts = (key) => (Array.isArray(key) ? key : [key]).map(String);
export const keyText = (parts) => parts.join(", ");
export const keyBody = (parts) => (parts.length === 1 ? parts[0] : parts);

/** The columns of a row: those of the key come first. */
export function split(row, keys) {
  const names = Object.keys(row);
  return {
    key: names.slice(0, keys).map((name) => String(row[name])),
    rest: names.slice(keys),
  };
}

/** A link to an entity. */
export const link = (page, parts) =>
  el("a", { href: page.href({ entity: parts }) }, keyText(parts));

export function say(text) {
  at("status").textContent = text;
}

/** A table in a box that scrolls sideways; cells are texts or elements. `head` has a name and
 * whether it is a number for each column, and the column `named` names the row. */
export function table(head, rows, { named = 0, caption = "", css = "" } = {}) {
  const cell = (tag, [, isNumber], content, scope) =>
    el(tag, { class: isNumber ? "n" : null, scope }, content);
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      ...row.map((content, i) =>
        i === named ? cell("th", head[i], content, "row") : cell("td", head[i], content),
      ),
    ),
  );
  return el(
    "div",
    { class: `scroll ${css}`.trim() },
    el(
      "table",
      {},
      caption ? el("caption", { class: "unseen" }, caption) : null,
      el("thead", {}, el("tr", {}, ...head.map((h) => cell("th", h, h[0], "col")))),
      el("tbody", {}, ...body),
    ),
  );
}

/** A bar for a share between 0 and 1; the number beside it says the same. */
export function bar(share) {
  const inside = el("i");
  inside.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return el("span", { class: "share", "aria-hidden": "true" }, inside);
}

export const notes = (texts, kind = "note") =>
  (texts ?? []).map((text) => el("p", { class: kind }, text));

/** Something that takes a while. */
export const waiting = (text) => el("p", { class: "waiting" }, text);

// What may be otherwise the next time.
const PASSING = ["gone", "busy", "too_slow", "closing", "not_yet", "failed", "bug", "unauthorized"];

/** Say what went wrong in a place, which is announced; null clears it. */
export function problem(place, error, again) {
  place.replaceChildren();
  if (!error || error.name === "AbortError") return;
  if (error.code === undefined) console.error(error); // a bug of the page
  const known = error.code !== undefined ? error : { message: "The page failed: a bug in gelgt." };
  const hint = known.hint ? ` ${known.hint}` : "";
  const isPassing = known.code === undefined || PASSING.includes(known.code);
  const button =
    again && isPassing ? el("button", { type: "button", click: again }, "Try again") : null;
  place.append(
    el("div", { class: "warn problem" }, el("p", {}, el("b", {}, known.message), hint), button),
  );
}

/** What a page of the server has in its main part, or all of what is no whole page. The rest is not
 * even parsed: its style and script are here already, and browsers report those that are inline. */
export function adopt(html, prefix) {
  const [from, to] = [html.indexOf("<main>"), html.lastIndexOf("</main>")];
  const part = from < 0 ? html : html.slice(from + "<main>".length, to);
  const content = new DOMParser().parseFromString(part, "text/html").body;
  for (const named of content.querySelectorAll("[id]")) named.id = `${prefix}-${named.id}`;
  for (const head of content.querySelectorAll("table.sorts thead th")) sorts(head);
  return [...content.childNodes].map((node) => document.adoptNode(node));
}

function sorts(head) {
  const button = head.ownerDocument.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  head.scope = "col";
  button.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const isUp = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const value = (row) => {
      const cell = row.cells[head.cellIndex];
      const text = cell.dataset.v ?? cell.textContent;
      return text === "" || isNaN(text) ? text : Number(text);
    };
    const order = (a, b) =>
      typeof a === "number" && typeof b === "number"
        ? a - b
        : String(a).localeCompare(String(b));
    const rows = [...body.rows].sort((a, b) => (isUp ? 1 : -1) * order(value(a), value(b)));
    body.append(...rows);
  });
}

/** What is wider than the page scrolls by itself, and so has to be reached with the keyboard. */
export function reachable() {
  for (const box of document.querySelectorAll(".scroll,figure.wide,pre")) {
    const isCut = box.scrollWidth > box.clientWidth;
    const says = { tabindex: "0", role: "group", "aria-label": "Scrolls sideways" };
    for (const [name, value] of Object.entries(says))
      if (isCut) box.setAttribute(name, value);
      else box.removeAttribute(name);
  }
}
