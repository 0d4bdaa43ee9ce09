"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const HUGE = 1e99;
  const fields = ["gbps", "remote", "prefill", "decode", "threshold", "output", "load"];
  const input = {}, shown = {};
  for (const name of fields) {
    input[name] = document.getElementById("in-" + name);
    shown[name] = document.getElementById("at-" + name);
  }
  const auto = document.getElementById("in-auto");
  const planned = {};
  for (const name of fields) {
    planned[name] = { place: input[name].value, value: Number(input[name].dataset.exact || input[name].value) };
  }
  let exact = Object.assign({}, planned);

  // Sliders of bandwidth, threshold and output length move in equal ratios; a value that was planned or typed is kept.
  function valueOf(name) {
    const box = input[name];
    if (box.value === exact[name].place) return exact[name].value;
    if (!box.dataset.low) return Number(box.value);
    const low = Number(box.dataset.low), high = Number(box.dataset.high);
    return low * Math.pow(high / low, Number(box.value) / 1000);
  }
  function place(name, value) {
    const box = input[name];
    if (!box.dataset.low) return String(value);
    const low = Number(box.dataset.low), high = Number(box.dataset.high);
    return String(Math.round(1000 * Math.log(value / low) / Math.log(high / low)));
  }

  // Cumulative share, length and needs of requests up to a length: linear between the shipped lengths.
  function below(t) {
    const xs = data.lengths;
    let low = 0, high = xs.length - 1;
    if (t <= xs[0]) return data.below.map((c) => c[0]);
    if (t >= xs[high]) return data.below.map((c) => c[high]);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= t) low = middle; else high = middle;
    }
    const share = (t - xs[low]) / (xs[high] - xs[low]);
    return data.below.map((c) => c[low] + share * (c[high] - c[low]));
  }
  const all = data.below.map((c) => c[c.length - 1]);
  function curve(which, x) {
    const [breaks, pieces] = data.curves[which];
    let i = 0;
    while (i < breaks.length && x > breaks[i]) i += 1;
    const [c0, c1, c2] = pieces[i];
    return c0 + x * (c1 + x * c2);
  }

  function needs(t) {
    const at = below(t);
    const share = Math.max(0, all[0] - at[0]), short = at[0];
    const mean = { remote: all[2] - at[2], kv: all[3] - at[3], local: at[4] };
    let used = mean;
    if (data.atMean) {
      const long = share > 0 ? (all[1] - at[1]) / share : 0;
      const near = short > 0 ? at[1] / short : 0;
      used = {
        remote: share > 0 ? share * curve(0, long) : 0,
        kv: share > 0 ? share * curve(1, long) : 0,
        local: short > 0 ? short * curve(2, near) : 0,
      };
    }
    return { share, mean, used };
  }
  // Output tokens a second of one decode instance: shipped by output length where it depends on the context.
  function tokensPerSecond(output) {
    const rows = data.decodes, last = rows.length - 1;
    const rate = (row) => row[1] / row[2];
    if (!rows.length) return 0;
    if (output <= rows[0][0]) return rate(rows[0]);
    if (output >= rows[last][0]) return rate(rows[last]);
    const i = rows.findIndex((row) => row[0] >= output);
    const share = (output - rows[i - 1][0]) / (rows[i][0] - rows[i - 1][0]);
    return rate(rows[i - 1]) + share * (rate(rows[i]) - rate(rows[i - 1]));
  }
  const over = (resource, need) => (need > 0 ? resource / need : HUGE);

  function limits(s, t) {
    const n = needs(t);
    const link = s.gbps * data.usable * 1e9 / 8;
    return {
      n, link,
      far: over(s.remote, n.used.remote),
      wire: over(link, n.used.kv),
      near: over(s.prefill, n.used.local),
      decode: s.decode * tokensPerSecond(s.output) / s.output,
    };
  }

  function bestThreshold(s) {
    let low = data.lengths[0], high = data.lengths[data.lengths.length - 1];
    if (s.prefill < 1) return low;
    if (s.remote < 1) return high;
    for (let i = 0; i < 60; i += 1) {
      const middle = (low + high) / 2, l = limits(s, middle);
      if (Math.min(l.far, l.wire) >= l.near) high = middle; else low = middle;
    }
    return Math.round(high);
  }

  function evaluate(s) {
    const t = s.prefill < 1 ? data.lengths[0] : s.remote < 1 ? data.lengths[data.lengths.length - 1]
      : s.auto ? bestThreshold(s) : s.threshold;
    const l = limits(s, t);
    const parts = [["prefill at " + data.far, l.far], ["link", l.wire], ["prefill at " + data.home, l.near],
      ["decode at " + data.home, l.decode]];
    const rate = Math.min(...parts.map((p) => p[1]));
    const bound = parts.filter((p) => p[1] <= rate * 1.001).map((p) => p[0]).join(" and ");
    const used = rate * l.n.mean.kv / (1e9 / 8);
    const wire = l.link > 0 ? l.n.mean.kv / l.link : 0;
    const ttft = l.n.mean.remote + wire + l.n.share * data.delay + l.n.mean.local;
    let cost = null;
    if (data.prices[1] !== null && (data.prices[0] !== null || s.remote === 0)) {
      cost = s.remote * (data.prices[0] || 0) + (s.prefill + s.decode) * data.prices[1];
    }
    return { t, rate, bound, used, usable: s.gbps * data.usable, share: l.n.share, ttft, cost, parts };
  }

  function number(x, digits) {
    if (x === null || !isFinite(x)) return "–";
    return x.toLocaleString("en-US", { maximumSignificantDigits: digits || 4 });
  }
  function state() {
    const s = { auto: auto.checked };
    for (const name of fields) s[name] = valueOf(name);
    s.threshold = Math.round(s.threshold);
    s.output = Math.round(s.output);
    return s;
  }
  function isPlanned() {
    const fixed = ["gbps", "remote", "prefill", "decode", "output"].every((name) => valueOf(name) === planned[name].value);
    return fixed && auto.checked === auto.defaultChecked && (auto.checked || valueOf("threshold") === planned.threshold.value);
  }
  function queued(load) {
    const rows = data.loads;
    if (!isPlanned() || !rows.length) return null;
    if (load <= rows[0][0]) return rows[0];
    for (let i = 1; i < rows.length; i += 1) {
      if (load <= rows[i][0]) {
        const share = (load - rows[i - 1][0]) / (rows[i][0] - rows[i - 1][0]);
        return rows[i].map((v, k) => rows[i - 1][k] + share * (v - rows[i - 1][k]));
      }
    }
    return null;
  }

  function put(name, text, raw) {
    const cell = document.getElementById("out-" + name);
    cell.textContent = text;
    if (raw !== undefined) cell.dataset.value = String(raw);
  }
  function show() {
    const s = state(), r = evaluate(s), load = s.load / 100;
    shown.gbps.textContent = number(s.gbps) + " Gbit/s";
    shown.remote.textContent = s.remote;
    shown.prefill.textContent = s.prefill;
    shown.decode.textContent = s.decode;
    const routed = s.prefill > 0 && s.remote > 0;
    shown.threshold.textContent = s.auto ? "best" : s.threshold.toLocaleString("en-US") + " tokens";
    shown.output.textContent = s.output.toLocaleString("en-US") + " tokens";
    shown.load.textContent = number(s.load) + " %";
    input.threshold.disabled = s.auto;
    put("rate", number(r.rate) + " req/s", r.rate);
    put("threshold", routed ? Math.round(r.t).toLocaleString("en-US") + " tokens" : "–", routed ? r.t : "");
    put("bound", r.bound || "–", r.bound);
    put("share", number(100 * r.share, 3) + " %", r.share);
    put("used", number(load * r.used) + " of " + number(r.usable) + " Gbit/s", load * r.used);
    put("offered", number(load * r.rate) + " req/s", load * r.rate);
    put("pools", r.parts.filter((p) => p[1] < HUGE && p[0] !== "link")
      .map((p) => p[0] + " " + number(100 * load * r.rate / p[1], 3) + " %").join(", "), "");
    put("ttft", number(r.ttft, 3) + " s", r.ttft);
    const waiting = queued(load);
    put("queued", waiting ? number(waiting[1], 3) + " s, p90 " + number(waiting[2], 3) + " s" : "for the planned fleet only", waiting ? waiting[1] : "");
    put("cost", r.cost === null ? "–" : number(r.cost) + " USD/h", r.cost === null ? "" : r.cost);
    const tokens = r.rate * s.output * 3600 / 1e6;
    put("million", r.cost === null ? "–" : number(r.cost / tokens, 3) + " USD", r.cost === null ? "" : r.cost / tokens);
  }

  // Values after # in the address set the sliders: page.html#gbps=10&remote=5
  function fromAddress() {
    for (const part of location.hash.slice(1).split("&")) {
      const [name, value] = part.split("=");
      if (name === "auto") auto.checked = value !== "0";
      else if (fields.includes(name) && isFinite(Number(value)) && value !== "") {
        input[name].value = place(name, Number(value));
        exact[name] = { place: input[name].value, value: Number(value) };
        if (name === "threshold") auto.checked = false;
      }
    }
  }
  fromAddress();
  document.getElementById("reset").addEventListener("click", function () {
    for (const name of fields) input[name].value = planned[name].place;
    exact = Object.assign({}, planned);
    auto.checked = auto.defaultChecked;
    show();
  });
  for (const name of fields) input[name].addEventListener("input", show);
  auto.addEventListener("change", show);
  show();
})();
