// Steps through a computation: forward through its operations, then backward, one product of the chain rule at a time.
// The page shows the end of it without this script. Whatever is put into the page is put there as text.
"use strict";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const SVG = "http://www.w3.org/2000/svg";
const STEP = [150, 1000]; // milliseconds of a step that is played, at least and at most
const PLAYED = 60000; // milliseconds that all steps take, where they may be so quick

/** Return an element with attributes and children; a child that is a string becomes text. */
function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Return an element of MathML. */
function math(name, ...children) {
  const element = document.createElementNS(MATHML, name);
  element.append(...children);
  return element;
}

const sign = (text) => math("mo", text);
const number = (text) => math("mn", text);
const word = (text) => math("mi", text);

/** Return the derivative of one name by another as a fraction. */
function partial(of, by) {
  return math("mfrac", math("mrow", sign("∂"), word(of)), math("mrow", sign("∂"), word(by)));
}

/** Return a formula, such as `(dL/dz) xᵀ`, with its derivatives as fractions. */
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

/** Return all steps: `f` and `b` with the number of a node, and for `b` how many terms of its sum are shown. */
function stepsOf(nodes) {
  const steps = [{ id: "start", kind: "start" }];
  nodes.forEach((node, k) => {
    if (!node.i) steps.push({ id: `f${k}`, kind: "f", k });
  });
  for (let k = nodes.length - 1; k >= 0; k -= 1) {
    const terms = (nodes[k].t || []).length;
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
    this.data = JSON.parse(section.querySelector('script[type="application/json"]').textContent);
    this.nodes = this.data.nodes;
    this.names = this.nodes.flatMap((node) => [node.n, ...(node.t || []).map((term) => this.user(term))]);
    this.names = [...new Set(this.names)].sort((a, b) => b.length - a.length); // the longest first: x10 before x1
    this.steps = stepsOf(this.nodes);
    this.order = new Map(this.steps.map((step, at) => [step.id, at]));
    this.boxes = this.nodes.map((_, k) => section.querySelector(`#n${k}`));
    this.rows = [...section.querySelectorAll(".all tbody tr")];
    this.edges = new Map([...section.querySelectorAll(".edges path")].map((edge) => [edge.id, edge]));
    this.lines = [...section.querySelectorAll(".code li:not(.file)")];
    this.sources = this.lines.map((line) => line.querySelector("code").textContent);
    this.lit = [];
    this.timer = 0;
    this.listen();
    this.show(this.begins(), true);
  }

  /** Return the step that is shown first. */
  begins() {
    const { begins, departs } = this.data;
    if (begins === "start") return 0;
    const mistake = begins === "mistake" && departs !== null ? this.order.get(`b${departs}`) : undefined;
    return mistake === undefined ? this.steps.length - 1 : mistake;
  }

  /** Return how many terms the adjoint of a node has, those included that are not shown one by one. */
  terms(node) {
    return (node.t || []).length + (node.more || 0);
  }

  /** Return the name of the node that uses a value, given a term of its adjoint. */
  user(term) {
    return term[1] || this.nodes[term[0]].n;
  }

  part(selector) {
    return this.section.querySelector(selector);
  }

  listen() {
    for (const selector of [".controls", ".hint", ".step"]) this.part(selector).hidden = false;
    this.part(".all").open = false;
    this.slider = this.part("input[type=range]");
    this.slider.max = String(this.steps.length - 1);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    const moves = { first: 0, back: -1, next: 1, last: Infinity };
    for (const button of this.section.querySelectorAll("[data-go]")) {
      const move = button.dataset.go;
      button.addEventListener("click", () => (move === "play" ? this.play() : this.move(moves[move])));
    }
    this.boxes.forEach((box, k) => box.addEventListener("click", () => this.visit(k)));
    this.part(".fit").addEventListener("change", (event) => this.part(".stage").classList.toggle("fitted", event.target.checked));
    window.addEventListener("beforeprint", () => {
      this.go(this.steps.length - 1);
      this.part(".all").open = true;
    });
  }

  /** Move by one step, or to an end. */
  move(by) {
    this.stop();
    this.go(by === 0 ? 0 : by === Infinity ? this.steps.length - 1 : this.at + by);
  }

  /** Show the backward step of a node; a second time its forward step. */
  visit(k) {
    this.stop();
    const here = this.steps[this.at];
    const forward = this.order.get(`f${k}`);
    this.go(here.id === `b${k}` && forward !== undefined ? forward : this.order.get(`b${k}`));
  }

  play() {
    if (this.timer) {
      this.stop();
      return;
    }
    if (this.at === this.steps.length - 1) this.go(0);
    this.part("[data-go=play]").textContent = "❚❚ pause";
    this.part("[data-go=play]").setAttribute("aria-label", "pause");
    this.timer = window.setInterval(() => {
      this.go(this.at + 1);
      if (this.at === this.steps.length - 1) this.stop();
    }, Math.max(STEP[0], Math.min(STEP[1], PLAYED / this.steps.length)));
  }

  stop() {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.part("[data-go=play]").textContent = "▶ play";
    this.part("[data-go=play]").setAttribute("aria-label", "play");
  }

  go(to) {
    const at = Math.max(0, Math.min(this.steps.length - 1, to));
    if (at !== this.at) this.show(at, true);
  }

  /** Show a step: what is known by then on the drawing, and the step itself in words, code and formulas. */
  show(at, scrolls) {
    this.at = at;
    const step = this.steps[at];
    const backward = step.kind === "b" || step.kind === "end";
    this.section.dataset.kind = step.kind;
    this.nodes.forEach((node, k) => {
      const forward = node.i || backward || (step.kind === "f" && k <= step.k);
      const pulled = step.kind === "end" || (step.kind === "b" && (k > step.k || (k === step.k && this.complete(step))));
      for (const text of this.boxes[k].querySelectorAll(".v")) text.classList.toggle("later", !forward);
      for (const text of this.boxes[k].querySelectorAll(".a, .c")) text.classList.toggle("later", !pulled);
      this.boxes[k].classList.toggle("bad", pulled && (node.c !== undefined || this.data.departs === k));
    });
    this.light(step, scrolls);
    this.slider.value = String(at);
    const says = this.inWords(step);
    this.slider.setAttribute("aria-valuetext", says);
    this.part(".said").textContent = says;
    this.part(".here").setAttribute("href", `#${step.id}`);
    this.part(".step").replaceChildren(...this.inFull(step));
  }

  complete(step) {
    return step.shown === (this.nodes[step.k].t || []).length;
  }

  /** Light the node, the edges, the line of code and the row of a step. */
  light(step, scrolls) {
    for (const element of this.lit) element.classList.remove("on", "lit");
    this.lines.forEach((line, k) => line.querySelector("code").replaceChildren(this.sources[k]));
    this.lit = [];
    if (step.k === undefined) return;
    const node = this.nodes[step.k];
    const box = this.boxes[step.k];
    const shown = this.shown(step);
    const lines = shown.l === undefined ? [] : [this.lines[shown.l]];
    const used = step.kind === "b" ? (node.t || []).slice(0, step.shown).map((term) => `e${step.k}-${term[0]}`) : [];
    const read = step.kind === "f" ? [...this.edges.keys()].filter((id) => id.endsWith(`-${step.k}`)) : [];
    for (const id of [...used, ...read]) if (this.edges.has(id)) this.lit.push(this.edges.get(id));
    this.lit.push(box);
    for (const element of this.lit) element.classList.add("on");
    for (const element of [...lines, this.rows[step.k]]) {
      element.classList.add("lit");
      this.lit.push(element);
    }
    if (lines.length) this.underline(shown);
    if (scrolls) {
      const stage = this.part(".stage");
      const there = box.getBoundingClientRect();
      const frame = stage.getBoundingClientRect();
      stage.scrollBy(there.left - frame.left - (frame.width - there.width) / 2, there.top - frame.top - (frame.height - there.height) / 2);
      if (lines.length) this.part(".code").scrollTop = lines[0].offsetTop - this.part(".code").offsetTop - 60;
    }
  }

  /** Return the node whose code a step shows: the one that is computed, or backward the one that is pulled through. */
  shown(step) {
    const node = this.nodes[step.k];
    const term = step.kind === "b" ? (node.t || [])[step.shown - 1] : undefined;
    return term === undefined ? node : this.nodes[term[0]];
  }

  /** Underline the operation of a node in its line of code. */
  underline(node) {
    const source = this.sources[node.l];
    const at = source.indexOf(node.o);
    if (at < 0) return;
    const end = at + node.o.length;
    const code = this.lines[node.l].querySelector("code");
    code.replaceChildren(source.slice(0, at), made("mark", {}, node.o), source.slice(end));
  }

  /** Say in one line what a step shows. */
  inWords(step) {
    if (step.kind === "start") return "start: the inputs are given; the steps go forward, then back";
    if (step.kind === "end") return "end: all values and all adjoints";
    const node = this.nodes[step.k];
    const place = `step ${this.at} of ${this.steps.length - 1}`;
    if (step.kind === "f") return `${place}, forward: ${node.n} = ${node.v}`;
    if (!this.complete(step)) return `${place}, backward: term ${step.shown} of ${this.terms(node)} of the adjoint of ${node.n}`;
    const departs = this.data.departs === step.k ? "; here the claim first goes wrong" : "";
    const wrong = (node.c === undefined ? "" : `; the claim has ${node.c}`) + departs;
    return `${place}, backward: the adjoint of ${node.n} is ${node.a}${wrong}`;
  }

  /** Return the elements that show a step in full. */
  inFull(step) {
    if (step.k === undefined) return [];
    const node = this.nodes[step.k];
    const rows = [];
    const row = (name, ...content) => rows.push(made("dt", {}, name), made("dd", {}, ...content));
    if (node.m) row("drawn as one", node.m);
    if (!node.i) row("operation", `${node.n} = ${node.o}`);
    if (step.kind === "f") {
      row("value", node.v);
      this.proved(row, node, 0);
      for (const [name, value] of node.p || []) row(`∂${node.n}/∂${name}`, value);
    } else {
      if (this.complete(step)) {
        row("adjoint", node.a);
        this.proved(row, node, 1);
        if (node.c !== undefined) rows.push(made("dt", { class: "bad" }, "claimed"), made("dd", { class: "bad" }, node.c));
      }
      const term = (node.t || [])[step.shown - 1];
      if (term && term[3]) row("local rule", `∂${this.user(term)}/∂${node.n} = ${term[3]}`);
    }
    const found = [made("dl", {}, ...rows)];
    if (step.kind === "b") found.unshift(this.sum(step, node));
    if (node.s) found.push(this.maps(node, step.kind === "f" ? 0 : 1));
    return found;
  }

  proved(row, node, which) {
    if (!node.d) return;
    if (node.d[which] !== null) row("certified", node.d[which]);
    row("right digits", String(node.d[which + 2]));
  }

  /** Return the sum of the chain rule, as many of its terms as the step shows. */
  sum(step, node) {
    const left = partial(this.data.result, node.n);
    const terms = (node.t || []).slice(0, step.shown);
    const row = math("mrow", left, sign("="));
    if (!(node.t || []).length) {
      row.append(number(node.a));
      return this.formulas([row]);
    }
    const numbers = math("mrow", sign("="));
    terms.forEach((term, place) => {
      const [, , product, , first, local] = term; // the adjoint and the partial of the user, or a formula
      if (place) for (const one of [row, numbers]) one.append(sign("+"));
      if (local === undefined) {
        row.append(formula(first, this.data.result, this.names));
        numbers.append(math("mtext", product));
      } else {
        row.append(partial(this.data.result, this.user(term)), sign("·"), partial(this.user(term), node.n));
        numbers.append(this.inside(first, place), sign("·"), this.inside(local, 1));
      }
    });
    const whole = this.complete(step);
    const lines = terms.some((term) => term.length > 5) ? [row, numbers] : [row]; // numbers where a term is one of numbers
    if (!whole) for (const one of lines) one.append(sign("+"), sign("…"));
    else if (node.more) for (const one of lines) one.append(sign("+"), math("mtext", `${node.more} more terms`));
    if (whole && lines.length > 1) lines.push(math("mrow", sign("="), node.a.startsWith("[") ? math("mtext", node.a) : number(node.a)));
    return this.formulas(lines);
  }

  /** Return a number as a factor: a negative one in brackets, unless it comes first. */
  inside(text, place) {
    return place && text.startsWith("-") ? math("mrow", sign("("), number(text), sign(")")) : number(text);
  }

  formulas(lines) {
    const table = math("mtable", ...lines.map((line) => math("mtr", math("mtd", line))));
    table.setAttribute("columnalign", "left");
    const whole = math("math", table);
    whole.setAttribute("display", "block");
    return whole;
  }

  /** Return a button that shows a small map of an array. */
  maps(node, which) {
    const button = made("button", { type: "button" }, "show a map of its entries");
    button.addEventListener("click", () => button.replaceWith(this.map(...node.s[which])));
    return button;
  }

  map(rows, columns, shades, low, high, each) {
    const cell = 18;
    const svg = document.createElementNS(SVG, "svg");
    const set = (element, attributes) => Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    set(svg, { class: "small", role: "img", width: columns * cell, height: rows * cell, "aria-label": `entries from ${low} to ${high}` });
    [...shades].forEach((shade, k) => {
      const square = document.createElementNS(SVG, "rect");
      set(square, { class: `h${shade}`, x: (k % columns) * cell, y: Math.floor(k / columns) * cell, width: cell, height: cell });
      svg.append(square);
    });
    const which = each > 1 ? `; each square is the largest of up to ${each} entries` : "";
    return made("p", {}, svg, ` from ${low} (light) to ${high} (dark)${which}`);
  }
}

const walks = [...document.querySelectorAll(".walk")].map((section) => new Walk(section));

/** Follow the page's address: #f3 is a forward step, #b7 a backward one, #b7.1 its first term. */
function follow() {
  const id = decodeURIComponent(window.location.hash.slice(1));
  for (const walk of walks) if (walk.order.has(id)) walk.go(walk.order.get(id));
}

/** Return the walk that keys step through: the one in which the focus is, else the first on the page. */
function current() {
  return walks.find((walk) => walk.section.contains(document.activeElement)) || walks[0];
}

document.addEventListener("keydown", (event) => {
  const inside = document.activeElement;
  const within = inside.tagName === "BUTTON" && inside.closest(".walk");
  const moves = { ArrowLeft: -1, ArrowRight: 1, ...(within ? { Home: 0, End: Infinity } : {}) };
  const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!plain || !(event.key in moves) || (inside !== document.body && !within)) return; // others use their keys
  current().move(moves[event.key]);
  event.preventDefault();
});
window.addEventListener("hashchange", follow);
follow();
