// Recorded signals over time: a chart for each quantity, all with the same time axis, joints and marks.
(function () {
  "use strict";
  var LIGHT = ["#0072B2", "#D55E00", "#009E73", "#AA4499", "#B07C00", "#2E93C9", "#1f2933", "#6b7785"];
  var DARK = ["#4da3dc", "#f0803c", "#2fbf95", "#d995b9", "#e0aa3a", "#8cc6ee", "#e6ebf0", "#98a5b3"];
  var DASH = { "": [], command: [6, 4], motor: [2, 3] };
  var HEIGHT = 190, MOST_JOINTS = 8;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function floats(text) {
    var raw = atob(text), bytes = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { bytes[i] = raw.charCodeAt(i); }
    return new Float32Array(bytes.buffer);
  }

  // uPlot draws a gap at null, and not at a number that is none.
  function numbers(text) { return Array.from(floats(text), function (x) { return isFinite(x) ? x : null; }); }

  function start(root) {
    var motions = JSON.parse(root.querySelector(".series-data").textContent), place = root.querySelector(".series-charts");
    var bar = root.querySelector(".series-bar"), select = bar.querySelector("select"), buttons = root.querySelector(".series-joints");
    var list = root.querySelector(".series-marks"), charts = [], motion = null, range = [0, 1], whole = [0, 1], hidden = new Set(), now = null, busy = false;
    bar.hidden = false;

    function colour(i) { var set = dark.matches ? DARK : LIGHT; return set[i % set.length]; }
    function names() { return Array.from(new Set(motion.signals.filter(atJoint).map(function (signal) { return signal.name; }))); }
    function atJoint(signal) { return signal.kind !== "sensor"; }
    function style(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

    // Bands and lines of findings lie behind the signals.
    function behind(u) {
      var c = u.ctx, box = u.bbox;
      c.save(); c.beginPath(); c.rect(box.left, box.top, box.width, box.height); c.clip();
      motion.marks.forEach(function (mark) {
        var a = u.valToPos(mark.start, "x", true), b = u.valToPos(mark.end, "x", true);
        c.fillStyle = style("--series-" + (mark.level === "note" ? "note" : "mark"));
        c.globalAlpha = mark.end > mark.start ? 0.22 : 0.8;
        c.fillRect(a, box.top, Math.max(b - a, 2), box.height);
      });
      c.restore();
    }
    function follow() {
      charts.forEach(function (chart) {
        var line = chart.over.querySelector(".series-now"), x = now === null ? -1 : chart.valToPos(now, "x");
        if (!line) { line = document.createElement("i"); line.className = "series-now"; chart.over.append(line); }
        line.hidden = x < 0 || x > chart.over.clientWidth; line.style.left = x + "px";
      });
    }

    function show(low, high) {
      var least = (whole[1] - whole[0]) * 1e-5 || 1e-6, width = Math.max(high - low, least);
      low = Math.max(whole[0], Math.min(low, whole[1] - width)); range = [low, Math.min(low + width, whole[1])];
      busy = true;
      charts.forEach(function (chart) { chart.setScale("x", { min: range[0], max: range[1] }); });
      busy = false;
      follow();
      root.dataset.from = String(range[0]); root.dataset.to = String(range[1]);
    }

    function axis(label, size) {
      return { label: label, size: size, labelSize: 18, gap: 4, stroke: style("--series-soft"), grid: { stroke: style("--series-grid"), width: 1 },
        ticks: { stroke: style("--series-grid"), width: 1 }, font: "11px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    }

    function draw() {
      charts.forEach(function (chart) { chart.destroy(); });
      charts = []; place.textContent = "";
      var groups = new Map(), joints = names();
      motion.signals.forEach(function (signal) {
        var key = signal.chart + (signal.unit ? ", " + signal.unit : "");
        if (!groups.has(key)) { groups.set(key, []); }
        groups.get(key).push(signal);
      });
      groups.forEach(function (signals, key) {
        var box = document.createElement("div"), head = document.createElement("h3");
        head.textContent = key; box.className = "series-chart"; box.append(head); place.append(box);
        var options = {
          width: Math.max(place.clientWidth, 200), height: HEIGHT, cursor: { sync: { key: "series" }, drag: { x: true, y: false }, points: { size: 5 } },
          scales: { x: { time: false } }, legend: { live: true }, padding: [6, 8, 0, 0],
          axes: [axis("time, s", 34), Object.assign(axis("", 56), { space: 26 })],
          series: [{ label: "time, s", value: function (u, x) { return x === null ? "–" : x.toFixed(4); } }].concat(signals.map(function (signal, i) {
            var joint = atJoint(signal);
            return { label: signal.name + (joint && signal.kind ? " " + signal.kind : ""), stroke: function () { return colour(joint ? joints.indexOf(signal.name) : i); }, width: 1.2,
              dash: DASH[signal.kind] || [], points: { show: false }, show: !joint || !hidden.has(signal.name), spanGaps: false, value: function (u, y) { return y === null || y === undefined ? "–" : y.toPrecision(5); } };
          })),
          hooks: { drawClear: [behind], setScale: [function (u, key) {
            if (!busy && key === "x" && charts.indexOf(u) >= 0) { show(u.scales.x.min, u.scales.x.max); }
          }] }
        };
        var chart = new uPlot(options, [motion.time].concat(signals.map(function (signal) { return signal.values; })), box);
        chart.over.addEventListener("dblclick", function () { show(whole[0], whole[1]); });
        charts.push(chart);
      });
      show(range[0], range[1]);
    }

    function choose(index) {
      motion = motions[index];
      if (!motion.time) {
        motion.time = Array.from(floats(motion.t));
        motion.signals.forEach(function (signal) { signal.values = numbers(signal.y); });
      }
      whole = [motion.time[0], motion.time[motion.time.length - 1]];
      range = whole.slice(); now = null;
      buttons.textContent = ""; hidden.clear();
      names().forEach(function (name, i) {
        if (i >= MOST_JOINTS) { hidden.add(name); }
        var button = document.createElement("button"), key = document.createElement("i");
        button.type = "button"; button.append(key, name); button.setAttribute("aria-pressed", String(!hidden.has(name))); key.style.background = colour(i);
        button.addEventListener("click", function () {
          if (!hidden.delete(name)) { hidden.add(name); }
          button.setAttribute("aria-pressed", String(!hidden.has(name)));
          draw();
        });
        buttons.append(button);
      });
      list.textContent = "";
      motion.marks.forEach(function (mark) {
        var item = document.createElement("li"), button = document.createElement("button");
        button.type = "button"; item.className = mark.level;
        button.textContent = mark.start.toFixed(2) + (mark.end > mark.start ? " to " + mark.end.toFixed(2) : "") + " s";
        button.addEventListener("click", function () {
          var pad = Math.max(mark.end - mark.start, (whole[1] - whole[0]) / 50); show(mark.start - pad, mark.end + pad);
        });
        item.append(button, " " + mark.text); list.append(item);
      });
      draw();
    }

    bar.addEventListener("click", function (event) {
      var act = event.target.dataset.act, width = range[1] - range[0], middle = (range[0] + range[1]) / 2;
      if (act === "in") { show(middle - width / 4, middle + width / 4); }
      if (act === "out") { show(middle - width, middle + width); }
      if (act === "back") { show(range[0] - width / 2, range[1] - width / 2); }
      if (act === "on") { show(range[0] + width / 2, range[1] + width / 2); }
      if (act === "all") { show(whole[0], whole[1]); }
    });
    select.addEventListener("change", function () { choose(Number(select.value)); });
    document.addEventListener("scene-time", function (event) {
      if (motion !== motions[0]) { return; }
      now = event.detail.t;
      follow();
    });
    dark.addEventListener("change", draw);
    var width = 0;
    new ResizeObserver(function () {
      if (Math.abs(place.clientWidth - width) < 2) { return; }
      width = place.clientWidth;
      charts.forEach(function (chart) { chart.setSize({ width: Math.max(width, 200), height: HEIGHT }); });
    }).observe(place);
    if (motions.length) { choose(0); }
  }

  document.querySelectorAll(".series").forEach(start);
})();
