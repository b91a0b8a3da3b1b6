// The board of the arena: filters hide rows and columns, the buttons of the headings sort.
"use strict";
(() => {
  const board = document.getElementById("board");
  const heads = [...board.tHead.rows[0].cells];
  const body = board.tBodies[0];
  const rows = [...body.rows];
  const filter = (name) => document.getElementById(`board-${name}`);
  const LOWEST = 3;
  let sorted = { column: LOWEST, ascending: false };

  const isShown = (head) =>
    !head.dataset.track ||
    (head.dataset.track === filter("track").value &&
      ["", head.dataset.share].includes(filter("share").value) &&
      ["", head.dataset.partition].includes(filter("partition").value));

  const isKept = (row) => {
    const needs = row.dataset.needs ? row.dataset.needs.split("; ") : [];
    const wanted = filter("needs").value;
    const most = filter("cost").value;
    const asked = filter("name").value.trim().toLowerCase();
    return (
      ["", row.dataset.server].includes(filter("division").value) &&
      !(wanted === "f" && needs.includes("f")) &&
      !(wanted === "nothing" && needs.length) &&
      (most === "" || Number(row.cells[2].dataset.value) <= Number(most)) &&
      `${row.cells[0].textContent} ${row.cells[0].dataset.key}`.toLowerCase().includes(asked)
    );
  };

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    if (heads[column].dataset.kind === "text") return cell.textContent;
    return cell.dataset.value === undefined ? -1 : Number(cell.dataset.value);
  };

  const sort = () => {
    const { column, ascending } = sorted;
    const order = (a, b) => {
      const [first, second] = [valueOf(a, column), valueOf(b, column)];
      const less = typeof first === "string" ? first.localeCompare(second) : first - second;
      return ascending ? less : -less;
    };
    rows.sort(order).sort((first, second) => second.classList.contains("reference") - first.classList.contains("reference"));
    body.append(...rows);
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  };

  const update = () => {
    const columns = heads.map(isShown);
    if (!columns[sorted.column]) sorted = { column: LOWEST, ascending: false };
    heads.forEach((head, place) => { head.hidden = !columns[place]; });
    rows.forEach((row) => {
      const numbers = [];
      let missing = 0;
      let infeasible = 0;
      [...row.cells].forEach((cell, place) => {
        cell.hidden = !columns[place];
        if (!columns[place] || !heads[place].dataset.track) return;
        if (cell.classList.contains("score")) numbers.push(Number(cell.dataset.value));
        else if (cell.classList.contains("cannot")) infeasible += 1;
        else missing += 1;
      });
      const lowest = row.cells[LOWEST];
      delete lowest.dataset.value;
      lowest.textContent = "";
      if (numbers.length || infeasible) {
        const least = Math.min(...numbers, 1000);
        const mean = numbers.reduce((sum, number) => sum + number, 0) / Math.max(numbers.length, 1);
        const lacks = infeasible ? "cannot run" : missing ? `${Math.round(least)}?` : Math.round(least);
        lowest.textContent = lacks;
        // of equal ones the better mean comes first; who lacks a case stands below all that lack none
        lowest.dataset.value = Math.round(least) + mean / 1000 - (infeasible ? 2000 : missing ? 1000 : 0);
      }
      row.hidden = !lowest.textContent || !isKept(row);
    });
    const rules = rows.filter((row) => !row.classList.contains("reference"));
    const kept = rules.filter((row) => !row.hidden).length;
    document.getElementById("board-count").textContent = `${kept} of ${rules.length} rules`;
    sort();
  };

  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = sorted.column === column ? !sorted.ascending : head.dataset.kind === "text";
      sorted = { column, ascending };
      sort();
    });
  });
  const controls = document.getElementById("board-controls");
  for (const kind of ["input", "change"]) controls.addEventListener(kind, update);
  controls.addEventListener("submit", (event) => event.preventDefault());
  update();
})();
