// What HTML cannot do alone: live updates of open pages, and a checkbox that selects all rows.
"use strict";

(() => {
  const url = document.body.dataset.events;
  const state = document.getElementById("live-state");
  let events = null;

  // Each live part of a page reloads itself: hx-trigger="rowq:live from:body".
  const tell = () => document.body.dispatchEvent(new CustomEvent("rowq:live"));

  // A browser opens six connections per server, so a hidden page closes its own. A new stream begins with a change.
  const watch = () => {
    if (document.hidden || events) return;
    events = new EventSource(url);
    events.addEventListener("change", tell);
    events.addEventListener("open", () => { state.textContent = "live · times are UTC"; });
    events.addEventListener("error", () => {
      state.textContent = "not live: the server does not answer";
      if (events?.readyState !== EventSource.CLOSED) return;
      // Refused: the browser does not retry by itself. If the session has ended, the reload redirects to the login.
      rest();
      tell();
      setTimeout(watch, 5000);
    });
  };
  const rest = () => {
    events?.close();
    events = null;
  };

  if (url && document.querySelector("[hx-trigger*='rowq:live']")) {
    watch();
    document.addEventListener("visibilitychange", () => (document.hidden ? rest() : watch()));
    window.addEventListener("pagehide", rest);
    window.addEventListener("pageshow", watch);
  }

  document.addEventListener("change", (event) => {
    const name = event.target.dataset?.chooses;
    if (!name) return;
    for (const box of document.querySelectorAll(`input[type=checkbox][name="${name}"]`)) box.checked = event.target.checked;
  });

  // Escape cancels a confirmation page.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.querySelector("a[data-escape]")?.click();
  });
})();
