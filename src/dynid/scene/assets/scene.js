// Draws robots from triangles with a depth buffer, in the processor alone: the same picture with or without WebGL.
(function () {
  "use strict";
  var PIXELS_MOVING = 5e5, PIXELS_STILL = 2e6, SETTLE_MS = 160, CREASE = Math.cos(40 * Math.PI / 180);
  var NEAR = 0.01, FIELD = 1.95, FILLED = 0.46, AMBIENT = 0.34, LIGHT = unit([-0.4, 0.55, -0.75]);
  var calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function unit(v) { var l = Math.hypot(v[0], v[1], v[2]) || 1; return [v[0] / l, v[1] / l, v[2] / l]; }
  function cross(a, b) { return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]; }
  function dot(a, b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
  function decode(text, Kind) {
    var raw = atob(text), bytes = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { bytes[i] = raw.charCodeAt(i); }
    return new Kind(bytes.buffer);
  }

  // ---- parts: vertices in metres, triangles, a normal for each corner (sharp edges stay sharp)

  function partsOf(data) {
    var vertices = decode(data.vertices, Uint16Array), triangles = decode(data.triangles, Uint16Array), v = 0, t = 0;
    return data.parts.map(function (part) {
      var x = new Float32Array(3 * part.v), faces = triangles.subarray(t, t + 3 * part.t);
      for (var i = 0; i < x.length; i++) { x[i] = part.low[i % 3] + vertices[v + i] * part.step[i % 3]; }
      v += 3 * part.v; t += 3 * part.t;
      return { body: part.body + 1, link: part.link, x: x, faces: faces, normals: normalsOf(x, faces) };
    });
  }

  // At each corner the mean of the faces round its vertex that are not beyond an edge.
  function normalsOf(x, faces) {
    var own = new Float32Array(faces.length), flat = new Float32Array(faces.length), made = new Float32Array(3 * faces.length);
    var first = new Uint32Array(x.length / 3 + 1), around = new Uint32Array(faces.length), f, k, i, n;
    for (f = 0; f < faces.length; f += 3) {
      var a = 3 * faces[f], b = 3 * faces[f + 1], c = 3 * faces[f + 2];
      n = cross([x[b] - x[a], x[b + 1] - x[a + 1], x[b + 2] - x[a + 2]], [x[c] - x[a], x[c + 1] - x[a + 1], x[c + 2] - x[a + 2]]);
      own.set(n, f); flat.set(unit(n), f);
      for (k = 0; k < 3; k++) { first[faces[f + k] + 1]++; }
    }
    for (i = 1; i < first.length; i++) { first[i] += first[i - 1]; }
    var next = first.slice();
    for (f = 0; f < faces.length; f++) { around[next[faces[f]]++] = f - f % 3; }
    for (f = 0; f < faces.length; f++) {
      var face = f - f % 3, sum = [0, 0, 0], vertex = faces[f];
      for (i = first[vertex]; i < first[vertex + 1]; i++) {
        k = around[i];
        if (flat[k] * flat[face] + flat[k + 1] * flat[face + 1] + flat[k + 2] * flat[face + 2] > CREASE) {
          sum[0] += own[k]; sum[1] += own[k + 1]; sum[2] += own[k + 2];
        }
      }
      made.set(unit(sum), 3 * f);
    }
    return made;
  }

  // ---- forward kinematics: [R row by row, p] of the base and of every body

  function placements(tree, q) {
    var found = [[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]];
    tree.parent.forEach(function (parent, i) {
      var value = tree.offset[i], a = tree.axis[i], T = tree.placement[i], local;
      tree.projection[i].forEach(function (share, j) { value += share * q[j]; });
      if (tree.prismatic[i]) {
        local = [1, 0, 0, 0, 1, 0, 0, 0, 1, a[0] * value, a[1] * value, a[2] * value];
      } else {
        var s = Math.sin(value), c = Math.cos(value), d = 1 - c;
        local = [c + a[0] * a[0] * d, a[0] * a[1] * d - a[2] * s, a[0] * a[2] * d + a[1] * s,
          a[1] * a[0] * d + a[2] * s, c + a[1] * a[1] * d, a[1] * a[2] * d - a[0] * s,
          a[2] * a[0] * d - a[1] * s, a[2] * a[1] * d + a[0] * s, c + a[2] * a[2] * d, 0, 0, 0];
      }
      found.push(product(product(found[parent + 1], T), local));
    });
    return found;
  }

  function product(A, B) {
    var C = new Array(12);
    for (var i = 0; i < 3; i++) {
      for (var j = 0; j < 3; j++) { C[3 * i + j] = A[3 * i] * B[j] + A[3 * i + 1] * B[3 + j] + A[3 * i + 2] * B[6 + j]; }
      C[9 + i] = A[3 * i] * B[9] + A[3 * i + 1] * B[10] + A[3 * i + 2] * B[11] + A[9 + i];
    }
    return C;
  }

  // ---- the picture

  function Picture(data) {
    this.parts = partsOf(data);
    this.shades = data.links.map(function (link) { return shadesOf(link.colour); });
    this.canvas = document.createElement("canvas");
    this.most = Math.max.apply(null, this.parts.map(function (part) { return part.x.length; }).concat(3));
    this.screen = new Float32Array(this.most);
  }

  function shadesOf(colour) {
    var made = new Uint32Array(256), rgb = [1, 3, 5].map(function (i) { return parseInt(colour.slice(i, i + 2), 16); });
    for (var k = 0; k < 256; k++) {
      var bright = Math.max(0, k - 215) * 1.2;
      made[k] = 0xff000000 | channel(rgb[2]) << 16 | channel(rgb[1]) << 8 | channel(rgb[0]);
    }
    function channel(c) { return Math.min(255, Math.round(c * k / 225 + bright)); }
    return made;
  }

  Picture.prototype.draw = function (camera, poses, width, height) {
    if (this.width !== width || this.height !== height) {
      this.width = this.canvas.width = width; this.height = this.canvas.height = height;
      this.context = this.canvas.getContext("2d");
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.depth = new Float32Array(width * height);
      this.owner = new Uint16Array(width * height);
    }
    this.pixels.fill(0); this.depth.fill(0); this.owner.fill(0);
    this.parts.forEach(function (part) { this.part(part, camera, poses[part.body]); }, this);
    this.context.putImageData(this.image, 0, 0);
  };

  Picture.prototype.part = function (part, camera, pose) {
    var M = product([].concat(camera.right, camera.up, camera.ahead, [0, 0, 0]), [pose[0], pose[1], pose[2], pose[3], pose[4], pose[5],
      pose[6], pose[7], pose[8], pose[9] - camera.eye[0], pose[10] - camera.eye[1], pose[11] - camera.eye[2]]);
    var x = part.x, n = part.normals, faces = part.faces, s = this.screen, F = camera.zoom, cx = this.width / 2, cy = this.height / 2;
    var shades = this.shades[part.link], lx, ly, lz, i;
    for (i = 0; i < x.length; i += 3) {
      var z = M[6] * x[i] + M[7] * x[i + 1] + M[8] * x[i + 2] + M[11], w = z > NEAR ? 1 / z : 0;
      s[i] = cx + F * w * (M[0] * x[i] + M[1] * x[i + 1] + M[2] * x[i + 2] + M[9]);
      s[i + 1] = cy - F * w * (M[3] * x[i] + M[4] * x[i + 1] + M[5] * x[i + 2] + M[10]);
      s[i + 2] = w;
    }
    lx = M[0] * LIGHT[0] + M[3] * LIGHT[1] + M[6] * LIGHT[2];
    ly = M[1] * LIGHT[0] + M[4] * LIGHT[1] + M[7] * LIGHT[2];
    lz = M[2] * LIGHT[0] + M[5] * LIGHT[1] + M[8] * LIGHT[2];
    function light(k) { return 255 * (AMBIENT + (1 - AMBIENT) * Math.abs(n[k] * lx + n[k + 1] * ly + n[k + 2] * lz)); }
    for (i = 0; i < faces.length; i += 3) {
      var a = 3 * faces[i], b = 3 * faces[i + 1], c = 3 * faces[i + 2];
      if (s[a + 2] && s[b + 2] && s[c + 2]) { this.triangle(s, a, b, c, light(3 * i), light(3 * i + 3), light(3 * i + 6), shades, part.link + 1); }
    }
  };

  Picture.prototype.triangle = function (s, a, b, c, la, lb, lc, shades, owner) {
    var width = this.width, ax = s[a], ay = s[a + 1], bx = s[b], by = s[b + 1], cx = s[c], cy = s[c + 1];
    var area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
    if (Math.abs(area) < 1e-6) { return; }
    var x0 = Math.max(0, Math.ceil(Math.min(ax, bx, cx) - 0.5)), x1 = Math.min(width - 1, Math.floor(Math.max(ax, bx, cx) - 0.5));
    var y0 = Math.max(0, Math.ceil(Math.min(ay, by, cy) - 0.5)), y1 = Math.min(this.height - 1, Math.floor(Math.max(ay, by, cy) - 0.5));
    if (x0 > x1 || y0 > y1) { return; }
    // Barycentric coordinates of b and c, and what they and all that is linear grow by from pixel to pixel.
    var ub = (cy - ay) / area, vb = (ax - cx) / area, uc = (ay - by) / area, vc = (bx - ax) / area;
    var dz = (s[b + 2] - s[a + 2]) * ub + (s[c + 2] - s[a + 2]) * uc, dl = (lb - la) * ub + (lc - la) * uc;
    var pixels = this.pixels, depth = this.depth, owners = this.owner;
    for (var y = y0; y <= y1; y++) {
      var px = x0 + 0.5 - ax, py = y + 0.5 - ay, wb = px * ub + py * vb, wc = px * uc + py * vc;
      var z = s[a + 2] + (s[b + 2] - s[a + 2]) * wb + (s[c + 2] - s[a + 2]) * wc, l = la + (lb - la) * wb + (lc - la) * wc;
      for (var at = y * width + x0, end = y * width + x1; at <= end; at++) {
        if (wb >= -1e-6 && wc >= -1e-6 && wb + wc <= 1.000001 && z > depth[at]) {
          depth[at] = z; pixels[at] = shades[l < 0 ? 0 : l > 255 ? 255 : l | 0]; owners[at] = owner;
        }
        wb += ub; wc += uc; z += dz; l += dl;
      }
    }
  };

  // ---- one scene of a page

  function start(root) {
    var data = JSON.parse(root.querySelector("script.scene-data").textContent);
    var canvas = root.querySelector("canvas"), context = canvas.getContext("2d"), picture = new Picture(data);
    var said = root.querySelector(".scene-said"), bar = root.querySelector(".scene-bar"), tree = data.tree;
    var play = bar.querySelector("[data-act=play]"), slider = bar.querySelector("input"), clock = bar.querySelector("output"), speed = bar.querySelector("select");
    var moves = data.motion ? decode(data.motion.q, Float32Array) : new Float32Array(0), n = data.joints.length, frames = moves.length / Math.max(n, 1);
    var up = unit(data.up), view, time = 0, q = data.home.slice(), playing = false, last = 0, asked = 0, settle = 0, fine = false, seen = true, poses = null;
    var length = frames > 1 ? (frames - 1) * data.motion.step : 0, sliders = [];
    root.classList.add("live");

    // The camera keeps the whole motion in the picture until the reader moves it.
    function reset() { view = { turn: 0.9, rise: 0.42, distance: data.radius, target: data.centre.slice(), fits: true }; }
    reset();

    // The nearest camera that sees all: a point at (x, z) is seen from the distance d if |x - c| a <= d + z, so that the
    // best middle c and distance d follow from the largest x a - z and -x a - z.
    function fit(width, height) {
      view.target = data.centre.slice(); view.distance = 0.1 * data.radius;
      var cam = camera(width, height), shift = [[cam.right, width], [cam.up, height]].map(function (side) {
        var a = cam.zoom / (FILLED * side[1]), right = -Infinity, left = -Infinity;
        data.outermost.forEach(function (point) {
          var d = point.map(function (value, k) { return value - view.target[k]; }), x = dot(d, side[0]) * a, z = dot(d, cam.ahead);
          right = Math.max(right, x - z); left = Math.max(left, -x - z);
        });
        view.distance = Math.max(view.distance, (right + left) / 2);
        return (right - left) / (2 * a);
      });
      view.target = view.target.map(function (t, k) { return t + shift[0] * cam.right[k] + shift[1] * cam.up[k]; });
    }

    function camera(width, height) {
      var side = Math.abs(up[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0], e = unit(cross(up, side)), g = cross(e, up), c = Math.cos(view.rise);
      var out = [0, 1, 2].map(function (k) { return c * Math.cos(view.turn) * g[k] + c * Math.sin(view.turn) * e[k] + Math.sin(view.rise) * up[k]; });
      var ahead = out.map(function (v) { return -v; }), right = unit(cross(ahead, up)), above = cross(right, ahead);
      return { right: right, up: above, ahead: ahead, zoom: 0.5 * FIELD * Math.min(height, width),
        eye: view.target.map(function (t, k) { return t + view.distance * out[k]; }) };
    }

    function project(cam, x, width, height) {
      var d = [x[0] - cam.eye[0], x[1] - cam.eye[1], x[2] - cam.eye[2]], z = dot(d, cam.ahead);
      return z > NEAR ? [width / 2 + cam.zoom * dot(d, cam.right) / z, height / 2 - cam.zoom * dot(d, cam.up) / z] : null;
    }

    function lines(cam, width, height, scale) {
      var style = getComputedStyle(root);
      function stroke(list, colour, wide) {
        context.strokeStyle = style.getPropertyValue(colour) || "#888"; context.lineWidth = wide * scale; context.beginPath();
        list.forEach(function (line) {
          var a = project(cam, line.slice(0, 3), width, height), b = project(cam, line.slice(3), width, height);
          if (a && b) { context.moveTo(a[0], a[1]); context.lineTo(b[0], b[1]); }
        });
        context.stroke();
      }
      stroke(data.grid, "--scene-grid", 1);
      stroke(data.lines, "--scene-line", 1.5);
      context.font = Math.round(11 * scale) + "px system-ui, sans-serif"; context.lineWidth = 2 * scale;
      ["x", "y", "z"].forEach(function (name, k) {
        var r = 22 * scale, x = 34 * scale, y = height - 30 * scale, dx = cam.right[k] * r, dy = -cam.up[k] * r, colour = ["#d0453a", "#2f9e4f", "#3b76d6"][k];
        context.strokeStyle = context.fillStyle = colour; context.beginPath(); context.moveTo(x, y); context.lineTo(x + dx, y + dy); context.stroke();
        context.fillText(name, x + 1.25 * dx - 3 * scale, y + 1.25 * dy + 4 * scale);
      });
    }

    function render(still) {
      var box = canvas.getBoundingClientRect(), wide = box.width, high = box.height;
      if (wide < 20 || high < 20) { return; }
      var ratio = still ? Math.max(2, window.devicePixelRatio || 1) : window.devicePixelRatio || 1;
      ratio = Math.min(ratio, Math.sqrt((still ? PIXELS_STILL : PIXELS_MOVING) / (wide * high)));
      var width = Math.round(wide * ratio), height = Math.round(high * ratio);
      if (view.fits) { fit(width, height); }
      var cam = camera(width, height);
      if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
      poses = placements(tree, q);
      picture.draw(cam, poses, width, height);
      context.clearRect(0, 0, width, height);
      lines(cam, width, height, ratio);
      context.drawImage(picture.canvas, 0, 0);
    }

    function ask() {
      clearTimeout(settle);
      fine = false;
      if (!asked) { asked = requestAnimationFrame(function (now) { asked = 0; step(now); }); }
      settle = setTimeout(function () { if (!playing) { render(true); fine = true; } }, SETTLE_MS);
    }

    function step(now) {
      if (playing) {
        if (last) { time += Math.min(now - last, 250) / 1000 * Number(speed.value); }
        last = now;
        if (time > length) { time = calm.matches ? length : time % length; if (calm.matches) { run(false); } }
        at(time);
      }
      if (seen) { render(false); }
      if (playing) { ask(); }
    }

    function at(seconds) {
      var x = Math.max(0, Math.min(seconds, length)) / data.motion.step, i = Math.min(Math.floor(x), frames - 2), share = x - i;
      time = seconds;
      for (var j = 0; j < n; j++) { q[j] = moves[i * n + j] * (1 - share) + moves[(i + 1) * n + j] * share; }
      slider.value = String(seconds);
      clock.textContent = seconds.toFixed(2) + " s";
      slider.setAttribute("aria-valuetext", clock.textContent);
      shown();
      root.dispatchEvent(new CustomEvent("scene-time", { detail: { t: seconds }, bubbles: true }));
    }

    function run(on) {
      playing = on && length > 0; last = 0;
      play.textContent = playing ? "Pause" : "Play";
      play.setAttribute("aria-pressed", playing ? "true" : "false");
      ask();
    }

    // ---- joints

    function shown() {
      sliders.forEach(function (one, j) {
        one.input.value = String(q[j]);
        one.value.textContent = data.joints[j].slides ? (1000 * q[j]).toFixed(1) + " mm" : (q[j] * 180 / Math.PI).toFixed(1) + "°";
      });
    }
    var table = root.querySelector(".scene-sliders");
    data.joints.forEach(function (joint, j) {
      var row = document.createElement("label"), name = document.createElement("span"), input = document.createElement("input"), value = document.createElement("output");
      name.textContent = joint.name; input.type = "range"; input.min = String(joint.lower); input.max = String(joint.upper); input.step = "any";
      input.setAttribute("aria-label", "position of " + joint.name);
      input.addEventListener("input", function () { run(false); q[j] = Number(input.value); shown(); ask(); });
      row.append(name, input, value); table.append(row); sliders.push({ input: input, value: value });
    });
    shown();

    // ---- hands

    var pointers = new Map(), pinch = 0;
    canvas.addEventListener("pointerdown", function (event) { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, [event.clientX, event.clientY]); pinch = 0; });
    ["pointerup", "pointercancel"].forEach(function (name) { canvas.addEventListener(name, function (event) { pointers.delete(event.pointerId); pinch = 0; }); });
    canvas.addEventListener("pointermove", function (event) {
      var before = pointers.get(event.pointerId);
      if (!before) { point(event); return; }
      var dx = event.clientX - before[0], dy = event.clientY - before[1];
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      if (pointers.size === 2) {
        var ends = Array.from(pointers.values()), apart = Math.hypot(ends[0][0] - ends[1][0], ends[0][1] - ends[1][1]);
        if (pinch) { zoom(pinch / apart); }
        pinch = apart; pan(dx / 2, dy / 2);
      } else if (event.shiftKey || event.buttons === 2) { pan(dx, dy); } else { orbit(-0.008 * dx, 0.008 * dy); }
    });
    canvas.addEventListener("pointerleave", function () { said.textContent = data.hint; });
    canvas.addEventListener("contextmenu", function (event) { event.preventDefault(); });
    canvas.addEventListener("dblclick", function () { reset(); ask(); });
    canvas.addEventListener("wheel", function (event) {
      // A report scrolls on; its scenes zoom when they are in use.
      if (!(data.full || event.ctrlKey || document.activeElement === canvas)) { return; }
      event.preventDefault(); zoom(Math.exp(0.0012 * event.deltaY));
    }, { passive: false });
    canvas.addEventListener("keydown", function (event) {
      var turn = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      if (event.altKey || event.metaKey || event.ctrlKey) { return; }
      if (turn && event.shiftKey) { pan(-150 * turn[0], 150 * turn[1]); } else if (turn) { orbit(turn[0], turn[1]); }
      else if (event.key === "+" || event.key === "=") { zoom(0.88); } else if (event.key === "-") { zoom(1.14); }
      else if (event.key === "Home" || event.key === "0") { reset(); ask(); }
      else if (event.key === " " && length) { run(!playing); }
      else if ((event.key === "," || event.key === ".") && length) { run(false); at(Math.max(0, Math.min(length, time + (event.key === "." ? 1 : -1) * data.motion.step))); ask(); }
      else { return; }
      event.preventDefault();
    });
    function orbit(turn, rise) { view.fits = false; view.turn += turn; view.rise = Math.max(-1.5, Math.min(1.5, view.rise + rise)); ask(); }
    function zoom(factor) { view.fits = false; view.distance = Math.max(0.15 * data.radius, Math.min(12 * data.radius, view.distance * factor)); ask(); }
    function pan(dx, dy) {
      view.fits = false;
      var cam = camera(1, 1), scale = view.distance / Math.max(canvas.clientHeight, 1);
      view.target = view.target.map(function (t, k) { return t - scale * (dx * cam.right[k] - dy * cam.up[k]); });
      ask();
    }
    function point(event) {
      if (!picture.owner) { return; }
      var box = canvas.getBoundingClientRect(), x = Math.floor((event.clientX - box.left) / box.width * picture.width), y = Math.floor((event.clientY - box.top) / box.height * picture.height);
      var link = data.links[(picture.owner[y * picture.width + x] || 0) - 1];
      said.textContent = link ? link.name + (link.said ? ": " + link.said : "") : data.hint;
    }

    bar.addEventListener("click", function (event) {
      var act = event.target.dataset && event.target.dataset.act;
      if (act === "play") { run(!playing); return; }
      var sides = { front: [0, 0.08], side: [Math.PI / 2, 0.08], top: [0, 1.5] };
      if (!act) { return; }
      reset();
      if (sides[act]) { view.turn = sides[act][0]; view.rise = sides[act][1]; }
      ask();
    });
    slider.addEventListener("input", function () { run(false); at(Number(slider.value)); ask(); });
    root.addEventListener("scene-seek", function (event) { if (length) { run(false); at(event.detail.t); ask(); } });
    if (length) { slider.max = String(length); slider.step = String(data.motion.step); } else { bar.classList.add("motionless"); }
    bar.hidden = false;
    said.textContent = data.hint;
    if ("ResizeObserver" in window) { new ResizeObserver(ask).observe(canvas); }
    if ("IntersectionObserver" in window) {
      new IntersectionObserver(function (entries) { seen = entries[entries.length - 1].isIntersecting; if (seen) { ask(); } }).observe(canvas);
    }
    dark.addEventListener("change", ask);
    // For tests, and for pages that follow the robot.
    root.scene = { placements: function () { return placements(tree, q); }, seek: function (t) { run(false); at(t); render(true); },
      still: function () { return fine; } };
    if (length) { at(0); }
    run(length > 0 && data.full && !calm.matches);
  }

  document.querySelectorAll(".scene").forEach(start);
})();
