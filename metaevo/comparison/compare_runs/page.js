// Draws the plots of a comparison from the data in the page and fetches nothing. Groups, middle curves
// and bands are computed in page.py; only the smoothing happens here.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("comparison-data").textContent);
  const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  const DARK = ["#4DA6DE", "#FF8A3D", "#2CC79A", "#E39CC4", "#F2B733", "#8CCBF0"];
  const MOST_BANDS = 16; // more bands hide each other
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 36rem)");
  const control = (name) => document.getElementById("choose-" + name);

  // Names come from configs and command lines; Plotly reads some tags in texts.
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const wrapped = (label) => {
    const lines = label.split(", ").map((part) => plain(shorten(part, narrow.matches ? 24 : 48)));
    return lines.length > 3 ? lines.slice(0, 3).join("<br>") + " …" : lines.join("<br>");
  };
  const style = (index) => ({
    color: (dark.matches ? DARK : LIGHT)[index % 6],
    dash: DASHES[Math.floor(index / 6) % 4],
  });
  const faint = (color) =>
    "rgba(" + [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16)).join(",") + ",0.18)";

  // The mean of a point and its neighbours; fewer of them near the ends. Gaps stay gaps.
  function smooth(y) {
    if (control("smoothing").value === "raw") return y;
    const half = Math.floor(y.length / 40);
    return y.map((value, at) => {
      if (value === null) return null;
      const reach = Math.min(half, at, y.length - 1 - at);
      const near = y.slice(at - reach, at + reach + 1).filter((each) => each !== null);
      return near.reduce((sum, each) => sum + each, 0) / near.length;
    });
  }

  function fill(name, entries, chosen) {
    entries.forEach(([value, text]) => control(name).add(new Option(text, value)));
    if (chosen !== undefined) control(name).value = chosen;
    control(name).addEventListener("change", draw);
    control(name).closest("label").hidden = entries.length < 2;
  }

  function layout(x, y) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const axis = {
      gridcolor: colour("--line"), zeroline: false, linecolor: colour("--soft"),
      automargin: true, title: { standoff: 10 },
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), family: "system-ui, sans-serif", size: 13 },
      margin: { l: 60, r: 10, t: 36, b: 50 },
      xaxis: { ...axis, title: { text: plain(x), standoff: 10 } },
      yaxis: { ...axis, title: { text: plain(y), standoff: 10 } },
      legend: { orientation: "h", x: 0, y: -0.2, yanchor: "top" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
      hoverlabel: { namelength: -1 }, hovermode: "closest",
    };
  }

  const config = {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"],
    showSendToCloud: false, plotlyServerURL: "", // no button sends data
  };

  function show(id, traces, how) {
    // The legend is below the plot, as high as its lines.
    const names = traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name);
    const width = document.getElementById(id).clientWidth - how.margin.l - how.margin.r;
    const entry = 50 + 7.5 * Math.max(1, ...names.map((name) => name.length));
    const rows = Math.ceil(names.length / Math.max(1, Math.floor(width / entry)));
    const room = Math.min(20 * rows + 12, 300);
    how.margin.b = 55 + room;
    how.height = (narrow.matches ? 280 : 380) + room;
    how.legend = { orientation: "h", x: 0, yref: "container", y: 0, yanchor: "bottom" };
    return Plotly.react(id, traces, how, config);
  }

  // Hidden groups stay hidden until the grouping changes.
  let shownGrouping = null;
  function hidden(grouping) {
    const before = document.getElementById("curves").data || [];
    const same = shownGrouping === grouping;
    shownGrouping = grouping;
    return new Set(
      before.filter((t) => same && t.visible === "legendonly").map((t) => t.legendgroup)
    );
  }

  function drawCurves(index, task, axis, lines) {
    const grouping = data.groupings[index];
    const part = data.axes[axis][task];
    const off = hidden(index);
    const traces = [], middles = []; // middles lie on top of all seeds
    grouping.labels.forEach((label, g) => {
      const { color, dash } = style(g);
      const members = grouping.members[g].filter((i) => data.seeds[i].task === task);
      if (!members.length) return;
      const common = {
        type: "scatter", mode: "lines", legendgroup: label,
        visible: off.has(label) ? "legendonly" : true,
      };
      const middle = part.middles[index][g];
      let named = false;
      const drawMiddle = middle && lines !== "seeds";
      if (lines !== "groups" || !middle) {
        members.forEach((i) => {
          traces.push({
            ...common, x: part.x, y: smooth(part.curves[i]), connectgaps: true, name: plain(label),
            line: { color, width: drawMiddle ? 0.7 : 1.2, dash: drawMiddle ? "solid" : dash },
            opacity: drawMiddle ? 0.5 : 0.9, showlegend: !named && !drawMiddle,
            text: plain(data.seeds[i].name), hoverinfo: "x+y+text",
          });
          named = true;
        });
      }
      if (drawMiddle && grouping.labels.length <= MOST_BANDS) {
        const edge = { ...common, hoverinfo: "skip", showlegend: false, line: { width: 0 }, name: "" };
        middles.push({ ...edge, x: middle.x, y: smooth(middle.low) });
        middles.push({ ...edge, x: middle.x, y: smooth(middle.high), fill: "tonexty", fillcolor: faint(color) });
      }
      if (drawMiddle) {
        middles.push({
          ...common, x: middle.x, y: smooth(middle.y), line: { color, width: 2.5, dash },
          name: plain(label) + " (" + members.length + ")", hoverinfo: "x+y+name",
          mode: middle.x.length === 1 ? "markers" : "lines",
        });
      }
    });
    return show("curves", traces.concat(middles), layout(data.axisNames[axis], data.metric));
  }

  const known = (members, task) =>
    members.filter((i) => data.seeds[i].task === task && data.seeds[i].score !== null);

  function drawScores(grouping, task) {
    const traces = [], shown = [];
    grouping.labels.forEach((label, g) => {
      const mine = known(grouping.members[g], task);
      if (!mine.length) return;
      shown.push(label);
      traces.push({
        type: "box", orientation: "h", x: mine.map((i) => data.seeds[i].score),
        y: mine.map(() => traces.length), name: plain(label),
        boxpoints: "all", jitter: 0.5, pointpos: 0, fillcolor: faint(style(g).color),
        line: { color: style(g).color, width: 1.2 }, marker: { size: 5, color: style(g).color },
        text: mine.map((i) => plain(data.seeds[i].name)), hoverinfo: "x+text", hoveron: "points",
        showlegend: false,
      });
    });
    return showRows("scores", data.what, traces, shown, 48);
  }

  // A row for each group, the first one on top.
  function showRows(id, quantity, traces, labels, height) {
    const how = layout(narrow.matches ? "score" : quantity, "");
    how.yaxis.range = [labels.length - 0.4, -0.6];
    how.yaxis.tickvals = labels.map((_, at) => at);
    how.yaxis.ticktext = labels.map(wrapped);
    how.margin.t = 20;
    how.height = 110 + height * Math.max(labels.length, 1);
    return Plotly.react(id, traces, how, config);
  }

  function drawGroups() {
    const color = style(0).color;
    const of = (value) => data.groups.map(value);
    const trace = {
      type: "scatter", mode: "markers", x: of((g) => g.iqm), y: of((_, at) => at),
      text: of((g) => plain(g.label)), hoverinfo: "x+text", marker: { size: 11, color },
      error_x: {
        type: "data", symmetric: false, color, thickness: 3, width: 0,
        array: of((g) => g.interval[1] - g.iqm), arrayminus: of((g) => g.iqm - g.interval[0]),
      },
    };
    return showRows("groups", data.groupScale, [trace], of((g) => g.label), 30);
  }

  function drawProfile(grouping, task) {
    const traces = [];
    grouping.labels.forEach((label, g) => {
      const scores = known(grouping.members[g], task).map((i) => data.seeds[i].score);
      if (!scores.length) return;
      scores.sort((a, b) => a - b);
      // The share above a score falls at every score: a step.
      const all = data.seeds.filter((s) => s.task === task && s.score !== null).map((s) => s.score);
      const low = Math.min(...all), high = Math.max(...all), edge = 0.03 * (high - low || 1);
      const x = [low - edge, ...scores, high + edge];
      const y = x.map((level) => scores.filter((s) => s > level).length / scores.length);
      traces.push({
        type: "scatter", mode: "lines", x, y, name: plain(label), hoverinfo: "x+y+name",
        line: { color: style(g).color, dash: style(g).dash, width: 2, shape: "hv" },
      });
    });
    const how = layout(narrow.matches ? "score" : "score: " + data.what, "share of seeds above it");
    how.yaxis.range = [-0.03, 1.03];
    return show("profile", traces, how);
  }

  function draw() {
    const index = Number(control("grouping").value);
    const task = control("task").value;
    const lines = control("lines").value;
    const axis = control("axis").value;
    history.replaceState(null, "", "#" + [index, task, lines, axis, control("smoothing").value].map(encodeURIComponent).join("/"));
    const grouping = data.groupings[index];
    drawGroups();
    if (axis) drawCurves(index, task, axis, lines);
    drawScores(grouping, task);
    drawProfile(grouping, task);
    document.body.dataset.drawn = grouping.name;
  }

  const axes = Object.keys(data.axes);
  if (!axes.length) document.getElementById("curves-part").hidden = true;
  fill("grouping", data.groupings.map((each, i) => [String(i), shorten(each.name, 60)]), "0");
  fill("task", data.tasks.map((task) => [task, task || "all"]), data.tasks[0]);
  fill("lines", [["groups", "groups, 95% bands"], ["both", "groups and seeds"], ["seeds", "single seeds"]]);
  fill("smoothing", [["smooth", "smoothed"], ["raw", "raw"]]);
  fill("axis", axes.map((axis) => [axis, data.axisNames[axis]]), axes.includes(data.axis) ? data.axis : axes[0]);
  // A page that reloads itself keeps its selection.
  let saved = [];
  try { saved = location.hash.slice(1).split("/").map(decodeURIComponent); } catch (error) { saved = []; }
  ["grouping", "task", "lines", "axis", "smoothing"].forEach((name, i) => {
    const offered = [...control(name).options].map((option) => option.value);
    if (saved.length === 5 && offered.includes(saved[i])) control(name).value = saved[i];
  });
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  draw();
})();
