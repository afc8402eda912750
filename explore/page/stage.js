// The lanes of a session: one for each share partition, and one for each partition that no share group reads.

import { h, fill, button, menu, keepFocus } from "./dom.js";
import { number } from "./format.js";
import { Lane, legend } from "./lanes.js";
import { transactions } from "./actors.js";
import * as actions from "./actions.js";

const PAGE = 24; // lanes that are shown at first, and more at a time

export class Stage {
  // bench makes buttons of actions; null where there is nothing to click.
  constructor(session, bench) {
    this.session = session;
    this.bench = bench;
    this.lanes = new Map();
    this.limit = PAGE;
    this.filter = "";
    this.list = h("div");
    this.txns = h("div");
    this.more = h("div");
    this.search = h("input", { type: "search", placeholder: "Find a partition", "aria-label": "Only lanes with this text", hidden: true, on: { input: () => { this.filter = this.search.value; this.update(); } } });
    this.el = h("div", {}, bench && h("div", { class: "head-row" }, legend(), this.search), this.list, this.more, this.txns);
    this.empty = h("p", { class: "empty" });
  }

  destroy() { for (const l of this.lanes.values()) l.destroy(); }

  update() {
    const s = this.session, v = s.view, wanted = [];
    const partitions = new Map();
    for (const t of v.topics) if (!t.internal) for (const p of t.partitions) partitions.set(t.name + "-" + p.partition, { topic: t, partition: p });
    const shared = new Set();
    for (const sp of v.sharePartitions) {
      const key = `${sp.topic}-${sp.partition}`, known = partitions.get(key);
      shared.add(key);
      wanted.push({ key: sp.group + "/" + key, topic: sp.topic, sp, partition: known ? known.partition : null });
    }
    for (const [key, { topic, partition }] of partitions) if (!shared.has(key)) wanted.push({ key, topic: topic.name, sp: null, partition });
    const found = this.filter ? wanted.filter((w) => w.key.includes(this.filter)) : wanted;
    this.search.hidden = wanted.length <= PAGE && !this.filter;
    const shown = found.slice(0, this.limit);
    const keep = new Set(shown.map((w) => w.key));
    for (const [key, lane] of this.lanes) if (!keep.has(key)) { lane.destroy(); lane.el.remove(); this.lanes.delete(key); }
    let before = null;
    for (const w of shown) {
      let lane = this.lanes.get(w.key);
      if (!lane) {
        lane = new Lane(s, (l, selection) => (this.bench && this.bench.canWrite ? actions.chosen(this.session.view, selection).map((a) => this.bench.button(a, { class: "small" })) : []));
        this.lanes.set(w.key, lane);
      }
      const place = before ? before.el.nextSibling : this.list.firstChild;
      if (lane.el !== place) this.list.insertBefore(lane.el, place);
      const changes = s.changed.filter((c) => c.topic === w.topic && (c.partition || 0) === (w.partition ? w.partition.partition : w.sp.partition) && (!w.sp ? !c.group : c.group === w.sp.group));
      const open = lane.el.querySelector("details.menu[open]");
      const tools = !this.bench || !this.bench.canWrite || !w.partition ? null : open && lane.el.contains(open) ? lane.menu : menu("Do", () => this.bench.items(actions.lane(this.session.view, w.topic, w.partition, w.sp)), { class: "small", "aria-label": `What can be done with ${w.key}`, "data-key": "do" });
      lane.menu = tools;
      keepFocus(lane.el, () => lane.update({ sp: w.sp, partition: w.partition, topic: w.topic, markers: v.markers, changes, tools }));
      before = lane;
    }
    if (!wanted.length) {
      this.empty.textContent = s.live ? "There are no topics yet." : "There are no topics yet. Add one, or type topic orders.";
      fill(this.more, this.empty);
    } else {
      const left = found.length - shown.length;
      fill(this.more, left > 0 && button(`Show ${Math.min(left, PAGE)} of ${number(left)} more`, () => { this.limit += PAGE; this.update(); }),
        (v.more.sharePartitions > 0 || v.more.runs > 0 || v.more.partitions > 0) && h("p", { class: "muted", text: `Not shown: ${number(v.more.partitions)} partitions, ${number(v.more.sharePartitions)} share partitions and ${number(v.more.runs)} runs, which are more than a view may have.` }));
    }
    if (!this.txns.querySelector("details.menu[open]")) keepFocus(this.txns, () => fill(this.txns, transactions(this.bench, s)));
  }
}
