// Titles where nbgrader's pages have names of files. Lists keep the name beside the title: commands ask for it.
(titles) => {
  // "day5_review" is a name, and so is the beginning of "day5_review (no submission)".
  const named = /^\s*([\w.-]+)( \([^()]*\))?\s*$/;

  function entitle(element, beside) {
    const found = element.textContent.match(named);
    if (!found || !Object.hasOwn(titles, found[1])) return false;
    element.textContent = titles[found[1]] + (found[2] || "");
    if (beside) {
      const name = element.parentElement.tagName === "TD" ? element.parentElement : element;
      const small = name.appendChild(document.createElement("small"));
      Object.assign(small.style, { display: "block", color: "#666" });
      small.textContent = found[1];
    } else {
      element.title = found[1];
    }
    return true;
  }

  function entitleAll() {
    for (const each of document.querySelectorAll(".breadcrumb li:not(.live-notebook)")) {
      entitle(each.querySelector("a") || each, false);
    }
    for (const each of document.querySelectorAll(".panel-heading .panel-title > span, .nbgrader-label > code")) {
      entitle(each, false);
    }
    const changed = new Set();
    for (const each of document.querySelectorAll("#main-table td.name")) {
      if (entitle(each.querySelector("a") || each, true)) changed.add(each.closest("table"));
    }
    // What sorts and searches the table has read its text already.
    for (const table of changed) {
      const tables = window.$.fn.dataTable;
      if (tables && tables.isDataTable(table)) window.$(table).DataTable().rows().invalidate("dom").draw(false);
    }
  }

  entitleAll();
  const lists = document.getElementById("main-table");
  if (lists) new MutationObserver(entitleAll).observe(lists, { childList: true, subtree: true });
}
