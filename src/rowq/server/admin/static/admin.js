// What HTML cannot say by itself: pages are told when something has changed, and a box chooses all rows.
"use strict";

(() => {
  const url = document.body.dataset.events;
  const state = document.getElementById("live-state");
  let events = null;

  // Each part of a page that is live asks for itself again: hx-trigger="rowq:live from:body".
  const tell = () => document.body.dispatchEvent(new CustomEvent("rowq:live"));

  // A browser has six connections to a server, so a page that nobody sees gives its own back. A new stream begins with a change.
  const watch = () => {
    if (document.hidden || events) return;
    events = new EventSource(url);
    events.addEventListener("change", tell);
    events.addEventListener("open", () => { state.textContent = "live · times are UTC"; });
    events.addEventListener("error", () => {
      state.textContent = "not live: the server does not answer";
      if (events?.readyState !== EventSource.CLOSED) return;
      // It was refused, after which a browser does not try again. Who is logged out is led to the login by what is asked for here.
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

  // Escape goes back from a question.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.querySelector("a[data-escape]")?.click();
  });
})();
