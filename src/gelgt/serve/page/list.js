// The highest and lowest predictions, with filters and a file of all of them.

import { Failure, Newest, ask, pause } from "./api.js";
import { text } from "./answer.js";
import {
  at,
  bar,
  count,
  el,
  link,
  moment,
  number,
  percent,
  problem,
  reachable,
  say,
  split,
  table,
  waiting,
} from "./show.js";

const FIRST = 50; // rows
const STEP = 200; // more
const MOST = 1000; // that the server gives in one answer
const COLUMNS = 8; // probabilities beside each other; of more only the one that orders
const OFTEN = 0.7; // seconds between two looks at how far the predictions are

export class ListView {
  constructor(page) {
    this.page = page;
    this.newest = new Newest();
    this.asked = null;
    this.limit = FIRST;
    at("filter").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    at("filter").addEventListener("change", (event) => {
      if (event.target.tagName === "SELECT") this.submit();
    });
    at("clear").addEventListener("click", () => page.go({ view: "list" }));
    at("more").addEventListener("click", () => this.more());
    at("csv").addEventListener("click", () => this.download());
  }

  /** What the form says, as an address. */
  submit() {
    const chosen = [...at("categories").querySelectorAll("select")].filter((s) => s.value !== "");
    try {
      this.page.go({
        view: "list",
        order: at("order").value === this.usual ? null : at("order").value || null,
        direction: at("direction").value === "lowest" ? "lowest" : null,
        least: bound("least"),
        most: bound("most"),
        where: chosen.map((select) => `${select.dataset.column}=${select.value.slice(1)}`),
      });
    } catch (error) {
      problem(at("list-problem"), error);
    }
  }

  show(route) {
    const asked = route.toString();
    if (this.asked === asked && !at("list-problem").children.length) return;
    this.asked = asked;
    this.limit = FIRST;
    this.fill(route);
    this.load(route);
  }

  /** The fields say what the address does. */
  fill(route) {
    at("direction").value = route.get("direction") === "lowest" ? "lowest" : "highest";
    for (const id of ["least", "most"]) {
      at(id).value = route.get(id) ?? "";
      at(id).removeAttribute("aria-invalid");
    }
    if (at("order").options.length) at("order").value = route.get("order") ?? this.usual;
    const where = new Map(
      route.getAll("where").map((pair) => [pair.split("=", 1)[0], pair.replace(/^[^=]*=/, "=")]),
    );
    for (const select of at("categories").querySelectorAll("select"))
      select.value = where.get(select.dataset.column) ?? "";
  }

  query(route) {
    const query = new URLSearchParams();
    for (const name of ["order", "direction", "least", "most", "where"])
      for (const value of route.getAll(name)) query.append(name, value);
    return query;
  }

  async load(route) {
    const signal = this.newest.next();
    const query = this.query(route);
    query.set("limit", this.limit);
    problem(at("list-problem"), null);
    at("list-body").setAttribute("aria-busy", "true");
    try {
      let answer = await ask(`v1/overview?${query}`, { signal });
      while (answer.predictions === null) {
        this.progress(answer);
        await pause(OFTEN, signal);
        answer = await ask(`v1/overview?${query}`, { signal });
      }
      if (!signal.aborted) this.listed(answer, route);
    } catch (error) {
      if (signal.aborted) return;
      at("list-body").replaceChildren();
      at("more").hidden = true;
      problem(at("list-problem"), error, () => this.load(route));
    } finally {
      if (!signal.aborted) at("list-body").removeAttribute("aria-busy");
    }
  }

  progress({ done, total }) {
    const max = Math.max(total, 1);
    const made = el("progress", { max, value: done, "aria-label": "Predicted" });
    const words = total ? `Predicting: ${count(done)} of ${count(total)}` : "Predicting…";
    at("list-body").replaceChildren(waiting(words), made);
    at("more").hidden = true;
    at("csv").disabled = true;
  }

  listed(answer, route) {
    this.page.told(answer.data);
    at("csv").disabled = false;
    this.fields(answer);
    this.fill(route);
    const { predictions, matching } = answer;
    const task = this.page.card.task;
    at("list-aid").textContent = this.words(answer);
    if (!matching) {
      at("list-body").replaceChildren(el("p", {}, `No row of ${task.entity_table} fits.`));
    } else {
      at("list-body").replaceChildren(this.table(predictions, answer.order));
    }
    const left = matching - predictions.length;
    at("more").hidden = left <= 0 || this.limit >= MOST;
    if (left > 0 && this.limit >= MOST)
      at("list-body").append(
        el("p", { class: "small" }, `The other ${count(left)} are in the CSV file.`),
      );
    say(`${count(matching)} predictions, of which ${count(predictions.length)} are listed.`);
    reachable();
  }

  words({ predictions, matching, total, population }) {
    const table_ = this.page.card.task.entity_table;
    const own = this.page.card.task.has_own_times;
    const when = predictions.length && !own ? ` at ${moment(predictions[0].time)}` : "";
    const isSample = population > total;
    const sample = `${isSample ? "a sample of" : "all"} ${count(total)}`;
    const whole = isSample ? ` of the ${count(population)}` : "";
    const which = `Predictions for ${sample}${whole} eligible rows of ${table_}${when}.`;
    return matching < total ? `${which} ${count(matching)} of them fit the filters.` : which;
  }

  /** The choices of the form, which come with the first answer; they are made again where new rows
   * change them, since whoever is about to choose would lose the place. */
  fields({ orders, filters }) {
    const made = JSON.stringify([orders, filters]);
    if (this.made === made) return;
    this.made = made;
    this.usual = orders.find((name) => name.startsWith("probability")) ?? orders[0];
    const options = orders.map((name) => el("option", { value: name }, name.replace("_", " ")));
    at("order").replaceChildren(...options);
    at("order-field").hidden = orders.length < 2;
    const selects = Object.entries(filters).map(([name, values], i) =>
      el(
        "div",
        { class: "field" },
        el("label", { for: `where-${i}` }, name),
        el(
          "select",
          { id: `where-${i}`, "data-column": name },
          el("option", { value: "" }, "any"),
          ...values.map((value) => el("option", { value: `=${value}` }, value || "(empty)")),
        ),
      ),
    );
    at("categories").replaceChildren(...selects);
  }

  table(rows, order) {
    const keys = this.page.card.task.key;
    const { rest } = split(rows[0], keys.length);
    const own = this.page.card.task.has_own_times;
    const shares = rest.filter((name) => name.startsWith("probability_"));
    const names = rest.filter(
      (name) =>
        (name !== "time" || own) &&
        (name !== "prediction" || rows[0].probability === undefined) &&
        (!shares.includes(name) || shares.length <= COLUMNS || name === order),
    );
    const head = [
      ["", true],
      [keys.join(", "), false],
      ...names.map((name) => [name.replace("_", " "), typeof rows[0][name] === "number"]),
      ...(rows[0].probability === undefined ? [] : [["", false]]),
    ];
    const body = rows.map((row, place) => {
      const parts = split(row, keys.length).key;
      const share = row.probability === undefined ? [] : [bar(row.probability)];
      const values = names.map((name) => cell(name, row[name]));
      return [count(place + 1), link(this.page, parts), ...values, ...share];
    });
    return table(head, body, { named: 1, caption: "Predictions", css: "ranked" });
  }

  more() {
    this.limit = Math.min(this.limit + STEP, MOST);
    this.load(new URLSearchParams(this.asked));
  }

  async download() {
    const button = at("csv");
    button.disabled = true;
    problem(at("list-problem"), null);
    try {
      const query = this.query(new URLSearchParams(this.asked));
      const blob = await ask(`v1/overview.csv?${query}`, { as: "blob" });
      const file = el("a", { href: URL.createObjectURL(blob) });
      file.download = `${this.page.card.run}-predictions.csv`;
      file.click();
      setTimeout(() => URL.revokeObjectURL(file.href), 60_000);
      say("The file is downloaded.");
    } catch (error) {
      problem(at("list-problem"), error, () => this.download());
    } finally {
      button.disabled = false;
    }
  }
}

function cell(name, value) {
  if (name === "time") return moment(value);
  return name.startsWith("probability") ? percent(value) : text(value);
}

/** A bound as the server takes it: 0.5, or 50 %. */
function bound(id) {
  const written = at(id).value.trim();
  at(id).removeAttribute("aria-invalid");
  if (!written) return null;
  const isShare = written.endsWith("%");
  const value = Number(written.replace("%", "").replace(",", ".").replace("−", "-").trim() || NaN);
  if (!Number.isFinite(value)) {
    at(id).setAttribute("aria-invalid", "true");
    at(id).focus();
    throw new Failure("bad_number", `'${written}' is no number.`, "Write it like 0.5 or 50 %.");
  }
  return String(isShare ? value / 100 : value);
}
