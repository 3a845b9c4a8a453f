"use strict";
// Reads the changing part of the page again, every few seconds. Without this script the page has a link that does it.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const every = 1000 * Number(live.dataset.every);
  const stale = document.getElementById("stale");
  const announcer = document.getElementById("announcer");
  const pause = document.getElementById("pause");
  const address = new URL(location.href);
  address.searchParams.set("live", "1");
  let paused = false;
  let shown = "";

  const needs = () => [...live.querySelectorAll(".needs .urgent")].map((each) => each.textContent.trim().replace(/\s+/g, " "));

  // What has the focus, or is scrolled, stays so: the part is replaced under the reader's hands.
  const place = () => {
    const focus = document.activeElement;
    const links = [...live.querySelectorAll("a, [tabindex]")];
    const wide = [...live.querySelectorAll(".wide")];
    return { at: links.indexOf(focus), scrolled: wide.map((each) => each.scrollLeft) };
  };
  const restore = ({ at, scrolled }) => {
    live.querySelectorAll(".wide").forEach((each, number) => { each.scrollLeft = scrolled[number] || 0; });
    if (at >= 0) live.querySelectorAll("a, [tabindex]")[at]?.focus({ preventScroll: true });
  };

  const show = (text) => {
    if (text === shown) return;
    const before = needs();
    const was = place();
    live.innerHTML = text;
    restore(was);
    // numbers change all the time; only what needs a person is read out
    const added = needs().filter((each) => !before.includes(each));
    if (shown && added.length) announcer.textContent = added.join(" ");
    shown = text;
  };

  const look = async () => {
    if (!paused && !document.hidden) {
      try {
        const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(20000) });
        const text = await answer.text();
        if (answer.ok) {
          show(text);
          stale.textContent = "";
        } else {
          const told = new DOMParser().parseFromString(text, "text/html").querySelector(".trouble, p");
          stale.textContent = `Not up to date: ${told ? told.textContent.trim().replace(/\s+/g, " ") : answer.status}`;
        }
      } catch {
        stale.textContent = "Not up to date: `tidegate ui` does not answer. Was it ended?";
      }
    }
    setTimeout(look, every);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    live.classList.toggle("paused", paused);
  });
  setTimeout(look, every);
})();
