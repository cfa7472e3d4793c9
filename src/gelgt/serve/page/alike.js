// Who is alike: the rows whose vectors are nearest, with what is predicted for them.

import { text } from "./answer.js";
import { ask, pause } from "./api.js";
import { at, el, link, percent, problem, reachable, split, table, waiting } from "./show.js";

export class LookAlikes {
  constructor(page) {
    this.page = page;
  }

  get recommends() {
    return this.page.card.task.recommends !== null;
  }

  /** Compare with all others; what is predicted for them may come later. */
  async show(asked, signal) {
    const place = at("alike-body");
    const task = this.page.card.task;
    at("alike-aid").textContent =
      `Rows of ${task.entity_table} that the model sees in nearly the same way` +
      (this.recommends ? "." : ", and what it predicts for them.");
    place.replaceChildren(waiting("Comparing with all others…"));
    try {
      const isWhole = await this.compare(asked, signal);
      if (isWhole || signal.aborted) return;
      await overview(signal);
      await this.compare(asked, signal);
    } catch (error) {
      if (signal.aborted) return;
      place.replaceChildren();
      problem(at("alike-problem"), error, () => {
        problem(at("alike-problem"), null);
        this.show(asked, signal);
      });
    }
  }

  /** Show who is alike; whether what is predicted for them is known already. */
  async compare(asked, signal) {
    const { look_alikes: found } = await ask("v1/look-alikes", { body: asked, signal });
    if (signal.aborted) return true;
    const shown = found.length ? this.alikes(found) : el("p", {}, "There is no other.");
    at("alike-body").replaceChildren(shown);
    reachable();
    const known = Object.keys(found[0] ?? {}).length > this.page.card.task.key.length + 1;
    return known || !found.length || this.recommends;
  }

  alikes(found) {
    const keys = this.page.card.task.key;
    const others = split(found[0], keys.length).rest.filter((name) => name !== "likeness");
    const head = [
      [keys.join(", "), false],
      ["likeness", true],
      ...others.map((name) => [name, typeof found[0][name] === "number"]),
    ];
    const rows = found.map((row) => [
      link(this.page, split(row, keys.length).key),
      row.likeness.toFixed(3),
      ...others.map((name) => (name === "probability" ? percent(row[name]) : text(row[name]))),
    ]);
    return table(head, rows, { caption: "Look-alikes" });
  }
}

/** Wait until all predictions are made. */
async function overview(signal) {
  while ((await ask("v1/overview?limit=1", { signal })).predictions === null)
    await pause(1, signal);
}
