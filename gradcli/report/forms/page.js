// Steps through a computation: forward through its operations, then backward, one product of the chain rule at a time.
// The page shows the end of it without this script. Whatever is put into the page is put there as text.
"use strict";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const SVG = "http://www.w3.org/2000/svg";
const STEP = [150, 1000]; // milliseconds of a step that is played, at least and at most
const PLAYED = 60000; // milliseconds that all steps take, where they may be so quick
const CELL = 18; // pixels of an entry in the map of an array
const CELLS = 8; // rows and columns of such a map
const SAID = 6; // entries of a matrix that a sentence lists
const TEXT = 12; // pixels of the letters of a graph
const SIZES = [11, 20]; // pixels of them when a graph is fitted into its frame
const LARGE = [18, 40]; // the same in a lecture
const ZOOM = 1.25; // of one press of a button
const [DIGITS, FEWER, FEWEST] = [6, 5, 4]; // of a number that the page computes, at most: in words, at a box, at an edge
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

/** Return the rows of a matrix that is written as [[1, 2], [3, 4]]; undefined for any other text. */
function rowsIn(text) {
  return /^\[\[[^[\]]/.test(text) ? text.slice(2, -2).split("], [").map((row) => row.split(", ")) : undefined;
}

/** Return a matrix in brackets, and its entries as elements, row by row. */
function matrix(rows) {
  const entries = rows.map((row) => row.map((entry) => math("mtd", number(entry))));
  const table = filled(math("mtable", ...entries.map((row) => math("mtr", ...row))), { class: "matrix" }, []);
  return [math("mrow", sign("["), table, sign("]")), entries];
}

/** Return a value in a formula: a matrix in brackets, or a number. */
function written(text) {
  const rows = rowsIn(text);
  return rows ? matrix(rows)[0] : number(text);
}

/** Return a value in a sentence: a matrix of many entries by its shape. */
function brief(text) {
  const rows = rowsIn(text);
  return rows && rows.flat().length > SAID ? `a ${rows.length} × ${rows[0].length} matrix` : text;
}

/** Return a product of two matrices, with the row and the column that meet in one of its entries, and their sum of products.
    `names` are elements of MathML: those of the factors and of the product. */
function product([, first, , second, result, axes], names, label) {
  const drawings = [first, second, result].map((text) => matrix(rowsIn(text)));
  const [left, right, whole] = drawings.map(([, entries]) => entries);
  const columns = whole[0].length;
  const count = whole.length * columns;
  const sum = made("p", { role: "status" });
  let at = 0;
  const choose = (to) => {
    at = (to + count) % count;
    const [i, j] = [Math.floor(at / columns), at % columns];
    left.forEach((row, r) => row.forEach((entry) => entry.classList.toggle("lit", r === i)));
    right.forEach((row) => row.forEach((entry, c) => entry.classList.toggle("lit", c === j)));
    whole.forEach((row, r) => row.forEach((entry, c) => entry.classList.toggle("lit", r === i && c === j)));
    const bracketed = (text, later) => (later && text.startsWith("-") ? `(${text})` : text);
    const products = left[i].map((entry, k) => `${bracketed(entry.textContent, k)}·${bracketed(right[k][j].textContent, true)}`);
    const index = axes === 2 ? `${i},${j}` : i + j; // a vector is one row or one column
    sum.textContent = `${label}[${index}] = ${products.join(" + ")} = ${whole[i][j].textContent}`;
  };
  whole.forEach((row, i) => row.forEach((entry, j) => entry.addEventListener("click", () => choose(i * columns + j))));
  const buttons = [["previous entry", -1], ["next entry", 1]].slice(count > 1 ? 0 : 2).map(([words, by]) => {
    const button = made("button", { type: "button" }, words);
    button.addEventListener("click", () => choose(at + by));
    return button;
  });
  choose(0);
  const formulas = drawings.map(([drawing], k) => math("math", names[k], sign("="), drawing));
  return made("div", { class: "product" }, ...formulas, sum, ...buttons);
}

/** Return a map of the entries of an array, with the first and the last index of its axes, and the numbers of its colours. */
function heatMap(name, [rows, columns, letters, low, high, colors]) {
  const each = [rows, columns].map((size) => Math.ceil(size / CELLS));
  const [down, across] = [rows, columns].map((size, k) => Math.ceil(size / each[k]));
  const [left, top, wide] = [rows > 1 ? 8 + 8 * String(rows - 1).length : 0, 18, CELL * colors.length];
  const bottom = top + down * CELL;
  const square = (letter, x, y, height) => drawn("rect", { class: `h${letter}`, x, y, width: CELL, height });
  const words = (text, x, y, look) => drawn("text", { class: look, x, y }, text);
  const parts = [...letters].map((letter, k) => square(letter, left + (k % across) * CELL, top + Math.floor(k / across) * CELL, CELL));
  if (rows > 1) for (const k of [0, down - 1]) parts.push(words(String(k ? rows - 1 : 0), left - 4, top + CELL * (k + 0.75), "left"));
  for (const k of new Set([0, across - 1])) parts.push(words(String(k ? columns - 1 : 0), left + CELL * (k + 0.5), top - 5, ""));
  parts.push(...[...colors].map((letter, k) => square(letter, CELL * k, bottom + 8, 10)));
  parts.push(drawn("path", { class: "grid", d: `M${left} ${top}h${across * CELL}V${bottom}H${left}zM0 ${bottom + 8}h${wide}v10H0z` }));
  parts.push(words(low, 0, bottom + 32, "right"), words(high, wide, bottom + 32, "left"));
  if (colors[0] > "9" && colors.endsWith("8")) parts.push(words("0", wide / 2, bottom + 32, ""));
  const size = { width: Math.max(left + across * CELL + 8, wide), height: bottom + 36 };
  const svg = drawn("svg", { role: "img", "aria-label": `map of the ${name}, from ${low} to ${high}`, ...size }, ...parts);
  const notes = [...(each[0] * each[1] > 1 ? [`each square is the largest of up to ${each[0] * each[1]} entries`] : []),
    ...(letters.includes("x") ? ["grey where not finite"] : [])];
  return made("figure", { class: "map" }, made("figcaption", {}, [name, ...notes].join("; ")), svg);
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
    level: node.in, // that shows what is inside; undefined where none does
    partials: node.p || [],
    proved: node.d, // the value, the adjoint, and the right digits of both
    maps: node.s, // of the value, of the adjoint and of what is claimed
    product: node.x, // of the two matrices that the value is the product of
    more: node.more || 0, // terms that are not shown one by one
    terms: (node.t || []).map(([box, user, product, rule, first, local]) => ({
      box,
      user: user || (nodes[box] || {}).n,
      product,
      rule,
      numbers: typeof local === "string" ? [first, local] : undefined, // the adjoint of the user and the local partial
      formula: typeof local === "string" ? undefined : first,
      matrices: typeof local === "string" ? undefined : local, // that the formula is the product of
    })),
  }));
}

/** Return all steps: `f` and `b` with the number of a node, and for `b` how many terms of its sum are shown. */
function stepsOf(nodes, prefix) {
  const steps = [{ id: `${prefix}start`, kind: "start" }];
  nodes.forEach((node, k) => {
    if (!node.input) steps.push({ id: `${prefix}f${k}`, kind: "f", k });
  });
  for (let k = nodes.length - 1; k >= 0; k -= 1) {
    const terms = nodes[k].terms.length;
    for (let shown = 1; shown < terms; shown += 1) steps.push({ id: `${prefix}b${k}.${shown}`, kind: "b", k, shown });
    steps.push({ id: `${prefix}b${k}`, kind: "b", k, shown: terms });
  }
  steps.push({ id: `${prefix}end`, kind: "end" });
  return steps;
}

/** One level of the graph: the whole, or what is inside of one box, with its drawing and its steps. */
class Level {
  constructor({ nodes, title, above, departs }, svg, number) {
    this.prefix = number ? `l${number}-` : "";
    this.title = title || "the whole computation";
    this.above = above;
    this.departs = departs;
    this.svg = svg;
    this.size = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
    this.nodes = read(nodes);
    this.steps = stepsOf(this.nodes, this.prefix);
    this.order = new Map(this.steps.map((step, at) => [step.id, at]));
    this.boxes = this.nodes.map((_, k) => svg.querySelector(`#${this.prefix}n${k}`));
    this.values = this.boxes.map((box) => box.querySelector(".v"));
    this.adjoints = this.boxes.map((box) => [...box.querySelectorAll(".a, .c")]);
    this.edges = new Map();
    this.arriving = this.nodes.map(() => []); // edges, by the box at which they end
    for (const edge of svg.querySelectorAll(".edges path[id]")) {
      const name = edge.id.slice(this.prefix.length);
      this.edges.set(name, edge);
      this.arriving[Number(name.split("-")[1])].push(edge);
    }
    this.partials = [...svg.querySelectorAll(".edges text")].map((label) => {
      const [from, to] = label.dataset.edge.slice(this.prefix.length + 1).split("-").map(Number);
      return { label, from, to, place: this.nodes[from].terms.findIndex((term) => term.box === to) };
    });
  }
}

/** Returns a function that rounds each of its arguments at random, up or down by a few units in the last place; always the same. */
function nudging(seed) {
  let state = seed;
  return (x) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return x * (1 + (state < 0 ? -1 : 1) * 2 ** -51);
  };
}

/** The program of a walk, computed again at other values of its inputs: each node's value, adjoint, partials and products. */
class Program {
  constructor({ steps, operands, answers, places, result, claims }, [compute, ...claimed]) {
    Object.assign(this, { steps, operands, answers, places, result, claims, compute, claimed });
    this.node = new Map(); // the number of the node whose value a line is
    steps.forEach((lines, k) => this.node.set(lines[lines.length - 1], k));
  }

  /** Return the values and adjoints of all nodes and how each is used, as functions of the most digits; and the places of the
      decisions that fall otherwise than in the report. */
  at(x) {
    const roundings = () => [(y) => y, nudging(1), nudging(2), nudging(3)];
    const [main, ...others] = roundings().map((r) => this.run(x, r));
    const agreed = (of) => (digits) => shown(of(main), others.map(of), digits);
    const places = this.places.filter((_, i) => main.d[i] !== this.answers[i]);
    return {
      places: [...new Set(places)],
      claims: this.claims.map((line, i) => {
        if (line === null) return undefined;
        const [own, ...further] = roundings().map((r) => this.claimed[i](x, r).v[line]);
        return (digits) => shown(own, further, digits);
      }),
      nodes: this.steps.map((_, k) => ({
        value: agreed((run) => run.values[k]),
        adjoint: agreed((run) => run.adjoints[k]),
        uses: main.uses[k].map(({ user }, i) => ({
          user,
          adjoint: agreed((run) => run.adjoints[user]),
          local: agreed((run) => run.uses[k][i].local),
          product: agreed((run) => run.uses[k][i].local * run.adjoints[user]),
        })),
        partials: new Map([...main.partials[k].keys()].map((by) => [by, agreed((run) => run.partials[k].get(by))])),
      })),
    };
  }

  /** Run the program once, forward and back. */
  run(x, r) {
    const { v, p, d } = this.compute(x, r);
    const uses = this.steps.map(() => []); // of each node: who uses it, and the local partial
    const partials = this.steps.map(() => new Map()); // of each node by its operands
    this.steps.forEach((lines, k) => {
      const bar = new Map([[lines[lines.length - 1], 1]]);
      const found = [];
      for (const line of [...lines].reverse()) {
        const here = this.operands[line].map((operand, i) => [operand, (bar.get(line) || 0) * p[line][i]]);
        for (const [operand, by] of here) if (lines.includes(operand)) bar.set(operand, (bar.get(operand) || 0) + by);
        found.unshift(...here.filter(([operand]) => operand >= 0 && !lines.includes(operand)));
      }
      for (const [operand, local] of found) {
        const from = this.node.get(operand);
        uses[from].push({ user: k, local });
        partials[k].set(from, (partials[k].get(from) || 0) + local);
      }
    });
    const adjoints = this.steps.map((_, k) => Number(k === this.result));
    const reached = new Set([this.result]);
    for (let k = this.steps.length - 1; k >= 0; k -= 1) {
      uses[k] = uses[k].filter((use) => reached.has(use.user)); // what does not reach the result is no term
      if (uses[k].length) reached.add(k);
      for (const use of uses[k]) adjoints[k] += use.local * adjoints[use.user];
    }
    return { d, uses, partials, adjoints, values: this.steps.map((lines) => v[lines[lines.length - 1]]) };
  }
}

/** Return a number with the digits that others agree on, which were computed with other roundings. */
function shown(x, others, most) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const error = Math.max(...others.map((y) => Math.abs(x - y)));
  const digits = error === 0 ? most : Math.min(most, Math.floor(Math.log10(Math.abs(x) / error)));
  if (digits < 1) return "0";
  const [mantissa, exponent] = x.toPrecision(digits).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return exponent === undefined ? short : `${short}e${exponent.replace("+", "")}`;
}

/** One walk: its data, its drawings, and the level and the step at hand. */
class Walk {
  constructor(section, number) {
    this.section = section;
    const data = JSON.parse(this.part('script[type="application/json"]').textContent);
    this.result = data.result;
    const drawings = section.querySelectorAll("svg.graph");
    this.levels = data.levels.map((level, k) => new Level(level, drawings[k], k));
    const nodes = this.levels.flatMap((level) => level.nodes);
    const names = nodes.flatMap((node) => [node.name, ...node.terms.map((term) => term.user)]);
    this.names = [...new Set(names)].sort((a, b) => b.length - a.length);
    this.rows = [...section.querySelectorAll(".all tbody tr")];
    this.stage = this.part(".stage");
    this.lines = [...section.querySelectorAll(".code li:not(.file)")];
    this.lit = [];
    this.timer = 0;
    this.level = this.levels[0];
    this.listen();
    if (data.program) this.vary(new Program(data.program, RECOMPUTE[number]));
    this.enter(this.level, this.first(data.begins));
  }

  part(selector) {
    return this.section.querySelector(selector);
  }

  /** Let a reader give the inputs other values: all that is shown is computed again. */
  vary(program) {
    const [level] = this.levels;
    const part = this.part(".play");
    const inputs = level.nodes.filter((node) => node.input);
    const before = level.nodes.map((node) => ({ ...node, terms: node.terms.map((term) => ({ ...term })) }));
    const texts = [...this.section.querySelectorAll(".graph .v, .graph .a, .graph .c, .edges text, .all td")].map((one) => [one, one.textContent]);
    const fields = inputs.map((node) => {
      const x = Number(node.value);
      const span = 2 * Math.max(1, Math.abs(x));
      const field = made("input", { type: "text", inputmode: "decimal", value: node.value, "aria-label": node.name });
      const slider = made("input", { type: "range", min: x - span, max: x + span, step: span / 100, value: x, "aria-label": `${node.name}, slider` });
      field.addEventListener("input", () => {
        const typed = Number(field.value);
        if (typed < Number(slider.min)) slider.min = field.value;
        if (typed > Number(slider.max)) slider.max = field.value;
        slider.value = field.value;
        change();
      });
      slider.addEventListener("input", () => {
        field.value = slider.value;
        change();
      });
      this.part(".inputs").append(made("label", {}, `${node.name} = `, field, slider));
      return [field, slider, node.value];
    });
    const change = () => {
      const x = fields.map(([field]) => (field.value.trim() === "" ? NaN : Number(field.value)));
      const wrong = fields.find((_, i) => !Number.isFinite(x[i]));
      for (const [field] of fields) field.setAttribute("aria-invalid", String(wrong !== undefined && field === wrong[0]));
      if (wrong) {
        this.part(".crossed").textContent = `${wrong[0].getAttribute("aria-label")} is not a number: nothing was computed.`;
        return;
      }
      const same = fields.every(([field, , value]) => field.value === value);
      this.section.classList.toggle("varied", !same);
      const places = same ? this.restore(before, texts) : this.compute(program.at(x));
      const node = level.nodes[program.result];
      this.part(".now").textContent = same ? "" : `${node.name} = ${node.value} at these values. Headings and text are of the report's own point.`;
      this.part(".crossed").textContent = places.length
        ? `At these values the program decides otherwise, at ${places.join(", ")}: these are the operations of the point of the report, not those of f.` : "";
      this.show(this.at);
    };
    this.part(".reset").addEventListener("click", () => {
      for (const [field, slider, value] of fields) field.value = slider.value = value;
      change();
    });
    part.hidden = false;
  }

  /** Show the report's own numbers again. */
  restore(before, texts) {
    before.forEach((node, k) => Object.assign(this.levels[0].nodes[k], { ...node, terms: node.terms.map((term) => ({ ...term })) }));
    for (const [element, text] of texts) {
      element.textContent = text;
      element.classList.remove("again");
    }
    return [];
  }

  /** Put computed numbers in place of the report's. Return the places of decisions that fall otherwise. */
  compute({ nodes, places, claims }) {
    const [level] = this.levels;
    nodes.forEach(({ value, adjoint, uses, partials }, k) => {
      const node = level.nodes[k];
      const sum = uses.slice(0, node.terms.length).map((use) => `${use.adjoint(DIGITS)}*${use.local(DIGITS)}`);
      Object.assign(node, { value: value(DIGITS), adjoint: adjoint(DIGITS), proved: undefined, claimed: undefined });
      node.partials = [...partials].map(([from, partial]) => [level.nodes[from].name, partial(DIGITS)]);
      node.terms.forEach((term, i) => {
        const { adjoint: bar, local, product } = uses[i];
        Object.assign(term, { numbers: [bar(DIGITS), local(DIGITS)], product: product(DIGITS) });
      });
      const claim = claims[k]; // the inputs come first
      const [, text] = level.adjoints[k];
      if (claim && text) {
        text.textContent = `claimed ${claim(FEWER)}`;
        text.classList.add("again");
        node.claimed = claim(DIGITS) === node.adjoint ? undefined : claim(DIGITS);
      }
      const { cells } = this.rows[k];
      if (claim && text) cells[4].textContent = text.textContent;
      for (const element of [level.values[k], cells[2]]) element.textContent = value(FEWER);
      for (const element of [level.adjoints[k][0], cells[3]]) element.textContent = adjoint(FEWER);
      cells[cells.length - 1].textContent = sum.join(" + ") + (node.more ? " + ..." : "");
    });
    for (const { label, from, to } of level.partials) label.textContent = nodes[to].partials.get(from)(FEWEST);
    return places;
  }

  /** Show the walk alone, large, for a room: one step at a time, in which an adjoint travels along its edge. */
  lecture() {
    const on = this.section.classList.toggle("lecture");
    this.part("[data-lecture]").setAttribute("aria-pressed", String(on));
    this.fit();
    this.show(this.at);
  }

  /** Let what an edge passes back travel along it, where the reader does not mind motion. */
  travel(edge, text) {
    if (!edge || !this.section.classList.contains("lecture") || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const motion = drawn("animateMotion", { dur: "1s", path: edge.getAttribute("d"), keyPoints: "1;0", keyTimes: "0;1", calcMode: "linear", begin: "indefinite" });
    const traveller = drawn("text", { class: "travels", y: -4 }, text, motion);
    this.level.svg.append(traveller);
    motion.addEventListener("endEvent", () => traveller.remove());
    motion.beginElement();
  }

  /** Return the step that is shown first. */
  first(begins) {
    const { departs, order, steps } = this.level;
    if (begins === "start") return 0;
    const mistake = begins === "mistake" && departs !== null ? order.get(`b${departs}`) : undefined;
    return mistake === undefined ? steps.length - 1 : mistake;
  }

  /** Show a level of the graph, at one of its steps. */
  enter(level, at) {
    this.stop();
    this.level = level;
    for (const one of this.levels) one.svg.toggleAttribute("hidden", one !== level);
    this.slider.max = String(level.steps.length - 1);
    this.fit();
    const path = this.part(".path");
    if (path) {
      const opened = [level];
      while (opened[0].above) opened.unshift(this.levels[opened[0].above[0]]);
      path.replaceChildren(...opened.flatMap((one) => {
        if (one === level) return [made("strong", {}, one.title)];
        const button = made("button", { type: "button" }, one.title);
        button.addEventListener("click", () => this.close(one));
        return [button, " › "];
      }));
    }
    this.show(at);
  }

  /** Open the box of a node, if there is a drawing of what is inside: at its end where the adjoint is known. */
  open(node = this.level.nodes[this.level.steps[this.at].k]) {
    if (node === undefined || node.level === undefined) return;
    const inner = this.levels[node.level];
    this.level.left = this.at; // to come back to
    this.enter(inner, ["b", "end"].includes(this.level.steps[this.at].kind) ? inner.steps.length - 1 : 0);
  }

  /** Close boxes up to a level, and show the box that was open. */
  close(level) {
    let box;
    for (let one = this.level; one !== level; one = this.levels[one.above[0]]) [, box] = one.above;
    this.enter(level, level.left === undefined ? level.order.get(`${level.prefix}b${box}`) : level.left);
  }

  /** Fit the graph into its frame, with letters that can be read. */
  fit() {
    const [wide, high] = this.level.size;
    const frame = [this.stage.clientWidth - 2, 0.75 * window.innerHeight - 2];
    const [least, most] = this.section.classList.contains("lecture") ? LARGE : SIZES;
    this.zoom(Math.max(least / TEXT, Math.min(most / TEXT, frame[0] / wide, frame[1] / high)));
  }

  /** Draw the graph larger or smaller, around the middle of what is seen of it. */
  zoom(scale) {
    const { stage, level } = this;
    const middle = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
    const grown = scale / (this.scale || 1);
    this.scale = scale;
    ["width", "height"].forEach((side, k) => level.svg.setAttribute(side, String(Math.ceil(level.size[k] * scale))));
    stage.scrollTo(middle[0] * grown - stage.clientWidth / 2, middle[1] * grown - stage.clientHeight / 2);
  }

  /** Let the graph be moved with a pointer that is held down. */
  drag() {
    let held;
    this.stage.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return; // a finger scrolls
      held = [event.clientX, event.clientY, this.stage.scrollLeft, this.stage.scrollTop];
      this.moved = false;
    });
    window.addEventListener("pointermove", (event) => {
      if (!held) return;
      const by = [event.clientX - held[0], event.clientY - held[1]];
      this.moved = this.moved || Math.hypot(...by) > 4;
      if (this.moved) this.stage.scrollTo(held[2] - by[0], held[3] - by[1]);
    });
    window.addEventListener("pointerup", () => {
      held = undefined;
    });
  }

  listen() {
    for (const part of this.section.querySelectorAll(".controls, .hint, .step, .path")) part.hidden = false;
    const table = this.part(".all");
    table.open = false;
    this.slider = this.part("input[type=range]");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.button = this.part("[data-go=play]");
    const moves = { first: -Infinity, back: -1, next: 1, last: Infinity };
    for (const button of this.section.querySelectorAll("[data-go]")) {
      const move = button.dataset.go;
      button.addEventListener("click", () => (move === "play" ? this.play() : this.go(this.at + moves[move])));
    }
    for (const level of this.levels) {
      level.boxes.forEach((box, k) => box.addEventListener("click", () => this.moved || this.visit(k)));
    }
    const zooms = { in: () => this.zoom(this.scale * ZOOM), out: () => this.zoom(this.scale / ZOOM), fit: () => this.fit() };
    for (const button of this.section.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", zooms[button.dataset.zoom]);
    }
    this.part("[data-lecture]").addEventListener("click", () => this.lecture());
    this.drag();
    window.addEventListener("resize", () => this.fit());
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

  /** Open the box of a node, or show its backward step; a second time its forward step. The keys step on from there. */
  visit(k) {
    const { order, prefix, nodes } = this.level;
    if (nodes[k].level !== undefined) {
      this.open(nodes[k]);
      return;
    }
    const forward = order.get(`${prefix}f${k}`);
    const back = order.get(`${prefix}b${k}`);
    this.go(this.at === back && forward !== undefined ? forward : back);
    this.button.focus({ preventScroll: true });
  }

  play() {
    if (this.timer) {
      this.stop();
      return;
    }
    const last = this.level.steps.length - 1;
    if (this.at === last) this.show(0);
    this.says("❚❚ pause", "pause", "off");
    this.timer = window.setInterval(() => {
      this.show(this.at + 1);
      if (this.at === last) this.stop();
    }, Math.max(STEP[0], Math.min(STEP[1], PLAYED / last)));
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
    const at = Math.max(0, Math.min(this.level.steps.length - 1, to));
    if (at !== this.at) this.show(at);
  }

  /** Show a step: what is known by then on the drawing, and the step itself in words, code and formulas. */
  show(at) {
    this.at = at;
    const { steps, nodes, values, adjoints, boxes, partials, departs } = this.level;
    const step = steps[at];
    const backward = step.kind === "b" || step.kind === "end";
    this.section.dataset.kind = step.kind;
    nodes.forEach((node, k) => {
      const computed = node.input || backward || (step.kind === "f" && k <= step.k);
      const pulled = step.kind === "end" || (step.kind === "b" && (k > step.k || (k === step.k && this.complete(step))));
      if (values[k]) values[k].classList.toggle("later", !computed);
      for (const text of adjoints[k]) text.classList.toggle("later", !pulled);
      boxes[k].classList.toggle("bad", pulled && (node.claimed !== undefined || departs === k));
    });
    for (const { label, from, place } of partials) { // each appears where it is used
      const used = step.kind === "end" || (step.kind === "b" && (from > step.k || (from === step.k && place < step.shown)));
      label.classList.toggle("later", !used);
    }
    this.light(step);
    const says = this.inWords(step);
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", says);
    this.part(".said").textContent = says;
    this.part(".here").setAttribute("href", `#${step.id}`);
    this.part(".step").replaceChildren(...this.inFull(step));
  }

  complete(step) {
    return step.shown === this.level.nodes[step.k].terms.length;
  }

  /** Light the node of a step, the edges, the line of code and the row of the table, and bring them into view. */
  light(step) {
    for (const element of this.lit) element.classList.remove("on", "lit");
    for (const word of this.section.querySelectorAll(".code mark")) word.replaceWith(...word.childNodes);
    this.lit = [];
    if (step.k === undefined) return;
    const { nodes, edges, boxes, arriving, prefix } = this.level;
    const { terms } = nodes[step.k];
    const pulled = terms.slice(0, step.shown).map((term) => edges.get(`e${step.k}-${term.box}`));
    const box = boxes[step.k];
    const shown = (step.kind === "b" && step.shown && nodes[terms[step.shown - 1].box]) || nodes[step.k];
    const line = this.lines[shown.line];
    const on = [box, ...(step.kind === "b" ? pulled : arriving[step.k])];
    for (const [look, elements] of [["on", on], ["lit", [line, prefix ? undefined : this.rows[step.k]]]]) {
      for (const element of elements.filter(Boolean)) {
        element.classList.add(look);
        this.lit.push(element);
      }
    }
    if (line) this.underline(line, shown);
    if (step.kind === "b" && step.shown) this.travel(pulled[pulled.length - 1], terms[step.shown - 1].product);
    const [there, frame] = [box.getBoundingClientRect(), this.stage.getBoundingClientRect()];
    const outside = there.left < frame.left || there.right > frame.right || there.top < frame.top || there.bottom > frame.bottom;
    const middle = [there.left - frame.left - (frame.width - there.width) / 2, there.top - frame.top - (frame.height - there.height) / 2];
    if (outside) this.stage.scrollBy(...middle);
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
    const node = this.level.nodes[step.k];
    const place = `step ${this.at} of ${this.level.steps.length - 1}`;
    if (step.kind === "f") return `${place}, forward: ${node.name} = ${brief(node.value)}`;
    const terms = node.terms.length + node.more;
    if (!this.complete(step)) return `${place}, backward: term ${step.shown} of ${terms} of the adjoint of ${node.name}`;
    const wrong = node.claimed === undefined ? "" : `; the claim has ${brief(node.claimed)}`;
    const departs = this.level.departs === step.k ? "here the claim first goes wrong; " : "";
    return `${place}, backward: ${departs}the adjoint of ${node.name} is ${brief(node.adjoint)}${wrong}`;
  }

  /** Return the elements that show a step in full. */
  inFull(step) {
    if (step.k === undefined) return [];
    const node = this.level.nodes[step.k];
    const found = [made("dl", {}, ...this.rowsOf(step, node).flatMap(([name, value, look]) => {
      const attributes = look ? { class: look } : {};
      return [made("dt", attributes, name), made("dd", attributes, rowsIn(value) ? math("math", written(value)) : value)];
    }))];
    if (step.kind === "b") found.unshift(this.sum(step, node));
    found.push(...this.productOf(step, node), ...this.mapsOf(step, node));
    if (node.level !== undefined) {
      const button = made("button", { type: "button" }, `open ${node.joined}`);
      button.addEventListener("click", () => this.open(node));
      found.push(made("p", {}, button));
    }
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
    if (!node.terms.length) return formulas([filled(left, {}, [written(node.adjoint)])]);
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
    if (whole && lines.length > 1) lines.push(math("mrow", sign("="), node.maps ? math("mtext", node.adjoint) : written(node.adjoint)));
    return formulas(lines);
  }

  /** Return the product of matrices that a step computes, if it does and they are small. */
  productOf(step, node) {
    const term = node.terms[step.shown - 1];
    const matrices = step.kind === "f" ? node.product : term && term.matrices;
    if (!matrices) return [];
    const label = step.kind === "f" ? node.name : node.terms.length + node.more > 1 ? "term" : "adjoint";
    const names = [matrices[0], matrices[2]].map((name) => formula(name, this.result, this.names));
    return [product(matrices, [...names, math("mtext", label)], label)];
  }

  /** Return the maps of an array that a step shows: of its value, or of its adjoint and what is claimed. */
  mapsOf(step, node) {
    if (!node.maps || (step.kind === "b" && !this.complete(step))) return [];
    const maps = step.kind === "f" ? [["value", node.maps[0]]] : [["adjoint", node.maps[1]], ["claimed", node.maps[2]]];
    return maps.filter(([, map]) => map).map(([name, map]) => heatMap(name, map));
  }
}

const walks = [...document.querySelectorAll(".walk")].map((section, number) => new Walk(section, number));

/** Follow the page's address: #f3 is a forward step, #b7 a backward one, #b7.1 its first term, #l2-b7 one inside of a box. */
function follow() {
  const id = window.location.hash.slice(1);
  for (const walk of walks) {
    const level = walk.levels.find((one) => one.order.has(id));
    if (level) walk.enter(level, level.order.get(id));
  }
}

document.addEventListener("keydown", (event) => {
  const focus = document.activeElement;
  const controls = focus.closest(".controls");
  const ours = focus === document.body || (controls && focus.type !== "range"); // others use their keys
  const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!plain || !ours) return;
  const walk = walks.find((one) => one.section.contains(focus)) || walks[0];
  const { level } = walk;
  const moves = { ArrowLeft: () => walk.go(walk.at - 1), ArrowRight: () => walk.go(walk.at + 1), o: () => walk.open(), f: () => walk.lecture() };
  if (controls) Object.assign(moves, { Home: () => walk.go(-Infinity), End: () => walk.go(Infinity) });
  if (level.above) moves.Escape = () => walk.close(walk.levels[level.above[0]]);
  else if (walk.section.classList.contains("lecture")) moves.Escape = () => walk.lecture();
  if (!(event.key in moves)) return;
  moves[event.key]();
  event.preventDefault();
});
window.addEventListener("hashchange", follow);
follow();
