"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = (id) => JSON.parse(byId(id).textContent);

  document.querySelectorAll("[data-script-only]").forEach((node) => { node.hidden = false; });

  const theme = byId("theme");
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();

  const save = (name, type, text) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const stem = byId("save-csv").dataset.stem;
  byId("save-csv").addEventListener("click", () => {
    save(`${stem}.csv`, "text/csv", data("table-csv"));
  });
  byId("save-json").addEventListener("click", () => {
    save(`${stem}.json`, "application/json", `${JSON.stringify(data("report-json"), null, 2)}\n`);
  });

  const table = byId("cells");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const said = byId("shown");
  const place = (row, i) => row.cells[i].dataset.sort ?? row.cells[i].textContent.trim();
  const compare = (a, b) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? Infinity : -Infinity;
    const x = Number(a);
    const y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en") : x - y;
  };
  const sortBy = (head, i) => {
    const goesDown = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((other) => {
      other.setAttribute("aria-sort", "none");
    });
    head.setAttribute("aria-sort", goesDown ? "descending" : "ascending");
    const ordered = rows.map((row, k) => [place(row, i), k, row]).sort((a, b) => {
      const order = compare(a[0], b[0]);
      if (Math.abs(order) === Infinity) return Math.sign(order);
      return (goesDown ? -order : order) || a[1] - b[1];
    });
    body.append(...ordered.map((item) => item[2]));
  };
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sortBy(head, i));
  });

  const filter = byId("filter");
  const doubtful = byId("doubtful");
  const value = (row, i) => (row.cells[i].querySelector("bdi") ?? row.cells[i]).textContent.trim();
  const choices = [...document.querySelectorAll("select[data-column]")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row) => {
      const fits = wanted.every((word) => texts.get(row).includes(word))
        && (!doubtful.checked || "doubtful" in row.dataset)
        && choices.every((choice) => choice.value === ""
          || value(row, Number(choice.dataset.column)) === choice.value);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    said.textContent = `${shown} of ${rows.length} cells`;
  };
  filter.addEventListener("input", show);
  doubtful.addEventListener("change", show);
  choices.forEach((choice) => choice.addEventListener("change", show));
  show();

  const reveal = () => {
    const row = location.hash.startsWith("#cell-") ? byId(location.hash.slice(1)) : null;
    if (!row || !row.hidden) return;
    filter.value = "";
    doubtful.checked = false;
    choices.forEach((choice) => { choice.value = ""; });
    show();
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
})();
