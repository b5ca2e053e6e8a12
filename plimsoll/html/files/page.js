"use strict";
// Fetches the page that is shown again when it changes, and every few seconds, and replaces <main>. Everything is readable without it.
// Focus, scroll position, opened <details>, text in inputs and a selection are kept; a hidden page is not refreshed.
// Times are shown in the reader's time zone, with UTC as the title.
(() => {
  const local = () => {
    for (const one of document.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(one.dateTime);
      if (isNaN(at)) continue;
      const today = at.toDateString() === new Date().toDateString();
      one.title = one.textContent;
      one.textContent = today ? at.toLocaleTimeString() : at.toLocaleString();
    }
  };
  local();
  const status = document.getElementById("refresh");
  const seconds = Number(document.getElementById("main").dataset.refresh);
  if (!seconds || !status) return;

  const text = document.createElement("span");
  const button = document.createElement("button");
  button.type = "button";
  status.after(button);
  status.append(text);
  let timer = 0, paused = false, running = null;

  // The way from <main> to an element: positions among siblings, or the id.
  const pathTo = (element, main) => {
    if (!element || element === main || !main.contains(element)) return null;
    if (element.id) return { id: element.id };
    const steps = [];
    for (let at = element; at !== main; at = at.parentElement) {
      steps.unshift([...at.parentElement.children].indexOf(at));
    }
    return { steps, tag: element.tagName, href: element.getAttribute("href") };
  };
  const find = (path, main) => {
    if (!path) return null;
    if (path.id) return document.getElementById(path.id);
    if (path.href !== null) { // rows may have moved
      for (const link of main.querySelectorAll("a[href]")) {
        if (link.getAttribute("href") === path.href) return link;
      }
    }
    const found = path.steps.reduce((at, step) => at && at.children[step], main);
    return found && found.tagName === path.tag ? found : null;
  };
  const busy = (main) => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
  };

  const replace = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html");
    const main = document.getElementById("main"), fresh = next.getElementById("main");
    if (!fresh) throw new Error("not a page");
    if (busy(main)) return;
    const focused = pathTo(document.activeElement, main);
    const scroll = [scrollX, scrollY];
    const aside = [...main.querySelectorAll(".table")].map((one) => one.scrollLeft);
    const opened = new Map([...main.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
    const typed = [...main.querySelectorAll("input[id], select[id]")];
    main.replaceChildren(...fresh.childNodes);
    document.title = next.title;
    if (fresh.dataset.live) main.dataset.live = fresh.dataset.live;
    local();
    for (const one of main.querySelectorAll("details[id]")) {
      if (opened.has(one.id)) one.open = opened.get(one.id);
    }
    for (const old of typed) { // the old element keeps its text, cursor and composition
      const one = document.getElementById(old.id);
      if (one) one.replaceWith(old);
    }
    [...main.querySelectorAll(".table")].forEach((one, number) => { one.scrollLeft = aside[number] || 0; });
    const element = find(focused, main);
    if (element) element.focus({ preventScroll: true });
    scrollTo({ left: scroll[0], top: scroll[1], behavior: "instant" });
  };

  // After an event, the page is fetched as drawn for all. The timer goes on for readings.
  let events = null, seen = "", missed = false;
  const position = () => document.getElementById("main").dataset.live;
  const listen = () => {
    const live = position();
    if (!live || events || paused || document.hidden || !window.EventSource) return;
    const url = new URL(location.href);
    url.hash = "";
    url.searchParams.set("live", live);
    events = new EventSource(url);
    events.addEventListener("change", (event) => {
      seen = event.lastEventId;
      missed = running !== null;
      if (!paused && !document.hidden) refresh();
    });
  };
  const deaf = () => {
    if (events) events.close();
    events = null;
  };

  const say = (sentence) => { if (text.textContent !== sentence) text.textContent = sentence; };
  const next = () => {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(refresh, seconds * 1000);
  };
  const refresh = async () => {
    if (running) return;
    running = new AbortController();
    const limit = setTimeout(() => running.abort(), 15000);
    try {
      const url = new URL(location.href);
      url.hash = "";
      const known = seen || position(), headers = { accept: "text/html" };
      if (known) headers["last-event-id"] = known;
      seen = "";
      const answer = await fetch(url, { headers, cache: "no-store", redirect: "error", signal: running.signal });
      const html = await answer.text();
      if (answer.status === 503) throw new Error("busy");
      replace(html);
      say("");
    } catch (error) {
      // One missed refresh is no news: too many readers, or a restart.
      if (Date.now() - last > 2500 * seconds) say(`No answer since ${last.toLocaleTimeString()}.`);
      return;
    } finally {
      clearTimeout(limit);
      running = null;
      next();
    }
    last = new Date();
    if (missed) refresh();
    missed = false;
  };
  let last = new Date();

  const show = () => { button.textContent = paused ? "Resume refresh" : "Pause refresh"; };
  button.addEventListener("click", () => {
    paused = !paused;
    show();
    if (paused) {
      clearTimeout(timer);
      deaf();
    } else {
      refresh();
      listen();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      deaf();
    } else if (!paused) {
      refresh();
      listen();
    }
  });
  addEventListener("pagehide", deaf);
  show();
  next();
  listen();
})();
