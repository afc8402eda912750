// Dialogs that make a command out of a few fields. The command is shown before it is run: everything that is clicked is a line of the script.

import { h, fill, button, notice } from "./dom.js";

// ask opens a dialog. Fields: {name, label, value, options, hint, type}; command(values) is the line, or several with newlines. run gets it.
export function ask({ title, about, fields, command, run, submit = "Run" }) {
  const values = {};
  const preview = h("pre", { class: "preview", "aria-live": "polite" });
  const update = () => { preview.textContent = command(values); };
  const input = (f, id) => {
    values[f.name] = f.value ?? (f.options ? value(f.options[0]) : "");
    const on = { input: (e) => { values[f.name] = f.type === "checkbox" ? e.target.checked : e.target.value; update(); } };
    if (f.options) return h("select", { id, on }, f.options.map((o) => h("option", { value: value(o), text: text(o), selected: value(o) === values[f.name] })));
    if (f.type === "checkbox") return h("span", {}, h("input", { id, type: "checkbox", checked: !!f.value, on }));
    return h("input", { id, type: f.type || "text", value: values[f.name], placeholder: f.hint, autocomplete: "off", spellcheck: "false", on });
  };
  const value = (o) => (typeof o === "string" ? o : o.value);
  const text = (o) => (typeof o === "string" ? o : o.text);
  const dialog = h("dialog", { "aria-label": title },
    h("form", { method: "dialog", on: { submit: async (e) => {
      e.preventDefault();
      const line = command(values);
      if (!line) return;
      dialog.close();
      try { await run(line); } catch (err) { notice(err.message); }
    } } },
    h("h2", { text: title }), about && h("p", { class: "about", text: about }),
    h("div", { class: "fields" }, fields.filter(Boolean).map((f, i) => [h("label", { for: "field-" + i, text: f.label }), input(f, "field-" + i)])),
    preview,
    h("div", { class: "end" }, button("Cancel", () => dialog.close()), h("button", { type: "submit", class: "primary", text: submit }))));
  update();
  open(dialog);
  dialog.querySelector("input, select")?.focus();
}

// open shows a dialog that goes away with its end, and gives the focus back.
export function open(dialog) {
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.addEventListener("close", () => { dialog.remove(); if (before && before.isConnected) before.focus(); });
  dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
  dialog.showModal();
  return dialog;
}

export function dialog(title, about, ...children) {
  const d = h("dialog", { "aria-label": title, class: "wide" });
  fill(d, h("div", { class: "body" }, h("h2", { text: title }), about && h("p", { class: "about", text: about }), children, h("div", { class: "end" }, button("Close", () => d.close()))));
  return open(d);
}
