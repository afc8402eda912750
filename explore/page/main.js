// What is shown: the first page, a session, a tour, two sessions beside each other, or the running cluster. The address says which.

import { h, fill, button, menu, notice, say } from "./dom.js";
import { get, cached } from "./api.js";
import { Session } from "./session.js";
import { Bench } from "./bench.js";
import { Guide, Beside } from "./tours.js";
import { dialog } from "./forms.js";
import { decode } from "./link.js";

const SVG_MARK = () => h("svg:svg", { viewBox: "0 0 32 32", "aria-hidden": "true" },
  h("svg:rect", { x: 1, y: 10, width: 9, height: 12, rx: 2, fill: "#009e73" }), h("svg:rect", { x: 11.5, y: 10, width: 9, height: 12, rx: 2, fill: "#e69f00" }), h("svg:rect", { x: 22, y: 10, width: 9, height: 12, rx: 2, fill: "#56b4e9" }));

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.bar = document.getElementById("bar");
    this.screen = null;
    addEventListener("hashchange", () => { if (location.hash !== this.hash) this.route(); });
    addEventListener("keydown", (e) => this.key(e));
    addEventListener("beforeunload", () => { if (this.screen instanceof Bench && !this.screen.session.live) this.remember(this.screen.session.id); });
  }

  remember(id) { try { sessionStorage.setItem("kshare.session", id); } catch { /* a new session begins after a reload */ } }
  remembered() { try { const id = sessionStorage.getItem("kshare.session"); sessionStorage.removeItem("kshare.session"); return id; } catch { return null; } }

  // go goes to what an address says: "", "tour=NAME", "live", "s=..." or "z=...".
  async go(hash) {
    const url = new URL(location.href);
    url.hash = hash;
    history.pushState(null, "", hash ? url : url.pathname + url.search);
    await this.route();
  }

  async route() {
    this.hash = location.hash;
    notice("");
    try {
      const what = await decode(location.hash);
      if (!what) return await this.welcome();
      if (what.live) return this.show(new Bench(this, await Session.open("live"), null));
      if (what.script !== undefined) return await this.script(what.script);
      if (what.tour) return await this.tour(what.tour);
    } catch (err) {
      await this.welcome();
      notice(err.message);
    }
  }

  async start() {
    const id = this.remembered();
    if (id) {
      try {
        const session = await Session.open(id);
        this.hash = location.hash;
        const what = await decode(location.hash).catch(() => null);
        const guide = what && what.tour ? new Guide(await get("tours/" + encodeURIComponent(what.tour)), this) : null;
        if (!guide || !guide.tour.beside) return this.show(new Bench(this, session, guide));
      } catch { /* it has ended: begin as the address says */ }
    }
    await this.route();
  }

  show(screen) {
    this.screen?.destroy?.();
    this.screen = screen;
    fill(this.main, screen.el);
    this.fillBar();
    screen.update();
    document.title = screen.tour ? `${(screen.tour.tour || screen.tour).title} - kshare explorer` : "kshare explorer";
  }

  async script(text) {
    const session = await Session.create({});
    try {
      const run = await session.putScript(text);
      this.show(new Bench(this, session, null));
      say(`The script has run: ${run.steps.length} steps`);
      if (run.differing) notice(`${run.differing === 1 ? "One block shows" : run.differing + " blocks show"} something else than the script says: it was written with another version, or edited.`);
    } catch (err) {
      this.show(new Bench(this, session, null));
      notice(err.message + (err.line ? ` (line ${err.line})` : ""));
      await this.screen.script.startEdit();
      this.screen.script.area.value = text;
      if (err.line) this.screen.script.selectLine(err.line);
    }
  }

  async openScript(text) {
    const url = new URL(location.href);
    url.hash = "";
    history.pushState(null, "", url.pathname + url.search);
    this.hash = "";
    await this.script(text);
  }

  async tour(name) {
    const tour = await get("tours/" + encodeURIComponent(name));
    if (tour.beside) {
      const other = await get("tours/" + encodeURIComponent(tour.beside));
      return this.show(await Beside.create(this, tour, other));
    }
    this.show(new Bench(this, await Session.create({}), new Guide(tour, this)));
    this.main.querySelector('[data-key="next"]')?.focus();
  }

  async newSession() {
    const url = new URL(location.href);
    history.pushState(null, "", url.pathname + url.search);
    this.hash = "";
    try { this.show(new Bench(this, await Session.create({}), null)); this.main.querySelector('[data-key="add"]')?.focus(); } catch (err) { notice(err.message); }
  }

  async welcome() {
    let tours = [], live = false, problem = "";
    try {
      tours = (await cached("tours")).tours;
      live = (await get("sessions")).sessions.some((s) => s.live);
    } catch (err) { problem = err.message; }
    const card = (t) => h("li", {}, h("button", { type: "button", data: { tour: t.name }, on: { click: () => this.go("tour=" + encodeURIComponent(t.name)) } }, h("b", { text: t.title }), h("span", { text: t.about })));
    const plain = tours.filter((t) => !t.switch && !t.other), beside = tours.filter((t) => t.switch && !t.other);
    const el = h("div", { class: "welcome" }, h("div", { class: "inner" },
      h("h1", { text: "See what a share group does" }),
      h("p", { class: "lead", text: "A cluster that behaves as Apache Kafka 4.4, whose time stands still until you move it. Acquire records, let locks end, move leaders, break things, and go back. Every click is a line of a script that replays exactly." }),
      h("div", { class: "starts" }, button("Begin with the first tour", () => this.go("tour=" + encodeURIComponent(plain[0]?.name || "")), { class: "primary", disabled: !plain.length }), button("An empty cluster", () => this.newSession()), live && button("Watch the running cluster", () => this.go("live")), button("Open a script…", () => this.pick())),
      plain.length > 0 && [h("h2", { text: "Tours" }), h("ul", { class: "cards" }, plain.map(card))],
      beside.length > 0 && [h("h2", { text: "Disputed points of KIP-1289, both ways beside each other" }), h("ul", { class: "cards" }, beside.map(card))]));
    this.show({ el, update() {} });
    if (problem) notice(problem);
  }

  pick() {
    const input = h("input", { type: "file", accept: ".txt,text/plain", on: { change: async () => {
      const f = input.files[0];
      if (!f) return;
      if (f.size > 1 << 20) return notice(`${f.name} has ${f.size} bytes, a script may have ${1 << 20}.`);
      await this.openScript(await f.text());
    } } });
    input.click();
  }

  fillBar() {
    const bench = this.screen instanceof Bench ? this.screen : null;
    const active = this.bar.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const open = this.bar.querySelector("details.menu[open]");
    if (open) return;
    const dark = document.documentElement.dataset.theme === "dark";
    fill(this.bar, h("button", { class: "brand", type: "button", "aria-label": "kshare explorer: all tours", on: { click: () => this.go("") } }, SVG_MARK(), "kshare"),
      bench && h("div", { class: "group", role: "toolbar", "aria-label": "Time" }, bench.barItems()),
      h("span", { class: "space" }),
      h("div", { class: "group" },
        this.screen && !(this.screen.el?.classList.contains("welcome")) && button("New", () => this.newSession(), { class: "quiet", title: "An empty cluster", "data-key": "new" }),
        menu("Tours", () => this.tourItems(), { "data-key": "tours" }),
        button("Keys", () => this.help(), { class: "quiet", "data-key": "keys", title: "What the keyboard does" }),
        button(dark ? "Light" : "Dark", () => { window.toggleTheme(); this.fillBar(); }, { class: "quiet", "aria-label": dark ? "Light theme" : "Dark theme", "data-key": "theme" })));
    if (active) this.bar.querySelector(`[data-key="${CSS.escape(active)}"]:not(:disabled)`)?.focus();
    cached("tours").then((t) => { this.tours = t.tours; }).catch(() => {});
  }

  tourItems() {
    const all = this.tours || [];
    const item = (t) => ({ text: t.title, title: t.about, run: () => this.go("tour=" + encodeURIComponent(t.name)) });
    return [...all.filter((t) => !t.switch && !t.other).map(item), { head: "Points of KIP-1289, both ways" }, ...all.filter((t) => t.switch && !t.other).map(item)];
  }

  help() {
    const rows = [["Alt+N", "the next step of a tour"], ["Alt+B", "one step back"], ["Alt+T", "to the next timer"], ["Ctrl+Z", "undo, where no text is edited"], ["Ctrl+Shift+Z", "redo"], ["Alt+C", "to the line for commands"],
      ["\u2190 \u2192", "on a lane: through its offsets; with Shift they are chosen"], ["\u2191 \u2193", "on a lane: from run to run; on the time line: from line to line"], ["Enter", "on a lane: to what can be done with the chosen offsets; on the time line: decode"], ["+ \u2212", "on a lane: closer and farther"], ["Escape", "close what is open"]];
    dialog("What the keyboard does", "", h("table", {}, h("tbody", {}, rows.map(([k, t]) => h("tr", {}, h("td", {}, h("kbd", { text: k })), h("td", { text: t }))))));
  }

  key(e) {
    const s = this.screen;
    const typing = e.target.closest?.("input, textarea, select, dialog");
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z" && !typing && s instanceof Bench && !s.session.live) {
      e.preventDefault();
      if (e.shiftKey) s.redo(); else s.undo();
    } else if (e.altKey && !e.ctrlKey && !e.metaKey) {
      const guide = s instanceof Beside ? s : s instanceof Bench ? s.tour : null;
      const key = e.code === "KeyN" ? () => guide?.press?.next() : e.code === "KeyB" ? () => guide?.press?.back() : e.code === "KeyT" && s instanceof Bench && !s.session.live ? () => s.move({ toNextTimer: true }) : e.code === "KeyC" && s instanceof Bench ? () => s.script.input.focus() : null;
      if (key) { e.preventDefault(); key(); }
    }
  }
}

const app = new App();
addEventListener("themechange", () => app.fillBar());
app.start();
