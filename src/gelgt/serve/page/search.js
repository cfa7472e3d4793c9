// The combobox that finds an entity: type, choose with arrows or the pointer, Enter takes it.

import { Newest, ask, pause } from "./api.js";
import { at, count, el, keyParts, keyText, problem, say } from "./show.js";

const SHOWN = 20;
const STILL = 0.15; // seconds without a key before the server is asked

export class Search {
  /** `chosen` is told the parts of the key that was chosen; `named` are the columns of the key. */
  constructor(chosen) {
    this.named = [];
    this.input = at("search");
    this.list = at("found");
    this.chosen = chosen;
    this.newest = new Newest();
    this.options = [];
    this.active = -1;
    this.parts = null; // of the entity whose text stands in the field
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("click", () => this.list.hidden && this.typed(true));
    this.input.addEventListener("blur", () => this.close());
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the focus
  }

  /** Show an entity that was chosen elsewhere. */
  set(parts) {
    this.newest.next();
    this.parts = parts;
    this.input.value = parts ? keyText(parts) : "";
    this.close();
  }

  /** The parts of the key that is asked for: what was chosen, else what fits what was typed. */
  async keyOf() {
    const text = this.input.value.trim();
    if (this.parts || !text) return this.parts;
    const { entities } = await ask(query(text), { signal: this.newest.next() });
    this.close();
    const found = entities.map((entity) => keyParts(entity.key));
    const same = found.find((parts) => keyText(parts) === text || parts.join(" ") === text);
    if (same || found.length === 1) return same ?? found[0];
    return [text]; // which the server says more about than the page knows
  }

  async typed(isAll = false) {
    if (!isAll) this.parts = null;
    const signal = this.newest.next();
    try {
      await pause(isAll ? 0 : STILL, signal);
      const { entities } = await ask(query(isAll ? "" : this.input.value), { signal });
      if (signal.aborted || document.activeElement !== this.input) return;
      problem(at("problem"), null);
      this.open(entities);
    } catch (error) {
      if (signal.aborted) return;
      this.close();
      problem(at("problem"), error);
    }
  }

  open(entities) {
    this.options = entities.map((entity, i) => {
      const parts = keyParts(entity.key);
      const about = Object.entries(entity.about)
        .filter(([name]) => !this.named.includes(name))
        .map(([name, value]) => `${name}: ${value}`);
      return el(
        "li",
        {
          role: "option",
          id: `found-${i}`,
          "aria-selected": "false",
          click: () => this.take(parts),
        },
        el("b", {}, keyText(parts)),
        el("span", {}, about.join(" · ")),
      );
    });
    this.keys = entities.map((entity) => keyParts(entity.key));
    this.active = -1;
    this.input.removeAttribute("aria-activedescendant");
    const none = el(
      "li",
      { class: "none", role: "option", "aria-disabled": "true" },
      "Nothing is found.",
    );
    this.list.replaceChildren(...(this.options.length ? this.options : [none]));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    const n = this.options.length;
    say(n === 0 ? "Nothing is found." : n === 1 ? "1 is found." : `${count(n)} are found.`);
  }

  close() {
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  take(parts) {
    this.set(parts);
    this.chosen(parts);
  }

  key(event) {
    const isOpen = !this.list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (isOpen) this.move(event.key === "ArrowDown" ? 1 : -1);
      else this.typed(this.parts !== null || !this.input.value);
    } else if (event.key === "Enter" && isOpen && this.active >= 0) {
      event.preventDefault();
      this.take(this.keys[this.active]);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.newest.next();
      if (isOpen) this.close();
      else this.set(null);
    }
  }

  move(step) {
    const n = this.options.length;
    if (!n) return;
    this.options[this.active]?.setAttribute("aria-selected", "false");
    this.active = this.active < 0 && step < 0 ? n - 1 : (this.active + step + n) % n;
    const option = this.options[this.active];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }
}

const query = (text) => `v1/entities?limit=${SHOWN}&search=${encodeURIComponent(text)}`;
