// Guided tours: stories in steps. Some are told twice beside each other, with a switch of KIP-1289 one way and the other.

import { h, fill, button, notice, say } from "./dom.js";
import { cached } from "./api.js";
import { Session } from "./session.js";
import { Stage } from "./stage.js";
import { legend } from "./lanes.js";
import { shown } from "./script.js";
import { caption } from "./format.js";

// Guide knows where a tour is in a session: how many of its steps the session's script has run.
export class Guide {
  constructor(tour, app) {
    this.tour = tour;
    this.app = app;
    // ends[i] is how many commands have run behind step i
    let n = 0;
    this.ends = tour.steps.map((s) => (n += s.commands.length));
  }

  // at is the number of steps that the session has behind it whole, or -1 where the script is no longer that of the tour.
  at(session) {
    const commands = this.tour.steps.flatMap((s) => s.commands);
    const done = session.steps.map((s) => s.command);
    for (let i = 0; i < Math.min(done.length, commands.length); i++) if (done[i] !== commands[i]) return -1;
    if (done.length > commands.length) return this.ends.length;
    let k = 0;
    while (k < this.ends.length && this.ends[k] <= done.length) k++;
    return k;
  }

  async next(session) {
    const at = this.at(session);
    if (at < 0 || at >= this.tour.steps.length) return;
    const behind = at > 0 ? this.ends[at - 1] : 0;
    const from = session.steps.length;
    for (const command of this.tour.steps[at].commands.slice(from - behind)) await session.do(command);
    session.changed = session.steps.slice(from).flatMap((s) => s.changes);
    session.tell("change");
  }

  async back(session) {
    const at = this.at(session);
    await session.go(at > 1 ? this.ends[at - 2] : 0);
  }

  fill(el, bench) {
    const s = bench.session, at = this.at(s), all = this.tour.steps.length;
    const active = el.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const text = at < 0 ? ["You have left the path of the tour. Everything goes on from here; Undo leads back."] : at === 0 ? [this.tour.about] : this.tour.steps[at - 1].text;
    const attempt = (f) => () => {
      // one after the other: a click while a step is under way is not lost
      this.chain = (this.chain || Promise.resolve()).then(async () => {
        this.busy = true;
        try { await f(); notice(""); } catch (err) { notice(err.message); } finally { this.busy = false; }
        const now = this.at(s);
        if (now >= 0) say(now === 0 ? this.tour.about : this.tour.steps[now - 1].text.join(" "));
      });
    };
    fill(el, h("section", { class: "caption", "aria-label": "Tour" },
      h("p", { class: "step", text: `${this.tour.title}${at > 0 ? ` · ${at} of ${all}` : at === 0 ? ` · ${all} steps` : ""}` }),
      text.map((t) => h("p", { class: "text", text: caption(t) })),
      h("div", { class: "go" },
        button("Back", attempt(() => this.back(s)), { disabled: at <= 0, "data-key": "back", title: "Alt+B" }),
        at < all ? button(at === 0 ? "Begin" : "Next", attempt(() => this.next(s)), { class: "primary", disabled: at < 0, "data-key": "next", title: "Alt+N" })
          : button("More tours", () => this.app.go(""), { class: "primary", "data-key": "next" }))));
    if (active) el.querySelector(`[data-key="${active}"]:not(:disabled)`)?.focus();
    this.press = { next: () => el.querySelector('[data-key="next"]')?.click(), back: () => el.querySelector('[data-key="back"]')?.click() };
  }
}

// Beside tells a story twice: each pane is a session of its own.
export class Beside {
  static async create(app, tour, other) {
    const sides = [];
    for (const t of [tour, other]) sides.push({ tour: t, guide: new Guide(t, app), session: await Session.create({}) });
    const all = (await cached("switches")).switches;
    return new Beside(app, tour, sides, all);
  }

  constructor(app, tour, sides, switches) {
    this.app = app;
    this.tour = tour;
    this.sides = sides;
    this.story = h("header", { class: "story" });
    this.el = h("div", { class: "beside" }, this.story, h("div", { class: "panes" }, sides.map((side) => {
      const [name, value] = side.tour.switch.split("=");
      const sw = switches.find((s) => s.name === name);
      const of = sw && (sw.sides.find((x) => x.value === value) || sw.sides[0]);
      side.stage = new Stage(side.session, null);
      side.caption = h("div", { class: "caption" });
      side.shown = h("div", { class: "shown" });
      side.session.addEventListener("change", () => this.update());
      side.session.addEventListener("records", () => { for (const l of side.stage.lanes.values()) l.draw(); });
      return h("section", { class: "pane", "aria-label": side.tour.switch }, h("h2", {}, h("code", { text: side.tour.switch })), h("p", { class: "does", text: of ? `${of.does[0].toUpperCase() + of.does.slice(1)}. Said by: ${of.says}.` : "" }), side.caption, side.stage.el, side.shown);
    })));
  }

  destroy() { for (const s of this.sides) { s.stage.destroy(); s.session.close(); } }

  get at() { return Math.min(...this.sides.map((s) => s.guide.at(s.session))); }

  // both does the same on both sides, behind what is under way.
  both(f) {
    this.chain = (this.chain || Promise.resolve()).then(async () => {
      try { await Promise.all(this.sides.map(f)); notice(""); } catch (err) { notice(err.message); }
      this.update();
      const at = this.at;
      if (at > 0) say(this.sides.map((s) => `${s.tour.switch}: ${s.tour.steps[at - 1].text.join(" ")}`).join(" "));
    });
  }

  update() {
    const at = this.at, all = this.tour.steps.length;
    const active = this.story.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(this.story, h("h2", { text: `${this.tour.title} · ${at === 0 ? `${all} steps` : `${at} of ${all}`}` }), h("p", { text: this.tour.about }),
      h("div", { class: "go" },
        button("Back", () => this.both((s) => s.guide.back(s.session)), { disabled: at <= 0, "data-key": "back", title: "Alt+B" }),
        at < all ? button(at === 0 ? "Begin" : "Next", () => this.both((s) => s.guide.next(s.session)), { class: "primary", "data-key": "next", title: "Alt+N" })
          : button("More tours", () => this.app.go(""), { class: "primary", "data-key": "next" })), legend());
    this.press = { next: () => this.story.querySelector('[data-key="next"]')?.click(), back: () => this.story.querySelector('[data-key="back"]')?.click() };
    if (active) this.story.querySelector(`[data-key="${active}"]:not(:disabled)`)?.focus();
    const shownOf = (side) => (at === 0 ? [] : side.session.steps.slice(at > 1 ? side.guide.ends[at - 2] : 0));
    this.sides.forEach((side, i) => {
      const steps = shownOf(side), others = shownOf(this.sides[1 - i]);
      fill(side.caption, h("p", { class: "text", text: at === 0 ? "The same commands on both sides; only the switch differs." : caption(side.tour.steps[at - 1].text.join(" ")) }));
      fill(side.shown, h("ol", {}, steps.map((step, k) => h("li", {}, h("div", { class: "cmd", text: step.command }),
        step.shown.length > 0 && h("pre", { class: "out" + (others[k] && others[k].shown.join("\n") !== step.shown.join("\n") ? " differs" : "") }, shown(step.shown))))));
      side.stage.update();
    });
  }
}
