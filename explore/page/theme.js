// Runs before the page is painted: the theme that was chosen, or else the system's.
"use strict";
(() => {
  let chosen = "";
  try { chosen = localStorage.getItem("kshare.theme") || ""; } catch { /* storage is forbidden */ }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => { document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light"); };
  apply();
  system.addEventListener("change", () => { apply(); dispatchEvent(new Event("themechange")); });
  window.toggleTheme = () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("kshare.theme", chosen); } catch { /* it lasts as long as the page */ }
    apply();
    dispatchEvent(new Event("themechange"));
  };
})();
