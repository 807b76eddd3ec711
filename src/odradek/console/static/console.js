// What pages do beyond HTML. Everything works without it, too.

// The login line that the console prints has the token behind the #, which is never sent.
const token = document.getElementById("token");
if (token !== null && location.hash.length > 1) {
  token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  token.form.requestSubmit();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const line = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(line.textContent);
      button.textContent = "Copied";
    } catch {
      // No clipboard outside a secure context: select it for the person instead.
      getSelection().selectAllChildren(line);
      button.textContent = "Selected";
    }
  });
}

for (const input of document.querySelectorAll("[data-confirm]")) {
  const button = input.form.querySelector("button.danger");
  const check = () => { button.disabled = input.value.trim() !== input.dataset.confirm; };
  input.addEventListener("input", check);
  check();
}

// "/" goes to the filter, as on other sites with long lists.
document.addEventListener("keydown", (event) => {
  const filter = document.querySelector("[data-filter]");
  const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
  if (event.key === "/" && filter !== null && !typing) {
    event.preventDefault();
    filter.focus();
  }
});

// Parts of a page that change by themselves are loaded again, if somebody wants it.
for (const button of document.querySelectorAll("[data-refresh]")) {
  let timer = null;
  const refresh = async () => {
    const answer = await fetch(location.href);
    if (answer.redirected) {
      location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = [...page.querySelectorAll("[data-live]")];
    for (const [n, part] of [...document.querySelectorAll("[data-live]")].entries()) {
      if (fresh[n] !== undefined && !part.contains(document.activeElement)) {
        part.replaceChildren(...fresh[n].childNodes);
      }
    }
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const starts = timer === null;
    button.setAttribute("aria-pressed", String(starts));
    if (starts) {
      timer = setInterval(() => refresh().catch(() => {}), 5000);
      refresh().catch(() => {});
    } else {
      clearInterval(timer);
      timer = null;
    }
  });
}

// A live page: counts and rows come as events. It keeps its last rows only.
const MOST_ROWS = 100;
const rows = document.querySelector("[data-events]");
if (rows !== null) {
  const state = document.getElementById("tail-state");
  const pause = document.querySelector("[data-pause]");
  let source = null;
  const stop = (text) => {
    source.close();
    source = null;
    state.textContent = text;
    pause.textContent = "Go on";
  };
  const start = () => {
    state.textContent = "connecting";
    pause.textContent = "Pause";
    source = new EventSource(rows.dataset.events);
    // A stream that has ended would be opened again, at the end of the topic: people decide that.
    source.onerror = () => stop("the stream has ended");
    source.onmessage = (event) => {
      const told = JSON.parse(event.data);
      if (told.problem !== undefined) {
        stop(told.problem);
        return;
      }
      state.textContent = "live";
      for (const name of ["read", "wanted", "rate", "behind", "left_out"]) {
        document.getElementById(`tail-${name}`).textContent = told[name];
      }
      // The server has escaped what is in the rows.
      rows.insertAdjacentHTML("afterbegin", told.rows);
      while (rows.rows.length > MOST_ROWS) rows.deleteRow(-1);
    };
  };
  pause.hidden = false;
  pause.addEventListener("click", () => { if (source === null) start(); else stop("paused"); });
  start();
}

// Filters with names, kept by this browser for each page: a filter is the query of the page's address.
const form = document.querySelector("form.filter");
if (form !== null) {
  const key = `filters ${location.pathname}`;
  const read = () => {
    try {
      const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
      return typeof kept === "object" && kept !== null ? kept : {};
    } catch {
      return {};
    }
  };
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const box = element("details", "", { class: "saved" });
  const show = () => {
    const kept = read();
    const change = (next) => { localStorage.setItem(key, JSON.stringify(next)); show(); };
    const name = element("input", "", { "aria-label": "Name of this filter", placeholder: "a name" });
    const save = element("button", "Save this filter", { type: "button" });
    save.addEventListener("click", () => {
      // What is typed into the form counts, and not what was shown last.
      const query = new URLSearchParams(new FormData(form)).toString();
      if (name.value.trim() !== "") change({ ...read(), [name.value.trim()]: query });
    });
    box.replaceChildren(element("summary", `Saved filters (${Object.keys(kept).length})`));
    for (const [saved, query] of Object.entries(kept)) {
      const line = element("p", "");
      const forget = element("button", "Forget", { type: "button", class: "quiet", "aria-label": `Forget ${saved}` });
      forget.addEventListener("click", () => {
        const next = read();
        delete next[saved];
        change(next);
      });
      line.append(element("a", saved, { href: `${location.pathname}?${query}` }), forget);
      box.append(line);
    }
    const row = element("p", "", { class: "row" });
    row.append(name, save);
    box.append(row);
  };
  show();
  form.after(box);
}
