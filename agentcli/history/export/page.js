"use strict";
{
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const input = find("find");
  const main = find("main");
  const prompts = [...document.querySelectorAll(".prompt")];
  const entries = new Map([...document.querySelectorAll("#list a")].map((a) => [a.hash.slice(1), a]));

  /* ------------------------------------------------------------------------------------------ theme and folds */
  const show = (theme) => { root.dataset.theme = theme; };
  const other = () => (root.dataset.theme === "dark" ? "light" : "dark");
  if (root.hasAttribute("data-auto")) {
    const light = matchMedia("(prefers-color-scheme: light)");
    const follow = () => show(light.matches ? "light" : "dark");
    follow();
    light.addEventListener("change", follow);
  }
  find("theme").addEventListener("click", () => show(other()));
  find("fold").addEventListener("click", () => {
    const all = [...document.querySelectorAll("main details")];
    const opens = all.some((one) => !one.open);
    for (const one of all) one.open = opens;
  });
  find("menu").addEventListener("click", () => document.body.classList.toggle("menu"));
  main.addEventListener("click", () => document.body.classList.remove("menu"));
  find("list").addEventListener("click", (event) => {
    if (event.target.closest("a")) document.body.classList.remove("menu");
  });
  let before = "";
  addEventListener("beforeprint", () => { before = root.dataset.theme; show("light"); });
  addEventListener("afterprint", () => show(before));

  /* ------------------------------------------------------------------------------------------------------ copy */
  const say = (text) => {
    const said = find("said");
    said.textContent = text;
    said.classList.add("shown");
    clearTimeout(say.timer);
    say.timer = setTimeout(() => said.classList.remove("shown"), 1500);
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) return say("The browser refused to copy");
    }
    say("Copied");
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const place = button.closest(".code, .user");
    const source = button.dataset.source ?? place.querySelector("pre, .typed").textContent;
    copy(source.replace(/\n$/, ""));
  });

  /* ---------------------------------------------------------------------------------------------------- search */
  const MOST = 2000;
  const canMark = typeof Highlight === "function" && CSS.highlights;
  let texts = null;
  let hits = [];
  let current = -1;

  const read = (section) => {
    const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT, (node) =>
      node.parentElement.closest("button") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const nodes = [];
    const starts = [];
    let text = "";
    while (walker.nextNode()) {
      nodes.push(walker.currentNode);
      starts.push(text.length);
      text += walker.currentNode.data;
    }
    const lower = text.toLowerCase();
    return { section, nodes, starts, text: lower.length === text.length ? lower : text };
  };
  const place = (one, offset) => {
    let low = 0;
    let high = one.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (one.starts[middle] <= offset) low = middle; else high = middle - 1;
    }
    return [one.nodes[low], offset - one.starts[low]];
  };
  const rangeOf = (one, begin, end) => {
    const range = new Range();
    range.setStart(...place(one, begin));
    const [node, offset] = place(one, end - 1);
    range.setEnd(node, offset + 1);
    return range;
  };
  const search = () => {
    const wanted = input.value.trim().toLowerCase();
    texts ??= prompts.map(read);
    hits = [];
    current = -1;
    let found = 0;
    for (const one of texts) {
      let at = wanted ? one.text.indexOf(wanted) : -1;
      one.section.hidden = Boolean(wanted) && at < 0;
      const entry = entries.get(one.section.id);
      if (entry) entry.parentElement.hidden = one.section.hidden;
      for (; at >= 0; at = one.text.indexOf(wanted, at + wanted.length)) {
        found += 1;
        if (hits.length < MOST) hits.push(rangeOf(one, at, at + wanted.length));
      }
    }
    if (canMark) {
      CSS.highlights.set("found", new Highlight(...hits));
      CSS.highlights.delete("current");
    }
    find("hits").textContent = !wanted ? "" : found ? `${found.toLocaleString("en")} found` : "nothing found";
  };
  const go = (step) => {
    if (!hits.length) return;
    current = current < 0 && step < 0 ? hits.length - 1 : (current + step + hits.length) % hits.length;
    const range = hits[current];
    const element = range.startContainer.parentElement;
    for (let up = element.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
    if (canMark) CSS.highlights.set("current", new Highlight(range));
    element.scrollIntoView({ block: "center", behavior: "instant" });
    find("hits").textContent = `${current + 1} of ${hits.length.toLocaleString("en")}`;
  };
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      if (current < 0) { clearTimeout(waiting); search(); }
      go(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      input.value = "";
      search();
      input.blur();
    }
  });
  find("after").addEventListener("click", () => go(1));
  find("before").addEventListener("click", () => go(-1));

  /* ------------------------------------------------------------------------------------------------------ keys */
  let here = null;
  const step = (by) => {
    const shown = prompts.filter((one) => !one.hidden);
    const top = shown.findLastIndex((one) => one.getBoundingClientRect().top < 90);
    const next = shown[Math.max(0, Math.min(shown.length - 1, top + by))];
    if (next) next.scrollIntoView();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === input) return;
    if (event.key === "/") {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });
  const visible = new Set();
  const watch = new IntersectionObserver((changes) => {
    for (const one of changes) visible[one.isIntersecting ? "add" : "delete"](one.target);
    const first = prompts.find((one) => visible.has(one));
    const entry = first && entries.get(first.id);
    if (!entry || entry === here) return;
    here?.classList.remove("here");
    entry.classList.add("here");
    here = entry;
  }, { rootMargin: "-60px 0px -60% 0px" });
  for (const one of prompts) watch.observe(one);
}
