// Light or dark, before the first paint: what was chosen here, or what the system has.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try { chosen = localStorage.getItem("penstock-theme"); } catch { /* a browser that keeps nothing */ }
    document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
    dispatchEvent(new Event("themed"));
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("theme-chosen", apply);
}
