// The time line of requests, answers and changes, and the logs that grow: share state, markers, dead letters.

import { h, fill, button, soon, notice, keepFocus } from "./dom.js";
import { ms, clock, duration, range, number, count } from "./format.js";
import { MAX_EVENTS } from "./session.js";

const ROW = 22;

export class Dock {
  constructor(bench) {
    this.bench = bench;
    this.tab = "line";
    this.filter = { api: "", member: "", partition: "", text: "", changes: true, requests: true };
    this.chosen = null; // the number of the chosen event
    this.follow = true;
    this.items = [];
    this.tabs = h("div", { role: "tablist", "aria-label": "Logs" });
    this.filters = h("div", { class: "filters" });
    this.rows = h("div", { class: "rows", tabindex: "0", role: "listbox", "aria-label": "Time line" });
    this.space = h("div", { class: "fill", role: "presentation" });
    this.rows.append(this.space);
    this.decoded = h("aside", { class: "decoded", hidden: true, "aria-label": "Decoded message" });
    this.line = h("div", { class: "panel line-panel", id: "panel-line", role: "tabpanel", "aria-label": "Time line" }, this.rows, this.decoded);
    this.log = h("div", { class: "panel", id: "panel-log", role: "tabpanel", hidden: true, tabindex: "0" });
    this.closer = button("Hide", () => this.toggle(), { class: "quiet small" });
    this.el = h("section", { class: "dock", "aria-label": "Time line and logs" }, h("header", {}, this.tabs, this.filters, this.closer), this.line, this.log);
    this.paint = soon(() => this.paintRows());
    this.rows.addEventListener("scroll", () => {
      this.follow = this.rows.scrollTop + this.rows.clientHeight >= this.rows.scrollHeight - ROW;
      this.paint();
    });
    this.rows.addEventListener("keydown", (e) => this.key(e));
    this.rows.addEventListener("click", (e) => {
      const row = e.target.closest(".row");
      if (row) this.choose(Number(row.dataset.at));
    });
    new ResizeObserver(() => { if (this.follow) this.toEnd(); this.paint(); }).observe(this.rows);
    this.makeFilters();
  }

  get session() { return this.bench.session; }

  toggle() {
    const closed = this.el.classList.toggle("closed");
    this.line.hidden = closed || this.tab !== "line";
    this.log.hidden = closed || this.tab === "line";
    this.filters.hidden = closed || this.tab !== "line";
    this.closer.textContent = closed ? "Show" : "Hide";
    this.paint();
  }

  makeFilters() {
    const select = (name, label) => {
      const el = h("select", { "aria-label": label, data: { filter: name }, on: { change: () => { this.filter[name] = el.value; this.update(); } } });
      return el;
    };
    this.apiSelect = select("api", "Only this request");
    this.memberSelect = select("member", "Only this member or client");
    this.partitionSelect = select("partition", "Only this partition");
    const check = (name, text) => h("label", {}, h("input", { type: "checkbox", checked: true, on: { change: (e) => { this.filter[name] = e.target.checked; this.update(); } } }), text);
    this.search = h("input", { type: "search", placeholder: "Find", "aria-label": "Only lines with this text", on: { input: (e) => { this.filter.text = e.target.value.toLowerCase(); this.update(); } } });
    fill(this.filters, this.apiSelect, this.memberSelect, this.partitionSelect, this.search, check("requests", "requests"), check("changes", "changes"));
  }

  // options fills a select with what there is, and keeps what is chosen.
  options(el, all, values, name) {
    if (this.filter[name]) values.add(this.filter[name]);
    const wanted = [...values].sort();
    if (el.dataset.has === wanted.join("\n")) return;
    el.dataset.has = wanted.join("\n");
    fill(el, h("option", { value: "", text: all }), wanted.map((v) => h("option", { value: v, text: v })));
    el.value = this.filter[name];
  }

  update() {
    const v = this.session.view;
    const tabs = [["line", "Time line", null], ["state", "Share state", v.stateLog.length], ["markers", "Markers", v.markers.length], ["dead", "Dead letters", v.deadLetters.length]];
    keepFocus(this.tabs, () => fill(this.tabs, tabs.map(([id, text, n]) => h("button", { type: "button", role: "tab", id: "tab-" + id, "data-key": "tab-" + id, "aria-selected": String(this.tab === id), "aria-controls": id === "line" ? "panel-line" : "panel-log", tabindex: this.tab === id ? "0" : "-1",
      on: { click: () => this.open(id), keydown: (e) => {
        const d = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!d) return;
        const to = tabs[(tabs.findIndex((t) => t[0] === id) + d + tabs.length) % tabs.length][0];
        this.open(to);
        document.getElementById("tab-" + to).focus();
      } } }, text, n !== null && h("span", { class: "count", text: " " + n })))));
    this.makeItems();
    if (this.tab !== "line") keepFocus(this.log, () => this.fillLog());
    this.paint();
  }

  open(tab) {
    if (this.el.classList.contains("closed")) this.toggle();
    this.tab = tab;
    this.line.hidden = tab !== "line";
    this.filters.hidden = tab !== "line";
    this.log.hidden = tab === "line";
    this.log.setAttribute("aria-labelledby", "tab-" + tab);
    this.update();
    if (tab !== "line") this.log.scrollTop = this.log.scrollHeight;
  }

  // members of an event by the names that people know.
  who(e) { return e.members.length ? e.members.map((m) => this.session.name(m)).join(", ") : e.clientId || "connection " + e.connection; }

  matches(e) {
    const f = this.filter;
    if (f.api && e.api !== f.api) return false;
    if (f.member && !(e.members.some((m) => this.session.name(m) === f.member) || (!e.members.length && e.clientId === f.member))) return false;
    if (f.partition && !e.partitions.some((p) => p === f.partition || f.partition.startsWith(p + "-"))) return false;
    if (f.text && !`${e.api} ${this.who(e)} ${e.groups.join(" ")} ${e.partitions.join(" ")} ${e.errors.join(" ")} ${e.outcome} ${e.reason || ""}`.toLowerCase().includes(f.text)) return false;
    return true;
  }

  matchesChange(c) {
    const f = this.filter;
    if (f.api) return false;
    if (f.member && c.member !== f.member) return false;
    if (f.partition && `${c.topic}-${c.partition || 0}` !== f.partition) return false;
    return !f.text || c.text.toLowerCase().includes(f.text);
  }

  // makeItems puts together what the time line shows: steps, what was sent during each, and what changed.
  makeItems() {
    const s = this.session, f = this.filter;
    const apis = new Set(), members = new Set(), partitions = new Set();
    for (const e of s.events) {
      apis.add(e.api);
      if (e.members.length) e.members.forEach((m) => members.add(s.name(m))); else if (e.clientId) members.add(e.clientId);
      if (partitions.size < 300) e.partitions.forEach((p) => partitions.add(p));
    }
    this.options(this.apiSelect, "Request", apis, "api");
    this.options(this.memberSelect, "Member", members, "member");
    this.options(this.partitionSelect, "Partition", partitions, "partition");
    const items = [];
    const events = f.requests ? s.events.filter((e) => this.matches(e)) : [];
    if (s.live) {
      let c = 0;
      const changes = f.changes ? s.liveChanges : [];
      for (const e of events) {
        while (c < changes.length && changes[c].after < e.n) { if (this.matchesChange(changes[c].change)) items.push({ kind: "change", change: changes[c].change, time: changes[c].time }); c++; }
        items.push({ kind: "event", event: e });
      }
      for (; c < changes.length; c++) if (this.matchesChange(changes[c].change)) items.push({ kind: "change", change: changes[c].change, time: changes[c].time });
    } else {
      const narrow = f.api || f.member || f.partition || f.text;
      let i = 0;
      for (const step of s.steps) {
        const at = items.length;
        while (i < events.length && events[i].command < step.n) items.push({ kind: "event", event: events[i++] });
        if (!narrow) items.push({ kind: "step", step });
        while (i < events.length && events[i].command === step.n) items.push({ kind: "event", event: events[i++] });
        if (f.changes) for (const change of step.changes) if (this.matchesChange(change)) items.push({ kind: "change", change, time: step.ended });
        if (f.changes && step.moreChanges && !narrow) items.push({ kind: "change", change: { kind: "", text: `and ${count(step.moreChanges, "change")} more` }, time: step.ended });
        if (narrow && items.length > at) items.splice(at, 0, { kind: "step", step });
      }
      while (i < events.length) items.push({ kind: "event", event: events[i++] });
    }
    this.items = items;
    this.space.style.height = Math.max(1, items.length) * ROW + "px";
    if (this.follow) this.toEnd();
    if (this.chosen !== null && !s.events.some((e) => e.n === this.chosen.n)) this.chosen = null;
  }

  toEnd() { this.rows.scrollTop = this.rows.scrollHeight; }

  paintRows() {
    if (this.line.hidden) return;
    const from = Math.max(0, Math.floor(this.rows.scrollTop / ROW) - 3), to = Math.min(this.items.length, Math.ceil((this.rows.scrollTop + this.rows.clientHeight) / ROW) + 3);
    const out = [];
    for (let i = from; i < to; i++) out.push(this.row(this.items[i], i));
    if (!this.items.length) out.push(h("p", { class: "empty", text: "  " + (this.session.events.length ? "Nothing matches." : "Nothing was sent yet.") }));
    fill(this.space, out);
    this.rows.setAttribute("aria-activedescendant", this.cursor === undefined ? "" : "row-" + this.cursor);
  }

  time(t) { return clock(ms(t) - this.session.began); }

  row(item, i) {
    const base = { role: "option", id: "row-" + i, "aria-selected": String(this.cursor === i), data: { at: i } };
    const top = (el) => { el.style.top = i * ROW + "px"; return el; };
    if (item.kind === "step") return top(h("div", { ...base, class: "row step" }, h("span", { class: "t", text: this.time(item.step.began) }), h("span", { text: item.step.command })));
    if (item.kind === "change") return top(h("div", { ...base, class: "row change", title: item.change.text }, h("span", { class: "t", text: this.time(item.time) }), h("span", { class: "d", "aria-hidden": "true", text: "◆" }), h("span", { text: item.change.text })));
    const e = item.event, away = e.kind === "answer";
    const arrow = { request: "→", answer: "←", end: "⊘" }[e.kind];
    const what = e.kind === "end" ? `${e.outcome}${e.reason ? ": " + e.reason : ""}` : e.errors.join(", ");
    return top(h("div", { ...base, class: `row ${e.kind}${e.refused || e.kind === "end" ? " refused" : ""}` },
      h("span", { class: "t", text: this.time(e.time) }), h("span", { class: "d", title: away ? "from the broker" : "to the broker", text: arrow }),
      h("span", { class: "a", text: `${e.api} ${e.kind === "request" ? "v" + e.version : e.kind === "answer" ? "answer" : ""}` }),
      h("span", { text: this.who(e), title: this.who(e) }), h("span", { class: "muted", text: away ? "node " + e.node + (e.tookMs >= 1 ? " · " + duration(e.tookMs) : "") : "node " + e.node }),
      h("span", { class: "e", text: (what || e.partitions.join(", ")) + (e.faults && e.faults.length ? ` (fault ${e.faults.join(", ")})` : ""), title: e.partitions.join(", ") })));
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.rows.clientHeight / ROW) - 1);
    const at = this.cursor ?? this.items.length;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1 }[e.key];
    if (to !== undefined && this.items.length) {
      e.preventDefault();
      this.cursor = Math.max(0, Math.min(to, this.items.length - 1));
      const top = this.cursor * ROW;
      if (top < this.rows.scrollTop) this.rows.scrollTop = top;
      else if (top + ROW > this.rows.scrollTop + this.rows.clientHeight) this.rows.scrollTop = top + ROW - this.rows.clientHeight;
      this.paint();
    } else if ((e.key === "Enter" || e.key === " ") && this.cursor !== undefined) {
      e.preventDefault();
      this.choose(this.cursor);
    } else if (e.key === "Escape" && !this.decoded.hidden) this.closeDecoded();
  }

  async choose(at) {
    this.cursor = at;
    const item = this.items[at];
    this.follow = at === this.items.length - 1;
    this.paint();
    if (!item) return;
    if (item.kind === "step") return this.bench.reveal(item.step.n);
    if (item.kind !== "event") return;
    this.chosen = item.event;
    try {
      const d = await this.session.event(item.event.n);
      if (this.chosen === item.event) this.showDecoded(d);
    } catch (err) { notice(err.message); }
  }

  closeDecoded() {
    this.decoded.hidden = true;
    this.line.classList.remove("open");
    this.rows.focus();
  }

  showDecoded(d) {
    this.decoded.hidden = false;
    this.line.classList.add("open");
    const other = this.session.events.find((e) => e.request === d.request && e.n !== d.n);
    const title = d.kind === "request" ? `${d.api} request` : d.kind === "answer" ? `${d.api} answer` : `${d.api}: no answer`;
    fill(this.decoded,
      h("header", {}, h("h3", { text: title }), other && button(other.kind === "request" ? "Its request" : "Its answer", async () => { this.chosen = other; this.showDecoded(await this.session.event(other.n)); }, { class: "small" }), button("Close", () => this.closeDecoded(), { class: "small" })),
      h("p", { class: "muted", text: `key ${d.key}, version ${d.version}, ${number(d.bytes)} bytes, ${d.clientId || "no client id"}, connection ${d.connection}, node ${d.node}` + (d.kind === "answer" ? `, after ${duration(d.tookMs)}` : "") }),
      d.kind === "end" && h("p", { text: `${d.outcome}${d.reason ? ": " + d.reason : ""}` }),
      d.undecodable && h("p", { text: d.undecodable }),
      (d.leftOut || []).map((t) => h("p", { class: "muted", text: t })),
      d.fields !== null && d.fields !== undefined && h("div", { class: "tree" }, tree(d.fields, 0)));
  }

  fillLog() {
    const s = this.session, v = s.view;
    const t = (time) => h("td", { class: "mono", text: this.time(time) });
    const table = (head, rows, empty) => (rows.length ? h("table", {}, h("thead", {}, h("tr", {}, head.map((x) => h("th", { scope: "col", text: x })))), h("tbody", {}, rows)) : h("p", { class: "empty", text: empty }));
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 4;
    const rows = {
      state: () => table(["Offset", "Time", "Record", "Share partition", "What it says"], v.stateLog.map((r) => h("tr", {}, h("td", { class: "num", text: `${r.logPartition}@${r.offset}` }), t(r.time), h("td", { text: r.type }), h("td", { text: `${r.topic}-${r.partition} of ${r.group}` }),
        h("td", { text: r.state ? stateText(r) : "forgotten" }))), "Nothing is written to __share_group_state yet. What is acquired is not stored; what is acknowledged is."),
      markers: () => table(["Partition", "Offset", "Time", "Marker", "Producer", "Coordinator epoch"], v.markers.map((m) => h("tr", {}, h("td", { text: `${m.topic}-${m.partition}` }), h("td", { class: "num", text: m.offset }), t(m.time), h("td", {}, h("span", { class: "tag state-Complete" + (m.type === "COMMIT" ? "Commit" : "Abort"), text: m.type })), h("td", { text: `${m.producer}, epoch ${m.producerEpoch}` }), h("td", { class: "num", text: m.coordinatorEpoch }))), "No transaction has ended yet."),
      dead: () => table(["Queue", "Offset", "Time", "From", "Group", "Deliveries", "Why"], v.deadLetters.map((d) => h("tr", {}, h("td", { text: `${d.topic}-${d.partition}` }), h("td", { class: "num", text: d.offset }), t(d.time), h("td", { text: `${d.sourceTopic}-${d.sourcePartition} ${d.sourceOffset}` }), h("td", { text: d.group }), h("td", { class: "num", text: d.deliveryCount }), h("td", { text: d.reason }))), "No dead letters. A group has a queue where errors.deadletterqueue.topic.name names one."),
    }[this.tab]();
    fill(this.log, rows);
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}

function stateText(r) {
  const s = r.state;
  const batches = s.batches.slice(0, 20).map((b) => `${range(b.first, b.last)} ${b.state} ×${b.deliveryCount}` + (b.producer ? ` (${b.producer.type} in ${b.producer.producer}, epoch ${b.producer.producerEpoch})` : ""));
  return [`state epoch ${s.stateEpoch}`, s.startOffset >= 0 ? `start ${s.startOffset}` : null, ...batches].filter(Boolean).join(" · ") + (s.batches.length > 20 ? ` and ${s.batches.length - 20} more` : "");
}

// tree shows a decoded message: objects and arrays open and close.
function tree(value, depth) {
  if (value === null || typeof value !== "object") return h("span", { class: "v", text: typeof value === "string" ? JSON.stringify(value).slice(0, 4000) : String(value) });
  const all = Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
  if (!all.length) return h("span", { class: "v", text: Array.isArray(value) ? "[]" : "{}" });
  const shown = all.slice(0, 200);
  return h("ul", {}, shown.map(([k, v]) => {
    const leaf = v === null || typeof v !== "object" || Object.keys(v).length === 0;
    return h("li", {}, leaf ? [h("span", { class: "k", text: k + ": " }), tree(v, depth + 1)] : h("details", { open: depth < 4 && shown.length <= 40 }, h("summary", {}, h("span", { class: "k", text: Array.isArray(value) ? `[${k}]` : k }), Array.isArray(v) && h("span", { class: "muted", text: ` (${v.length})` })), tree(v, depth + 1)));
  }), all.length > shown.length && h("li", { class: "muted", text: `and ${all.length - shown.length} more` }));
}

export { MAX_EVENTS };
