// The page at /: one view at a time, chosen by the address behind #, so that it can be shared and
// the back button works.
//
//   api.js      requests, the token, errors, and that only the newest answer counts
//   show.js     elements, numbers, tables, what the server sends as HTML
//   search.js   the combobox
//   answer.js   what a prediction looks like
//   alike.js    who is alike
//   entity.js   #entity=KEY&at=TIME: one entity
//   list.js     #view=list&order=…: the highest and lowest predictions
//   model.js    #view=model: the model card

import { ask } from "./api.js";
import { EntityView } from "./entity.js";
import { ListView } from "./list.js";
import { ModelView } from "./model.js";
import { at, keyText, moment, problem, reachable, say } from "./show.js";

class Page {
  async start() {
    problem(at("problem"), null);
    try {
      this.card = await ask("v1/model");
    } catch (error) {
      at("task").textContent = "gelgt";
      problem(at("problem"), error, () => this.start());
      return;
    }
    const { task, run, gelgt } = this.card;
    at("task").textContent = task.words;
    at("run").textContent = run;
    if (task.recommends !== null) at("nav-entity").textContent = "Recommend";
    at("nav-list").parentNode.hidden = task.recommends !== null;
    at("footer").textContent =
      `gelgt ${gelgt}. Times are UTC. A prediction sees no row at or after its time.`;
    this.views = {
      entity: new EntityView(this),
      list: new ListView(this),
      model: new ModelView(this),
    };
    this.views.entity.prepare(this.card);
    this.told(this.card.data);
    window.addEventListener("hashchange", () => this.show(true));
    window.addEventListener("resize", reachable);
    this.show(false);
  }

  /** The address of a route: names with a value, a list of them, or null for none. */
  href(route) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(route))
      for (const each of Array.isArray(value) ? value : [value])
        if (each !== null && each !== undefined) query.append(name, each);
    return `#${query}`;
  }

  go(route) {
    const hash = this.href(route);
    if (location.hash === hash) {
      const view = this.views[this.view];
      view.asked = null;
      this.show(false);
    } else location.hash = hash;
  }

  show(isMoved) {
    const route = new URLSearchParams(location.hash.slice(1));
    const hasList = this.card.task.recommends === null;
    const wanted = route.get("view");
    const view = wanted === "model" || (wanted === "list" && hasList) ? wanted : "entity";
    if (isMoved && view !== this.view) window.scrollTo(0, 0);
    this.view = view;
    problem(at("problem"), null);
    say("");
    for (const link of document.querySelectorAll("nav a[data-view]")) {
      const isHere = link.dataset.view === view;
      if (isHere) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const name of Object.keys(this.views)) at(`view-${name}`).hidden = name !== view;
    document.title = `${this.title(view, route)} · gelgt`;
    this.views[view].show(route, isMoved);
    reachable();
  }

  title(view, route) {
    const table = this.card.task.entity_table;
    if (view === "list") return `Highest and lowest ${table}`;
    if (view === "model") return `The model ${this.card.run}`;
    const parts = route.getAll("entity");
    return parts.length ? `${table} ${keyText(parts)}` : this.card.run;
  }

  /** What an answer rests on. Where there are new rows, older answers are asked for again once they
   * are looked at. */
  told(data) {
    if (this.loaded && data.loaded_at < this.loaded) return; // an answer that took longer
    this.views.entity.told(data);
    at("data").textContent = data.newest_row ? `Rows up to ${moment(data.newest_row)}.` : "";
    if (this.loaded && this.loaded !== data.loaded_at)
      for (const [name, view] of Object.entries(this.views))
        if (name !== this.view) view.asked = null;
    this.loaded = data.loaded_at;
  }
}

at("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says what is shown
  at("main").focus();
});
new Page().start();
