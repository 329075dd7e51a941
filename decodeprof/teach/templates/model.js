"use strict";
// The model of a decode step: the twin of decodeprof/teach/steps.py and of decodeprof's replay.
// It knows nothing of the page: settings and constants in, times out; all times are whole ns.
const Model = (() => {
  const LAUNCH = 0, WAIT = 1, NEVER = -(2 ** 60);

  function kernelOf(settings, constants, part) {
    const { query: q, keys: k, inner } = constants.proportions[settings.proportions];
    const size = constants.bytes_per_number, width = settings.width, rows = settings.batch;
    const query = width * q, keys = width * k;
    const cache = rows * settings.context * keys * size;
    let moved, flops = 0, elements = 0;
    if (part.kind === "small") {
      moved = 3 * rows * width * size;
    } else if (part.kind === "repeat") {
      // An address has to be computed for each element that is written: it takes longer than they do.
      elements = rows * settings.context * query;
      moved = cache + cache * query / keys;
    } else if (part.kind === "attention") {
      moved = 2 * cache * (part.repeated ? query / keys : 1);
      flops = 4 * rows * settings.context * query;
    } else {
      const outputs = {
        query, keys, joined: query + 2 * keys, inner: width * inner, pair: 2 * width * inner,
        vocabulary: constants.vocabulary,
      }[part.shape];
      moved = (width * outputs + rows * (width + outputs)) * size;
      flops = 2 * rows * width * outputs;
    }
    const needed = Math.max(moved / settings.bandwidth_gb_s, flops / constants.peak_flops_per_ns,
      elements / constants.expanded_elements_per_ns);
    const ns = Math.floor(constants.smallest_kernel_ns + needed + 0.5);
    return { kind: part.kind, bytes: Math.floor(moved), flops: Math.floor(flops), ns };
  }

  // The step's kernels, in order.
  function kernels(settings, constants) {
    const recipe = constants.kernels[settings.fused ? "fused" : "unfused"];
    const list = (parts) => parts.flatMap(
      (part) => Array(part.count).fill(kernelOf(settings, constants, part)));
    const layer = list(recipe.layer), found = [];
    for (let i = 0; i < settings.layers; i++) found.push(...layer);
    return found.concat(list(recipe.end));
  }

  // What the host does, in order: launches, and a wait where it waits.
  function program(settings, constants) {
    const all = kernels(settings, constants);
    const gap = constants.node_gap_ns, steps = Math.max(settings.sync_every, 1), events = [];
    const busy = all.reduce((sum, kernel) => sum + kernel.ns, 0);
    for (let step = 0; step < steps; step++) {
      const python = constants.step_python_ns;
      if (settings.graph) {
        const block = busy + (all.length - 1) * gap;
        events.push({ op: LAUNCH, work: python + constants.graph_launch_ns, block, step });
        continue;
      }
      all.forEach((kernel, i) => events.push({
        op: LAUNCH, work: settings.launch_ns + (i ? 0 : python), block: kernel.ns, step,
        kind: kernel.kind,
      }));
    }
    if (settings.sync_every) events.push({ op: WAIT, work: constants.wait_call_ns, step: steps - 1 });
    return { events, steps, kernels: all, busy };
  }

  // One repetition, from the state that the one before left.
  function play(program, constants, state) {
    const launched = [], starts = [], ends = [];
    for (const event of program.events) {
      state.clock += event.work;
      if (event.op === LAUNCH) {
        const queue = state.queue, full = queue.length - constants.queue_depth;
        if (full >= 0 && queue[full] > state.clock) state.clock = queue[full];
        const start = Math.max(
          state.clock + constants.launch_lag_ns, state.ready + constants.node_gap_ns);
        state.ready = start + event.block;
        queue.push(start);
        launched.push(state.clock);
        starts.push(start);
        ends.push(state.ready);
      } else {
        launched.push(state.clock);
        state.clock = Math.max(
          state.clock + constants.wait_least_ns, state.ready + constants.wait_return_ns);
        starts.push(NEVER);
        ends.push(state.clock);
      }
    }
    return { launched, starts, ends };
  }

  // Repeat until the period settles: the step's length in the long run, not from an empty queue.
  function replay(settings, constants) {
    const made = program(settings, constants);
    const state = { clock: 0, ready: NEVER, queue: [] };
    const runs = [], periods = [];
    let settled = false;
    while (runs.length < constants.most_repeats) {
      runs.push(play(made, constants, state));
      const n = runs.length;
      if (n > 1) periods.push(apart(runs[n - 2], runs[n - 1]));
      const m = periods.length;
      if (n >= constants.fewest_repeats && m > 1 &&
          Math.abs(periods[m - 1] - periods[m - 2]) <= constants.period_tolerance * periods[m - 1]) {
        settled = true;
        break;
      }
    }
    const last = periods.slice(settled ? -1 : -8);
    const period = settled ? last[0] : Math.round(last.reduce((a, b) => a + b, 0) / last.length);
    return { ...made, period, stepNs: period / made.steps, before: runs[runs.length - 2],
      run: runs[runs.length - 1], settled };
  }

  function apart(earlier, later) {
    return later.starts[0] - earlier.starts[0];
  }

  // What the step cannot be shorter than, one reason at a time. Bytes: each weight once, and the
  // keys and values of every token; what kernels write for each other need not exist.
  function floors(settings, constants) {
    const { kernels: all, busy } = program({ ...settings, sync_every: 0 }, constants);
    const { query: q, keys: k, inner } = constants.proportions[settings.proportions];
    const width = settings.width, layer = width * width * (2 * q + 2 * k + 3 * inner);
    const weights = settings.layers * layer + width * constants.vocabulary;
    const cache = 2 * settings.layers * settings.batch * settings.context * width * k;
    const bytes = (weights + cache) * constants.bytes_per_number;
    const flops = all.reduce((sum, kernel) => sum + kernel.flops, 0);
    const launches = settings.graph ? constants.graph_launch_ns : all.length * settings.launch_ns;
    return {
      host: launches + constants.step_python_ns,
      device: busy + all.length * constants.node_gap_ns,
      bytes_read: bytes,
      bytes: bytes / settings.bandwidth_gb_s,
      flops: flops / constants.peak_flops_per_ns,
      kernels: all.length,
      busy,
    };
  }

  return { kernels, program, play, replay, floors, LAUNCH, WAIT, NEVER };
})();
if (typeof module !== "undefined") module.exports = Model;
