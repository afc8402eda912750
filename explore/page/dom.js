// Elements are made here and nowhere else. Text is always set as text: nothing that a client said becomes markup.

const SVG = "http://www.w3.org/2000/svg";

// h makes an element. Props: class, text, on (listeners), data, anything else an attribute; false, null and undefined leave an attribute out.
export function h(tag, props, ...children) {
  const el = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === false || v === null || v === undefined) continue;
    if (k === "class") el.setAttribute("class", v);
    else if (k === "text") el.textContent = v;
    else if (k === "on") for (const [type, f] of Object.entries(v)) el.addEventListener(type, f);
    else if (k === "data") Object.assign(el.dataset, v);
    else if (k === "value" || k === "checked" || k === "disabled") el[k] = v;
    else el.setAttribute(k, v === true ? "" : v);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children) {
    if (Array.isArray(c)) add(el, c);
    else if (c !== null && c !== undefined && c !== false) el.append(c);
  }
}

// fill replaces the children of an element.
export function fill(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

// button makes a button with a visible text.
export function button(text, run, props = {}) {
  return h("button", { type: "button", ...props, text, on: { click: run } });
}

// keepFocus runs a function that replaces what is inside an element, and gives the focus back to what has the same data-key afterwards.
export function keepFocus(el, f) {
  const active = document.activeElement;
  const inside = el.contains(active) && active !== el;
  const key = inside ? active.closest("[data-key]")?.dataset.key : null;
  f();
  if (key && !el.contains(document.activeElement)) el.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// menu is a button that opens a list of buttons. Items: {text, run, disabled, title}, {head}, or "-".
export function menu(label, items, props = {}) {
  const list = h("div", { class: "list", role: "menu" });
  const summary = h("summary", { text: label, "aria-haspopup": "menu", "data-key": props["data-key"], title: props.title, "aria-label": props["aria-label"] });
  const el = h("details", { class: "menu " + (props.class || "") }, summary, list);
  const close = () => { el.open = false; };
  summary.addEventListener("click", () => {
    if (el.open) return;
    for (const other of document.querySelectorAll("details.menu[open]")) if (other !== el) other.open = false;
    fill(list, (typeof items === "function" ? items() : items).filter(Boolean).map((item) =>
      item === "-" ? h("hr") :
      item.head ? h("div", { class: "head", text: item.head }) :
      h("button", { type: "button", role: "menuitem", text: item.text, title: item.title, disabled: !!item.disabled,
        on: { click: () => { close(); summary.focus(); item.run(); } } })));
  });
  el.addEventListener("toggle", () => { if (el.open) place(summary, list); });
  el.addEventListener("keydown", (e) => {
    const all = [...list.querySelectorAll("button:not(:disabled)")];
    const at = all.indexOf(document.activeElement);
    if (e.key === "Escape" && el.open) { close(); summary.focus(); e.stopPropagation(); }
    else if (el.open && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      all[(at + (e.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]?.focus();
    }
  });
  el.addEventListener("focusout", (e) => { if (el.open && e.relatedTarget && !el.contains(e.relatedTarget)) close(); });
  return el;
}

function place(anchor, list) {
  const a = anchor.getBoundingClientRect();
  const size = list.getBoundingClientRect();
  list.style.left = Math.max(6, Math.min(a.left, innerWidth - size.width - 6)) + "px";
  list.style.top = (a.bottom + size.height + 8 > innerHeight && a.top > innerHeight - a.bottom ? Math.max(6, a.top - size.height - 3) : a.bottom + 3) + "px";
}

addEventListener("pointerdown", (e) => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(e.target)) open.open = false;
});
addEventListener("scroll", (e) => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (e.target !== document && e.target.contains(open)) open.open = false; // its place has moved
}, true);

let spoken = "";
// say tells a screen reader what has changed. The same text twice is said twice.
export function say(text) {
  const el = document.getElementById("live");
  spoken = text === spoken ? text + "\u00a0" : text;
  el.textContent = spoken;
}

// notice shows what went wrong, until it is closed or something goes well.
export function notice(text) {
  const el = document.getElementById("notice");
  if (!text) { el.hidden = true; return; }
  fill(el, h("p", { text }), button("Close", () => { el.hidden = true; }, { class: "small" }));
  el.hidden = false;
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// soon runs a function once before the next frame, however often it is asked to.
export function soon(f) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; f(); });
  };
}
