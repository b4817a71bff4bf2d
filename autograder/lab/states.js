// Whose the points of each graded cell are. nbgrader shows a grey 0 both for words that were judged and for no words.
() => {
  function stateOf(input) {
    if (input.classList.contains("needs_manual_grade")) return "waits for you";
    if (input.placeholder === "" && input.value === "") return ""; // Points are fetched after the page is there.
    if (input.value !== "") return "given by a person";
    return input.closest(".text_cell") ? "not written" : "given by the judge";
  }

  const shown = [...document.querySelectorAll("input.score")].map((input) => {
    const said = document.createElement("span");
    said.className = "given-by";
    Object.assign(said.style, { marginLeft: "1em", fontStyle: "italic" });
    input.closest(".panel-heading").querySelector(".nbgrader-label").after(said);
    return [input, said];
  });

  // The points of a rubric would touch its words.
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = ".rendered_html th, .rendered_html td { padding: 0.15em 0.6em; text-align: left; }";

  // A field that nbgrader fills tells nobody.
  setInterval(() => {
    for (const [input, said] of shown) {
      const state = stateOf(input);
      if (said.textContent !== state) said.textContent = state;
    }
  }, 200);
}
