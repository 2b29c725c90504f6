// Tabs as the ARIA practices have them: one stop for Tab, arrows, Home and End between them, the address remembers.
{
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const show = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      nnkit.element(other.getAttribute("aria-controls")).toggleAttribute("data-closed", !chosen);
    }
    if (focus) tab.focus();
    history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
    nnkit.drawCharts();
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(tabs[(to + tabs.length) % tabs.length], true);
    });
  });
  const asked = tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
  addEventListener("load", () => show(asked ?? tabs[0]));
}
