(function () {
  "use strict";
  var csrf = document.querySelector('meta[name="csrf"]').content;
  var asked = 700; // ms between two requests for the state of a job
  function all(selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); }
  function make(name, text) { var made = document.createElement(name); if (text) { made.textContent = text; } return made; }

  // Copying: by the browser's clipboard if it is available, else select the text.
  all(".copy").forEach(function (button) {
    button.addEventListener("click", function () {
      function done() { button.textContent = "Copied"; setTimeout(function () { button.textContent = "Copy"; }, 1500); }
      function by_hand() { getSelection().selectAllChildren(button.parentElement.querySelector("code")); }
      if (navigator.clipboard) { navigator.clipboard.writeText(button.dataset.copy).then(done, by_hand); } else { by_hand(); }
    });
  });

  all("[data-submit]").forEach(function (field) { field.addEventListener("change", function () { field.form.submit(); }); });
  all("[data-ask]").forEach(function (button) {
    button.addEventListener("click", function (event) { if (!window.confirm(button.dataset.ask)) { event.preventDefault(); } });
  });
  all("[data-all]").forEach(function (button) {
    button.addEventListener("click", function () {
      all("select.motion").forEach(function (select) { select.value = button.dataset.all; });
    });
  });
  all("[data-confirm-all]").forEach(function (button) {
    button.addEventListener("click", function () { all(".confirm input", button.form).forEach(function (box) { box.checked = true; }); });
  });
  // A changed value is the user's own and needs no confirmation.
  all(".decisions tr").forEach(function (row) {
    var value = row.querySelector("select, input:not([type=checkbox])"), box = row.querySelector(".confirm input");
    if (!value || !box) { return; }
    var detected = value.value;
    value.addEventListener("change", function () { box.disabled = value.value !== detected; });
  });

  // Jobs: show the progress until they end, then reload the page.
  function seconds(value) { return value < 60 ? value.toFixed(1) + " s" : Math.floor(value / 60) + " min " + Math.floor(value % 60) + " s"; }
  function show(pre, text) {
    if (!pre || !text) { return; }
    var low = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    pre.hidden = false;
    pre.textContent = text;
    if (low) { pre.scrollTop = pre.scrollHeight; }
  }
  function look(block) {
    fetch(block.dataset.job, { headers: { Accept: "application/json" } }).then(function (answer) { return answer.json(); }).then(function (job) {
      if (job.state !== "running") { window.location.reload(); return; }
      block.querySelector(".seconds").textContent = seconds(job.seconds);
      var stage = block.querySelector(".stage"), bar = block.querySelector("progress");
      if (job.share === null) { bar.removeAttribute("value"); } else { bar.value = job.share; }
      stage.textContent = job.asked ? "stopping" : job.stage;
      show(block.querySelector(".lines"), job.lines);
      show(block.querySelector(".errors"), job.errors);
      setTimeout(look, asked, block);
    }, function () {
      block.querySelector(".stage").textContent = "the server does not answer; the job continues";
      setTimeout(look, 5 * asked, block);
    });
  }
  all("[data-job]").forEach(function (block) { setTimeout(look, asked, block); });

  // Files: one request each; files of a folder keep their paths.
  all("[data-upload]").forEach(function (zone) {
    var list = zone.querySelector(".uploads"), robot = /\.(urdf|xacro|xml|mjcf|sdf|world|toml|usd|usda|usdc|usdz)$/i;
    zone.addEventListener("dragover", function (event) { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", function () { zone.classList.remove("over"); });
    zone.addEventListener("drop", function (event) {
      event.preventDefault();
      zone.classList.remove("over");
      var entries = Array.prototype.slice.call(event.dataTransfer.items || []).map(function (item) { return item.webkitGetAsEntry && item.webkitGetAsEntry(); }).filter(Boolean);
      var files = Array.prototype.slice.call(event.dataTransfer.files);
      Promise.all(entries.map(function (entry) { return read(entry, ""); })).then(function (lists) {
        var named = [].concat.apply([], lists);
        send(named.length ? named : files.map(function (file) { return { file: file, name: file.name }; }));
      });
    });
    all(".choose", zone).forEach(function (input) {
      input.addEventListener("change", function () {
        send(Array.prototype.slice.call(input.files).map(function (file) { return { file: file, name: file.webkitRelativePath || file.name }; }));
      });
    });
    function read(entry, above) {
      if (entry.isFile) {
        return new Promise(function (done) { entry.file(function (file) { done([{ file: file, name: above + file.name }]); }, function () { done([]); }); });
      }
      var reader = entry.createReader(), files = [];
      return new Promise(function (done) {
        (function more() {
          reader.readEntries(function (entries) {
            if (!entries.length) { done(files); return; }
            Promise.all(entries.map(function (inner) { return read(inner, above + entry.name + "/"); })).then(function (parts) {
              parts.forEach(function (part) { files = files.concat(part); });
              more();
            });
          }, function () { done(files); });
        })();
      });
    }
    // A folder with a robot file belongs to the robot; any other folder is a log.
    function kind(name, named) {
      var top = name.split("/")[0];
      if (top === name) { return ""; }
      return named.some(function (upload) { return upload.name.indexOf(top + "/") === 0 && robot.test(upload.name); }) ? "robot" : "logs";
    }
    function send(named) {
      var wrong = 0, ready = false;
      named.reduce(function (before, upload) {
        return before.then(function () { return put(upload, kind(upload.name, named)); }).then(function (answer) { ready = answer.ready; }, function () { wrong += 1; });
      }, Promise.resolve()).then(function () {
        if (wrong || !named.length) { return; }
        var guess = document.getElementById("guess");
        if (ready && guess) { guess.submit(); } else { window.location.reload(); }
      });
    }
    function put(upload, where) {
      var line = make("li", upload.name + " "), bar = make("progress"), failure = make("span");
      bar.max = 1; bar.value = 0; failure.className = "bad";
      line.append(bar, failure);
      list.append(line);
      return new Promise(function (done, failed) {
        var request = new XMLHttpRequest();
        request.open("PUT", zone.dataset.upload + "?kind=" + where + "&name=" + encodeURIComponent(upload.name));
        request.setRequestHeader("X-CSRF-Token", csrf);
        request.setRequestHeader("Accept", "application/json");
        request.upload.addEventListener("progress", function (event) { if (event.lengthComputable) { bar.value = event.loaded / event.total; } });
        request.addEventListener("load", function () {
          var answer = {};
          try { answer = JSON.parse(request.responseText); } catch (error) { answer = {}; }
          if (request.status === 200) { bar.value = 1; done(answer); return; }
          failure.textContent = " " + (answer.error || "error " + request.status);
          failed();
        });
        request.addEventListener("error", function () { failure.textContent = " upload failed: the file is too large, or the server has ended"; failed(); });
        request.send(upload.file);
      });
    }
  });
})();
