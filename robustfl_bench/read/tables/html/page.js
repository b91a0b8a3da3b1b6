"use strict";

/* Sorting: a click on a heading, descending first, then ascending, then the order of the page. */

const order = new WeakMap();  // of each table: its bodies as the page came

function valueOf(body, column) {
  const cell = body.rows[0].cells[column];
  const text = cell.textContent.trim();
  if (cell.tagName === "TH") return text;
  const number = parseFloat("value" in cell.dataset ? cell.dataset.value : text.replace("\u2212", "-"));
  return Number.isNaN(number) ? null : number;
}

function compare(first, second, sign) {
  if (first === null || second === null) return (first === null) - (second === null);  // always at the end
  return sign * (typeof first === "string" ? first.localeCompare(second, "en", {numeric: true}) : first - second);
}

function sort(heading) {
  const table = heading.closest("table"), column = heading.cellIndex, isNumber = heading.classList.contains("number");
  if (!order.has(table)) order.set(table, [...table.tBodies]);
  const [first, second] = isNumber ? ["descending", "ascending"] : ["ascending", "descending"];
  const now = heading.getAttribute("aria-sort");
  const next = now === first ? second : now === second ? null : first;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  if (next) heading.setAttribute("aria-sort", next);
  const sign = next === "descending" ? -1 : 1;
  const blocks = [[]];  // a block keeps its place and its name above it
  for (const body of order.get(table)) {
    if (body.classList.contains("block")) blocks.push([]);
    blocks.at(-1).push(body);
  }
  for (const block of blocks) {
    const name = block[0]?.classList.contains("block") ? [block.shift()] : [];
    if (next) block.sort((a, b) => compare(valueOf(a, column), valueOf(b, column), sign));
    table.append(...name, ...block);
  }
}

/* Filtering: rows whose name holds one of the words, in all tables and figures. */

function filter(input) {
  const words = input.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const keeps = (name) => !words.length || words.some((word) => name.toLowerCase().includes(word));
  let shown = 0, all = 0;
  for (const body of document.querySelectorAll("main tbody:not(.block)")) {
    const name = body.rows[0].cells[0];
    const kept = keeps(`${name.dataset.key ?? ""} ${name.textContent}`);
    body.hidden = !kept;
    shown += kept;
    all += 1;
  }
  for (const line of document.querySelectorAll("[data-name]")) {
    line.toggleAttribute("hidden", !keeps(`${line.dataset.name} ${line.dataset.title}`));
  }
  document.querySelector(".found").textContent = words.length ? `${shown} of ${all} rows` : "";
}

/* One method stands out in the figures of a section. */

function choose(button) {
  const section = button.closest("section"), pressed = button.getAttribute("aria-pressed") !== "true";
  for (const other of section.querySelectorAll(".legend button")) {
    other.setAttribute("aria-pressed", String(other === button && pressed));
  }
  section.querySelector(".panels").classList.toggle("chosen", pressed);
  for (const line of section.querySelectorAll(".line")) {
    line.classList.toggle("is-chosen", pressed && line.dataset.name === button.dataset.name);
  }
}

/* The runs of a cell. What comes from runs is only ever set as text. */

function element(name, content, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...[content].flat());
  return made;
}

function command(words) {
  const button = element("button", "Copy", "copy");
  button.type = "button";
  return element("pre", [element("code", words), button], "command");
}

function copy(button) {
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
  });
}

function list(pairs) {
  return element("dl", pairs.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
}

function details(section, place, number) {
  const run = section.runs[place], pairs = (places) => places.map((pair) => data.pairs[pair]);
  const facts = [["run", run.name], ["state", run.state], ...pairs([...run.facts, ...section.facts])];
  return element("details", [
    element("summary", `seed ${run.seed}: ${number || run.state}`),
    ...(run.command ? [command(run.command)] : []),
    list(facts),
    element("details", [element("summary", "Config"), list(pairs([...run.settings, ...section.settings]))]),
  ]);
}

let data = null;

function show(button) {
  data ??= JSON.parse(document.getElementById("data").textContent);
  const section = data.sections[button.closest("section").dataset.number];
  const cell = section.cells[button.dataset.cell];
  const dialog = document.querySelector("dialog");
  const mean = button.firstChild.textContent, spread = button.querySelector("small").textContent;
  dialog.querySelector("h2").textContent = `${cell.title}: ${mean} ${spread}`;
  dialog.querySelector(".content").replaceChildren(
    ...cell.runs.map((place, at) => details(section, place, cell.numbers[at])),
  );
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (event.target.tagName === "DIALOG") event.target.close();  // a click beside it
  if (!button) return;
  if (button.classList.contains("sort")) sort(button.parentElement);
  else if (button.classList.contains("close")) button.closest("dialog").close();
  else if (button.classList.contains("copy")) copy(button);
  else if (button.dataset.cell) show(button);
  else if (button.dataset.name) choose(button);
});
document.addEventListener("input", (event) => {
  if (event.target.type === "search") filter(event.target);
});
for (const button of document.querySelectorAll(".copy")) button.hidden = false;  // works with this script only
