// The script: what was typed or clicked, what each command showed, and the line to type the next. It can be edited, and runs anew.

import { h, fill, button, menu, notice, say, soon } from "./dom.js";
import { get, cached } from "./api.js";
import { encode } from "./link.js";

export class Script {
  constructor(bench) {
    this.bench = bench;
    this.list = h("ol", { class: "transcript", "aria-label": "Script", tabindex: "0" });
    this.area = h("textarea", { spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": "Script as text", wrap: "off" });
    this.editStatus = h("span", { class: "muted" });
    this.edit = h("div", { class: "edit", hidden: true }, this.area, h("footer", {}, button("Run", () => this.run(), { class: "primary", title: "Ctrl+Enter" }), button("Cancel", () => this.leaveEdit()), this.editStatus));
    this.area.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); this.run(); }
      else if (e.key === "Escape") this.leaveEdit();
    });
    this.input = h("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: "Type a command", "aria-label": "Command", role: "combobox", "aria-expanded": "false", "aria-controls": "complete", "aria-autocomplete": "list" });
    this.hint = h("div", { class: "hint" });
    this.candidates = h("ul", { class: "complete", id: "complete", role: "listbox", "aria-label": "What may stand here", hidden: true });
    this.send = h("button", { type: "submit", text: "Run" });
    this.prompt = h("div", { class: "prompt" }, this.candidates, h("form", { on: { submit: (e) => { e.preventDefault(); this.submit(); } } }, this.input, this.send), this.hint);
    this.head = h("header");
    this.el = h("section", { class: "script", "aria-label": "Script" }, this.head, this.list, this.edit, this.prompt);
    this.listenInput();
    this.paint = soon(() => this.fillList());
    const file = h("input", { type: "file", accept: ".txt,text/plain", hidden: true, on: { change: async () => {
      const f = file.files[0];
      file.value = "";
      if (!f) return;
      if (f.size > 1 << 20) return notice(`${f.name} has ${f.size} bytes, a script may have ${1 << 20}.`);
      await bench.openScript(await f.text());
    } } });
    this.file = file;
    this.el.append(file);
  }

  get session() { return this.bench.session; }

  fillHead() {
    const s = this.session;
    fill(this.head, h("h2", { text: s.live ? "Commands to the running cluster" : "Script" }),
      !s.live && button("Edit", () => this.startEdit(), { class: "small", disabled: !this.edit.hidden, "data-key": "edit" }),
      !s.live && button("Copy link", () => this.copyLink(), { class: "small", title: "The script is in the link: it replays exactly this, anywhere" }),
      !s.live && menu("File", [
        { text: "Save as a file", run: () => this.save() }, { text: "Open a file…", run: () => this.file.click() }, "-",
        { text: "Copy the script", run: async () => { await this.copy(await s.script()); say("The script is copied"); } },
        { text: "Switches of KIP-1289…", run: () => this.bench.switches() },
      ], { class: "small" }),
      s.live && h("label", {}, h("input", { type: "checkbox", checked: s.writes, on: { change: (e) => { s.writes = e.target.checked; this.bench.update(); } } }), " allow commands"));
  }

  update() {
    this.fillHead();
    this.input.disabled = !this.bench.canWrite;
    this.send.disabled = !this.bench.canWrite;
    this.input.placeholder = this.bench.canWrite ? "Type a command, like: topic orders" : "Allow commands to type one";
    this.prompt.hidden = !this.edit.hidden;
    this.paint();
  }

  fillList() {
    const s = this.session;
    const at = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 30 || this.lastCount !== s.steps.length;
    this.lastCount = s.steps.length;
    const steps = s.steps.slice(-1500);
    fill(this.list,
      s.steps.length + s.undone.length === 0 && h("li", { class: "empty", text: s.live ? "Commands that you send are listed here." : "Every button types a command here. Or type one below." }),
      s.steps.length > steps.length && h("li", { class: "muted", text: `${s.steps.length - steps.length} earlier commands` }),
      steps.map((step) => this.item(step, step.n === s.state.steps, false)), s.undone.slice(0, 200).map((step) => this.item(step, false, true)),
      s.differing > 0 && h("li", { class: "comment", text: s.differing === 1 ? "One block shows something else than its text says." : `${s.differing} blocks show something else than their text says.` }));
    if (at) { const here = this.list.querySelector(".here"); if (here) here.scrollIntoView({ block: "nearest" }); }
  }

  item(step, here, undone) {
    return h("li", { class: (here ? "here" : "") + (undone ? " undone" : ""), "aria-current": here ? "step" : null, data: { step: step.n } },
      step.comment.filter((c) => c.trim()).map((c) => h("div", { class: "comment", text: c })),
      button(step.command, () => this.goTo(step.n), { class: "cmd", title: this.session.live ? null : undone ? "Do again up to here" : "Go to this step" }),
      step.shown.length > 0 && h("pre", {}, shown(step.shown)));
  }

  async goTo(n) {
    if (this.session.live) return;
    try { await this.session.go(n); say(`At step ${n}`); } catch (err) { notice(err.message); }
  }

  reveal(n) { this.list.querySelector(`[data-step="${n}"]`)?.scrollIntoView({ block: "center" }); }

  async startEdit() {
    try {
      this.area.value = await this.session.script();
    } catch (err) { return notice(err.message); }
    this.before = this.area.value;
    this.list.hidden = true;
    this.edit.hidden = false;
    this.editStatus.textContent = "";
    this.update();
    this.area.focus();
    this.area.setSelectionRange(this.area.value.length, this.area.value.length);
    this.area.scrollTop = this.area.scrollHeight;
  }

  leaveEdit() {
    this.edit.hidden = true;
    this.list.hidden = false;
    this.update();
    this.head.querySelector('[data-key="edit"]')?.focus();
  }

  async run() {
    try {
      const run = await this.session.putScript(this.area.value);
      notice("");
      say(`The script has run: ${run.steps.length} steps`);
      this.leaveEdit();
    } catch (err) {
      notice(err.message);
      if (err.line) this.selectLine(err.line);
    }
  }

  selectLine(n) {
    const lines = this.area.value.split("\n");
    const from = lines.slice(0, n - 1).reduce((sum, l) => sum + l.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(from, from + (lines[n - 1] || "").length);
  }

  async copy(text) {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = h("textarea", { class: "hidden-text", value: text, "aria-hidden": "true" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  async copyLink() {
    try {
      const url = new URL(location.href);
      url.hash = await encode(await this.session.script());
      history.replaceState(null, "", url);
      this.lastLink = url.href;
      await this.copy(url.href);
      say("The link is copied");
      this.hint.textContent = "The link is copied. It holds the whole script.";
    } catch (err) { notice(err.message); }
  }

  async save() {
    try {
      const blob = new Blob([await this.session.script()], { type: "text/plain" });
      const a = h("a", { href: URL.createObjectURL(blob), download: "scenario.txt" });
      document.body.append(a);
      a.click();
      a.remove();
      setTimeout(() => URL.revokeObjectURL(a.href), 10e3);
    } catch (err) { notice(err.message); }
  }

  // The line to type a command, with what may stand where the cursor is.

  listenInput() {
    const el = this.input;
    this.asked = 0;
    this.chosen = -1;
    const look = async () => {
      const n = ++this.asked;
      if (!el.value.trim()) return this.closeCandidates();
      try {
        const answer = await get(`${this.session.path}/complete?line=${encodeURIComponent(el.value.slice(0, el.selectionStart))}`);
        if (n !== this.asked || document.activeElement !== el) return;
        this.from = answer.from;
        this.showCandidates(answer.candidates.slice(0, 60));
      } catch { this.closeCandidates(); }
      this.showUsage();
    };
    el.addEventListener("input", look);
    el.addEventListener("blur", () => setTimeout(() => this.closeCandidates(), 150));
    el.addEventListener("keydown", (e) => {
      const n = this.all ? this.all.length : 0;
      if (!this.candidates.hidden && n && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
        e.preventDefault();
        this.mark((this.chosen + (e.key === "ArrowDown" ? 1 : -1) + n) % n);
      } else if (!this.candidates.hidden && n && e.key === "Tab" && !e.shiftKey) {
        e.preventDefault();
        this.accept(this.chosen < 0 ? 0 : this.chosen);
      } else if (!this.candidates.hidden && this.chosen >= 0 && e.key === "Enter") {
        e.preventDefault();
        this.accept(this.chosen);
      } else if (e.key === "Escape") this.closeCandidates();
      else if (e.key === "ArrowUp" && (this.candidates.hidden || !el.value)) { e.preventDefault(); this.recall(-1); }
      else if (e.key === "ArrowDown" && this.candidates.hidden) { e.preventDefault(); this.recall(1); }
    });
  }

  recall(d) {
    const all = this.session.steps.map((s) => s.command);
    if (this.at === undefined || this.at > all.length) this.at = all.length;
    this.at = Math.max(0, Math.min(all.length, this.at + d));
    this.input.value = all[this.at] || "";
  }

  showCandidates(all) {
    this.all = all;
    this.chosen = -1;
    this.candidates.hidden = all.length === 0;
    this.input.setAttribute("aria-expanded", String(all.length > 0));
    this.input.removeAttribute("aria-activedescendant");
    fill(this.candidates, all.map((c, i) => h("li", { role: "option", id: "candidate-" + i, "aria-selected": "false", on: { pointerdown: (e) => { e.preventDefault(); this.accept(i); } } }, c.text, c.help && h("small", { text: "  " + c.help }))));
  }

  closeCandidates() {
    this.asked++; // an answer that is on its way opens nothing
    this.candidates.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  mark(i) {
    this.chosen = i;
    [...this.candidates.children].forEach((li, k) => li.setAttribute("aria-selected", String(k === i)));
    this.input.setAttribute("aria-activedescendant", "candidate-" + i);
    this.candidates.children[i]?.scrollIntoView({ block: "nearest" });
  }

  accept(i) {
    const c = this.all[i];
    if (!c) return;
    // from counts bytes: the line is cut as UTF-8
    const bytes = new TextEncoder().encode(this.input.value);
    const head = new TextDecoder().decode(bytes.slice(0, this.from));
    this.closeCandidates();
    this.input.value = head + c.text + (c.text.endsWith("=") ? "" : " ");
    this.input.focus();
    this.input.dispatchEvent(new Event("input"));
  }

  async showUsage() {
    const name = this.input.value.trim().split(/\s+/)[0];
    try {
      const c = (await cached("commands")).commands.find((x) => x.name === name);
      this.hint.textContent = c ? c.usage : "";
    } catch { /* the hint is no loss */ }
  }

  async submit() {
    const line = this.input.value.trim();
    if (!line) return;
    this.closeCandidates();
    if (await this.bench.run(line)) {
      this.input.value = "";
      this.hint.textContent = "";
      this.at = undefined;
    }
    this.input.focus();
  }
}

// shown marks errors of Kafka in what a command showed.
export function shown(lines) {
  return lines.slice(0, 400).map((l, i) => {
    const text = (i ? "\n" : "") + l;
    return /\b[A-Z][A-Z_]{3,} \(-?\d+\)|^connection closed/.test(l) ? h("span", { class: "bad", text }) : text;
  }).concat(lines.length > 400 ? [`\nand ${lines.length - 400} lines more`] : []);
}
