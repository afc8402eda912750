// A lane shows the offsets of a share partition, or of a partition that no share group reads: as cells where there is room, as runs where there is less, and as shares of
// each pixel where there is less still. What is drawn is bounded by the width, whatever the log holds.

import { h, fill, button, say, soon, reducedMotion } from "./dom.js";
import { ms, duration, range, number, letters, stateName, FOREVER } from "./format.js";

const AXIS = 17, CELL = 34, OWNER = 17, VALUE = 14, OVERVIEW = 9;
const FULL = AXIS + CELL + VALUE + OWNER + 1; // the height without the overview
const MAX_SCALE = 44, LETTER = 13, RING = 27;
// STACK is the order of states in a pixel that holds several, from the bottom.
const STACK = ["done", "ACKNOWLEDGED", "ARCHIVED", "ARCHIVING", "TX_PENDING", "ACQUIRED", "AVAILABLE"];

let colours = null;
function palette() {
  if (colours) return colours;
  const css = getComputedStyle(document.documentElement);
  const of = (name) => css.getPropertyValue("--" + name).trim();
  colours = {
    AVAILABLE: of("available"), ACQUIRED: of("acquired"), TX_PENDING: of("pending"), ACKNOWLEDGED: of("acknowledged"), ARCHIVED: of("archived"), ARCHIVING: of("archiving"),
    done: of("done"), unread: of("unread"), ink: of("ink"), text: of("text"), muted: of("muted"), ring: of("ring"), track: of("ring-track"), line: of("line"), strong: of("line-strong"),
    accent: of("accent"), surface: of("surface"), soft: of("accent-soft"), sans: of("sans"), mono: of("mono"),
  };
  return colours;
}
addEventListener("themechange", () => { colours = null; });

const inkOn = (c, state) => (state === "AVAILABLE" ? c.text : c.ink);

let tip = null;
function showTip(x, y, text) {
  if (!tip) { tip = h("div", { class: "tip", role: "presentation" }); document.body.append(tip); }
  tip.textContent = text;
  tip.hidden = false;
  const r = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - r.width - 4)) + "px";
  tip.style.top = Math.max(4, y - r.height - 10) + "px";
}
function hideTip() { if (tip) tip.hidden = true; }

export class Lane {
  // actions(lane, selection) gives the elements of the bar below a selection.
  constructor(session, actions) {
    this.session = session;
    this.actions = actions;
    this.scale = 0; // px an offset
    this.left = 0; // the offset at the left edge
    this.fixed = false; // somebody has zoomed or moved: keep the place
    this.cursor = null;
    this.anchor = null;
    this.visible = true;
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "offsets of a partition" });
    this.title = h("h3");
    this.facts = h("span", { class: "facts num" });
    this.zoomButtons = h("span", { class: "zoom" },
      button("\u2212", () => this.zoom(0.5), { class: "quiet small", "aria-label": "Zoom out", "data-key": "out" }),
      button("+", () => this.zoom(2), { class: "quiet small", "aria-label": "Zoom in", "data-key": "in" }),
      button("Window", () => this.show("window"), { class: "quiet small", title: "From the start offset to the end of what is in flight" }),
      button("All", () => this.show("all"), { class: "quiet small", title: "The whole log" }));
    this.tools = h("span", { class: "tools" });
    this.persisted = h("span", { class: "persisted" });
    this.table = h("div", { class: "runs", hidden: true });
    this.opener = button("Table", () => {
      this.table.hidden = !this.table.hidden;
      this.opener.setAttribute("aria-expanded", String(!this.table.hidden));
      this.fillTable();
    }, { class: "quiet small", "aria-expanded": "false", title: "What is in flight as a table" });
    this.under = h("div", { class: "under" }, this.persisted, this.opener);
    this.chosen = h("div", { class: "chosen", hidden: true });
    this.el = h("section", { class: "lane" },
      h("header", {}, this.title, this.tools, this.facts, this.zoomButtons),
      h("div", { class: "strip" }, this.canvas), this.under, this.chosen, this.table);
    this.draw = soon(() => this.paint());
    this.resize = new ResizeObserver(() => {
      if (this.sized === this.canvas.clientWidth) return;
      this.sized = this.width = this.canvas.clientWidth;
      if (!this.fixed) this.fit();
      this.draw();
    });
    this.resize.observe(this.canvas);
    this.watch = new IntersectionObserver((entries) => { this.visible = entries.at(-1).isIntersecting; if (this.visible) this.draw(); });
    this.watch.observe(this.canvas);
    this.onTheme = () => this.draw();
    addEventListener("themechange", this.onTheme);
    this.listen();
  }

  destroy() {
    this.resize.disconnect();
    this.watch.disconnect();
    removeEventListener("themechange", this.onTheme);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.tick);
    hideTip();
  }

  // update takes what is known now. sp is null for a partition that no share group reads; markers are the ends of transactions in its log.
  update({ sp, partition, topic, markers, changes, tools }) {
    const first = !this.topic;
    this.sp = sp;
    this.partition = partition;
    this.topic = topic;
    this.index = partition ? partition.partition : sp.partition;
    this.markers = (markers || []).filter((m) => m.topic === topic && m.partition === (partition ? partition.partition : sp.partition));
    this.changes = changes;
    this.log = { start: partition ? partition.startOffset : sp.startOffset, end: Math.max(partition ? Math.max(partition.endOffset, partition.highWatermark) : 0, sp && sp.known ? sp.endOffset : 0) };
    this.rows = sp ? this.rowsOf(sp) : this.rowsOfLog(partition);
    this.name = `${topic}-${this.index}`;
    fill(this.title, this.name, sp && h("span", { class: "of", text: " in " + sp.group }));
    fill(this.tools, tools);
    const facts = [];
    if (partition) facts.push(partition.leader < 0 ? "no leader" : `node ${partition.leader} leads, epoch ${partition.leaderEpoch}`);
    if (sp && sp.known) facts.push(`start ${number(sp.startOffset)}`, `${number(sp.inFlight)} of ${number(sp.maxInFlight)} in flight`);
    if (sp && sp.waiting) facts.push(sp.waiting === 1 ? "1 fetch waits" : `${sp.waiting} fetches wait`);
    if (partition && (!sp || partition.lastStableOffset < partition.highWatermark)) facts.push(`log ${number(partition.startOffset)}\u2013${number(partition.highWatermark)}`, ...(partition.lastStableOffset < partition.highWatermark ? [`stable to ${number(partition.lastStableOffset)}`] : []));
    this.facts.textContent = facts.join(" · ");
    this.persisted.textContent = sp ? (sp.known ? "" : "Not read by its leader. ") + persistedText(sp.persisted) : "";
    this.persisted.title = this.persisted.textContent;
    this.under.hidden = !sp;
    this.el.classList.toggle("changed", !!changes && changes.length > 0 && !this.session.live);
    this.canvas.setAttribute("aria-label", this.summary());
    if (!this.fixed || first) this.fit();
    this.clamp();
    if (this.cursor !== null && (this.cursor >= this.log.end || this.cursor < this.low)) this.choose(null);
    else if (this.cursor !== null) this.fillChosen();
    this.animate();
    this.fillTable();
  }

  // rowsOf are all offsets as runs: what is done, what is in flight, and what was never handed out.
  rowsOf(sp) {
    const rows = [];
    if (!sp.known) {
      const p = sp.persisted;
      if (p) {
        if (p.startOffset > this.log.start) rows.push({ first: this.log.start, last: p.startOffset - 1, state: "done" });
        for (const b of p.batches) rows.push({ first: b.first, last: b.last, state: b.state, deliveryCount: b.deliveryCount, member: "", lockEnds: null, producer: b.producer, stored: true });
      }
      return rows;
    }
    if (sp.startOffset > this.log.start) rows.push({ first: this.log.start, last: sp.startOffset - 1, state: "done" });
    for (const r of sp.runs) rows.push(r);
    return rows;
  }

  rowsOfLog(p) {
    const rows = [];
    const ends = this.markers.toSorted((a, b) => a.offset - b.offset);
    let at = p.startOffset;
    const until = (o, state) => { if (o > at) { rows.push({ first: at, last: o - 1, state, log: true }); at = o; } };
    for (const m of ends) {
      if (m.offset < at || m.offset >= this.log.end) continue;
      until(Math.min(m.offset, Math.max(at, p.lastStableOffset)), "stable");
      until(m.offset, "open");
      rows.push({ first: m.offset, last: m.offset, state: m.type, log: true, marker: m });
      at = m.offset + 1;
    }
    until(Math.min(p.lastStableOffset, this.log.end), "stable");
    until(this.log.end, "open");
    return rows;
  }

  get low() { return this.log.start; }
  get total() { return Math.max(0, this.log.end - this.log.start); }

  fit() {
    if (!this.log || !this.width) return;
    const start = this.sp && this.sp.known ? this.sp.startOffset : this.log.start;
    if (this.total * LETTER <= this.width || !this.sp) return this.show("all", true);
    if (start >= this.log.end || this.session.live) return this.show(this.total <= this.width ? "all" : "window", true);
    this.show("window", true);
  }

  show(what, automatic = false) {
    this.fixed = !automatic;
    let from = this.low, to = this.log.end;
    if (what === "window" && this.sp && this.sp.known) {
      from = this.sp.startOffset;
      to = Math.max(this.sp.endOffset, from + 1);
      const pad = Math.max(2, Math.round((to - from) * 0.06));
      from = Math.max(this.low, from - pad);
      to = Math.min(this.log.end, Math.max(to + pad, from + 24));
    }
    const n = Math.max(1, to - from);
    this.left = from;
    this.scale = Math.min(MAX_SCALE, (this.width - 2) / n);
    this.clamp();
    this.draw();
  }

  clamp() {
    if (!this.width || !this.log) return;
    const least = Math.min(MAX_SCALE, (this.width - 2) / Math.max(1, this.total));
    this.scale = Math.min(MAX_SCALE, Math.max(least, this.scale || least));
    const across = this.width / this.scale;
    this.left = Math.max(this.low, Math.min(this.left, this.log.end - across));
    if (across >= this.total) this.left = this.low;
  }

  zoom(by, at = this.width / 2) {
    const under = this.left + at / this.scale;
    this.scale *= by;
    this.fixed = true;
    this.scale = Math.min(MAX_SCALE, this.scale);
    this.left = under - at / this.scale;
    this.clamp();
    this.draw();
  }

  pan(px) {
    this.fixed = true;
    this.left += px / this.scale;
    this.clamp();
    this.draw();
  }

  find(offset) {
    let lo = 0, hi = this.rows.length - 1;
    while (lo <= hi) {
      const mid = (lo + hi) >> 1, r = this.rows[mid];
      if (offset < r.first) hi = mid - 1;
      else if (offset > r.last) lo = mid + 1;
      else return r;
    }
    return null;
  }

  x(offset) { return 1 + (offset - this.left) * this.scale; }

  // animate draws, and goes on drawing while rings move: after a step for a moment, on the machine's clock for as long as a lock runs.
  animate() {
    const now = this.session.now();
    const from = this.shownNow;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.tick);
    if (this.session.live || reducedMotion() || from === undefined || from >= now || now - from > 120e3) {
      this.shownNow = now;
      this.draw();
      if (!this.session.state.virtual && this.rows.some((r) => r.lockEnds)) {
        this.tick = setTimeout(() => { if (this.visible) this.animate(); }, reducedMotion() ? 1000 : 250);
      }
      return;
    }
    const began = performance.now(), time = 260;
    const frame = (t) => {
      const part = Math.min(1, (t - began) / time);
      this.shownNow = from + (now - from) * (1 - (1 - part) ** 2);
      this.paint();
      if (part < 1) this.frame = requestAnimationFrame(frame);
    };
    this.frame = requestAnimationFrame(frame);
  }

  paint() {
    const width = this.canvas.clientWidth;
    if (!width || !this.rows || !this.visible) return;
    this.width = width;
    if (!this.scale) this.fit();
    const dpr = Math.min(3, devicePixelRatio || 1);
    this.overview = this.total > (width / this.scale) * 1.02;
    this.height = (this.sp ? FULL : FULL - OWNER) + (this.overview ? OVERVIEW : 0);
    this.canvas.style.height = this.height + "px";
    this.zoomButtons.hidden = this.scale >= LETTER && !this.overview;
    const w = Math.round(width * dpr), hh = Math.round(this.height * dpr);
    if (this.canvas.width !== w || this.canvas.height !== hh) { this.canvas.width = w; this.canvas.height = hh; }
    const g = this.canvas.getContext("2d"), c = palette();
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, width, this.height);
    if (this.total === 0) {
      g.fillStyle = c.muted;
      g.font = "13px " + c.sans;
      g.textBaseline = "middle";
      g.fillText("No records yet", 2, AXIS + CELL / 2);
      return;
    }
    const end = Math.min(this.log.end, this.left + width / this.scale);
    this.paintAxis(g, c, end);
    if (this.scale < 1) this.paintShares(g, c, width);
    else if (this.scale < LETTER) this.paintRuns(g, c, end);
    else this.paintCells(g, c, end);
    this.paintMarks(g, c, end);
    if (this.overview) this.paintOverview(g, c, width);
  }

  paintAxis(g, c, end) {
    g.font = "10.5px " + c.mono;
    g.textBaseline = "alphabetic";
    g.fillStyle = c.muted;
    const widest = String(Math.floor(end)).length * 6.6 + 14;
    let every = 1;
    for (const f of [1, 2, 5]) for (let p = 0, e = f; p < 16; p++, e *= 10) if (e * this.scale >= widest && (every * this.scale < widest || e < every)) every = e;
    for (let o = Math.ceil(this.left / every) * every; o < end; o += every) {
      const x = this.x(o) + (this.scale >= LETTER ? this.scale / 2 : 0);
      const text = String(o);
      g.textAlign = this.scale >= LETTER ? "center" : "left";
      g.fillText(text, x, AXIS - 5);
      if (this.scale < LETTER) g.fillRect(x, AXIS - 4, 1, 4);
    }
    g.textAlign = "left";
  }

  colour(c, state) {
    return c[state] || { stable: c.AVAILABLE, open: c.TX_PENDING, COMMIT: c.ACKNOWLEDGED, ABORT: c.ARCHIVED }[state] || c.done;
  }

  letter(r) {
    if (r.log) return { stable: "", open: "T", COMMIT: "C", ABORT: "×" }[r.state];
    return r.state === "done" ? "✓" : letters[r.state] || "?";
  }

  paintCells(g, c, end) {
    const size = this.scale, gap = size > 24 ? 2 : 1;
    const now = this.shownNow ?? this.session.now();
    const values = size >= 30 && !this.session.live;
    if (values) this.session.recordsOf(this.topic, this.index, Math.floor(this.left), Math.min(this.log.end, Math.ceil(end)) - 1);
    for (let o = Math.floor(this.left); o < end; o++) {
      const r = this.find(o);
      const x = this.x(o) + gap / 2, w = size - gap, y = AXIS;
      if (!r) {
        g.strokeStyle = c.unread;
        g.setLineDash([3, 3]);
        g.lineWidth = 1;
        round(g, x + 0.5, y + 0.5, w - 1, CELL - 1, 4);
        g.stroke();
        g.setLineDash([]);
      } else {
        g.fillStyle = this.colour(c, r.state);
        round(g, x, y, w, CELL, 4);
        g.fill();
        if (r.state === "ARCHIVING" || r.pending) this.hatch(g, c, x, y, w);
        const cx = x + w / 2, cy = y + CELL / 2;
        const lock = this.session.lockLeft(this.sp ? this.sp.group : "", r, now);
        if (lock && size >= RING && lock.left < FOREVER) {
          const radius = Math.min(w, CELL) / 2 - 5;
          g.lineWidth = 2.5;
          g.strokeStyle = c.track;
          g.beginPath(); g.arc(cx, cy, radius, 0, 7); g.stroke();
          g.strokeStyle = c.ring;
          g.beginPath(); g.arc(cx, cy, radius, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * lock.part); g.stroke();
        }
        g.fillStyle = r.state === "done" ? c.muted : inkOn(c, r.log && r.state === "stable" ? "AVAILABLE" : r.state);
        g.font = `600 ${size >= RING ? 12.5 : 11}px ${c.sans}`;
        g.textAlign = "center";
        g.textBaseline = "middle";
        g.fillText(this.letter(r), cx, cy + 0.5);
        if (r.deliveryCount > 0 && size >= 22) {
          g.font = "600 9.5px " + c.sans;
          g.textAlign = "right";
          g.textBaseline = "alphabetic";
          g.fillText(String(r.deliveryCount), x + w - 2.5, y + CELL - 2.5);
        }
      }
      if (values) {
        const rec = this.session.record(this.topic, this.index, o);
        if (rec && rec.value !== null && !rec.marker) {
          g.fillStyle = c.muted;
          g.font = "10.5px " + c.mono;
          g.textAlign = "center";
          g.textBaseline = "alphabetic";
          const text = clip(g, rec.value, w);
          g.fillText(text, x + w / 2, y + CELL + 11);
          if (this.aborted(rec)) {
            const width = g.measureText(text).width;
            g.fillRect(x + (w - width) / 2 - 1, y + CELL + 7, width + 2, 1);
          }
        }
      }
      if (this.selected(o)) this.outline(g, c, x - 0.5, w + 1);
    }
    g.textAlign = "left";
    this.paintOwners(g, c, end);
  }

  // aborted tells whether a record belongs to a transaction that was aborted: the next marker of its producer says so.
  aborted(rec) {
    if (!rec.transactional) return false;
    const end = this.markers.find((m) => m.offset > rec.offset && m.producerId === rec.producerId);
    return !!end && end.type === "ABORT";
  }

  selected(o) {
    if (this.cursor === null) return false;
    const a = this.anchor ?? this.cursor;
    return o >= Math.min(a, this.cursor) && o <= Math.max(a, this.cursor);
  }

  outline(g, c, x, w) {
    g.strokeStyle = c.accent;
    g.lineWidth = 2;
    round(g, x, AXIS - 0.5, w, CELL + 1, 4.5);
    g.stroke();
  }

  hatch(g, c, x, y, w) {
    g.save();
    g.beginPath(); g.rect(x, y, w, CELL); g.clip();
    g.strokeStyle = c.track;
    g.lineWidth = 1.5;
    for (let i = -CELL; i < w; i += 6) { g.beginPath(); g.moveTo(x + i, y + CELL); g.lineTo(x + i + CELL, y); g.stroke(); }
    g.restore();
  }

  visibleRows(end) {
    let lo = 0, hi = this.rows.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (this.rows[mid].last < this.left) lo = mid + 1; else hi = mid; }
    const out = [];
    for (let i = lo; i < this.rows.length && this.rows[i].first < end; i++) out.push(this.rows[i]);
    return out;
  }

  paintRuns(g, c, end) {
    const y = AXIS;
    g.strokeStyle = c.unread;
    const readTo = this.rows.length ? this.rows.at(-1).last + 1 : this.low;
    if (readTo < end) {
      g.setLineDash([3, 3]);
      g.lineWidth = 1;
      const x = this.x(Math.max(readTo, this.left)) + 0.5;
      round(g, x, y + 0.5, this.x(end) - x - 1, CELL - 1, 4);
      g.stroke();
      g.setLineDash([]);
    }
    for (const r of this.visibleRows(end)) {
      const x = this.x(Math.max(r.first, this.left)), w = Math.max(1, this.x(Math.min(r.last + 1, end)) - x);
      g.fillStyle = this.colour(c, r.state);
      const inset = w > 4 ? 0.5 : 0;
      round(g, x + inset, y, w - 2 * inset, CELL, Math.min(4, w / 3));
      g.fill();
      if (r.pending) this.hatch(g, c, x, y, w);
      if (w >= 12) {
        g.fillStyle = r.state === "done" ? c.muted : inkOn(c, r.log && r.state === "stable" ? "AVAILABLE" : r.state);
        g.font = "600 12px " + c.sans;
        g.textAlign = "center";
        g.textBaseline = "middle";
        const text = this.letter(r) + (r.deliveryCount > 0 && w > 40 ? " " + r.deliveryCount : "");
        g.fillText(text, x + w / 2, y + CELL / 2);
      }
      if (this.cursor !== null && r.first <= this.cursor && this.cursor <= r.last) this.outline(g, c, x, w);
    }
    g.textAlign = "left";
    this.paintOwners(g, c, end);
  }

  // paintOwners writes who holds what below the cells, neighbours of one holder together.
  paintOwners(g, c, end) {
    if (!this.sp) return;
    const now = this.session.now();
    const rows = this.visibleRows(end);
    const y = AXIS + CELL + VALUE;
    for (let i = 0; i < rows.length;) {
      const r = rows[i];
      const key = (q) => q.member + "|" + (q.producer ? q.producer.producerId : "") + "|" + (q.lockEnds || "");
      let j = i + 1;
      while (j < rows.length && rows[j].first === rows[j - 1].last + 1 && key(rows[j]) === key(r)) j++;
      const last = rows[j - 1].last;
      i = j;
      let text = r.member;
      if (r.lockEnds) {
        const left = ms(r.lockEnds) - now;
        text += left > FOREVER ? " no lock" : " " + duration(left);
      }
      if (r.producer) text = r.producer.producer + " " + r.producer.type;
      if (!text) continue;
      const x = this.x(Math.max(r.first, this.left)), w = this.x(Math.min(last + 1, end)) - x;
      if (w < 10) continue;
      g.strokeStyle = c.strong;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x + 1.5, y + 0.5); g.lineTo(x + w - 1.5, y + 0.5); g.stroke();
      g.font = "11px " + c.sans;
      g.textBaseline = "alphabetic";
      g.textAlign = "left";
      g.fillStyle = c.text;
      // a short run may use the room of what follows as long as nobody else is named there
      let room = w;
      if (i >= rows.length || !(rows[i].member || rows[i].producer)) room = Math.min(this.width - x, w + 90);
      g.fillText(clip(g, text, room - 3), x + 2, y + 12.5);
    }
  }

  // paintShares stacks what each pixel holds.
  paintShares(g, c, width) {
    const cols = Math.ceil(width);
    const share = STACK.map(() => new Float32Array(cols));
    for (const r of this.visibleRows(this.left + width / this.scale)) {
      const k = STACK.indexOf(r.log ? { stable: "AVAILABLE", open: "TX_PENDING", COMMIT: "ACKNOWLEDGED", ABORT: "ARCHIVED" }[r.state] : r.state);
      if (k < 0) continue;
      const a = Math.max(0, (r.first - this.left) * this.scale), b = Math.min(cols, (r.last + 1 - this.left) * this.scale);
      const s = share[k];
      for (let x = Math.floor(a); x < b; x++) s[x] += Math.min(b, x + 1) - Math.max(a, x);
    }
    for (let x = 0; x < cols; x++) {
      let y = AXIS + CELL;
      for (let k = 0; k < STACK.length; k++) {
        const part = share[k][x];
        if (part <= 0) continue;
        const height = Math.max(part > 0.002 ? 1 : 0, part * CELL);
        g.fillStyle = this.colour(c, STACK[k]);
        g.fillRect(x, y - height, 1, height);
        y -= height;
      }
    }
    g.strokeStyle = c.unread;
    g.lineWidth = 1;
    g.setLineDash([3, 3]);
    g.strokeRect(0.5, AXIS + 0.5, Math.min(width - 1, (this.log.end - this.left) * this.scale - 1), CELL - 1);
    g.setLineDash([]);
    if (this.cursor !== null) this.outline(g, c, this.x(this.cursor) - 1, Math.max(2, this.scale));
  }

  // paintMarks flags the start offset and the end of what was handed out.
  paintMarks(g, c, end) {
    if (!this.sp || !this.sp.known) return;
    const flag = (o, side) => {
      if (o < this.left || o > end) return;
      const x = Math.max(1, Math.min(this.width - 1, Math.round(this.x(o))));
      g.strokeStyle = g.fillStyle = c.accent;
      g.lineWidth = 2;
      g.beginPath(); g.moveTo(x, AXIS - 4); g.lineTo(x, AXIS + CELL + 4); g.stroke();
      g.beginPath(); g.moveTo(x, AXIS - 5); g.lineTo(x + side * 6, AXIS - 5); g.lineTo(x, AXIS + 1); g.fill();
    };
    flag(this.sp.startOffset, 1);
    if (this.sp.endOffset > this.sp.startOffset) flag(this.sp.endOffset, -1);
  }

  paintOverview(g, c, width) {
    const y = this.height - OVERVIEW + 1, k = width / this.total;
    g.fillStyle = c.line;
    g.fillRect(0, y + 2, width, 3);
    if (this.sp && this.sp.known) {
      g.fillStyle = c.ACQUIRED;
      const a = (this.sp.startOffset - this.low) * k, b = (this.sp.endOffset - this.low) * k;
      g.fillRect(a, y + 2, Math.max(1.5, b - a), 3);
    }
    g.strokeStyle = c.strong;
    g.lineWidth = 1.5;
    const a = (this.left - this.low) * k, w = (width / this.scale) * k;
    round(g, a + 1, y + 0.5, Math.max(6, w - 2), 6, 3);
    g.stroke();
  }

  // Pointer and keyboard.

  offsetAt(e) {
    const r = this.canvas.getBoundingClientRect();
    const o = Math.floor(this.left + (e.clientX - r.left - 1) / this.scale);
    return o >= this.low && o < this.log.end ? o : null;
  }

  listen() {
    const el = this.canvas;
    let dragging = null;
    el.addEventListener("pointermove", (e) => {
      if (dragging && dragging.overview) return this.moveOverview(e);
      const o = this.offsetAt(e);
      if (dragging && o !== null) {
        if (this.scale >= 3) { this.anchor = dragging.from; this.cursor = o; this.fillChosen(); this.draw(); }
        return;
      }
      if (o === null) return hideTip();
      showTip(e.clientX, e.clientY, this.describe(o));
    });
    el.addEventListener("pointerleave", hideTip);
    el.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      const r = el.getBoundingClientRect();
      if (this.overview && e.clientY - r.top > this.height - OVERVIEW - 3) {
        dragging = { overview: true };
        el.setPointerCapture(e.pointerId);
        return this.moveOverview(e);
      }
      const o = this.offsetAt(e);
      if (o === null) return;
      dragging = { from: e.shiftKey && this.cursor !== null ? this.anchor ?? this.cursor : o };
      el.setPointerCapture(e.pointerId);
      this.anchor = dragging.from;
      if (!e.shiftKey && this.scale < 3) {
        const row = this.find(o);
        this.anchor = row ? row.first : o;
        this.choose(row ? row.last : o, this.anchor);
      } else this.choose(o, dragging.from);
      hideTip();
    });
    el.addEventListener("pointerup", () => { dragging = null; });
    el.addEventListener("pointercancel", () => { dragging = null; });
    el.addEventListener("dblclick", (e) => { const r = el.getBoundingClientRect(); this.zoom(4, e.clientX - r.left); });
    el.addEventListener("wheel", (e) => {
      const r = el.getBoundingClientRect();
      if (e.ctrlKey) { e.preventDefault(); this.zoom(e.deltaY < 0 ? 1.3 : 1 / 1.3, e.clientX - r.left); }
      else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); this.pan(e.shiftKey && !e.deltaX ? e.deltaY : e.deltaX); }
    }, { passive: false });
    el.addEventListener("keydown", (e) => this.key(e));
    el.addEventListener("blur", hideTip);
  }

  moveOverview(e) {
    const r = this.canvas.getBoundingClientRect();
    this.fixed = true;
    this.left = this.low + ((e.clientX - r.left) / this.width) * this.total - this.width / this.scale / 2;
    this.clamp();
    this.draw();
  }

  key(e) {
    if (e.altKey || e.metaKey || !this.log || !this.total) return;
    const start = this.sp && this.sp.known ? Math.min(this.sp.startOffset, this.log.end - 1) : this.low;
    const at = this.cursor ?? start;
    const jump = Math.max(1, Math.floor(this.width / this.scale / 2));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: this.low, End: this.log.end - 1, PageUp: at - jump, PageDown: at + jump }[e.key];
    if (to !== undefined && !e.ctrlKey) {
      e.preventDefault();
      let o = this.cursor === null && e.key.startsWith("Arrow") ? start : to;
      o = Math.max(this.low, Math.min(o, this.log.end - 1));
      this.choose(o, e.shiftKey ? this.anchor ?? at : o);
      this.reveal(o);
      say(this.describe(o));
    } else if (e.key === "+" || e.key === "=") { this.zoom(2); }
    else if (e.key === "-") { this.zoom(0.5); }
    else if (e.key === "Escape") { this.choose(null); }
    else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      if (this.cursor === null) { this.choose(start, start); say(this.describe(start)); }
      this.chosen.querySelector("button")?.focus();
    } else if (e.key === "ArrowUp" || e.key === "ArrowDown") {
      // to the next run
      e.preventDefault();
      const r = this.find(at);
      const next = e.key === "ArrowDown" ? (r ? r.last + 1 : at + 1) : (r ? r.first - 1 : at - 1);
      const o = Math.max(this.low, Math.min(next, this.log.end - 1));
      this.choose(o, o);
      this.reveal(o);
      say(this.describe(o));
    }
  }

  reveal(o) {
    const across = this.width / this.scale;
    if (o < this.left || o >= this.left + across - 0.5) {
      this.left = o - across / 2;
      this.fixed = true;
      this.clamp();
    }
    this.draw();
  }

  choose(cursor, anchor = cursor) {
    this.cursor = cursor;
    this.anchor = anchor;
    this.fillChosen();
    this.draw();
  }

  // selection is the chosen range and what is in it.
  selection() {
    if (this.cursor === null) return null;
    const first = Math.min(this.cursor, this.anchor ?? this.cursor), last = Math.max(this.cursor, this.anchor ?? this.cursor);
    const rows = this.rows.filter((r) => r.last >= first && r.first <= last);
    return { first, last, rows, lane: this };
  }

  fillChosen() {
    const s = this.selection();
    if (!s) { this.chosen.hidden = true; return; }
    this.chosen.hidden = false;
    const what = s.first === s.last ? this.describe(s.first).replace("\n", " \u00b7 ") : `${range(s.first, s.last)}: ` + summarise(s.rows, s.first, s.last);
    const active = this.chosen.contains(document.activeElement) ? document.activeElement.textContent : null;
    fill(this.chosen, h("span", { class: "what", text: what }), this.actions(this, s), button("Close", () => { this.choose(null); this.canvas.focus(); }, { class: "quiet small" }));
    if (active) [...this.chosen.querySelectorAll("button")].find((b) => b.textContent === active)?.focus();
  }

  describe(o) {
    const r = this.find(o);
    const rec = this.session.record(this.topic, this.index, o);
    const value = rec && !rec.marker ? "\n" + (rec.key !== null && rec.key !== undefined && rec.key !== "" ? rec.key + ": " : "") + (rec.value === null ? "null" : `\u201c${rec.value.slice(0, 200)}\u201d`) : "";
    if (!r) return `${o}: ${this.sp ? "not handed out yet" : "in the log"}${value}`;
    if (r.log && rec && this.aborted(rec)) return `${o}: a record of a transaction that was aborted${value}`;
    if (r.log) return `${o}: ${r.marker ? (r.marker.type === "COMMIT" ? "commit" : "abort") + ` marker of ${r.marker.producer}, epoch ${r.marker.producerEpoch}` : r.state === "open" ? "belongs to an open transaction, or lies behind one" : "a record"}${value}`;
    if (r.state === "done") return `${o}: done, below the start offset${value}`;
    let text = `${o}: ${stateName[r.state] || r.state}`;
    if (r.member) text += (r.state === "ACQUIRED" ? " by " : ", staged by ") + r.member;
    text += `, delivery count ${r.deliveryCount}`;
    if (r.lockEnds) { const left = ms(r.lockEnds) - this.session.now(); text += left > FOREVER ? ", without a lock that ends" : `, lock ends in ${duration(left)}`; }
    if (r.producer) text += `, ${r.producer.type} in the transaction of ${r.producer.producer}, epoch ${r.producer.producerEpoch}`;
    if (r.pending) text += ", its write is unanswered";
    if (r.stored) text += ", as it is stored";
    return text + value;
  }

  summary() {
    const n = this.rows.filter((r) => r.state !== "done" && !r.log);
    if (!this.total) return `${this.name}: no records`;
    if (!this.sp) return `${this.name}: offsets ${this.low} to ${this.log.end - 1}. Arrow keys go through them.`;
    const parts = n.slice(0, 6).map((r) => `${range(r.first, r.last)} ${stateName[r.state]}${r.member ? " by " + r.member : ""}`);
    return `${this.name} in ${this.sp.group}: ` + (parts.length ? parts.join(", ") + (n.length > 6 ? ` and ${n.length - 6} more` : "") : "nothing in flight") + ". Arrow keys go through offsets, Enter to what can be done.";
  }

  fillTable() {
    if (this.table.hidden) return;
    const rows = this.rows.slice(0, 500);
    fill(this.table,
      h("table", {}, h("thead", {}, h("tr", {}, ["Offsets", "State", "Deliveries", "Held by", "Lock ends in", "Transaction"].map((t) => h("th", { text: t, scope: "col" })))),
        h("tbody", {}, rows.map((r) => h("tr", {},
          h("td", { class: "num", text: range(r.first, r.last) }), h("td", { text: r.state === "done" ? "done" : r.state + (r.pending ? " (write unanswered)" : "") }), h("td", { class: "num", text: r.deliveryCount ?? "" }),
          h("td", { text: r.member || "" }), h("td", { class: "num", text: r.lockEnds ? (ms(r.lockEnds) - this.session.now() > FOREVER ? "never" : duration(ms(r.lockEnds) - this.session.now())) : "" }),
          h("td", { text: r.producer ? `${r.producer.type} in ${r.producer.producer}, epoch ${r.producer.producerEpoch}` : "" }))))),
      this.rows.length > rows.length && h("p", { class: "muted", text: `and ${number(this.rows.length - rows.length)} more` }));
  }
}

function summarise(rows, first, last) {
  const n = new Map();
  for (const r of rows) {
    const k = r.state === "done" ? "done" : (stateName[r.state] || r.state) + (r.member ? " by " + r.member : "");
    n.set(k, (n.get(k) || 0) + Math.min(last, r.last) - Math.max(first, r.first) + 1);
  }
  const known = [...n.values()].reduce((a, b) => a + b, 0), all = last - first + 1;
  if (known < all) n.set("not handed out yet", all - known);
  return [...n].map(([k, v]) => `${number(v)} ${k}`).join(", ");
}

// persistedText is what the share coordinator keeps, in words.
export function persistedText(p) {
  if (!p) return "Nothing is persisted.";
  const batches = p.batches.slice(0, 12).map((b) => `${range(b.first, b.last)} ${b.state} ×${b.deliveryCount}`);
  return `Persisted: ${p.startOffset < 0 ? "no start yet" : "start " + number(p.startOffset)}` + (batches.length ? "; " + batches.join(", ") : "") + (p.batches.length > 12 ? ` and ${p.batches.length - 12} more` : "") + ".";
}

function round(g, x, y, w, hh, r) {
  g.beginPath();
  g.roundRect(x, y, Math.max(0, w), hh, Math.max(0, Math.min(r, w / 2)));
}

function clip(g, text, width) {
  text = text.length > 80 ? text.slice(0, 80) : text;
  text = text.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  if (g.measureText(text).width <= width) return text;
  while (text.length > 1 && g.measureText(text + "…").width > width) text = text.slice(0, -1);
  return text.length > 1 || g.measureText(text + "…").width <= width ? text + "…" : "";
}

export function legend() {
  const entry = (state, letter, text) => h("span", {}, h("i", { class: "swatch " + state, text: letter, "aria-hidden": "true" }), text);
  return h("div", { class: "legend", role: "group", "aria-label": "What cells mean" },
    entry("unread", "", "not handed out"), entry("AVAILABLE", "·", "available"), entry("ACQUIRED", "A", "acquired"), entry("TX_PENDING", "T", "in a transaction"),
    entry("ACKNOWLEDGED", "✓", "acknowledged"), entry("ARCHIVED", "×", "archived"), entry("ARCHIVING", "…", "archiving"), entry("done", "✓", "below start"));
}
