// Groups with their members, producers, nodes and faults: who is there and what each can do.

import { h, fill, button, menu, keepFocus } from "./dom.js";
import { ms, duration, count } from "./format.js";
import * as actions from "./actions.js";

export class Actors {
  constructor(bench) {
    this.bench = bench;
    this.body = h("div");
    this.el = h("section", { class: "actors", "aria-label": "Members, producers and nodes" }, this.body);
  }

  get session() { return this.bench.session; }

  act(list, key) { return list.map((a) => this.bench.button(a, { class: "small", "data-key": key + "/" + a.text })); }

  more(items, label, key) { return menu("\u22ef", () => this.bench.items(items()), { class: "small", "aria-label": "More for " + label, "data-key": key + "/more" }); }

  update() {
    const s = this.session, v = s.view;
    keepFocus(this.body, () => fill(this.body,
      h("div", { class: "head-row" }, h("h2", { text: "Who is there" }),
        this.bench.canWrite && menu("Add", () => this.bench.items(actions.add(s)), { class: "small", "data-key": "add" }),
        this.bench.canWrite && menu("Break", () => this.bench.items(actions.faults(s)), { class: "small", "data-key": "break", title: "Have something go wrong" })),
      v.groups.length === 0 && h("p", { class: "empty", text: s.live ? "No groups yet." : "No groups yet. Add a topic, then a member." }),
      v.groups.toSorted((a, b) => (b.type === "share") - (a.type === "share")).slice(0, 50).map((g) => this.group(g)),
      v.groups.length > 50 && h("p", { class: "muted", text: `and ${count(v.groups.length - 50 + v.more.groups, "group")} more` }),
      this.faults(v), this.nodes(v)));
  }

  group(g) {
    const s = this.session, v = s.view;
    const now = s.now();
    const joined = new Set(s.changed.filter((c) => c.member && c.group === g.id).map((c) => c.member));
    const members = g.members.toSorted((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })).slice(0, 100);
    return h("article", { class: "card", "aria-label": `${g.type} group ${g.id}` },
      h("header", {}, h("h3", { text: g.id }), h("span", { class: "muted num", text: `${g.type}, epoch ${g.epoch}` }), h("span", { class: "space" }), h("span", { class: "tag", text: g.state })),
      members.length === 0 && h("p", { class: "empty", text: "No members." }),
      members.map((m) => {
        const share = g.type === "share";
        const a = !this.bench.canWrite ? null : share ? actions.shareMember(v, g, m, s) : actions.consumerMember(g, m);
        const held = share ? actions.heldBy(v, g.id, m.name).reduce((n, p) => n + p.count, 0) : 0;
        const key = g.id + "/" + m.name;
        const facts = [m.assigned.length ? m.assigned.join(", ") : "idle: nothing assigned"];
        if (held) facts.push(`holds ${held}`);
        if (m.state) facts.push(m.state);
        const lines = m.sessions.map((x) => (v.nodes.length > 1 ? `session with node ${x.node}: epoch ${x.epoch}` : `session epoch ${x.epoch}`));
        if (m.expires) lines.push(`out in ${duration(ms(m.expires) - now)}`);
        return h("div", { class: "member" + (joined.has(m.name) && !s.live ? " changed" : "") },
          h("div", { class: "who" }, h("b", { text: m.name }), h("span", { class: "muted num", text: `epoch ${m.epoch}` }), h("span", { class: "space" }), a && this.more(() => (share ? actions.shareMember(this.session.view, g, m, s) : actions.consumerMember(g, m)).more, m.name, key)),
          h("div", { class: "facts num", title: "What it is assigned and holds, the epoch that its share session is at, and when it is removed unless it is heard of", text: facts.concat(lines).join(" · ") }),
          a && h("div", { class: "acts" }, this.act(a.often, key)));
      }),
      g.members.length > members.length && h("p", { class: "muted", text: `and ${count(g.members.length - members.length, "member")} more` }),
      g.offsets.length > 0 && h("p", { class: "facts muted", text: "committed: " + g.offsets.slice(0, 12).map((o) => `${o.topic}-${o.partition} ${o.offset}`).join(", ") }));
  }

  faults(v) {
    if (!v.faults.length && !v.background.length) return null;
    return h("article", { class: "card" }, h("header", {}, h("h3", { text: "What goes wrong" })),
      v.faults.map((f) => h("div", { class: "member" }, h("div", { class: "who" }, h("b", { text: f.name }), h("span", { class: "muted num", text: `matched ${f.matched}, acted ${f.acted}` })), h("div", { class: "facts mono", text: f.rule }),
        this.bench.canWrite && h("div", { class: "acts" }, this.act([{ text: "Release", command: `release ${f.name}` }, { text: "End", command: `unfault ${f.name}` }], "fault/" + f.name)))),
      v.background.map((name) => h("div", { class: "member" }, h("div", { class: "who" }, h("b", { text: name }), h("span", { class: "muted", text: "runs in the background" })),
        this.bench.canWrite && h("div", { class: "acts" }, this.act([{ text: "Wait", command: `wait ${name}` }], "wait/" + name)))));
  }

  nodes(v) {
    if (v.nodes.length < 2 && v.nodes.every((n) => n.runs)) return null;
    return h("article", { class: "card" }, h("header", {}, h("h3", { text: "Nodes" })),
      v.nodes.map((n) => h("div", { class: "member" }, h("div", { class: "who" }, h("b", { text: "node " + n.id }), h("span", { class: "muted", text: n.address }), !n.runs && h("span", { class: "tag bad", text: "stopped" }), n.cutOff && h("span", { class: "tag bad", text: "cut off" }), n.fenced && h("span", { class: "tag bad", text: "fenced" })),
        this.bench.canWrite && h("div", { class: "acts" }, this.act([n.runs ? { text: "Stop", command: `stop-node ${n.id}` } : { text: "Start", command: `start-node ${n.id}` }, n.cutOff ? { text: "Heal", command: `heal-node ${n.id}` } : { text: "Cut off", command: `cut-node ${n.id}` }], "node/" + n.id)))));
  }
}

// transactions lists what producers have under way and what has ended.
export function transactions(bench, session) {
  const v = session.view;
  if (!v.transactions.length) return null;
  const now = session.now();
  return h("section", { class: "txns", "aria-label": "Transactions" }, h("div", { class: "head-row" }, h("h2", { text: "Transactions" })),
    h("div", { class: "card" }, v.transactions.slice(0, 40).map((t) => {
      const a = bench && bench.canWrite && t.transactionalId ? actions.transaction(v, t) : null;
      const facts = [`producer ${t.producer}, epoch ${t.producerEpoch}`];
      if (t.began) facts.push(`lasts ${duration(now - ms(t.began))}`);
      if (t.expires) facts.push(`aborted in ${duration(ms(t.expires) - now)}`);
      else if (t.twoPhase && t.began) facts.push("no timeout");
      if (t.partitions.length) facts.push("writes to " + t.partitions.join(", "));
      const staged = t.staged.map((x) => `${x.topic}-${x.partition} ${x.first === x.last ? x.first : x.first + "\u2013" + x.last} of ${x.group}`);
      return h("div", { class: "txn" },
        h("b", { text: t.transactionalId || "no transaction" }), t.state && h("span", { class: "tag state-" + t.state, text: t.state }),
        h("span", { class: "facts", text: facts.join(" · ") + (staged.length ? ` · staged: ${staged.join(", ")}` : "") }),
        a && h("span", { class: "acts" }, a.often.map((x) => bench.button(x, { class: "small", "data-key": "txn/" + t.transactionalId + "/" + x.text })),
          menu("More", () => bench.items(actions.transaction(session.view, t).more), { class: "small", "aria-label": "More for " + t.transactionalId, "data-key": "txn/" + t.transactionalId + "/more" })));
    }), v.transactions.length > 40 && h("p", { class: "muted", text: `and ${v.transactions.length - 40 + v.more.transactions} more` })));
}
