// The model card: task, scores, calibration, what it looks at, schema; how new the rows are.

import { Failure, Newest, ask, pause } from "./api.js";
import {
  adopt,
  at,
  count,
  el,
  moment,
  notes,
  number,
  problem,
  reachable,
  say,
  table,
  waiting,
} from "./show.js";

const OFTEN = 2; // seconds between two looks at a refresh that takes long
const LONG = 300; // of them

export class ModelView {
  constructor(page) {
    this.page = page;
    this.newest = new Newest();
    this.asked = null;
    at("refresh").addEventListener("click", () => this.refresh());
  }

  show() {
    if (this.asked && !at("model-problem").children.length) return;
    this.asked = "model";
    this.load();
  }

  async load() {
    const signal = this.newest.next();
    problem(at("model-problem"), null);
    if (!at("model-body").children.length)
      at("model-body").replaceChildren(el("section", {}, waiting("Reading the run…")));
    try {
      const [ready, card, html] = await Promise.all([
        ask("v1/health/ready", { signal }),
        ask("v1/model", { signal }),
        ask("v1/model", { signal, as: "html" }),
      ]);
      if (signal.aborted) return;
      this.ready(ready, card);
      this.card(card, html);
    } catch (error) {
      if (signal.aborted) return;
      this.asked = null;
      at("model-body").replaceChildren();
      problem(at("model-problem"), error, () => this.load());
    }
  }

  ready({ data, refresh }, card = this.page.card) {
    this.page.told(data);
    const tables = Object.values(card.schema);
    const rows = tables.reduce((sum, each) => sum + each.rows, 0);
    at("data-facts").replaceChildren(
      ...fact("Newest row", moment(data.newest_row)),
      ...fact("Read", moment(data.loaded_at)),
      ...fact("Last look for new rows", looked(refresh)),
      ...fact("Tables", `${count(tables.length)} with ${count(rows)} rows`),
    );
  }

  card(card, html) {
    const nodes = adopt(html, "card");
    const isSection = (node) => node.tagName === "SECTION";
    const task = el(
      "section",
      { "aria-labelledby": "card-task" },
      el("h2", { id: "card-task" }, "Task"),
      ...nodes.filter((node) => !isSection(node)),
      el("dl", { class: "facts" }, ...facts(card)),
      sql(card.task.sql),
    );
    const sections = nodes.filter(isSection);
    at("model-body").replaceChildren(task, ...sections, ...looks(card), schema(card));
    reachable();
  }

  async refresh() {
    const button = at("refresh");
    button.disabled = true;
    problem(at("refresh-problem"), null);
    at("refresh-told").replaceChildren(waiting("Looking at the source…"));
    try {
      const before = await ask("v1/health/ready");
      let { refresh, data } = await ask("v1/refresh", { post: true });
      for (let tries = 0; refresh === null; tries += 1) {
        if (tries > LONG) throw new Failure("too_slow", "The refresh still goes on.");
        at("refresh-told").replaceChildren(waiting("Reading the new rows takes a while…"));
        await pause(OFTEN);
        const now = await ask("v1/health/ready");
        if (now.refresh && now.refresh.at !== before.refresh?.at) ({ refresh, data } = now);
      }
      const words = refresh.changed ? "New rows answer from now on." : "There are no new rows.";
      at("refresh-told").replaceChildren(...notes([words]));
      this.ready({ data, refresh });
    } catch (error) {
      at("refresh-told").replaceChildren();
      problem(at("refresh-problem"), error);
      ask("v1/health/ready").then((now) => this.ready(now)).catch(() => {});
    } finally {
      button.disabled = false;
      say("");
    }
  }
}

const fact = (name, value) => [el("div", {}, el("dt", {}, name), el("dd", {}, value))];

function looked(refresh) {
  if (!refresh) return "not since the start";
  const went = refresh.ok ? (refresh.changed ? "new rows" : "nothing new") : "failed";
  return `${moment(refresh.at)}: ${went}`;
}

function facts(card) {
  const { rows } = card;
  const labels = Object.entries(rows).map(([split, n]) => `${count(n)} ${split}`);
  return [
    ...fact("Run", card.run),
    ...fact("Model", `${card.model}${card.preset ? `, preset ${card.preset}` : ""}`),
    ...fact("Regime", card.regime ?? "unknown"),
    ...fact("Label rows", labels.join(", ")),
    ...fact("gelgt", card.gelgt),
  ];
}

function sql(text) {
  if (!text) return null;
  const shown = el("pre", {}, el("code", {}, text));
  return el("details", {}, el("summary", {}, "The labels as SQL"), shown);
}

/** The columns of the history that the model uses most. */
function looks({ looks_at: { columns } }) {
  if (!columns.length) return [];
  const rows = columns.map(({ name, gain }) => [name, number(gain)]);
  return [
    el(
      "section",
      { "aria-labelledby": "card-history" },
      el("h2", { id: "card-history" }, "Columns of the history"),
      el(
        "p",
        { class: "aid" },
        "Aggregates over the rows before the seed time, by what they were worth when they were " +
          "chosen. < follows a foreign key backwards, > forwards.",
      ),
      table(
        [
          ["Column", false],
          ["Gain", true],
        ],
        rows,
        { caption: "Columns of the history" },
      ),
    ),
  ];
}

function schema({ schema: tables }) {
  const head = [
    ["Table", false],
    ["Rows", true],
    ["Key", false],
    ["Time", false],
    ["Refers to", false],
  ];
  const rows = Object.entries(tables).map(([name, each]) => [
    name,
    count(each.rows),
    each.key.join(", "),
    each.time ?? "none",
    Object.entries(each.foreign_keys)
      .map(([column, to]) => `${column} → ${to}`)
      .join(", "),
  ]);
  return el(
    "section",
    { "aria-labelledby": "card-schema" },
    el("h2", { id: "card-schema" }, "Schema"),
    el("p", { class: "aid" }, "The tables that the model reads, and how they are linked."),
    table(head, rows, { caption: "Tables" }),
  );
}
