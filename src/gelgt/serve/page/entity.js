// One entity: its prediction or recommendations, why, and who is alike.

import { Newest, ask } from "./api.js";
import { LookAlikes } from "./alike.js";
import { drawn, fold, item, ranked } from "./answer.js";
import { Search } from "./search.js";
import {
  adopt,
  at,
  el,
  keyBody,
  keyText,
  link,
  moment,
  notes,
  problem,
  reachable,
  say,
  waiting,
} from "./show.js";

const NO_INTERVAL = ["too_few_rows", "no_calibration", "bad_level", "no_interval"];

export class EntityView {
  /** `page` has the model's card, and go(route). */
  constructor(page) {
    this.page = page;
    this.newest = new Newest();
    this.explaining = new Newest();
    this.alike = new LookAlikes(page);
    this.search = new Search((parts) => this.go(parts));
    this.asked = null;
    at("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    // Not the time, which changes with each of its parts.
    for (const id of ["level", "new", "turn"])
      at(id).addEventListener("change", () => this.search.parts && this.submit());
  }

  /** Fit the form to the task. */
  prepare(card) {
    const task = card.task;
    this.recommends = task.recommends !== null;
    this.search.named = task.key;
    at("ask-title").textContent = this.recommends ? "Recommend" : "Predict";
    at("search-label").textContent = `Row of ${task.entity_table}`;
    at("search-hint").textContent =
      task.key.length > 1 ? `Its key (${task.key.join(", ")}), or a text.` : "Its key, or a text.";
    at("at-field").hidden = task.has_own_times;
    at("level-field").hidden = task.type !== "regression";
    at("k-field").hidden = at("new-field").hidden = !this.recommends;
    at("turn-field").hidden = this.recommends;
    at("k").placeholder = task.k ?? "";
    at("ask").querySelector("button").textContent = this.recommends ? "Recommend" : "Predict";
    const keys = card.example.keys.map((key) => (Array.isArray(key) ? key : [key]).map(String));
    at("examples").replaceChildren(
      "For example ",
      ...keys.flatMap((parts, i) => [i ? " or " : "", link(this.page, parts)]),
    );
    at("examples").hidden = keys.length === 0;
  }

  /** The rows that answers rest on have changed, or are known now. */
  told(data) {
    at("at-hint").textContent = now(this.page.card.task, data);
  }

  async submit() {
    problem(at("problem"), null);
    try {
      const parts = await this.search.keyOf();
      if (parts) this.go(parts);
      else at("search").focus();
    } catch (error) {
      problem(at("problem"), error, () => this.submit());
    }
  }

  /** What the form says, as an address. */
  go(parts) {
    if (at("at").validity.badInput) {
      say("The time is not complete.");
      at("at").focus();
      return;
    }
    const k = Number(at("k").value);
    this.page.go({
      entity: parts,
      at: at("at").value || null,
      level: at("level-field").hidden ? null : at("level").value,
      k: this.recommends && k >= 1 ? String(Math.min(Math.floor(k), 1000)) : null,
      new: this.recommends && at("new").checked ? "1" : null,
      turn: at("turn").checked ? "1" : null,
    });
  }

  show(route, isMoved) {
    const parts = route.getAll("entity");
    at("answer").hidden = parts.length === 0;
    at("examples").classList.toggle("past", parts.length > 0);
    this.search.set(parts.length ? parts : null);
    at("at").value = local(route.get("at"));
    at("level").value = route.get("level") ?? "0.9";
    if (!at("level").value) at("level").value = "0.9";
    at("k").value = route.get("k") ?? "";
    at("new").checked = route.get("new") === "1";
    at("turn").checked = route.get("turn") === "1";
    const same = route.toString();
    if (this.asked === same && !at("answer").querySelector(".problem")) return;
    const old = new URLSearchParams(this.asked ?? "");
    this.asked = same;
    if (parts.length && only(old, "turn") === only(route, "turn")) {
      this.explain(about(parts, route), route, this.explaining.next());
      return;
    }
    const isNew = old.getAll("entity").join("\n") !== parts.join("\n");
    const signals = [this.newest.next(), this.explaining.next()];
    if (parts.length) this.answer(parts, route, isNew, signals);
    // Whoever chose an entity wants to read on there; whoever opens the page, at its top.
    if (parts.length && isNew && isMoved) at("result-title").focus();
  }

  /** The prediction first, which is there at once; then what takes longer, one after the other. */
  async answer(parts, route, isNew, [signal, why]) {
    const asked = about(parts, route);
    at("result-title").textContent = `${this.page.card.task.entity_table} ${keyText(parts)}`;
    if (isNew) {
      for (const id of ["result-body", "why-body", "why-more", "alike-body", "why-rest"])
        at(id).replaceChildren();
      at("result-at").textContent = "";
    }
    for (const id of ["result", "why", "alike"]) problem(at(`${id}-problem`), null);
    at("why").hidden = at("alike").hidden = true;
    at("result").setAttribute("aria-busy", "true");
    if (isNew) at("result-body").append(waiting("Predicting…"));
    try {
      await this.predict(asked, route, signal);
    } catch (error) {
      if (signal.aborted) return;
      for (const id of ["result-body", "why-body", "why-more", "alike-body", "why-rest"])
        at(id).replaceChildren();
      problem(at("result-problem"), error, () => this.again());
      return;
    } finally {
      if (!signal.aborted) at("result").removeAttribute("aria-busy");
    }
    at("why").hidden = at("alike").hidden = false;
    await this.explain(asked, route, why);
    if (!signal.aborted) await this.alike.show(asked, signal);
  }

  again() {
    const route = new URLSearchParams(this.asked);
    this.asked = null;
    this.show(route);
  }

  async predict({ entity, at: when }, route, signal) {
    const body = { entities: [entity], at: when };
    if (this.recommends) {
      const k = route.get("k");
      Object.assign(body, { k: k ? Number(k) : undefined, new_only: route.get("new") === "1" });
      const answer = await ask("v1/recommendations", { body, signal });
      if (!signal.aborted) this.recommended(answer);
      return;
    }
    const isNumber = this.page.card.task.type === "regression";
    const level = isNumber ? Number(at("level").value) : undefined;
    let answer;
    try {
      answer = await ask("v1/predictions", { body: { ...body, interval: level }, signal });
    } catch (error) {
      if (!isNumber || !NO_INTERVAL.includes(error.code)) throw error;
      answer = await ask("v1/predictions", { body, signal });
      answer.notices.push(`${error.message} ${error.hint}`);
    }
    if (!signal.aborted) this.predicted(answer, level);
  }

  predicted({ predictions, notices, data }, level) {
    this.page.told(data);
    const row = predictions[0];
    at("result-at").textContent = `at ${moment(row.time)}`;
    const shown = drawn(row, this.page.card.task.type, level);
    at("result-body").replaceChildren(...shown, ...notes(notices));
    say(`${at("result-title").textContent}: ${at("result-body").querySelector("p").textContent}`);
    reachable();
  }

  recommended({ recommendations, notices, data }) {
    this.page.told(data);
    const [first] = recommendations;
    const { recommends, key } = this.page.card.task;
    at("result-at").textContent = first ? `at ${moment(first.time)}` : "";
    const shown = first
      ? ranked(recommendations, key.length, `Recommended rows of ${recommends}`)
      : el("p", {}, `No row of ${recommends} is recommended.`);
    at("result-body").replaceChildren(shown, ...notes(notices));
    say(`${recommendations.length} rows of ${recommends} are recommended.`);
    reachable();
  }

  async explain(asked, route, signal) {
    const place = at("why-body");
    const body = { ...asked, counterfactual: route.get("turn") === "1" };
    at("why").setAttribute("aria-busy", "true");
    if (!place.children.length) place.append(waiting("Taking rows away to see what they do…"));
    try {
      const html = await ask("v1/explanations", { body, signal, as: "html" });
      if (signal.aborted) return;
      const nodes = adopt(html, "why").filter((node) => node.nodeType === Node.ELEMENT_NODE);
      this.explained(nodes, route);
    } catch (error) {
      if (signal.aborted) return;
      place.replaceChildren();
      for (const id of ["why-more", "why-rest"]) at(id).replaceChildren();
      problem(at("why-problem"), error, () => this.again());
    } finally {
      if (!signal.aborted) at("why").removeAttribute("aria-busy");
    }
  }

  /** The header of the page of an explanation goes below the heading that is here already. */
  explained(nodes, route) {
    const header = nodes.find((node) => node.tagName === "HEADER");
    for (const gone of header.querySelectorAll("h1,.over,.card.own")) gone.remove();
    const more = nodes.filter((node) => node.tagName === "SECTION");
    const footer = nodes.find((node) => node.tagName === "FOOTER");
    const shown = [...header.childNodes];
    if (this.recommends) {
      if (route.get("new") === "1")
        shown.push(...notes(["These are the reasons of the list with what was had before."]));
      shown.push(...more.map(item));
    }
    const small = el("p", { class: "small" }, footer.textContent);
    at("why-body").replaceChildren(...shown, small);
    const [open, folded] = this.recommends ? [[], []] : parted(more);
    at("why-more").replaceChildren(...open);
    at("why-rest").replaceChildren(...folded.map(fold));
    reachable();
  }
}

/** Whom and when a request is about. */
function about(parts, route) {
  const asked = { entity: keyBody(parts) };
  return route.get("at") ? { ...asked, at: route.get("at") } : asked;
}

/** The sections that are open, and those that are folded up below: the numbers in full. */
function parted(sections) {
  const isOpen = (section) => section.id === "why-timeline";
  return [sections.filter(isOpen), sections.filter((section) => !isOpen(section))];
}

/** An address without one of its parts. */
function only(route, left) {
  const rest = new URLSearchParams(route);
  rest.delete(left);
  return rest.toString();
}

/** What an empty time means: now, or just after the newest row where that lies more than one window
 * back. */
function now({ window: span }, { newest_row: newest }) {
  const [, days, hours, minutes, seconds] = /^(\d+) days? ?(?:(\d+):(\d+):(\d+))?/.exec(span) ?? [];
  const window_ = [days, hours, minutes, seconds].map((part) => Number(part ?? 0));
  const length = window_.reduce((sum, part, i) => sum + part * [864e5, 36e5, 6e4, 1e3][i], 0);
  const isOld = newest && Date.now() > Date.parse(`${newest}Z`) + length;
  return isOld ? `Empty means just after the newest row, ${moment(newest)}.` : "Empty means now.";
}

/** A time of an address as the field takes it; empty where it cannot. */
function local(time) {
  const parts = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?Z?$/.exec(time ?? "");
  return parts ? `${parts[1]}T${parts[2] ?? "00:00"}` : "";
}
