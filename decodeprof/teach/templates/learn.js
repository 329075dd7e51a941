// The page: controls, pictures, exercises. What they show comes from the model above.
(() => {
  const { constants, curves } = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const powers = (from, to) => {
    const found = [];
    for (let value = from; value <= to; value *= 2) found.push(value);
    return found;
  };
  const ALL = 1e9, THREE = 3e9;
  const SLIDERS = {
    batch: { label: "batch", values: powers(1, 1024) },
    layers: { label: "layers", values: [1, 2, 4, 8, 12, 16, 24, 28, 36, 48] },
    width: { label: "width", values: powers(256, 8192) },
    context: { label: "context (tokens)", values: powers(16, 32768) },
    launch_ns: { label: "cost of a launch",
      values: [500, 1000, 2000, 3000, 4000, 5000, 6000, 8000, 10000, 13000, 16000, 20000, 26000, 32000],
      text: (value) => time(value) },
    bandwidth_gb_s: { label: "memory bandwidth", values: [500, 900, 1500, 2000, 3300, 4300, 4800, 8000],
      text: (value) => `${(value / 1000).toFixed(1)} TB/s` },
    sync_every: { label: "the host waits", values: [0, 16, 8, 4, 2, 1],
      text: (value) => value === 0 ? "never" : value === 1 ? "after each step" : `every ${value} steps` },
    shown: { values: [6, 12, 24, 48, 96, 240, ALL, THREE],
      text: (value) => value === ALL ? "one step" : value === THREE ? "three steps" : String(value) },
  };
  const state = {
    proportions: "0.6b", layers: 28, width: 1024, batch: 1, context: 128, launch_ns: 13000,
    bandwidth_gb_s: 4300, fused: false, graph: false, sync_every: 0, shown: 24,
  };

  // A number and its unit stay on one line.
  function time(ns) {
    if (ns === 0) return "0";
    const [size, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const value = ns / size;
    return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}\u00a0${unit}`;
  }
  const count = (value) => value.toLocaleString("en-US");
  const several = (value, one, more) => `${count(value)} ${value === 1 ? one : more}`;
  const rate = (value) => value >= 10 ? count(Math.round(value)) : value.toPrecision(2);
  const share = (value) => `${value >= 0.1 ? (100 * value).toFixed(0) : (100 * value).toFixed(1)}\u00a0%`;
  const clean = (settings) => { const { shown, ...rest } = settings; return rest; };

  function element(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }
  function svg(id, height) {
    const picture = $(id), width = Math.max(280, picture.parentElement.clientWidth);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren();
    return { picture, width };
  }

  // ---- the timelines, from the moment the loop begins

  // Events until both host and device have passed the window.
  function played(settings, until, most) {
    const made = Model.program(settings, constants);
    const machine = { clock: 0, ready: Model.NEVER, queue: [] };
    const host = [], device = [];
    let before = 0, done = 0, round = 0;
    while (round < most && (machine.clock < until() || machine.ready < until())) {
      const run = Model.play(made, constants, machine);
      made.events.forEach((event, i) => {
        if (event.op === Model.WAIT) {
          host.push({ from: before, to: run.ends[i], kind: "wait" });
          before = run.ends[i];
          return;
        }
        const begun = Math.max(before, run.launched[i] - event.work);
        if (run.launched[i] - before > event.work) host.push({ from: before, to: begun, kind: "wait" });
        host.push({ from: begun, to: run.launched[i], kind: "launch", start: run.starts[i] });
        before = run.launched[i];
        let at = run.starts[i];
        for (const kernel of settings.graph ? made.kernels : [event]) {
          if (at >= until()) break;  // Graphs run far ahead: nothing behind the window is drawn.
          const length = settings.graph ? kernel.ns : event.block;
          device.push({ from: at, to: at + length, kind: kernel.kind });
          at += length + constants.node_gap_ns;
        }
      });
      done += made.steps;
      round += 1;
      if (until() === Infinity) until.learn(device, made);
    }
    return { host, device };
  }

  // The window ends with the last kernel that is to be shown.
  function windowOf(shown) {
    let end = Infinity;
    const until = () => end;
    until.learn = (device, made) => {
      const wanted = shown === THREE ? 3 * made.kernels.length : shown === ALL ? made.kernels.length : shown;
      if (device.length >= wanted) end = device[wanted - 1].to;
    };
    return until;
  }

  let film = null;
  function drawTimeline() {
    const settings = clean(state);
    const until = windowOf(state.shown);
    const { host, device } = played(settings, until, state.graph ? 1200 : 40);
    const end = until();
    const { picture, width } = svg("timeline", 116);
    const left = 52, x = (ns) => left + (width - left - 4) * Math.min(ns, end) / end;
    const lanes = [["host", 8, host], ["device", 56, device]];
    for (const [name, y, events] of lanes) {
      element(picture, "text", { x: 0, y: y + 22 }, name);
      element(picture, "rect", { x: left, y, width: width - left - 4, height: 34, class: "lane" });
      const paths = {};
      for (const event of events) {
        if (event.from >= end) break;
        const from = x(event.from), long = Math.max(x(event.to) - from, 0);
        // A hairline between neighbours, where there is room for one.
        const drawn = long > 3 ? long - 0.6 : long;
        (paths[event.kind] ??= []).push(`M${from.toFixed(2)} ${y}h${drawn.toFixed(2)}v34h${(-drawn).toFixed(2)}z`);
      }
      for (const [kind, parts] of Object.entries(paths)) {
        element(picture, "path", { d: parts.join(""), class: `k-${kind}` });
      }
    }
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const anchor = part === 1 ? "end" : part === 0 ? "start" : "middle";
      element(picture, "text", { x: x(part * end), y: 110, class: "tick", "text-anchor": anchor }, time(part * end));
    }
    const cursor = element(picture, "line", { x1: left, x2: left, y1: 4, y2: 94, class: "cursor" });
    film = { host, device, end, x, cursor };
    $("timeline-text").textContent = told(host, device, end);
    showClock();
  }

  function told(host, device, end) {
    const inside = (events) => events.filter((event) => event.from < end);
    const spent = (events) => inside(events).reduce((sum, e) => sum + Math.min(e.to, end) - e.from, 0);
    const launches = inside(host).filter((event) => event.kind === "launch").length;
    const each = !state.graph ? "" : launches === 1 ? ", of a whole step" : ", each of a whole step";
    const waits = spent(host.filter((event) => event.kind === "wait"));
    const kernels = inside(device);
    let longest = 0;
    for (let i = 1; i < kernels.length; i++) longest = Math.max(longest, kernels[i].from - kernels[i - 1].to);
    return `In the first ${time(end)} the host makes ${several(launches, "launch", "launches")}${each}` +
      (waits > 0 ? ` and waits for ${time(waits)}` : "") +
      `. The device runs ${several(kernels.length, "kernel", "kernels")} and is busy for ${share(spent(device) / end)} of the time; ` +
      `its longest pause between two of them is ${time(longest)}.`;
  }

  // ---- the film: a cursor over both lanes

  const SECONDS = 9;
  let playing = false, position = 0, last = 0;
  function showClock() {
    if (!film) return;
    const now = position * film.end;
    film.cursor.setAttribute("x1", film.x(now));
    film.cursor.setAttribute("x2", film.x(now));
    const launched = film.host.filter((e) => e.kind === "launch" && e.to <= now);
    const queued = launched.filter((e) => e.start > now).length;
    const kernel = film.device.find((e) => e.from <= now && now < e.to);
    $("clock").textContent = `${time(now)}: ${queued} launched and not begun, device ` +
      (kernel ? "busy" : "idle");
  }
  function frame(now) {
    if (!playing) return;
    position = (position + (now - last) / 1000 / SECONDS) % 1;
    last = now;
    showClock();
    requestAnimationFrame(frame);
  }
  function setPlaying(wanted) {
    playing = wanted;
    $("play").textContent = playing ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", String(playing));
    if (playing) {
      last = performance.now();
      requestAnimationFrame(frame);
    }
  }

  // ---- the answer and the floors

  function drawAnswer() {
    const settings = clean(state), found = Model.replay(settings, constants);
    const floors = Model.floors(settings, constants), step = found.stepNs;
    const free = settings.sync_every ? Model.replay({ ...settings, sync_every: 0 }, constants).stepNs : step;
    const roof = Math.max(floors.bytes, floors.flops) / floors.busy;
    let bound = "Kernel-bound";
    if (step > 1.1 * floors.device) {
      bound = step - free > 0.5 * (step - floors.device) ? "Sync-bound" : "Launch-bound";
    } else if (roof >= 0.6) {
      bound = floors.bytes >= floors.flops ? "Memory-bound" : "Compute-bound";
    }
    const graph = Model.replay({ ...settings, graph: true }, constants).stepNs;
    $("answer").textContent = `${bound}: a step takes ${time(step)}, of which the device works ` +
      `${time(floors.busy)} (${share(Math.min(1, floors.busy / step))}); ` +
      `${rate(settings.batch * 1e9 / step)} tokens a second.` +
      (settings.graph ? "" : ` As one graph: ${time(graph)}.`);
    const rows = [["step", step, "step"], ["host", floors.host, "host"], ["device", floors.device, "device"],
      ["bytes ÷ bandwidth", floors.bytes, "roof"], ["operations ÷ rate", floors.flops, "roof"]];
    const most = Math.max(...rows.map((row) => row[1]));
    $("floors").replaceChildren(...rows.map(([name, ns, kind]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th"), cell = document.createElement("td"), value = document.createElement("td");
      const bar = document.createElement("span");
      head.scope = "row";
      head.textContent = name;
      bar.className = `bar b-${kind}`;
      bar.style.width = `${(100 * ns / most).toFixed(2)}%`;
      cell.append(bar);
      value.textContent = time(ns);
      row.append(head, cell, value);
      return row;
    }));
    return found;
  }

  // ---- step time over batch, with what was measured

  function drawChart() {
    const settings = clean(state), batches = SLIDERS.batch.values;
    const lines = ["eager", "graph"].map((kind) => ({
      kind,
      points: batches.map((batch) => [batch,
        Model.replay({ ...settings, batch, graph: kind === "graph" }, constants).stepNs]),
    }));
    const curve = curves[$("curve").selectedIndex];
    const dots = (curve ? curve.points : []).flatMap((point) => [["eager", point.eager_ns], ["graph", point.graph_ns]]
      .filter(([, ns]) => ns !== null).map(([kind, ns]) => ({ kind, batch: point.batch, ns, slow: kind === "eager" && point.slow_host })));
    const every = [...lines.flatMap((line) => line.points.map((point) => point[1])), ...dots.map((dot) => dot.ns)];
    const low = 10 ** Math.floor(Math.log10(Math.min(...every))), high = 10 ** Math.ceil(Math.log10(Math.max(...every)));
    const tall = 300, { picture, width } = svg("chart", tall);
    const left = 56, right = width - 12, top = 10, bottom = tall - 34;
    const largest = Math.max(batches[batches.length - 1], ...dots.map((dot) => dot.batch));
    const x = (batch) => left + (right - left) * Math.log(batch) / Math.log(largest);
    const y = (ns) => bottom - (bottom - top) * Math.log(ns / low) / Math.log(high / low);
    for (let tick = low; tick <= high * 1.001; tick *= 10) {
      element(picture, "line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "axis" });
      element(picture, "text", { x: left - 6, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, time(tick).replace(/\.0+/, ""));
    }
    for (const batch of batches.filter((_, i) => i % 2 === 0)) {
      const anchor = batch === largest ? "end" : "middle";
      element(picture, "text", { x: x(batch), y: bottom + 16, class: "tick", "text-anchor": anchor }, count(batch));
    }
    element(picture, "text", { x: (left + right) / 2, y: tall - 4, class: "tick", "text-anchor": "middle" }, "batch");
    for (const line of lines) {
      const path = line.points.map(([batch, ns], i) => `${i ? "L" : "M"}${x(batch).toFixed(1)} ${y(ns).toFixed(1)}`);
      element(picture, "path", { d: path.join(""), class: `model-${line.kind}` });
    }
    for (const kind of ["eager", "graph"]) {
      const path = dots.filter((dot) => dot.kind === kind).map((dot, i) =>
        `${i ? "L" : "M"}${x(dot.batch).toFixed(1)} ${y(dot.ns).toFixed(1)}`);
      if (path.length > 1) element(picture, "path", { d: path.join(""), class: `measured measured-${kind}` });
    }
    for (const dot of dots) {
      element(picture, "circle", { cx: x(dot.batch), cy: y(dot.ns), r: 4.5, class: `dot-${dot.kind}${dot.slow ? " slow" : ""}` });
    }
    const step = Model.replay(settings, constants).stepNs;
    element(picture, "circle", { cx: x(settings.batch), cy: y(step), r: 8, class: "here", id: "here" });
    const there = dots.find((dot) => dot.batch === settings.batch && dot.kind === (settings.graph ? "graph" : "eager"));
    if (there) element(picture, "circle", { cx: x(there.batch), cy: y(there.ns), r: 8, class: "here-measured", id: "here-measured" });
    const alike = there && asMeasured(settings, curve);
    $("chart-text").textContent = `Batch ${count(settings.batch)}: ${time(step)} by the model` +
      (there ? `, ${time(there.ns)} measured (${curve.name}` + (alike ? ")." : ", which had other settings).") :
        "; no measured point there.") +
      (there && there.slow ? " The host was slow as this point was measured; the model's is not." : "");
    $("curve-source").textContent = curve ? curve.source : "";
  }

  // Whether the sliders stand where the curve was measured, as near as they can. A curve has points
  // at many batches, with a graph and without.
  function asMeasured(settings, curve) {
    return Object.entries(curve.settings).every(([name, value]) => name === "batch" || name === "graph" ||
      settings[name] === (SLIDERS[name] ? nearest(SLIDERS[name].values, value) : value));
  }

  // ---- controls

  let chartLater = 0;
  function draw() {
    for (const [name, slider] of Object.entries(SLIDERS)) {
      const input = $(name), text = slider.text ? slider.text(state[name]) : count(state[name]);
      input.value = slider.values.indexOf(state[name]);
      input.setAttribute("aria-valuetext", text);
      $(`${name}-out`).textContent = text;
    }
    $("fused").checked = state.fused;
    $("graph").checked = state.graph;
    $("proportions").value = state.proportions;
    drawAnswer();
    drawTimeline();
    clearTimeout(chartLater);
    chartLater = setTimeout(drawChart, 30);
  }
  function nearest(values, wanted) {
    return values.reduce((best, value) => Math.abs(value - wanted) < Math.abs(best - wanted) ? value : best);
  }
  function set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (name in state) state[name] = SLIDERS[name] ? nearest(SLIDERS[name].values, value) : value;
    }
    draw();
  }

  for (const [name, slider] of Object.entries(SLIDERS)) {
    if (name !== "shown") {
      const control = document.createElement("div"), label = document.createElement("label");
      const out = document.createElement("output"), input = document.createElement("input");
      control.className = "control";
      label.htmlFor = input.id = name;
      label.textContent = slider.label;
      out.id = `${name}-out`;
      out.htmlFor = name;
      input.type = "range";
      input.min = 0;
      input.step = 1;
      control.append(label, out, input);
      $("controls").append(control);
    }
    $(name).max = slider.values.length - 1;
    $(name).addEventListener("input", (event) => set({ [name]: slider.values[Number(event.target.value)] }));
  }
  for (const [key, value] of Object.entries(constants.proportions)) $("proportions").add(new Option(value.name, key));
  for (const curve of curves) $("curve").add(new Option(curve.name));
  for (const name of ["fused", "graph"]) $(name).addEventListener("change", (event) => set({ [name]: event.target.checked }));
  $("proportions").addEventListener("change", (event) => set({ proportions: event.target.value }));
  $("curve").addEventListener("change", drawChart);
  $("as-measured").addEventListener("click", () => {
    const curve = curves[$("curve").selectedIndex];
    if (curve) set(curve.settings);
  });
  $("play").addEventListener("click", () => setPlaying(!playing));
  for (const button of document.querySelectorAll("button.show")) {
    button.addEventListener("click", () => {
      const preset = JSON.parse(button.dataset.preset);
      position = 0;
      set({ proportions: "0.6b", layers: 28, width: 1024, context: 128, launch_ns: 13000, shown: THREE, ...preset });
      $("lab").scrollIntoView({ block: "start" });
      $("h-lab").tabIndex = -1;
      $("h-lab").focus({ preventScroll: true });
    });
  }
  new ResizeObserver(() => { drawTimeline(); drawChart(); }).observe($("lab"));

  // ---- exercises

  const forms = [...document.querySelectorAll("form.exercise")];
  for (const form of forms) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = form.querySelector("input:checked"), verdict = form.querySelector(".verdict");
      const right = chosen !== null && chosen.value === form.dataset.answer;
      verdict.className = `verdict ${right ? "right" : "wrong"}`;
      verdict.replaceChildren();
      const strong = document.createElement("strong");
      strong.textContent = chosen === null ? "Choose one first." : right ? "Right." : "Not this one; try another.";
      verdict.append(strong);
      form.querySelector(".why").hidden = !right;
      form.dataset.done = String(right);
      const done = forms.filter((other) => other.dataset.done === "true").length;
      $("score").textContent = `${done} of ${forms.length} right.`;
    });
  }

  if (!curves.length) $("as-measured").disabled = true;
  draw();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setPlaying(true);
})();
