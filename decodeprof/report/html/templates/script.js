
"use strict";
(() => {
  const figure = document.getElementById("tl");
  const source = document.getElementById("timeline-data");
  if (!figure || !source) return;
  const data = JSON.parse(source.textContent);
  const svg = figure.querySelector(".tl-main"), box = figure.querySelector(".tl-box");
  const tip = figure.querySelector(".tl-tip"), told = figure.querySelector(".tl-told");
  const over = figure.querySelector(".tl-over"), hits = figure.querySelector(".hits");
  const field = figure.querySelector("input[type=search]");
  for (const one of figure.querySelectorAll(".only-script")) one.hidden = false;
  for (const one of document.querySelectorAll(".only-read")) one.hidden = true;

  const NS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const node = document.createElementNS(NS, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const time = (ns) => {
    if (ns === 0) return "0";
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]) {
      if (Math.abs(ns) < size) continue;
      const value = ns / size, whole = value === Math.trunc(value);
      const digits = Math.abs(value) >= 100 || whole ? 0 : Math.abs(value) >= 10 ? 1 : 2;
      return `${value.toFixed(digits)} ${unit}`;
    }
    return `${ns} ns`;
  };

  // Lanes: rows of items in order of start, which do not overlap in a lane.
  const summed = (steps) => { let at = 0; return Float64Array.from(steps, (step) => (at += step)); };
  const families = data.families.map((name) => `f-${name.replaceAll(" ", "-")}`);
  // Kernels of no known family are told apart by name.
  const own = new Map(data.names.map((_, i) => i).filter((i) => data.by_name.includes(data.names[i][2])).map((name, i) => [name, `g${i % 6}`]));
  const styleOf = (name) => own.get(name) || families[data.names[name][2]] || "f-other";
  const SORTS = { o: "op", l: "launch", s: "sync", a: "api", r: "api" };
  const lanes = [];
  const add = (label, height, items) => lanes.push({ label, height, ...items });
  const opNames = ["framework ops", "what they call"];
  for (const track of data.host) {
    const op = track.kind === "op";
    add(op ? `host thread: ${opNames[track.depth] || "ops"}` : "host thread: CUDA calls", 20, {
      kind: op ? "op" : "api", start: summed(track.start), length: track.length, name: track.name,
      style: op ? () => "c-op" : (i) => `c-${SORTS[track.sort[i]]}`,
    });
  }
  const apiLane = lanes.findIndex((lane) => lane.kind === "api");
  if (apiLane >= 0) lanes[apiLane].flowRoom = 22;
  for (const track of data.device) {
    const first = track.depth === 0;
    add(first ? `device ${track.device}, stream ${track.stream}` : "", track.depth ? 16 : 22, {
      kind: "kernel", start: summed(track.start), length: track.length, name: track.name,
      latency: track.latency, op: track.op, stream: track.stream, style: (i) => styleOf(track.name[i]),
    });
  }
  const gapStart = summed(data.gaps.start), gapParts = data.gaps.parts;
  {
    // A gap's parts behind each other, each an item of its own.
    const start = [], length = [], cause = [], gap = [];
    for (let i = 0; i < gapParts.length; i++) {
      let at = gapStart[i];
      for (let p = 0; p < gapParts[i].length; p += 2) {
        start.push(at); length.push(gapParts[i][p + 1]); cause.push(gapParts[i][p]); gap.push(i);
        at += gapParts[i][p + 1];
      }
    }
    add("device idle, by cause", 26, { kind: "gap", start: Float64Array.from(start), length, cause, gap,
      style: (i) => `c-${data.causes[cause[i]][0]}` });
  }
  const label = (lane, i) => lane.kind === "gap" ? `${data.causes[lane.cause[i]][1]} ${data.causes[lane.cause[i]][0]}`
    : lane.kind === "op" ? data.names[lane.name[i]][0].replace(/^aten::/, "") : data.names[lane.name[i]][0];
  const RULER = 18, STEPS = data.steps.length ? 18 : 2, SYNCS = 16, LABEL = 14;
  let y = RULER + STEPS + (data.syncs.length ? SYNCS : 0);
  for (const lane of lanes) {
    lane.top = y + (lane.label ? LABEL : 1);
    y = lane.top + lane.height + (lane.flowRoom || 1);
  }
  const HEIGHT = y + 6;
  svg.setAttribute("height", HEIGHT);

  const least = 200;
  let from = 0, to = data.length, width = 1, held = null, hovered = null, found = null, place = null, queued = false;
  const x = (ns) => (ns - from) / (to - from) * width;
  const at = (px) => from + px / width * (to - from);
  // The last item that starts at or before a time.
  const before = (starts, ns) => {
    let low = 0, high = starts.length;
    while (low < high) { const middle = (low + high) >> 1; if (starts[middle] <= ns) low = middle + 1; else high = middle; }
    return low - 1;
  };

  const show = (a, b) => {
    let span = Math.min(Math.max(b - a, least), data.length);
    let start = (a + b) / 2 - span / 2;
    start = Math.min(Math.max(start, 0), data.length - span);
    from = start; to = start + span;
    later();
  };
  const zoom = (factor, px) => {
    const pivot = at(px === undefined ? width / 2 : px), span = (to - from) * factor;
    if (span < least && factor < 1) return;
    const share = (pivot - from) / (to - from);
    const bounded = Math.min(Math.max(span, least), data.length);
    const start = Math.min(Math.max(pivot - share * bounded, 0), data.length - bounded);
    from = start; to = start + bounded;
    later();
  };
  const move = (share) => { const by = share * (to - from); show(from + by, to + by); };
  const later = () => { if (!queued) { queued = true; requestAnimationFrame(() => { queued = false; draw(); }); } };

  const rectangle = (a, top, w, h) => `M${a.toFixed(2)} ${top.toFixed(1)}h${w.toFixed(2)}v${h.toFixed(1)}h${(-w).toFixed(2)}z`;
  const ROOM = 6.2;  // width of a letter at the size of labels, a little more than most have
  const drawLane = (lane, index, nodes) => {
    const first = Math.max(0, before(lane.start, from)), paths = new Map(), columns = new Map();
    const top = lane.top, height = lane.height;
    for (let i = first; i < lane.start.length && lane.start[i] < to; i++) {
      const a = Math.max(x(lane.start[i]), -2), b = Math.min(x(lane.start[i] + lane.length[i]), width + 2);
      if (b < 0) continue;
      const style = lane.style(i);
      if (b - a < 1) {
        // Narrower than a pixel: what a pixel holds is stacked in it, as high as its share of time.
        const column = Math.floor(a);
        let held = columns.get(column);
        if (!held) columns.set(column, held = new Map());
        held.set(style, (held.get(style) || 0) + Math.max(b - a, 0));
        continue;
      }
      if (!paths.has(style)) paths.set(style, []);
      paths.get(style).push(rectangle(a, top, Math.max(b - a - (b - a > 4 ? 1 : 0), .8), height));
      const text = label(lane, i), letters = Math.floor((b - a - 6) / ROOM);
      if (letters >= 3 || (letters >= 1 && text.length <= letters) || (lane.kind === "gap" && letters >= 1)) {
        const short = text.length <= letters ? text : lane.kind === "gap" && letters < 4 ? text[0] : text.slice(0, letters - 1) + "…";
        const dark = style === "c-launch" || style === "c-device" || style === "c-unknown";
        nodes.push(make("text", { class: dark ? "in dark" : "in", x: (a + 3).toFixed(1), y: top + 13 }, short));
      }
    }
    for (const [column, held] of columns) {
      let base = top + height;
      for (const style of held.size > 1 ? [...held.keys()].sort() : held.keys()) {
        const share = held.get(style);
        const h = Math.min(Math.max(share, .06) * height, base - top);
        base -= h;
        if (!paths.has(style)) paths.set(style, []);
        paths.get(style).push(`M${column} ${base.toFixed(1)}h1v${h.toFixed(1)}h-1z`);
      }
    }
    const under = [make("rect", { class: "ground", x: 0, y: top, width, height })];
    if (lane.label) under.push(make("text", { class: "lane", x: 4, y: top - 3 }, lane.label));
    for (const [style, parts] of paths) under.push(make("path", { class: style, d: parts.join("") }));
    nodes.unshift(...under);
  };
  const MOST_FLOWS = 250;
  const flowPath = (lane, i) => {
    const begin = lane.start[i] - lane.latency[i], top = lanes[apiLane].top + lanes[apiLane].height;
    return `M${x(begin).toFixed(1)} ${top}L${x(lane.start[i]).toFixed(1)} ${lane.top}`;
  };
  const drawFlows = (nodes) => {
    if (apiLane < 0) return;
    const parts = [];
    for (const lane of lanes) {
      if (lane.kind !== "kernel") continue;
      for (let i = Math.max(0, before(lane.start, from)); i < lane.start.length && lane.start[i] < to; i++) {
        if (lane.latency[i] < 0) continue;
        if (parts.length > MOST_FLOWS) return;
        parts.push(flowPath(lane, i));
      }
    }
    nodes.push(make("path", { class: "flow", d: parts.join("") }));
  };
  const ticks = () => {
    const raw = (to - from) / Math.max(2, Math.floor(width / 120)), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw), list = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) list.push(t);
    return [list, step];
  };
  const draw = () => {
    const nodes = [];
    if (place) nodes.push(make("rect", { class: "place", x: x(place[0]).toFixed(1), y: RULER,
      width: Math.max(x(place[1]) - x(place[0]), 3).toFixed(1), height: HEIGHT - RULER }));
    const [marks] = ticks();
    for (const t of marks) {
      nodes.push(make("line", { class: "grid", x1: x(t).toFixed(1), x2: x(t).toFixed(1), y1: 14, y2: HEIGHT }));
      const near = x(t) < 24 ? "start" : x(t) > width - 30 ? "end" : "middle";
      nodes.push(make("text", { class: "tick", x: x(t).toFixed(1), y: 11, "text-anchor": near }, tickText(t)));
    }
    data.steps.forEach(([phase, row, a, b, steady], i) => {
      const left = Math.max(x(a), 0), right = Math.min(x(b), width);
      if (right <= left) return;
      nodes.push(make("rect", { class: `step${i % 2}`, x: left, y: RULER, width: right - left, height: STEPS - 2 }));
      const text = `${phase} ${row}: ${time(b - a)}${steady ? "" : ", not steady"}`;
      if (right - left > 40) nodes.push(make("text", { class: "tick", x: left + 4, y: RULER + 12 }, text.slice(0, Math.floor((right - left - 6) / ROOM))));
    });
    let labelled = -20;
    for (const [i, [start, , , site]] of data.syncs.entries()) {
      if (start < from || start > to) continue;
      const px = x(start), top = RULER + STEPS;
      nodes.push(make("path", { class: "flag", d: `M${px - 5} ${top + 2}h10l-5 9z`, "data-sync": i }));
      nodes.push(make("line", { class: "sync", x1: px, x2: px, y1: top + 10, y2: HEIGHT }));
      if (site && px > labelled + 18) { labelled = px; nodes.push(make("text", { class: "tick", x: px + 7, y: top + 11 }, String(site))); }
    }
    lanes.forEach((lane, index) => { const own = []; drawLane(lane, index, own); nodes.push(...own); });
    drawFlows(nodes);
    for (const [one, style] of [[found, "hit"], [hovered, "hit"], [held, "held"]]) if (one) outline(one, style, nodes);
    svg.replaceChildren(...nodes);
    brush();
  };
  const tickText = (ns) => { const t = Math.round(ns); return t === 0 ? "0" : exact(t); };
  const exact = (ns) => {
    const [size, unit] = data.length >= 1e6 && to - from > 2e4 ? [1e6, "ms"] : [1e3, "µs"];
    return `${(ns / size).toLocaleString("en-US", { maximumFractionDigits: 3 })} ${unit}`;
  };
  const outline = ([index, i], style, nodes) => {
    const lane = lanes[index], a = x(lane.start[i]), b = x(lane.start[i] + lane.length[i]);
    if (b < -2 || a > width + 2) return;
    nodes.push(make("rect", { class: style, x: (a - 1).toFixed(1), y: lane.top - 1, width: Math.max(b - a + 2, 3).toFixed(1), height: lane.height + 2 }));
    if (lane.kind === "kernel" && apiLane >= 0 && lane.latency[i] >= 0) nodes.push(make("path", { class: `flow ${style}`, d: flowPath(lane, i) }));
  };
  // With the lanes below, the picture is a map: its first lane is enough.
  for (const one of [...over.querySelectorAll(":scope > .later")]) one.remove();
  over.setAttribute("height", 52);
  const window_ = make("rect", { class: "window", y: 0, height: 50 });
  over.append(window_);
  const brush = () => {
    const all = to - from >= data.length - 1;
    window_.setAttribute("x", `${100 * from / data.length}%`);
    window_.setAttribute("width", `${Math.max(100 * (to - from) / data.length, .2)}%`);
    window_.setAttribute("visibility", all ? "hidden" : "visible");
  };

  const about = ([index, i]) => {
    const lane = lanes[index], lines = [], length = lane.length[i];
    if (lane.kind === "gap") {
      const gap = lane.gap[i], parts = gapParts[gap];
      let whole = 0;
      for (let p = 0; p < parts.length; p += 2) whole += parts[p + 1];
      lines.push(`device idle for ${time(whole)}`);
      for (let p = 0; p < parts.length; p += 2) lines.push(`${data.causes[parts[p]][0]}: ${time(parts[p + 1])}`);
    } else {
      const [, full] = data.names[lane.name[i]];
      lines.push(full);
      lines.push(`${time(length)}, from ${exact(lane.start[i])}`);
      if (lane.kind === "kernel") {
        lines.push(`${data.families[data.names[lane.name[i]][2]] || "device activity"} on stream ${lane.stream}`);
        if (lane.latency[i] >= 0) lines.push(`launched ${time(lane.latency[i])} before it started${lane.op[i] >= 0 ? `, by ${data.names[lane.op[i]][0]}` : ""}`);
        else lines.push("launch not recorded");
      }
    }
    return lines.join("\n");
  };
  const under = (px, py) => {
    for (let index = 0; index < lanes.length; index++) {
      const lane = lanes[index];
      if (py < lane.top - 1 || py > lane.top + lane.height + 1) continue;
      let i = before(lane.start, at(px)), best = null, nearest = 4;
      for (const candidate of [i, i + 1]) {
        if (candidate < 0 || candidate >= lane.start.length) continue;
        const a = x(lane.start[candidate]), b = x(lane.start[candidate] + lane.length[candidate]);
        const away = px < a ? a - px : px > b ? px - b : 0;
        if (away < nearest) { nearest = away; best = [index, candidate]; }
      }
      return best;
    }
    return null;
  };
  const same = (a, b) => a === b || (a && b && a[0] === b[0] && a[1] === b[1]);
  const point = (event) => { const r = svg.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
  const hover = (event) => {
    const [px, py] = point(event);
    let text = null, one = under(px, py);
    const flag = syncUnder(px, py);
    if (flag !== null) { const [, length, name, site] = data.syncs[flag]; text = `${data.names[name][0]}\nblocks the host for ${time(length)}${site ? `\ncalled at site ${site}: click for its row` : ""}`; one = null; }
    else if (one) text = about(one);
    tip.hidden = text === null;
    if (text !== null) {
      tip.textContent = text;
      const room = box.clientWidth - tip.offsetWidth - 6;
      tip.style.left = `${Math.max(2, Math.min(px + 14, room))}px`;
      tip.style.top = `${py + 18}px`;
    }
    if (!same(one, hovered)) { hovered = one; later(); }
  };
  const syncUnder = (px, py) => {
    if (!data.syncs.length || py < RULER + STEPS || py > RULER + STEPS + SYNCS) return null;
    const i = data.syncs.findIndex(([start]) => Math.abs(x(start) - px) < 8);
    return i < 0 ? null : i;
  };
  const choose = (one, { center = false } = {}) => {
    held = one;
    told.textContent = one ? about(one) : "";
    if (one && center) {
      const lane = lanes[one[0]], a = lane.start[one[1]], b = a + lane.length[one[1]];
      if (a < from || b > to) { const span = to - from; show((a + b) / 2 - span / 2, (a + b) / 2 + span / 2); }
    }
    later();
  };
  const focusOn = ([index, i]) => {
    const lane = lanes[index], a = lane.start[i], length = Math.max(lane.length[i], 200);
    show(a - 2 * length, a + 3 * length);
  };
  const goTo = (a, b, text) => {
    place = [a, b];
    const pad = Math.max((b - a) * 1.5, 5e3);
    show(a - pad, b + pad);
    told.textContent = text;
    figure.scrollIntoView({ block: "start" });
    svg.focus({ preventScroll: true });
  };
  let atSync = -1;
  const nextSync = (by) => {
    if (!data.syncs.length) { told.textContent = "no blocking call in this stretch"; return; }
    atSync = (atSync + by + data.syncs.length) % data.syncs.length;
    const [start, length, name, site] = data.syncs[atSync];
    place = [start, start + length];
    const pad = Math.max(length * 4, 2e4);
    show(start - pad, start + length + pad);
    told.textContent = `${data.names[name][0]}: blocks the host for ${time(length)}${site ? `, called at site ${site} of the table of blocking calls` : ""}`;
  };
  const stepItem = (by) => {
    const index = held ? held[0] : lanes.findIndex((lane) => lane.kind === "kernel");
    if (index < 0) return;
    const lane = lanes[index];
    let i = held ? held[1] + by : before(lane.start, from - 1) + 1;
    i = Math.min(Math.max(i, 0), lane.start.length - 1);
    choose([index, i], { center: true });
  };

  // A wheel that turns because the page is being scrolled goes on scrolling it.
  let scrolled = 0;
  addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
  svg.addEventListener("wheel", (event) => {
    if (performance.now() - scrolled < 250 && !event.ctrlKey) return;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!sideways && event.deltaY > 0 && to - from >= data.length - 1) return;
    event.preventDefault();
    const scale = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (sideways) move((event.deltaX || event.deltaY) * scale / width);
    else zoom(Math.exp(event.deltaY * scale * .0016), point(event)[0]);
  }, { passive: false });
  const fingers = new Map();
  let pressed = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, point(event));
    svg.setPointerCapture(event.pointerId);
    pressed = { x: point(event)[0], from, to, moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) { hover(event); return; }
    const now = point(event);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()], apart = Math.abs(a[0] - b[0]);
      fingers.set(event.pointerId, now);
      const [c, d] = [...fingers.values()], then = Math.abs(c[0] - d[0]);
      if (apart > 8 && then > 8) zoom(apart / then, (c[0] + d[0]) / 2);
      pressed.moved = true;
      return;
    }
    fingers.set(event.pointerId, now);
    const by = (pressed.x - now[0]) / width * (pressed.to - pressed.from);
    if (Math.abs(pressed.x - now[0]) > 3) { pressed.moved = true; svg.classList.add("moving"); tip.hidden = true; }
    if (pressed.moved) show(pressed.from + by, pressed.to + by);
  });
  const release = (event) => {
    fingers.delete(event.pointerId);
    svg.classList.remove("moving");
    if (pressed && !pressed.moved && event.type === "pointerup") {
      const [px, py] = point(event), flag = syncUnder(px, py);
      if (flag !== null && data.syncs[flag][3]) location.hash = `syncs-${data.syncs[flag][3]}`;
      else choose(under(px, py));
    }
    pressed = null;
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; if (hovered) { hovered = null; later(); } });
  svg.addEventListener("dblclick", (event) => { const one = under(...point(event)); if (one) focusOn(one); else zoom(.5, point(event)[0]); });

  const keys = {
    ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), a: () => move(-.2), d: () => move(.2),
    "+": () => zoom(.6), "=": () => zoom(.6), w: () => zoom(.6), "-": () => zoom(1 / .6), s: () => zoom(1 / .6),
    0: () => show(0, data.length), Home: () => show(0, to - from), End: () => show(data.length - (to - from), data.length),
    ".": () => stepItem(1), ",": () => stepItem(-1), n: () => nextSync(1), p: () => nextSync(-1),
    Enter: () => held && focusOn(held), "/": () => field.focus(),
    Escape: () => { place = null; found = null; choose(null); },
  };
  svg.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  const DO = { left: () => move(-.3), right: () => move(.3), in: () => zoom(.5), out: () => zoom(2), all: () => { place = null; show(0, data.length); }, sync: () => nextSync(1) };
  for (const button of figure.querySelectorAll("button[data-do]")) button.addEventListener("click", DO[button.dataset.do]);

  // Find: every item whose name holds the text, in order of time.
  let matches = [], match = -1;
  const search = () => {
    const wanted = field.value.trim().toLowerCase();
    matches = []; match = -1; found = null;
    if (wanted) {
      const good = data.names.map(([short, full]) => (short + "\n" + full).toLowerCase().includes(wanted));
      lanes.forEach((lane, index) => {
        if (lane.kind === "gap") return;
        for (let i = 0; i < lane.start.length; i++) if (good[lane.name[i]]) matches.push([index, i]);
      });
      matches.sort((a, b) => lanes[a[0]].start[a[1]] - lanes[b[0]].start[b[1]] || a[0] - b[0]);
    }
    hits.textContent = wanted ? (matches.length ? `${matches.length.toLocaleString("en-US")} found; Enter goes to each` : "nothing found") : "";
    later();
  };
  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { field.value = ""; search(); svg.focus(); return; }
    if (event.key !== "Enter" || !matches.length) return;
    event.preventDefault();
    match = (match + (event.shiftKey ? -1 : 1) + matches.length) % matches.length;
    found = matches[match];
    hits.textContent = `${(match + 1).toLocaleString("en-US")} of ${matches.length.toLocaleString("en-US")}`;
    choose(found);
    focusOn(found);
  });

  // The overview: a press goes there, a drag shows a stretch.
  let stretch = null;
  const share = (event) => { const r = over.getBoundingClientRect(); return Math.min(Math.max((event.clientX - r.left) / r.width, 0), 1) * data.length; };
  over.addEventListener("pointerdown", (event) => { stretch = share(event); over.setPointerCapture(event.pointerId); });
  over.addEventListener("pointermove", (event) => { if (stretch !== null && Math.abs(share(event) - stretch) > data.length / 200) show(Math.min(stretch, share(event)), Math.max(stretch, share(event))); });
  over.addEventListener("pointerup", (event) => {
    if (stretch !== null && Math.abs(share(event) - stretch) <= data.length / 200) { const span = Math.min(to - from, data.length / 8); show(stretch - span / 2, stretch + span / 2); }
    stretch = null;
  });

  // Each site's row leads to its first call here, and each call's mark to its row.
  const linked = new Set();
  data.syncs.forEach(([start, length, name, site], i) => {
    const row = site && document.querySelector(`#syncs-${site} tr.above td`);
    if (!row || linked.has(site)) return;
    linked.add(site);
    const link = Object.assign(document.createElement("a"), { className: "goto", href: "#timeline", textContent: "on the timeline" });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      atSync = i;
      goTo(start, start + length, `site ${site}: ${data.names[name][0]}, ${time(length)}`);
    });
    row.firstElementChild.append(" ", link);
  });
  for (const link of document.querySelectorAll("a[data-place]")) {
    link.addEventListener("click", (event) => {
      const target = data.places[link.dataset.place];
      if (!target) return;
      event.preventDefault();
      goTo(target[0], target[1], `${link.dataset.place}: ${target[2]}`);
    });
  }
  new ResizeObserver(() => { const now = svg.clientWidth || box.clientWidth; if (now && now !== width) { width = now; later(); } }).observe(box);
  width = box.clientWidth || 800;
  draw();
})();
