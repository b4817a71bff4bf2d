(root, known) => {
  // The image that stands in the page becomes SVG that can be walked through; the table beside it is what is known.
  const image = root.querySelector("img");
  const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (character) => character.charCodeAt(0));
  const parsed = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml");
  const svg = document.importNode(parsed.documentElement, true);
  const table = root.querySelector("table");
  const headings = Array.from(table.tHead.rows[0].cells, (cell) => cell.textContent);
  const rows = Array.from(table.tBodies[0].rows);
  // Who looks for an operation does not look for its readers, whose inputs name it too.
  const texts = rows.map((row) => Array.from(row.cells).filter((_, column) => headings[column] !== "inputs")
    .map((cell) => cell.textContent.toLowerCase()).join(" "));

  const make = (name, attributes, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  // Two pictures on one page must not share ids; a group that is no image lets its nodes be reached.
  for (const element of svg.querySelectorAll("[id]")) element.removeAttribute("id");
  svg.setAttribute("role", "group");
  const find = make("input", { type: "search", placeholder: "name, operation, shape, file …", size: 28 });
  const found = make("output", { "aria-live": "polite" });
  const view = make("div", { class: "fxopt-view" }, svg);
  const hint = "Click a node, or press Enter on it, to see what is known of it. The arrow keys go from node to node, " +
    "+ and − zoom, 0 fits the width; Enter in the search field goes to the next node that was found.";
  const details = make("div", { class: "fxopt-details", role: "region", "aria-live": "polite",
    "aria-label": "Details of the node", tabindex: 0 }, make("p", {}, hint));
  const button = (label, text, action) => {
    const made = make("button", { type: "button", "aria-label": label, title: label }, text);
    made.addEventListener("click", action);
    return made;
  };

  // Zooming sets the width of the picture; the view scrolls.
  const natural = svg.viewBox.baseVal.width * 4 / 3;
  let scale = 1;
  const zoom = (wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
    const before = scale;
    scale = Math.min(8, Math.max(0.05, wanted));
    const left = (view.scrollLeft + x) * scale / before - x;
    const top = (view.scrollTop + y) * scale / before - y;
    svg.style.width = `${natural * scale}px`;
    view.scrollTo(left, top);
  };
  const fit = () => zoom(view.clientWidth ? Math.min(1, view.clientWidth / natural) : 1);
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const frame = view.getBoundingClientRect();
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  let dragged = null, moved = false;
  view.addEventListener("pointerdown", (event) => {
    moved = false;
    dragged = event.pointerType === "mouse" && event.button === 0 ? [event.clientX, event.clientY] : null;
  });
  view.addEventListener("pointermove", (event) => {
    if (!dragged || !event.buttons) return;
    const [x, y] = [event.clientX - dragged[0], event.clientY - dragged[1]];
    if (!moved && Math.hypot(x, y) < 4) return;
    moved = true;
    view.scrollBy(-x, -y);
    dragged = [event.clientX, event.clientY];
  });

  // Each node is a button; one of them is in the order of the Tab key, the arrow keys lead to the others in the order
  // of the graph.
  const boxes = Array.from(svg.querySelectorAll("g.node"), (element) => {
    const name = element.querySelector("title").textContent;
    return { element, ...known[name] };
  }).filter((box) => box.rows).sort((one, other) => one.rows[0] - other.rows[0]);
  let words = [], current = 0;
  const fits = (row) => words.every((word) => texts[row].includes(word));
  const show = (box) => {
    for (const other of boxes) other.element.setAttribute("aria-pressed", other === box);
    const hits = box.rows.filter(fits);
    const shown = hits.length ? hits : box.rows;
    const facts = (row) => make("dl", {}, ...headings.flatMap((heading, column) => {
      const text = rows[row].cells[column].textContent;
      return text ? [make("dt", {}, heading), make("dd", {}, text)] : [];
    }));
    const folded = (row) => {
      const [name, operation, , shape] = Array.from(rows[row].cells, (cell) => cell.textContent);
      return make("details", shown.length === 1 ? { open: "" } : {}, make("summary", {}, `${name}: ${operation} ${shape}`), facts(row));
    };
    const part = shown.length < box.rows.length ? [make("p", {}, `${shown.length} of them found:`)] : [];
    details.replaceChildren(make("p", {}, make("strong", {}, box.about)), ...part,
      ...shown.map(box.rows.length === 1 ? facts : folded));
    details.scrollTop = 0;
  };
  const reach = (index) => {
    boxes[current].element.setAttribute("tabindex", -1);
    current = Math.max(0, Math.min(boxes.length - 1, index));
    const { element } = boxes[current];
    element.setAttribute("tabindex", 0);
    const [frame, place] = [view.getBoundingClientRect(), element.getBoundingClientRect()];
    view.scrollBy(place.left + place.width / 2 - frame.left - frame.width / 2,
      place.top + place.height / 2 - frame.top - frame.height / 2);
    return boxes[current];
  };
  boxes.forEach((box, index) => {
    const label = Array.from(box.element.querySelectorAll("text"), (text) => text.textContent).join(", ");
    for (const [key, value] of Object.entries({ role: "button", tabindex: index ? -1 : 0, "aria-label": label,
      "aria-pressed": false })) box.element.setAttribute(key, value);
    box.element.addEventListener("click", () => {
      if (moved) return;
      boxes[current].element.setAttribute("tabindex", -1);
      current = index;
      box.element.setAttribute("tabindex", 0);
      show(box);
    });
  });
  view.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: current + 1, ArrowRight: current + 1, ArrowUp: current - 1, ArrowLeft: current - 1,
      Home: 0, End: boxes.length - 1 };
    const zooms = { "+": () => zoom(scale * 1.25), "-": () => zoom(scale / 1.25), "0": fit };
    if (event.key in steps) reach(steps[event.key]).element.focus({ preventScroll: true });
    else if (event.key === "Enter" || event.key === " ") show(boxes[current]);
    else if (event.key in zooms && !event.ctrlKey && !event.metaKey) zooms[event.key]();
    else return;
    event.preventDefault();
  });

  find.addEventListener("input", () => {
    words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, index) => { row.hidden = !fits(index); });
    for (const box of boxes) {
      const hit = box.rows.some(fits);
      box.element.classList.toggle("fxopt-hit", words.length > 0 && hit);
      box.element.classList.toggle("fxopt-miss", !hit);
    }
    found.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} nodes` : "";
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !words.length) return;
    event.preventDefault();
    const order = boxes.map((_, step) => (current + 1 + step) % boxes.length);
    const next = order.find((index) => boxes[index].rows.some(fits));
    if (next !== undefined) show(reach(next));
    else details.replaceChildren(make("p", {}, rows.some((row) => !row.hidden)
      ? "What was found is not drawn; the table below has it." : "Nothing was found."));
  });

  const style = make("style", {}, `
    .fxopt-bar { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; margin: .3em 0; }
    .fxopt-bar button, .fxopt-bar input { font: inherit; color: inherit; background: transparent;
      border: 1px solid currentColor; border-radius: 3px; padding: .15em .6em; }
    .fxopt-panes { display: flex; flex-wrap: wrap; gap: .5em; }
    .fxopt-view { flex: 3 1 24em; min-width: 0; height: 34em; overflow: auto; background: #fff; cursor: grab;
      border: 1px solid currentColor; user-select: none; }
    .fxopt-view svg { height: auto; max-width: none; display: block; }
    .fxopt-details { flex: 1 1 15em; min-width: 0; max-height: 34em; overflow: auto; overflow-wrap: anywhere; }
    .fxopt-details dl { margin: 0 0 .6em; padding: .3em 0; border-top: 1px solid currentColor; }
    .fxopt-details dt { font-weight: bold; float: none; width: auto; }
    .fxopt-details dd { margin: 0 0 .2em 1em; float: none; width: auto; }
    .fxopt-view g.node { cursor: pointer; }
    .fxopt-view a { color: inherit; text-decoration: none; }
    .fxopt-view g.node:focus-visible { outline: 4px solid #0b57d0; outline-offset: 2px; }
    .fxopt-view g.node:focus:not(:focus-visible) { outline: none; }
    .fxopt-view g.fxopt-miss:not(:focus-visible, [aria-pressed="true"]) { opacity: .2; }
    .fxopt-view g.fxopt-hit :is(polygon, ellipse, path) { stroke-width: 3; }
    .fxopt-view g[aria-pressed="true"] :is(polygon, ellipse, path) { stroke-width: 4; stroke: #0b57d0; }`);
  const bar = make("div", { class: "fxopt-bar" }, make("label", {}, "Find ", find),
    button("Zoom in", "+", () => zoom(scale * 1.25)), button("Zoom out", "−", () => zoom(scale / 1.25)),
    button("Fit the width", "fit", fit), found);
  // Keys that are typed here are not JupyterLab's shortcuts, such as B for another cell, unless with Control.
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  root.querySelector("figure").replaceWith(style, bar, make("div", { class: "fxopt-panes" }, view, details));
  // What fits but cannot be read is no beginning.
  fit();
  if (scale < 0.6) zoom(0.6);
  reach(0);
}
