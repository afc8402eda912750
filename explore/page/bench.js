// The workbench: who is there, the lanes, the time line and the script of one session.

import { h, fill, button, menu, notice, say } from "./dom.js";
import { cached } from "./api.js";
import { clock, duration, ms } from "./format.js";
import { ask, dialog, open } from "./forms.js";
import { Actors } from "./actors.js";
import { Stage } from "./stage.js";
import { Dock } from "./dock.js";
import { Script } from "./script.js";

export class Bench {
  constructor(app, session, tour) {
    this.app = app;
    this.session = session;
    this.tour = tour; // what TourGuide.of gives, or null
    this.speed = 1000;
    this.actors = new Actors(this);
    this.stage = new Stage(session, this);
    this.dock = new Dock(this);
    this.script = new Script(this);
    this.caption = h("div");
    this.middle = h("section", { class: "stage", "aria-label": "Share partitions" }, this.caption, this.stage.el);
    this.el = h("div", { class: "bench" }, this.actors.el, this.middle, this.script.el, this.dock.el);
    this.clock = h("output", { class: "clock num", "aria-label": "Time since the beginning" });
    this.next = h("span", { class: "next" });
    this.bar = h("div", { class: "group" });
    this.onChange = () => { this.update(); this.announce(); };
    session.addEventListener("change", this.onChange);
    this.onBusy = () => this.el.setAttribute("aria-busy", String(session.busy > 0));
    session.addEventListener("busy", this.onBusy);
    this.onRecords = () => { for (const l of this.stage.lanes.values()) { l.draw(); if (l.cursor !== null) l.fillChosen(); } };
    session.addEventListener("records", this.onRecords);
    if (session.live) this.ticker = setInterval(() => this.fillClock(), 200);
  }

  get canWrite() { return !this.session.live || this.session.writes; }

  destroy() {
    this.session.removeEventListener("change", this.onChange);
    this.session.removeEventListener("busy", this.onBusy);
    this.session.removeEventListener("records", this.onRecords);
    this.pause();
    clearInterval(this.ticker);
    clearTimeout(this.later);
    this.stage.destroy();
    this.session.close();
  }

  // update draws what the session has now. Of a running cluster, where updates come as quick as the broker works, the lists beside the lanes are drawn four times a second.
  update() {
    this.fillClock();
    this.stage.update();
    if (!this.session.live) { this.rest(); return; }
    if (this.later) return;
    const wait = Math.max(0, 250 - (performance.now() - (this.restedAt || 0)));
    this.later = setTimeout(() => { this.later = null; this.restedAt = performance.now(); this.rest(); }, wait);
  }

  rest() {
    if (!this.actors.el.querySelector("details.menu[open]") && !getSelection()?.toString()) this.actors.update();
    this.dock.update();
    if (!this.session.live || this.session.steps !== this.shownSteps || this.session.writes !== this.shownWrites) {
      this.shownSteps = this.session.steps;
      this.shownWrites = this.session.writes;
      this.script.update();
    }
    if (!this.session.live) this.app.fillBar();
    this.fillCaption();
  }

  fillClock() {
    const s = this.session;
    this.clock.textContent = s.live && !s.state.virtual ? new Date(s.now()).toISOString().slice(11, 21) + " UTC" : clock(s.now() - s.began);
    this.clock.title = new Date(s.now()).toISOString();
    const t = s.view.timers.find((x) => ms(x.at) >= s.now()) || s.view.timers[0];
    this.next.textContent = s.live && s.lostStream ? "kshare does not answer" : t ? `in ${duration(ms(t.at) - s.now())}: ${t.text}` : "nothing is due";
    this.next.title = s.view.timers.slice(0, 8).map((x) => `in ${duration(ms(x.at) - s.now())}: ${x.text}`).join("\n");
  }

  // barItems are the controls of the clock, for the bar on top.
  barItems() {
    const s = this.session;
    if (s.live) return [h("span", { class: "tag", text: "running cluster" }), this.clock, this.next];
    const move = (text, body, title, key) => button(text, () => this.move(body), { title, "data-key": key });
    const can = this.canWrite;
    return [
      button("Undo", () => this.undo(), { disabled: s.state.undoes === 0, title: "Ctrl+Z", "data-key": "undo" }), button("Redo", () => this.redo(), { disabled: s.state.redoes === 0, title: "Ctrl+Shift+Z", "data-key": "redo" }),
      h("span", { class: "sep" }), this.clock,
      can && move("+1s", { by: "1s", join: true }, "One second on", "1s"), can && move("+10s", { by: "10s", join: true }, "Ten seconds on", "10s"),
      can && h("button", { type: "button", disabled: s.view.timers.length === 0, title: "To the moment at which something is due (Alt+T)", "data-key": "timer", text: "Next timer", on: { click: () => this.move({ toNextTimer: true }) } }),
      can && h("button", { type: "button", "aria-pressed": String(!!this.running), title: "Let time go on by itself", "data-key": "play", text: this.running ? "Pause" : "Run", on: { click: () => (this.running ? this.pause() : this.play()) } }),
      menu(`${this.speed / 1000}×`, [1, 5, 20].map((x) => ({ text: `${x} s of the cluster a second`, run: () => { this.speed = x * 1000; this.app.fillBar(); } })), { "aria-label": "How fast time runs", title: "How fast time runs", "data-key": "speed" }),
      this.next,
    ];
  }

  async move(body) {
    try { await this.session.move(body); notice(""); return true; } catch (err) { this.pause(); notice(err.message); return false; }
  }

  play() {
    this.running = true;
    this.app.fillBar();
    const tick = async () => {
      if (!this.running) return;
      const began = performance.now();
      const ok = await this.move({ by: this.speed / 4 + "ms", join: true });
      if (ok && this.running) this.timer = setTimeout(tick, Math.max(0, 250 - (performance.now() - began)));
    };
    tick();
  }

  pause() {
    if (!this.running) return;
    this.running = false;
    clearTimeout(this.timer);
    this.app.fillBar();
  }

  async undo() { if (this.session.state.undoes > 0) await this.attempt(() => this.session.undo()); }
  async redo() { if (this.session.state.redoes > 0) await this.attempt(() => this.session.redo()); }

  async attempt(f) {
    try { await f(); notice(""); return true; } catch (err) { notice(err.message); return false; }
  }

  // run types commands, one a line. It tells whether all were taken.
  async run(lines) {
    for (const line of lines.split("\n")) {
      try {
        await this.session.do(line);
        notice("");
      } catch (err) {
        notice(err.message);
        return false;
      }
    }
    return true;
  }

  start(action) {
    if (action.dialog) return ask({ ...action.dialog(), run: (line) => this.run(line) });
    return this.run(action.commandOf ? action.commandOf(this.session) : action.command);
  }

  button(action, props) { return button(action.text, () => this.start(action), { ...props, title: action.title ? `${action.title}: ${action.command}` : action.command }); }

  items(list) { return list.map((a) => (a.head || a === "-" ? a : { text: a.text, title: a.command || a.title, disabled: a.disabled, run: () => this.start(a) })); }

  reveal(step) { this.script.reveal(step); }

  // announce says what a step changed.
  announce() {
    const s = this.session;
    if (s.live || this.tour?.busy) return; // a tour says its caption
    const last = s.steps.at(-1);
    if (!last) return say("At the beginning");
    const texts = last.changes.slice(0, 4).map((c) => c.text);
    const more = last.changes.length + last.moreChanges - texts.length;
    const out = last.shown.slice(0, 3).join("; ");
    say(`${last.command}: ${out || "done"}. ${texts.join(". ")}${more > 0 ? `. And ${more} more changes` : ""}`);
  }

  fillCaption() {
    if (!this.tour) { this.caption.replaceChildren(); return; }
    this.tour.fill(this.caption, this);
  }

  async openScript(text) { await this.app.openScript(text); }

  // switches explains the switches of KIP-1289, and runs the script anew with others.
  async switches() {
    let all;
    try { all = (await cached("switches")).switches; } catch (err) { return notice(err.message); }
    const script = await this.session.script().catch(() => "");
    const now = this.session.view.kip1289;
    const chosen = {};
    for (const s of all) chosen[s.name] = now ? now.switches[s.name] ?? s.default : s.default;
    let on = !!now;
    const form = h("form", { method: "dialog", on: { submit: (e) => { e.preventDefault(); d.close(); this.attempt(() => this.session.putScript(withSwitches(script, on, chosen, all))); } } });
    const d = h("dialog", { class: "wide", "aria-label": "Switches of KIP-1289" }, form);
    fill(form, h("h2", { text: "Switches of KIP-1289" }),
      h("p", { class: "about", text: "Acknowledgements in transactions are a proposal. Its text and its draft differ, and the draft does not keep its promise everywhere: each such point is a switch, the default first. The script runs anew with what you choose." }),
      h("label", {}, h("input", { type: "checkbox", checked: on, on: { change: (e) => { on = e.target.checked; } } }), " The cluster takes acknowledgements in transactions"),
      all.map((s) => h("fieldset", {}, h("legend", {}, s.subject[0].toUpperCase() + s.subject.slice(1), h("code", { text: s.name })),
        s.sides.map((side) => side.value === "N" ? h("label", {}, h("span"), h("input", { type: "text", inputmode: "numeric", "aria-label": s.name, value: chosen[s.name], on: { input: (e) => { chosen[s.name] = e.target.value; on = true; } } }), h("span", {}, side.does, h("span", { class: "says", text: ` (${side.says})` })))
          : h("label", {}, h("input", { type: "radio", name: s.name, value: side.value, checked: chosen[s.name] === side.value, on: { change: () => { chosen[s.name] = side.value; on = true; form.querySelector("input[type=checkbox]").checked = true; } } }), h("code", { text: side.value }), h("span", {}, side.does, h("span", { class: "says", text: ` (${side.says})` })))))),
      h("div", { class: "end" }, button("Cancel", () => d.close()), h("button", { type: "submit", class: "primary", text: "Run the script with these" })));
    open(d);
  }
}

// withSwitches writes the switches into the first command of a script.
export function withSwitches(script, on, chosen, all) {
  const other = all.filter((s) => chosen[s.name] !== s.default).map((s) => `${s.name}:${chosen[s.name]}`);
  const option = !on ? "" : " kip1289=" + (other.length ? other.join(",") : "on");
  const lines = script.split("\n");
  const at = lines.findIndex((l) => /^cluster(\s|$)/.test(l));
  if (at >= 0) {
    const rest = lines[at].replace(/\s+kip1289=\S+/, "") + option;
    if (rest.trim() === "cluster") lines.splice(at, 1); else lines[at] = rest;
    return lines.join("\n");
  }
  if (!option) return script;
  const first = lines.findIndex((l) => l.trim() && !l.startsWith("#"));
  lines.splice(first < 0 ? lines.length : first, 0, "cluster" + option);
  return lines.join("\n");
}

export { dialog };
