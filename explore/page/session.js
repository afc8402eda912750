// A session as the page knows it: what the server said last, and all steps. Requests go one after the other.

import { get, post, put, call, streamURL, APIError } from "./api.js";
import { ms } from "./format.js";

// Bounds of what is kept, so that a page may be open for days.
export const MAX_EVENTS = 5000;
export const MAX_CHANGES = 2000;
const MAX_RECORDS = 5000;

export class Session extends EventTarget {
  constructor(state) {
    super();
    this.id = state.id;
    this.live = state.live;
    this.state = state;
    this.view = null;
    this.before = null; // the view before the last step
    this.steps = [];
    this.undone = []; // steps that can be done again, the next one first
    this.events = []; // the newest MAX_EVENTS
    this.lost = 0;
    this.liveChanges = []; // of a live cluster: {time, change}
    this.changed = []; // what the last step changed
    this.began = ms(state.time); // where the shown time begins
    this.differing = 0;
    this.writes = false; // commands may be sent to a live cluster
    this.records = new Map();
    this.queue = Promise.resolve();
    this.busy = 0;
    this.lockOf = new Map(); // the longest lock seen of a lock that runs: how much of it is left is drawn
    this.names = new Map(); // names of members by their ids, also of those that have left
    this.source = null;
    this.closed = false;
  }

  get path() { return "sessions/" + encodeURIComponent(this.id); }

  // create makes a session of its own: of {}, {script} or {tour}.
  static async create(body) {
    const run = await post("sessions", body);
    const s = new Session(run.state);
    s.began = run.steps.length ? ms(run.steps[0].began) : ms(run.state.time);
    s.take(run, { steps: run.steps });
    await s.loadEvents(true);
    return s;
  }

  // open goes on with a session that is there, or with the live cluster.
  static async open(id) {
    const s = new Session(await get("sessions/" + encodeURIComponent(id)));
    if (!s.live) {
      s.steps = (await get(s.path + "/steps?since=0")).steps;
      if (s.steps.length) s.began = ms(s.steps[0].began);
    }
    s.view = await get(s.path + "/view");
    s.observeLocks();
    await s.loadEvents(true);
    if (s.live) s.follow();
    return s;
  }

  // serial runs requests one after the other, so that a quick click does not overtake a slow one.
  serial(f) {
    this.busy++;
    this.tell("busy");
    const result = this.queue.then(f).finally(() => {
      this.busy--;
      this.tell("busy");
    });
    this.queue = result.catch(() => {});
    return result;
  }

  tell(type) { this.dispatchEvent(new Event(type)); }

  take(run, { steps, keepUndone = false } = {}) {
    this.before = this.view;
    this.state = run.state;
    this.view = run.view;
    if (steps) this.steps = steps;
    if (!keepUndone) this.undone = [];
    this.differing = run.differing || 0;
    this.records.clear();
    this.observeLocks();
  }

  observeLocks() {
    const now = ms(this.view.time), seen = new Map();
    for (const g of this.view.groups) for (const m of g.members) if (m.name !== m.id) this.names.set(m.id, m.name);
    for (const sp of this.view.sharePartitions) {
      for (const r of sp.runs) {
        if (!r.lockEnds) continue;
        const key = sp.group + "/" + ms(r.lockEnds);
        seen.set(key, Math.max(this.lockOf.get(key) || 0, ms(r.lockEnds) - now));
      }
    }
    this.lockOf = seen;
  }

  // lockLeft is what is left of a lock in ms and as a part of the whole.
  lockLeft(group, run, now) {
    if (!run.lockEnds) return null;
    const left = Math.max(0, ms(run.lockEnds) - now);
    const whole = this.lockOf.get(group + "/" + ms(run.lockEnds)) || left || 1;
    return { left, part: Math.min(1, left / whole) };
  }

  // now is the session's time in ms: on the machine's clock it goes on between updates.
  now() {
    const t = ms(this.view ? this.view.time : this.state.time);
    return this.state.virtual || !this.received ? t : t + (performance.now() - this.received);
  }

  do(command) {
    return this.serial(async () => {
      const run = await post(this.path + "/do", this.live ? { command, write: true } : { command });
      await this.took(run);
      return run;
    });
  }

  took(run, join = false) {
    const steps = run.steps || [];
    if (this.live) {
      this.steps = this.steps.concat(steps).slice(-500);
      this.take(run);
    } else if (join && this.steps.length && steps.length && steps[0].n === this.steps.at(-1).n) {
      this.take(run, { steps: this.steps.slice(0, -1).concat(steps) });
    } else {
      this.take(run, { steps: this.steps.concat(steps) });
    }
    this.changed = steps.flatMap((s) => s.changes);
    return this.loadEvents(false).then(() => this.tell("change"));
  }

  move(body) {
    return this.serial(async () => {
      const run = await post(this.path + "/move", body);
      await this.took(run, !!body.join);
      return run;
    });
  }

  undo(n = 1) { return this.go(this.state.steps - n); }
  redo(n = 1) { return this.go(this.state.steps + n); }

  // go stands behind a step; 0 is the beginning.
  go(step) {
    return this.serial(async () => {
      const run = await post(this.path + "/go", { step });
      const all = this.steps.concat(this.undone);
      this.take(run, { steps: all.slice(0, run.state.steps), keepUndone: true });
      this.undone = all.slice(run.state.steps);
      this.changed = this.steps.length ? this.steps.at(-1).changes : [];
      await this.loadEvents(true);
      this.tell("change");
      return run;
    });
  }

  script() { return this.serial(async () => (await get(this.path + "/script")).script); }

  putScript(script) {
    return this.serial(async () => {
      const run = await put(this.path + "/script", { script });
      this.take(run, { steps: run.steps });
      if (run.steps.length) this.began = ms(run.steps[0].began);
      this.changed = run.steps.length ? run.steps.at(-1).changes : [];
      await this.loadEvents(true);
      this.tell("change");
      return run;
    });
  }

  async loadEvents(anew) {
    if (anew) {
      this.events = [];
      const answer = await get(`${this.path}/events?limit=${MAX_EVENTS}`);
      this.events = answer.events;
      this.lost = answer.events.length ? answer.events[0].n - 1 : 0;
      return;
    }
    const since = this.events.length ? this.events.at(-1).n : 0;
    const answer = await get(`${this.path}/events?since=${since}&limit=${MAX_EVENTS}`);
    this.addEvents(answer.events);
  }

  addEvents(events) {
    const last = this.events.length ? this.events.at(-1).n : 0;
    const fresh = events.filter((e) => e.n > last);
    if (!fresh.length) return;
    this.events = this.events.concat(fresh).slice(-MAX_EVENTS);
    this.lost = this.events[0].n - 1;
  }

  name(member) { return this.names.get(member) || member; }

  event(n) { return get(`${this.path}/events/${n}`); }

  // recordsOf asks for the records of a range that are not known yet, and tells "records" when they are. What is known is in this.records by topic-partition@offset.
  recordsOf(topic, partition, first, last) {
    const key = (o) => topic + "-" + partition + "@" + o;
    let from = first;
    while (from <= last && this.records.has(key(from))) from++;
    if (from > last) return;
    for (let o = from; o <= last; o++) this.records.set(key(o), null); // asked for
    // behind what is under way, since that may take the partition away
    this.queue = this.queue.then(async () => {
      const p = this.view?.topics.find((t) => t.name === topic)?.partitions.find((x) => x.partition === partition);
      if (this.closed || !p || p.highWatermark <= from) return;
      const answer = await get(`${this.path}/records?topic=${encodeURIComponent(topic)}&partition=${partition}&offset=${from}&limit=${Math.min(200, last - from + 1)}`);
      for (const r of answer.records) this.records.set(key(r.offset), r);
      while (this.records.size > MAX_RECORDS) this.records.delete(this.records.keys().next().value);
      this.tell("records");
    }).catch(() => {}); // a lane without values is no loss
  }

  record(topic, partition, offset) { return this.records.get(topic + "-" + partition + "@" + offset) || null; }

  // follow takes updates of a live cluster as they come.
  follow() {
    this.source = new EventSource(streamURL(this.id));
    this.source.addEventListener("update", (e) => {
      const u = JSON.parse(e.data);
      this.received = performance.now();
      this.before = this.view;
      this.state = u.state;
      this.view = u.view;
      this.changed = u.changes;
      if (u.events.length) this.addEvents(u.events);
      if (u.changes.length) {
        this.liveChanges = this.liveChanges.concat(u.changes.map((change) => ({ time: u.view.time, change, after: this.events.length ? this.events.at(-1).n : 0 }))).slice(-MAX_CHANGES);
      }
      if (this.records.size > 1000) this.records.clear();
      this.observeLocks();
      this.lostStream = false;
      this.tell("change");
    });
    this.source.addEventListener("error", () => {
      this.lostStream = true;
      this.tell("change");
    });
  }

  close() {
    this.closed = true;
    this.source?.close();
    this.source = null;
    if (!this.live) call("DELETE", this.path).catch(() => {});
  }
}

export { APIError };
