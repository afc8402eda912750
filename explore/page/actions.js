// What can be done, as commands. Each takes what is known and gives a line of the script.

import { ask } from "./forms.js";
import { ofRange, word } from "./format.js";

// next is the first name with a number that is not taken: m1, m2, ...
export function next(prefix, taken) {
  for (let i = 1; ; i++) if (!taken.has(prefix + i)) return prefix + i;
}

const topicsOf = (view) => view.topics.filter((t) => !t.internal).map((t) => t.name);
const groupsOf = (view, type) => view.groups.filter((g) => g.type === type).map((g) => g.id);

// namesTaken are the names of members and producers that the script has made.
export function namesTaken(session) {
  const names = new Set();
  for (const s of session.steps) {
    const w = s.command.split(/\s+/);
    if (/^(join|consumer-join|classic-join)$/.test(w[0])) names.add(w[2]);
    if (w[0] === "init-producer") names.add(w[1]);
    if (/^(fault|share-writes|marker-writes)$/.test(w[0])) names.add(w[1]);
  }
  return names;
}

// heldBy lists what a member holds, a partition with its ranges: [{topic, partition, ranges}].
export function heldBy(view, group, member) {
  const held = [];
  for (const sp of view.sharePartitions) {
    if (sp.group !== group) continue;
    const ranges = sp.runs.filter((r) => r.member === member && r.state === "ACQUIRED");
    if (ranges.length) held.push({ topic: sp.topic, partition: sp.partition, ranges, count: ranges.reduce((n, r) => n + r.last - r.first + 1, 0) });
  }
  return held;
}

const ranges = (held, type) => held.map((p) => `${p.topic}-${p.partition} ` + p.ranges.map((r) => `${ofRange(r.first, r.last)}=${type}`).join(" ")).join(" ");

export const ack = (group, member, held, type) => `ack ${word(group)} ${word(member)} ${ranges(held, type)}` + (type === "renew" ? " renew=yes" : "");
export const stage = (group, member, producer, held, type) => `txn-ack ${word(group)} ${word(member)} ${word(producer)} ${ranges(held, type)}`;

// shareMember lists the actions of a member of a share group: the frequent ones, and the others.
export function shareMember(view, group, m, session) {
  const g = word(group.id), name = word(m.name);
  const held = heldBy(view, group.id, m.name);
  const running = producers(view);
  const run = (text, command, title) => ({ text, command, title });
  const often = [
    run("Fetch", `fetch ${g} ${name}`, "Acquire records (ShareFetch)"),
    held.length ? run("Accept", ack(group.id, m.name, held, "accept"), "Accept all that it holds") : null,
    held.length ? run("Release", ack(group.id, m.name, held, "release"), "Give back all that it holds") : null,
  ].filter(Boolean);
  const more = [
    { head: "Read" },
    { text: "Fetch…", dialog: () => fetchForm(g, name) },
    run("Heartbeat", `heartbeat ${g} ${name}`),
    { head: "Acknowledge what it holds" },
    ...[["accept", "Accept"], ["release", "Release"], ["reject", "Reject"], ["renew", "Renew the locks"]].map(([type, text]) => (held.length ? run(text, ack(group.id, m.name, held, type)) : { text, disabled: true })),
    ...(view.kip1289 ? [{ head: "As part of a transaction" }, ...(running.length && held.length ? running.flatMap((p) => [run(`Accept with ${p}`, stage(group.id, m.name, p, held, "accept")), run(`Reject with ${p}`, stage(group.id, m.name, p, held, "reject"))]) : [{ text: held.length ? "There is no transactional producer" : "It holds nothing", disabled: true }])] : []),
    { head: "Go away" },
    run("Close the share session", `ack ${g} ${name} epoch=-1`, "What it holds is released"),
    run("Lose the connection", `disconnect ${g} ${name}`, "As if its process had died"),
    run("Leave the group", `leave ${g} ${name}`),
  ];
  return { often, more };
}

function fetchForm(g, name) {
  return {
    title: `Fetch as ${name}`, about: "Acquires records of the partitions that the member is assigned.",
    fields: [
      { name: "records", label: "Records at most", value: "", hint: "500" },
      { name: "mode", label: "Mode", options: [{ value: "", text: "batch_optimized: whole batches" }, { value: "record_limit", text: "record_limit: no more than asked for" }] },
      { name: "wait", label: "Wait", value: "", hint: "500ms" },
      { name: "background", label: "In the background", type: "checkbox", value: false },
    ],
    command: (v) => `fetch ${g} ${name}` + opt("records", v.records) + opt("mode", v.mode) + opt("wait", v.wait) + (v.background ? ` &${name}` : ""),
  };
}

const opt = (name, value) => (value ? ` ${name}=${word(value)}` : "");

export function consumerMember(group, m) {
  const g = word(group.id), name = word(m.name);
  if (group.type === "classic") {
    return { often: [{ text: "Heartbeat", command: `classic-heartbeat ${g} ${name}` }], more: [{ text: "Sync", command: `classic-sync ${g} ${name}` }, { text: "Leave the group", command: `classic-leave ${g} ${name}` }] };
  }
  return {
    often: [{ text: "Heartbeat", command: `consumer-heartbeat ${g} ${name}` }],
    more: [
      { text: "Heartbeat: owns what it is assigned", command: `consumer-heartbeat ${g} ${name} owned=assigned` },
      { text: "Commit offsets…", dialog: () => ({ title: `Commit as ${name}`, fields: [{ name: "partition", label: "Partition", options: m.assigned.length ? m.assigned : [""] }, { name: "offset", label: "Offset", value: "1" }], command: (v) => `commit ${g} ${v.partition}=${v.offset} member=${name}` }) },
      { text: "Leave the group", command: `consumer-leave ${g} ${name}` },
    ],
  };
}

// producers are the transactional producers that the script has made, by their names.
export function producers(view) {
  return [...new Set(view.transactions.filter((t) => t.transactionalId).map((t) => t.producer))].filter((p) => !/^\d+$/.test(p)).map((p) => p.replace(/^<|>$/g, ""));
}

export function transaction(view, t) {
  const p = word(t.producer.replace(/^<|>$/g, "")), id = word(t.transactionalId);
  const topics = topicsOf(view);
  return {
    often: t.state === "Ongoing" ? [{ text: "Commit", command: `txn-end ${p} commit` }, { text: "Abort", command: `txn-end ${p} abort` }] : [],
    more: [
      { text: "Produce in a transaction…", dialog: () => ({ title: `Produce as ${p}`, fields: [{ name: "topic", label: "Topic", options: topics }, { name: "partition", label: "Partition", value: "0" }, { name: "records", label: "Records", value: "A", hint: "value, or key:value" }], command: (v) => `produce ${v.topic}-${v.partition} ${v.records} producer=${p} txn=yes` }) },
      { text: "Commit", command: `txn-end ${p} commit` },
      { text: "Abort", command: `txn-end ${p} abort` },
      { text: "Describe", command: `txn-describe ${id}` },
      { text: "Another instance takes the id over", commandOf: (s) => `init-producer ${next("p", namesTaken(s))} txn=${id}`, title: "What is under way is aborted" },
      { text: "Hold its markers", commandOf: (s) => `marker-writes ${next("markers", namesTaken(s))} ${id} hold=yes` },
    ],
  };
}

export function lane(view, topic, partition, sp) {
  const p = `${topic}-${partition.partition}`;
  return [
    { text: "Produce…", dialog: () => ({ title: `Produce to ${p}`, about: "Values with spaces between them; key:value gives a key, / begins a new batch.", fields: [{ name: "records", label: "Records", value: "a b c" }, { name: "count", label: "Repeat the last one", value: "", hint: "1" }, { name: "size", label: "Bytes of a value", value: "" }], command: (v) => `produce ${p} ${v.records}${opt("count", v.count)}${opt("size", v.size)}` }) },
    { text: "Delete records…", dialog: () => ({ title: `Delete records of ${p}`, fields: [{ name: "offset", label: "Below offset", value: String(partition.highWatermark) }], command: (v) => `delete-records ${p} ${v.offset}` }) },
    { text: "Read", command: `read ${p}` },
    sp && { text: "Describe the state", command: `state ${word(sp.group)} ${p}` },
    ...view.nodes.filter((n) => n.id !== partition.leader && partition.replicas.includes(n.id)).map((n) => ({ text: `Node ${n.id} becomes the leader`, command: `move-leader ${p} ${n.id}` })),
    sp && view.nodes.length > 1 && { head: "Share coordinator" },
    ...(sp && view.nodes.length > 1 ? view.nodes.map((n) => ({ text: `Node ${n.id} keeps its share state`, command: `move-coordinator share ${word(sp.group)}/${p} ${n.id}` })) : []),
  ].filter(Boolean);
}

// chosen are the actions on a selection of offsets.
export function chosen(view, s) {
  const sp = s.lane.sp;
  if (!sp || !sp.known) return [];
  const held = new Map();
  for (const r of s.rows) {
    if (r.state !== "ACQUIRED" || !r.member) continue;
    if (!held.has(r.member)) held.set(r.member, []);
    held.get(r.member).push({ first: Math.max(r.first, s.first), last: Math.min(r.last, s.last) });
  }
  const out = [];
  for (const [member, rs] of held) {
    const of = [{ topic: sp.topic, partition: sp.partition, ranges: rs }];
    const as = held.size > 1 ? ` as ${member}` : "";
    out.push({ text: "Accept" + as, command: ack(sp.group, member, of, "accept") }, { text: "Release" + as, command: ack(sp.group, member, of, "release") },
      { text: "Reject" + as, command: ack(sp.group, member, of, "reject") }, { text: "Renew" + as, command: ack(sp.group, member, of, "renew") });
    if (view.kip1289) for (const p of producers(view)) out.push({ text: `Accept with ${p}${as}`, command: stage(sp.group, member, p, of, "accept") });
  }
  return out;
}

// add lists what can be made.
export function add(session) {
  const view = session.view, taken = namesTaken(session), topics = topicsOf(view);
  const isEmpty = session.steps.length === 0;
  return [
    { head: "Make" },
    { text: "Topic…", dialog: () => ({ title: "A topic", fields: [{ name: "name", label: "Name", value: topics.includes("orders") ? next("topic", new Set(topics)) : "orders" }, { name: "partitions", label: "Partitions", value: "1" }, { name: "replicas", label: "Replicas", value: "", hint: "1" }], command: (v) => `topic ${word(v.name)}` + (v.partitions === "1" ? "" : opt("partitions", v.partitions)) + opt("replicas", v.replicas) }) },
    { text: "Member of a share group…", disabled: !topics.length, dialog: () => ({ title: "A member of a share group", about: "It joins and has heartbeats until it is assigned partitions. A new group begins with records that come later, unless told to begin with the earliest.", fields: [{ name: "group", label: "Group", value: groupsOf(view, "share")[0] || "workers" }, { name: "name", label: "Member", value: next("m", taken) }, { name: "topics", label: "Topics", value: topics[0] || "" }, { name: "earliest", label: "Begin with the earliest", type: "checkbox", value: !groupsOf(view, "share").length }],
      command: (v) => (v.earliest ? `config group ${word(v.group)} share.auto.offset.reset=earliest\n` : "") + `join ${word(v.group)} ${word(v.name)} ${v.topics}` }) },
    { text: "Member of a consumer group…", disabled: !topics.length, dialog: () => ({ title: "A member of a consumer group", fields: [{ name: "group", label: "Group", value: groupsOf(view, "consumer")[0] || "readers" }, { name: "name", label: "Member", value: next("r", taken) }, { name: "topics", label: "Topics", value: topics[0] || "" }], command: (v) => `consumer-join ${word(v.group)} ${word(v.name)} ${v.topics}` }) },
    { text: "Transactional producer…", dialog: () => ({ title: "A transactional producer", fields: [{ name: "name", label: "Producer", value: next("p", taken) }, { name: "txn", label: "Transactional id", value: "payments" }, { name: "timeout", label: "Timeout", value: "", hint: "1m" }], command: (v) => `init-producer ${word(v.name)} txn=${word(v.txn)}${opt("timeout", v.timeout)}` }) },
    { text: "Dead-letter queue…", disabled: !topics.length, dialog: () => ({ title: "A dead-letter queue", about: "A topic that takes what a share group gives up.", fields: [{ name: "group", label: "Group", value: groupsOf(view, "share")[0] || "workers" }, { name: "topic", label: "Topic", value: "dlq." + (topics[0] || "orders") }, { name: "copy", label: "Copy keys and values", type: "checkbox", value: true }], command: (v) => `topic ${v.topic} errors.deadletterqueue.group.enable=true\nconfig group ${word(v.group)} errors.deadletterqueue.topic.name=${v.topic}` + (v.copy ? " errors.deadletterqueue.copy.record.enable=true" : "") }) },
    { head: "Settings" },
    isEmpty && { text: "The cluster…", dialog: () => ({ title: "The cluster", about: "The first command of a script, where it is there.", fields: [{ name: "brokers", label: "Brokers", value: "3" }, { name: "kip1289", label: "KIP-1289", options: [{ value: "", text: "off" }, { value: "on", text: "on" }] }, { name: "timing", label: "Timing", options: [{ value: "", text: "fast" }, { value: "kafka", text: "kafka" }] }], command: (v) => "cluster" + opt("brokers", v.brokers) + opt("kip1289", v.kip1289) + opt("timing", v.timing) }) },
    { text: "Setting of a group…", dialog: () => ({ title: "A setting of a group", fields: [{ name: "group", label: "Group", value: view.groups[0]?.id || "workers" }, { name: "key", label: "Setting", options: ["share.record.lock.duration.ms", "share.delivery.count.limit", "share.auto.offset.reset", "share.isolation.level", "share.session.timeout.ms", "share.heartbeat.interval.ms", "share.partition.max.record.locks"] }, { name: "value", label: "Value", value: "15000" }], command: (v) => `config group ${word(v.group)} ${v.key}=${word(v.value)}` }) },
  ].filter(Boolean);
}

const APIS = ["ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat", "Produce", "Fetch", "TxnShareAcknowledge", "EndTxn", "InitProducerId", "ConsumerGroupHeartbeat", "WriteTxnMarkers", "AddPartitionsToTxn"];
const CODES = ["NOT_LEADER_OR_FOLLOWER", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "KAFKA_STORAGE_ERROR", "INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "FENCED_STATE_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_AUTHORIZATION_FAILED"];

// faults lists what can be made to go wrong.
export function faults(session) {
  const view = session.view, taken = namesTaken(session), name = () => next("f", taken);
  const shares = groupsOf(view, "share"), ids = [...new Set(view.transactions.map((t) => t.transactionalId).filter(Boolean))];
  const api = { name: "api", label: "Request", options: APIS }, times = { name: "times", label: "How often", options: [{ value: "1", text: "once" }, { value: "", text: "always" }] };
  const rule = (v, action) => `fault ${name()} api=${v.api}${opt("times", v.times)} ${action}`;
  return [
    { head: "Requests" },
    { text: "An error…", dialog: () => ({ title: "Answer with an error", fields: [api, { name: "error", label: "Error", options: CODES }, times], command: (v) => rule(v, `error=${v.error}`) }) },
    { text: "Lose the request…", dialog: () => ({ title: "Lose the request", about: "The connection closes before anything is done.", fields: [api, times], command: (v) => rule(v, "close") }) },
    { text: "Lose the answer…", dialog: () => ({ title: "Lose the answer", about: "The request is done, and the connection closes.", fields: [api, times], command: (v) => rule(v, "close stage=after") }) },
    { text: "Delay…", dialog: () => ({ title: "Delay", fields: [api, { name: "delay", label: "For", value: "2s" }, times], command: (v) => rule(v, `delay=${v.delay}`) }) },
    { text: "Hold until released…", dialog: () => ({ title: "Hold until released", about: "The command that is held has to run in the background: put &name behind it.", fields: [api, times], command: (v) => rule(v, "hold") }) },
    { head: "What is stored" },
    { text: "Hold writes of share state…", disabled: !shares.length, dialog: () => ({ title: "Hold writes of a group's share state", fields: [{ name: "group", label: "Group", options: shares.length ? shares : [""] }], command: (v) => `share-writes ${name()} ${word(v.group)} hold=yes` }) },
    { text: "Fail writes of share state…", disabled: !shares.length, dialog: () => ({ title: "Fail a write of a group's share state", fields: [{ name: "group", label: "Group", options: shares.length ? shares : [""] }, { name: "stage", label: "When", options: [{ value: "", text: "before it is stored" }, { value: "after", text: "after: it is stored, and the answer is an error" }] }], command: (v) => `share-writes ${name()} ${word(v.group)} count=1 error=INVALID_REQUEST${opt("stage", v.stage)}` }) },
    { text: "Hold markers…", disabled: !ids.length, dialog: () => ({ title: "Hold the markers of transactions", fields: [{ name: "id", label: "Transactional id", options: ids.length ? ids : [""] }], command: (v) => `marker-writes ${name()} ${word(v.id)} hold=yes` }) },
    { text: "The disk is full", command: "disk full" },
    { text: "The disk cannot be read", command: "disk unreadable" },
    { text: "The disk is well", command: "disk well" },
    { head: "Nodes" },
    { text: "Restart the cluster", command: "restart", title: "On what it has stored" },
    ...view.nodes.flatMap((n) => [
      n.runs ? { text: `Stop node ${n.id}`, command: `stop-node ${n.id}` } : { text: `Start node ${n.id}`, command: `start-node ${n.id}` },
      n.cutOff ? { text: `Heal node ${n.id}`, command: `heal-node ${n.id}` } : view.nodes.length > 1 && { text: `Cut node ${n.id} off`, command: `cut-node ${n.id}` },
    ]),
  ].filter(Boolean);
}

export { ask };
