// Asks for the parts of the page every second, and replaces those that have changed.
"use strict";

const EVERY = 1000; // milliseconds
const page = crypto.getRandomValues(new Uint32Array(2)).join("-"); // so that the server knows whom it has told
const lost = document.getElementById("lost");
const shown = {};
let lastAnswer = new Date();
let isOver = false;

function replace(name, html) {
  const part = document.getElementById(name);
  if (shown[name] === html) return;
  shown[name] = html;
  const open = [...part.querySelectorAll("details[open]")].map((each) => each.id);
  const focused = part.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
  const wasSummary = document.activeElement?.tagName === "SUMMARY";
  part.innerHTML = html;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  const again = focused && focused !== name ? document.getElementById(focused) : null;
  (wasSummary ? again?.querySelector("summary") : again)?.focus();
}

function show(answer) {
  lastAnswer = new Date();
  isOver = answer.over;
  lost.hidden = true;
  document.title = answer.title;
  for (const [name, html] of Object.entries(answer.parts)) replace(name, html);
}

function showLost() {
  if (!lost.hidden) return;
  const folder = lost.dataset.folder;
  lost.textContent = isOver
    ? `gelgt has ended and no longer serves this page.${folder ? ` The report is in ${folder}.` : ""}`
    : `No sign of life since ${lastAnswer.toLocaleTimeString()}: gelgt no longer answers. It has ended or was killed; its terminal says more.`;
  lost.hidden = false;
  document.getElementById("report")?.removeAttribute("href");
}

async function ask() {
  try {
    const answer = await fetch(`live.json?page=${page}`, { cache: "no-store", signal: AbortSignal.timeout(10 * EVERY) });
    if (!answer.ok) throw new Error(answer.statusText);
    const content = await answer.json();
    lost.dataset.folder = content.folder;
    show(content);
  } catch {
    showLost();
  }
  setTimeout(ask, EVERY);
}

for (const part of document.querySelectorAll("[data-part]")) shown[part.id] = part.innerHTML;
ask();
