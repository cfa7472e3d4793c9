// What the page asks of the server, and what went wrong, in words.

const TOKEN = "gelgt-token"; // in the session storage: this tab forgets it when it is closed
const BUSY = 3; // times that a busy server is asked again
const WAIT = 5; // seconds before that at most

export class Failure extends Error {
  constructor(code, message, hint = "") {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}

/** Ask a path of the server; `body` makes it a POST. `as` is json, html or blob. */
export async function ask(path, { body, post = false, signal, as = "json" } = {}) {
  const accept = { json: "application/json", html: "text/html", blob: "*/*" }[as];
  for (let busy = 0; ; ) {
    const token = sessionStorage.getItem(TOKEN);
    const response = await send(path, token, { body, post, signal, accept });
    if (response.status === 401) {
      await giveToken(token);
      signal?.throwIfAborted();
      continue;
    }
    if (response.status === 429 && busy < BUSY) {
      busy += 1;
      await pause(Math.min(Number(response.headers.get("Retry-After")) || 1, WAIT), signal);
      continue;
    }
    if (!response.ok) throw await failure(response);
    try {
      if (as === "html") return await response.text();
      return as === "blob" ? await response.blob() : parse(await response.text());
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw gone();
    }
  }
}

async function send(path, token, { body, post, signal, accept }) {
  const headers = { Accept: accept };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { headers, signal, method: post || body !== undefined ? "POST" : "GET" };
  if (body !== undefined) options.body = JSON.stringify(body);
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw gone();
  }
}

function gone() {
  return new Failure(
    "gone",
    "The server does not answer.",
    "It may have been stopped, or the network may be down.",
  );
}

async function failure(response) {
  try {
    const { code, message, hint } = parse(await response.text()).error;
    return new Failure(String(code), String(message), String(hint ?? ""));
  } catch {
    return new Failure("failed", `The server answered with status ${response.status}.`);
  }
}

/** JSON whose whole numbers keep all their digits: where a number cannot, it becomes a text. The
 * server takes keys as texts. */
export function parse(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(
    text.replace(tokens, (token) =>
      /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token,
    ),
  );
}

export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** A row of questions of which only the newest counts: whoever asks for the next signal ends those
 * before it. */
export class Newest {
  next() {
    this.controller?.abort();
    this.controller = new AbortController();
    return this.controller.signal;
  }
}

// The token: one dialog, whoever asks first.
let dialog = null;

function giveToken(refused) {
  // Another request may have got a new one while this one was under way.
  if (refused !== sessionStorage.getItem(TOKEN)) return Promise.resolve();
  dialog ??= openDialog(Boolean(refused)).finally(() => (dialog = null));
  return dialog;
}

function openDialog(wasRefused) {
  const box = document.getElementById("token");
  const form = document.getElementById("token-form");
  const value = document.getElementById("token-value");
  const problem = document.getElementById("token-problem");
  sessionStorage.removeItem(TOKEN);
  problem.textContent = wasRefused ? "The server does not accept that token." : "";
  value.value = "";
  box.showModal();
  value.focus();
  return new Promise((resolve, reject) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      // A header carries ASCII alone, and so does a token of the server.
      const token = value.value.trim();
      if (!/^[\x21-\x7e]+$/.test(token)) {
        problem.textContent = "A token has no blanks, and only characters of ASCII.";
        value.focus();
        return;
      }
      sessionStorage.setItem(TOKEN, token);
      box.close("given");
    };
    document.getElementById("token-cancel").onclick = () => box.close("");
    box.onclose = () => {
      value.value = "";
      if (sessionStorage.getItem(TOKEN)) resolve();
      else
        reject(
          new Failure("unauthorized", "The server asks for a token.", "Try again and give it."),
        );
    };
  });
}
