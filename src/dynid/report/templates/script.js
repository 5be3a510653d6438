(function () {
  "use strict";
  var drawn = JSON.parse(document.getElementById("figure-data").textContent);
  var figures = drawn.figures;
  var darkColors = drawn.dark;
  var darkScreen = window.matchMedia("(prefers-color-scheme: dark)");
  var root = document.documentElement;
  var plots = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  // On paper panels stand in two columns, all other figures in one.
  function printWidth(plot) { return plot.closest(".panels") ? 336 : 700; }
  var printScale = 0.8;
  var zoom = {};
  var busy = false;
  root.classList.add("js");

  var config = {
    displaylogo: false, responsive: false, plotlyServerURL: "", doubleClick: "reset",
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    toImageButtonOptions: { format: "svg" }
  };

  function floats(array) {
    var text = atob(array.bdata);
    var bytes = new Uint8Array(text.length);
    for (var i = 0; i < text.length; i++) { bytes[i] = text.charCodeAt(i); }
    return new Float32Array(bytes.buffer);
  }

  // The outline of middle +- half, one closed piece for each run between gaps.
  function outline(x, middle, half) {
    var across = [], along = [], i = 0;
    function usual(k) { return isFinite(x[k]) && isFinite(half[k]) && (!middle || isFinite(middle[k])); }
    while (i < x.length) {
      if (!usual(i)) { i++; continue; }
      var first = i, k;
      while (i < x.length && usual(i)) { i++; }
      for (k = first; k < i; k++) { across.push(x[k]); along.push((middle ? middle[k] : 0) + half[k]); }
      for (k = i - 1; k >= first; k--) { across.push(x[k]); along.push((middle ? middle[k] : 0) - half[k]); }
      across.push(null);
      along.push(null);
    }
    return { x: across, y: along };
  }

  // Arrays that several traces of a figure share are put in their places.
  function complete(figure) {
    var known = {};
    function array(name) {
      if (!name) { return null; }
      known[name] = known[name] || floats(figure.arrays[name]);
      return known[name];
    }
    figure.data.forEach(function (trace) {
      var shared = trace.shared;
      if (!shared) { return; }
      delete trace.shared;
      trace.x = array(shared.x);
      if (shared.half) {
        var edges = outline(trace.x, array(shared.around), array(shared.half));
        trace.x = edges.x;
        trace.y = edges.y;
        return;
      }
      var less = array(shared.less);
      trace.y = less ? array(shared.y).map(function (value, i) { return value - less[i]; }) : array(shared.y);
    });
  }

  function isDark() { return darkScreen.matches && !root.classList.contains("printing"); }

  // The same with the colours of a dark ground.
  function themed(value) {
    if (typeof value === "string") { return Object.hasOwn(darkColors, value) ? darkColors[value] : value; }
    if (Array.isArray(value)) { return value.length && typeof value[0] === "number" ? value : value.map(themed); }
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) { return value; }
    var made = {};
    Object.keys(value).forEach(function (key) { made[key] = key === "bdata" ? value[key] : themed(value[key]); });
    return made;
  }

  function visible(element) { return element.offsetParent !== null && !element.closest("details:not([open])"); }

  function rangeOf(change) {
    var keys = Object.keys(change);
    for (var i = 0; i < keys.length; i++) {
      if (/^xaxis\.autorange$/.test(keys[i])) { return "auto"; }
      if (/^xaxis\.range$/.test(keys[i])) { return change[keys[i]].slice(); }
    }
    return "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null;
  }

  function zoomed(range) {
    return range === "auto" ? { "xaxis.autorange": true } : { "xaxis.range": range.slice() };
  }

  function follow(source, sync, change) {
    var range = rangeOf(change);
    if (busy || range === null) { return; }
    busy = true;
    zoom[sync] = range;
    var others = plots.filter(function (plot) {
      return plot !== source && plot.dataset.drawn && figures[plot.id].sync === sync;
    });
    Promise.all(others.map(function (plot) { return Plotly.relayout(plot, zoomed(range)); }))
      .then(function () { busy = false; }, function () { busy = false; });
  }

  function draw(plot, width, scale) {
    var figure = figures[plot.id];
    if (!figure || width < 50) { return; }
    figure.height = figure.height || figure.layout.height;
    var height = Math.round(figure.height * scale);
    plot.style.height = height + "px";
    var theme = isDark() ? "dark" : "light";
    if (plot.dataset.drawn && plot.dataset.drawn !== theme) {
      Plotly.purge(plot);
      delete plot.dataset.drawn;
    }
    if (plot.dataset.drawn) {
      var now = plot._fullLayout;
      if (Math.abs(now.width - width) > 1 || now.height !== height) {
        Plotly.relayout(plot, { width: width, height: height });
      }
      return;
    }
    if (figure.arrays) { complete(figure); delete figure.arrays; }
    plot.dataset.drawn = theme;
    var layout = isDark() ? themed(figure.layout) : JSON.parse(JSON.stringify(figure.layout));
    layout.width = width;
    layout.height = height;
    if (figure.sync && Array.isArray(zoom[figure.sync])) { layout.xaxis.range = zoom[figure.sync].slice(); }
    Plotly.newPlot(plot, isDark() ? themed(figure.data) : figure.data, layout, config);
    if (figure.sync) { plot.on("plotly_relayout", function (change) { follow(plot, figure.sync, change); }); }
  }

  function drawVisible(element) {
    if (root.classList.contains("printing")) { draw(element, printWidth(element), printScale); return; }
    if (visible(element)) { draw(element, element.clientWidth, 1); }
  }

  // A line in every figure that follows a moving robot, at its time.
  document.addEventListener("scene-time", function (event) {
    var axis = event.target.dataset.follows;
    plots.forEach(function (plot) {
      if (!axis || !plot.dataset.drawn || figures[plot.id].sync !== axis) { return; }
      var layout = plot._fullLayout, x = layout.xaxis, now = plot.querySelector(".now");
      if (!now) { now = document.createElement("i"); now.className = "now"; plot.append(now); }
      var at = x.l2p(event.detail.t);
      now.style.display = at >= 0 && at <= x._length ? "block" : "none";
      now.style.left = (x._offset + at) + "px";
      now.style.top = layout.margin.t + "px";
      now.style.height = (layout.height - layout.margin.t - layout.margin.b) + "px";
    });
  });

  plots.forEach(function (plot) {
    if (plot.getBoundingClientRect().top < window.innerHeight + 300) { drawVisible(plot); }
  });
  if ("IntersectionObserver" in window) {
    var observer = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { drawVisible(entry.target); }
      });
    }, { rootMargin: "1200px 0px" });
    plots.forEach(function (plot) { observer.observe(plot); });
  } else {
    plots.forEach(drawVisible);
  }

  document.querySelectorAll(".tabs").forEach(function (tabs) {
    var buttons = Array.prototype.slice.call(tabs.querySelectorAll(".tab"));
    var panels = Array.prototype.slice.call(tabs.querySelectorAll(".tabpanel"));
    function show(index) {
      buttons.forEach(function (button, i) {
        button.classList.toggle("active", i === index);
        button.setAttribute("aria-selected", i === index ? "true" : "false");
        button.tabIndex = i === index ? 0 : -1;
        panels[i].classList.toggle("active", i === index);
      });
    }
    buttons.forEach(function (button, i) {
      button.addEventListener("click", function () { show(i); });
      button.addEventListener("keydown", function (event) {
        var step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (step) { var next = (i + step + buttons.length) % buttons.length; show(next); buttons[next].focus(); }
      });
    });
  });

  // The folded place of an address opens, and so does everything around it.
  function unfold() {
    var name = decodeURIComponent(location.hash.slice(1)), target = name && document.getElementById(name);
    if (!target) { return; }
    var inner = target.querySelector(":scope > details");
    if (inner) { inner.open = true; }
    for (var outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) { outer.open = true; }
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  // A link to the address that is shown already changes no address.
  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) { unfold(); }
  });
  unfold();

  var links = Array.prototype.slice.call(document.querySelectorAll(".contents a"));
  function mark() {
    var here = links[0];
    links.forEach(function (link) {
      var section = document.getElementById(link.getAttribute("href").slice(1));
      if (section && section.getBoundingClientRect().top < 160) { here = link; }
    });
    links.forEach(function (link) { link.classList.toggle("here", link === here); });
  }
  window.addEventListener("scroll", mark, { passive: true });
  mark();

  darkScreen.addEventListener("change", function () {
    plots.forEach(function (plot) { if (plot.dataset.drawn) { drawVisible(plot); } });
  });

  document.querySelectorAll(".copy").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var code = button.parentElement.querySelector("code");
      var range = document.createRange();
      range.selectNodeContents(code);
      var selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      function done() {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy"; selection.removeAllRanges(); }, 1500);
      }
      // A file that was opened from a disk may not have the newer way.
      if (navigator.clipboard && window.isSecureContext) {
        navigator.clipboard.writeText(code.textContent).then(done, function () { if (document.execCommand("copy")) { done(); } });
      } else if (document.execCommand("copy")) { done(); }
    });
  });

  var waiting = null;
  window.addEventListener("resize", function () {
    if (root.classList.contains("printing")) { return; }
    clearTimeout(waiting);
    waiting = setTimeout(function () {
      plots.forEach(function (plot) { if (plot.dataset.drawn) { drawVisible(plot); } });
    }, 150);
  });

  var opened = [];
  window.addEventListener("beforeprint", function () {
    root.classList.add("printing");
    opened = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    opened.forEach(function (details) { details.open = true; });
    plots.forEach(function (plot) { draw(plot, printWidth(plot), printScale); });
  });
  window.addEventListener("afterprint", function () {
    root.classList.remove("printing");
    opened.forEach(function (details) { details.open = false; });
    plots.forEach(function (plot) {
      if (visible(plot)) { drawVisible(plot); } else { plot.style.height = figures[plot.id].height + "px"; }
    });
  });
})();
