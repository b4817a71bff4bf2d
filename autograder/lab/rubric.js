// One field for each line of a rubric. Their sum becomes the score, and the lines the comment that the learner reads;
// both are saved by nbgrader's own fields, as if a person had typed them there.
(rubrics) => {
  const written = (name, points, most) => `- ${name}: ${points} of ${most}`;

  function fieldsFor(id, criteria) {
    const score = document.getElementById(id);
    const comment = document.getElementById(`${id}-comment`);
    if (!score || !comment) return;
    const box = document.createElement("fieldset");
    box.className = "rubric";
    const legend = box.appendChild(document.createElement("legend"));
    legend.textContent = "Rubric";
    const inputs = Object.entries(criteria).map(([name, most], place) => {
      const row = box.appendChild(document.createElement("div"));
      const input = row.appendChild(document.createElement("input"));
      Object.assign(input, { type: "number", min: 0, max: most, step: 0.5, id: `${id}-rubric-${place}` });
      input.className = "rubric-points tabbable";
      Object.assign(input.style, { width: "5em", margin: "0 .6em .2em 0" });
      const label = row.appendChild(document.createElement("label"));
      label.htmlFor = input.id;
      label.textContent = `of ${most}: ${name}`;
      label.style.fontWeight = "normal";
      return { name, most, input };
    });
    const said = box.appendChild(document.createElement("p"));
    said.setAttribute("role", "status");

    const isLine = (line) => inputs.some(({ name }) => line.startsWith(`- ${name}: `));
    function fill() {
      const lines = comment.value.split("\n");
      for (const { name, input } of inputs) {
        const line = lines.find((each) => each.startsWith(`- ${name}: `));
        const found = line && line.slice(`- ${name}: `.length).match(/^([\d.]+) of /);
        input.value = found ? found[1] : "";
      }
    }

    function save() {
      for (const { input, most } of inputs) {
        if (input.value !== "") input.value = Math.min(most, Math.max(0, Number(input.value)));
      }
      const given = inputs.filter(({ input }) => input.value !== "");
      const others = comment.value.split("\n").filter((line) => !isLine(line));
      while (others.length && others[0].trim() === "") others.shift();
      const lines = given.map(({ name, most, input }) => written(name, input.value, most));
      const text = [...lines, ...(lines.length && others.length ? [""] : []), ...others].join("\n");
      window.$(comment).val(text).trigger("change");
      // A sum of some of the lines would be taken for the score.
      if (given.length === inputs.length) {
        const sum = given.reduce((all, { input }) => all + Number(input.value), 0);
        window.$(score).val(sum).trigger("change");
        said.textContent = `${sum} points.`;
      } else {
        said.textContent = `${given.length} of ${inputs.length} lines; the score follows with the last one.`;
      }
    }

    box.addEventListener("change", (event) => {
      event.stopPropagation();
      save();
    });
    comment.parentElement.before(box);
    // nbgrader fetches comments after the page is there, and says nothing when it has.
    let seen = null;
    setInterval(() => {
      if (comment.value !== seen && !box.contains(document.activeElement)) {
        seen = comment.value;
        fill();
      }
    }, 200);
  }

  for (const [id, criteria] of Object.entries(rubrics)) fieldsFor(id, criteria);
}
