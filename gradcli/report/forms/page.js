// Steps through a computation: forward through its operations, then backward, one product of the chain rule at a time.
// The page shows the end of it without this script. Whatever is put into the page is put there as text.
"use strict";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const SVG = "http://www.w3.org/2000/svg";
const STEP = [150, 1000]; // milliseconds of a step that is played, at least and at most
const PLAYED = 60000; // milliseconds that all steps take, where they may be so quick
const CELL = 18; // pixels of an entry in the map of an array
const EXACT = 17; // right digits of a float64 that is the exact value

/** Return an element with attributes and children; a child that is a string becomes text. */
function made(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Return an element of SVG. */
function drawn(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Return an element of MathML. */
function math(name, ...children) {
  return filled(document.createElementNS(MATHML, name), {}, children);
}

const sign = (text) => math("mo", text);
const number = (text) => math("mn", text);

/** Return the derivative of one name by another as a fraction. */
function partial(of, by) {
  return math("mfrac", math("mrow", sign("∂"), math("mi", of)), math("mrow", sign("∂"), math("mi", by)));
}

/** Return a number as a factor: a negative one in brackets, unless it comes first. */
function factor(text, first) {
  return text.startsWith("-") && !first ? math("mrow", sign("("), number(text), sign(")")) : number(text);
}

/** Return a formula, such as `(dL/dz) xᵀ`, with its derivatives as fractions; `names` are the longest first. */
function formula(text, result, names) {
  const row = math("mrow");
  let rest = text;
  while (rest) {
    const at = rest.indexOf("dL/d");
    const name = at < 0 ? undefined : names.find((one) => rest.startsWith(one, at + 4));
    const before = name === undefined ? rest : rest.slice(0, at);
    const open = name !== undefined && before.endsWith("(") && rest[at + 4 + name.length] === ")";
    const plain = open ? before.slice(0, -1) : before;
    if (plain) row.append(math("mtext", plain));
    if (name === undefined) break;
    row.append(partial(result, name));
    rest = rest.slice(at + 4 + name.length + (open ? 1 : 0));
  }
  return row;
}

/** Return lines of formulas, one below the other. */
function formulas(lines) {
  const table = math("mtable", ...lines.map((line) => math("mtr", math("mtd", line))));
  return filled(math("math", table), { display: "block" }, []);
}

/** Return the nodes with long names for what the page has under short ones, to be small. */
function read(nodes) {
  return nodes.map((node) => ({
    name: node.n,
    operation: node.o || "",
    input: Boolean(node.i),
    line: node.l, // among the lines of code that are shown; undefined where it is not known
    column: node.u || 0, // of the operation, counted from 1; 0 where it is not known
    value: node.v,
    adjoint: node.a,
    claimed: node.c,
    joined: node.m, // what several operations are that are drawn as one
    partials: node.p || [],
    proved: node.d, // the value, the adjoint, and the right digits of both
    maps: node.s, // of the value and of the adjoint
    more: node.more || 0, // terms that are not shown one by one
    terms: (node.t || []).map(([box, user, product, rule, first, local]) => ({
      box,
      user: user || nodes[box].n,
      product,
      rule,
      numbers: local === undefined ? undefined : [first, local], // the adjoint of the user and the local partial
      formula: local === undefined ? first : undefined,
    })),
  }));
}

/** Return all steps: `f` and `b` with the number of a node, and for `b` how many terms of its sum are shown. */
function stepsOf(nodes) {
  const steps = [{ id: "start", kind: "start" }];
  nodes.forEach((node, k) => {
    if (!node.input) steps.push({ id: `f${k}`, kind: "f", k });
  });
  for (let k = nodes.length - 1; k >= 0; k -= 1) {
    const terms = nodes[k].terms.length;
    for (let shown = 1; shown < terms; shown += 1) steps.push({ id: `b${k}.${shown}`, kind: "b", k, shown });
    steps.push({ id: `b${k}`, kind: "b", k, shown: terms });
  }
  steps.push({ id: "end", kind: "end" });
  return steps;
}

/** One walk: its data, its drawing, and the step at hand. */
class Walk {
  constructor(section) {
    this.section = section;
    const data = JSON.parse(this.part('script[type="application/json"]').textContent);
    this.result = data.result;
    this.departs = data.departs;
    this.nodes = read(data.nodes);
    const names = this.nodes.flatMap((node) => [node.name, ...node.terms.map((term) => term.user)]);
    this.names = [...new Set(names)].sort((a, b) => b.length - a.length);
    this.steps = stepsOf(this.nodes);
    this.order = new Map(this.steps.map((step, at) => [step.id, at]));
    this.boxes = this.nodes.map((_, k) => section.querySelector(`#n${k}`));
    this.values = this.boxes.map((box) => box.querySelector(".v"));
    this.adjoints = this.boxes.map((box) => [...box.querySelectorAll(".a, .c")]);
    this.rows = [...section.querySelectorAll(".all tbody tr")];
    this.edges = new Map();
    this.arriving = this.nodes.map(() => []); // edges, by the box at which they end
    for (const edge of section.querySelectorAll(".edges path")) {
      this.edges.set(edge.id, edge);
      this.arriving[Number(edge.id.split("-")[1])].push(edge);
    }
    this.lines = [...section.querySelectorAll(".code li:not(.file)")];
    this.lit = [];
    this.timer = 0;
    this.listen();
    this.show(this.first(data.begins));
  }

  part(selector) {
    return this.section.querySelector(selector);
  }

  /** Return the step that is shown first. */
  first(begins) {
    if (begins === "start") return 0;
    const mistake = begins === "mistake" && this.departs !== null ? this.order.get(`b${this.departs}`) : undefined;
    return mistake === undefined ? this.steps.length - 1 : mistake;
  }

  listen() {
    for (const selector of [".controls", ".hint", ".step"]) this.part(selector).hidden = false;
    const table = this.part(".all");
    table.open = false;
    this.slider = this.part("input[type=range]");
    this.slider.max = String(this.steps.length - 1);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.button = this.part("[data-go=play]");
    const moves = { first: -Infinity, back: -1, next: 1, last: Infinity };
    for (const button of this.section.querySelectorAll("[data-go]")) {
      const move = button.dataset.go;
      button.addEventListener("click", () => (move === "play" ? this.play() : this.go(this.at + moves[move])));
    }
    this.boxes.forEach((box, k) => box.addEventListener("click", () => this.visit(k)));
    const fit = this.part(".fit");
    fit.addEventListener("change", () => this.part(".stage").classList.toggle("fitted", fit.checked));
    window.addEventListener("beforeprint", () => {
      this.before = [this.at, table.open];
      this.go(Infinity);
      table.open = true;
    });
    window.addEventListener("afterprint", () => {
      this.go(this.before[0]);
      table.open = this.before[1];
    });
  }

  /** Show the backward step of a node; a second time its forward step. The keys step on from there. */
  visit(k) {
    const forward = this.order.get(`f${k}`);
    const back = this.order.get(`b${k}`);
    this.go(this.at === back && forward !== undefined ? forward : back);
    this.button.focus({ preventScroll: true });
  }

  play() {
    if (this.timer) {
      this.stop();
      return;
    }
    if (this.at === this.steps.length - 1) this.show(0);
    this.says("❚❚ pause", "pause", "off");
    this.timer = window.setInterval(() => {
      this.show(this.at + 1);
      if (this.at === this.steps.length - 1) this.stop();
    }, Math.max(STEP[0], Math.min(STEP[1], PLAYED / this.steps.length)));
  }

  stop() {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.says("▶ play", "play", "polite");
  }

  /** Say what the play button does; steps are not read aloud while they are played. */
  says(words, label, live) {
    this.button.textContent = words;
    this.button.setAttribute("aria-label", label);
    this.part(".said").setAttribute("aria-live", live);
  }

  /** Go to a step, or to the end that is nearest. */
  go(to) {
    this.stop();
    const at = Math.max(0, Math.min(this.steps.length - 1, to));
    if (at !== this.at) this.show(at);
  }

  /** Show a step: what is known by then on the drawing, and the step itself in words, code and formulas. */
  show(at) {
    this.at = at;
    const step = this.steps[at];
    const backward = step.kind === "b" || step.kind === "end";
    this.section.dataset.kind = step.kind;
    this.nodes.forEach((node, k) => {
      const computed = node.input || backward || (step.kind === "f" && k <= step.k);
      const pulled = step.kind === "end" || (step.kind === "b" && (k > step.k || (k === step.k && this.complete(step))));
      this.values[k].classList.toggle("later", !computed);
      for (const text of this.adjoints[k]) text.classList.toggle("later", !pulled);
      this.boxes[k].classList.toggle("bad", pulled && (node.claimed !== undefined || this.departs === k));
    });
    this.light(step);
    const says = this.inWords(step);
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", says);
    this.part(".said").textContent = says;
    this.part(".here").setAttribute("href", `#${step.id}`);
    this.part(".step").replaceChildren(...this.inFull(step));
  }

  complete(step) {
    return step.shown === this.nodes[step.k].terms.length;
  }

  /** Light the node of a step, the edges, the line of code and the row of the table, and bring them into view. */
  light(step) {
    for (const element of this.lit) element.classList.remove("on", "lit");
    for (const word of this.section.querySelectorAll(".code mark")) word.replaceWith(...word.childNodes);
    this.lit = [];
    if (step.k === undefined) return;
    const { terms } = this.nodes[step.k];
    const pulled = terms.slice(0, step.shown).map((term) => this.edges.get(`e${step.k}-${term.box}`));
    const box = this.boxes[step.k];
    const shown = step.kind === "b" && step.shown ? this.nodes[terms[step.shown - 1].box] : this.nodes[step.k];
    const line = this.lines[shown.line];
    const on = [box, ...(step.kind === "b" ? pulled : this.arriving[step.k])];
    for (const [look, elements] of [["on", on], ["lit", [line, this.rows[step.k]]]]) {
      for (const element of elements.filter(Boolean)) {
        element.classList.add(look);
        this.lit.push(element);
      }
    }
    if (line) this.underline(line, shown);
    const stage = this.part(".stage");
    const [there, frame] = [box.getBoundingClientRect(), stage.getBoundingClientRect()];
    const middle = [there.left - frame.left - (frame.width - there.width) / 2, there.top - frame.top - (frame.height - there.height) / 2];
    stage.scrollBy(...middle);
    if (line) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 60;
  }

  /** Underline the operation of a node in its line of code. */
  underline(line, node) {
    const code = line.querySelector("code");
    const source = code.textContent;
    const start = node.column - 1;
    const end = start + node.operation.length;
    if (source.slice(start, end) !== node.operation) return; // an operation of several lines, or without a column
    code.replaceChildren(source.slice(0, start), made("mark", {}, node.operation), source.slice(end));
  }

  /** Say in one line what a step shows. */
  inWords(step) {
    if (step.kind === "start") return "start: the inputs are given; the steps go forward, then back";
    if (step.kind === "end") return "end: all values and all adjoints";
    const node = this.nodes[step.k];
    const place = `step ${this.at} of ${this.steps.length - 1}`;
    if (step.kind === "f") return `${place}, forward: ${node.name} = ${node.value}`;
    const terms = node.terms.length + node.more;
    if (!this.complete(step)) return `${place}, backward: term ${step.shown} of ${terms} of the adjoint of ${node.name}`;
    const wrong = node.claimed === undefined ? "" : `; the claim has ${node.claimed}`;
    const departs = this.departs === step.k ? "; here the claim first goes wrong" : "";
    return `${place}, backward: the adjoint of ${node.name} is ${node.adjoint}${wrong}${departs}`;
  }

  /** Return the elements that show a step in full. */
  inFull(step) {
    if (step.k === undefined) return [];
    const node = this.nodes[step.k];
    const which = step.kind === "f" ? 0 : 1;
    const found = [made("dl", {}, ...this.rowsOf(step, node).flatMap(([name, value, look]) => {
      const attributes = look ? { class: look } : {};
      return [made("dt", attributes, name), made("dd", attributes, value)];
    }))];
    if (step.kind === "b") found.unshift(this.sum(step, node));
    if (node.maps) found.push(this.map(node.maps[which]));
    return found;
  }

  /** Return what there is to say of a step, as names and values. */
  rowsOf(step, node) {
    const rows = [];
    if (node.joined) rows.push(["drawn as one", node.joined]);
    if (!node.input) rows.push(["operation", `${node.name} = ${node.operation}`]);
    if (step.kind === "f") {
      rows.push(["value", node.value], ...this.provedRows(node, 0));
      for (const [name, value] of node.partials) rows.push([`∂${node.name}/∂${name}`, value]);
      return rows;
    }
    if (this.complete(step)) {
      rows.push(["adjoint", node.adjoint], ...this.provedRows(node, 1));
      if (node.claimed !== undefined) rows.push(["claimed", node.claimed, "bad"]);
    }
    const term = node.terms[step.shown - 1];
    if (term && term.rule) rows.push(["local rule", `∂${term.user}/∂${node.name} = ${term.rule}`]);
    return rows;
  }

  provedRows(node, which) {
    if (!node.proved) return [];
    const [decimal, digits] = [node.proved[which], node.proved[which + 2]];
    const worst = decimal === null ? " of the worst entry" : "";
    const right = [`right digits${worst}`, digits >= EXACT ? "all" : String(digits)];
    return decimal === null ? [right] : [["certified", decimal], right];
  }

  /** Return the sum of the chain rule, as many of its terms as the step shows. */
  sum(step, node) {
    const left = math("mrow", partial(this.result, node.name), sign("="));
    if (!node.terms.length) return formulas([filled(left, {}, [number(node.adjoint)])]);
    const terms = node.terms.slice(0, step.shown);
    const lines = [left];
    if (terms.some((term) => term.numbers)) lines.push(math("mrow", sign("=")));
    terms.forEach((term, place) => {
      const derivatives = term.numbers ? [partial(this.result, term.user), sign("·"), partial(term.user, node.name)]
        : [formula(term.formula, this.result, this.names)];
      const product = term.numbers ? [factor(term.numbers[0], !place), sign("·"), factor(term.numbers[1], false)]
        : [math("mtext", term.product)];
      [derivatives, product].slice(0, lines.length).forEach((parts, k) => lines[k].append(...(place ? [sign("+")] : []), ...parts));
    });
    const whole = this.complete(step);
    const rest = whole ? node.more && `${node.more} more terms` : "…";
    if (rest) for (const line of lines) line.append(sign("+"), math("mtext", rest));
    if (whole && lines.length > 1) lines.push(math("mrow", sign("="), math(node.maps ? "mtext" : "mn", node.adjoint)));
    return formulas(lines);
  }

  /** Return a button that shows a small map of an array. */
  map([rows, columns, letters, low, high, each]) {
    const squares = [...letters].map((letter, k) => drawn("rect", {
      class: `h${letter}`, x: (k % columns) * CELL, y: Math.floor(k / columns) * CELL, width: CELL, height: CELL,
    }));
    const size = { width: columns * CELL, height: rows * CELL };
    const svg = drawn("svg", { class: "small", role: "img", "aria-label": `entries from ${low} to ${high}`, ...size }, ...squares);
    const which = each > 1 ? `; each square is the largest of up to ${each} entries` : "";
    const words = ` from ${low} (light) to ${high} (dark)${letters.includes("x") ? ", red where not finite" : ""}${which}`;
    const button = made("button", { type: "button" }, "show a map of its entries");
    button.addEventListener("click", () => button.replaceWith(made("p", {}, svg, words)));
    return button;
  }
}

const walks = [...document.querySelectorAll(".walk")].map((section) => new Walk(section));

/** Follow the page's address: #f3 is a forward step, #b7 a backward one, #b7.1 its first term. */
function follow() {
  const id = window.location.hash.slice(1);
  for (const walk of walks) if (walk.order.has(id)) walk.go(walk.order.get(id));
}

document.addEventListener("keydown", (event) => {
  const focus = document.activeElement;
  const controls = focus.closest(".controls");
  const ends = controls ? { Home: -Infinity, End: Infinity } : {};
  const moves = { ArrowLeft: -1, ArrowRight: 1, ...ends };
  const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  const ours = focus === document.body || (controls && focus.type !== "range"); // others use their keys
  if (!plain || !ours || !(event.key in moves)) return;
  const walk = walks.find((one) => one.section.contains(focus)) || walks[0];
  walk.go(walk.at + moves[event.key]);
  event.preventDefault();
});
window.addEventListener("hashchange", follow);
follow();
