// What a prediction looks like: a probability, a number with its interval, classes.

import { bar, el, number, percent, split, table } from "./show.js";

const CLASSES = 12; // that are shown before the others are

/** A prediction of any task, to be read beside a likeness or in a list. */
export const text = (value) =>
  Array.isArray(value) ? value.join(", ") || "none" : number(value);

/** What is predicted, as elements; the first says it in a line. */
export function drawn(row, type, level) {
  if (type === "regression") return value(row, level);
  return row.probability !== undefined ? decision(row) : classes(row);
}

function decision(row) {
  const isTrue = Number(row.prediction) > 0;
  return [
    el("p", { class: "big" }, percent(row.probability), el("span", {}, " probability")),
    bar(row.probability),
    el("p", { class: "verdict" }, "The model says ", el("b", {}, isTrue ? "yes" : "no"), "."),
  ];
}

function value(row, level) {
  const shown = [el("p", { class: "big" }, number(row.prediction, 4))];
  if (row.lower === undefined) return shown;
  const { lower: low, upper: high } = row;
  const words = `${number(low)} to ${number(high)}`;
  const range = el(
    "p",
    { class: "verdict" },
    `${number(100 * level)}\u00a0% interval: `,
    el("b", {}, words),
  );
  return [...shown, interval(low, row.prediction, high), range];
}

/** The interval as a line with the prediction on it, to scale. */
function interval(low, middle, high) {
  const place = high > low ? (middle - low) / (high - low) : 0.5;
  const dot = el("i");
  dot.style.left = `${100 * Math.min(Math.max(place, 0), 1)}%`;
  return el("span", { class: "range", "aria-hidden": "true" }, dot);
}

function classes(row) {
  const start = "probability_";
  const all = Object.keys(row)
    .filter((name) => name.startsWith(start) && typeof row[name] === "number")
    .map((name) => [name.slice(start.length), row[name]])
    .sort((a, b) => b[1] - a[1]);
  const rows = (some) =>
    table(
      [
        ["class", false],
        ["probability", true],
        ["", false],
      ],
      some.map(([name, share]) => [name, percent(share), bar(share)]),
      { caption: "Probabilities", css: "classes" },
    );
  const first = el("p", { class: "big words" }, text(row.prediction));
  const shown = [first, rows(all.slice(0, CLASSES))];
  if (all.length > CLASSES) {
    const summary = el("summary", {}, `All ${all.length} classes`);
    shown.push(el("details", {}, summary, rows(all)));
  }
  return shown;
}

/** The rows that are recommended, the best first. */
export function ranked(rows, keys, caption) {
  const { rest } = split(rows[0], keys);
  const names = rest.filter((name) => !["time", "rank", "score"].includes(name));
  const head = [["Rank", true], ...names.map((name) => [name, false]), ["Score", true]];
  const body = rows.map((row) => [
    number(row.rank),
    ...names.map((name) => String(row[name])),
    number(row.score),
  ]);
  return table(head, body, { named: 1, caption, css: "ranked" });
}

/** The reasons of one recommended row, folded up behind its heading but for the first. */
export function item(section, place) {
  const name = section.querySelector("h2").textContent;
  const rest = [...section.children].filter((child) => child.tagName !== "H2");
  return el("details", { open: place === 0, class: "item" }, el("summary", {}, name), ...rest);
}

/** A section folded up behind its heading. */
export function fold(section) {
  const heading = section.querySelector("h2");
  heading.remove();
  const inside = [...section.childNodes];
  section.append(el("details", {}, el("summary", {}, heading), ...inside));
  section.classList.add("fold");
  return section;
}
