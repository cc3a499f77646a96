// Draws the plots of a comparison from the data in the page and fetches nothing. Groups, middle curves
// and bands are computed in page.py; only the smoothing happens here.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("comparison-data").textContent);
  const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  const DARK = ["#4DA6DE", "#FF8A3D", "#2CC79A", "#E39CC4", "#F2B733", "#8CCBF0"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const MOST_BANDS = 16; // more bands hide each other
  const CONTROLS = ["grouping", "task", "lines", "axis", "smoothing"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 36rem)");
  const control = (name) => document.getElementById("choose-" + name);

  // Names come from configs and command lines; Plotly reads some tags in texts.
  const plain = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const wrapped = (label) => {
    const lines = label.split(", ").map((part) => plain(shorten(part, narrow.matches ? 24 : 48)));
    return lines.length > 3 ? lines.slice(0, 3).join("<br>") + " …" : lines.join("<br>");
  };
  const colorOf = (index) => (dark.matches ? DARK : LIGHT)[index % 6];
  const faint = (color) => color + "2e";

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

  // --- Plots ------------------------------------------------------------------------------------

  function layout(x, y) {
    const css = getComputedStyle(document.documentElement);
    const color = (name) => css.getPropertyValue("--" + name).trim();
    const axis = (text) => ({
      gridcolor: color("line"), zeroline: false, linecolor: color("soft"), automargin: true,
      title: { text: plain(text), standoff: 10 },
    });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: color("ink"), family: "system-ui, sans-serif", size: 13 },
      margin: { l: 60, r: 10, t: 36, b: 50 }, xaxis: axis(x), yaxis: axis(y),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("soft"), activecolor: color("accent") },
      hoverlabel: { namelength: -1 }, hovermode: "closest",
    };
  }

  function show(id, traces, how) {
    Plotly.react(id, traces, how, {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"],
      showSendToCloud: false, plotlyServerURL: "", // no button sends data
    });
  }

  // Lines with a legend below the plot, as high as its lines.
  function showLines(id, traces, how) {
    const names = traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name);
    const width = document.getElementById(id).clientWidth - how.margin.l - how.margin.r;
    const entry = 50 + 7.5 * Math.max(1, ...names.map((name) => name.length));
    const rows = Math.ceil(names.length / Math.max(1, Math.floor(width / entry)));
    const room = Math.min(20 * rows + 12, 300);
    how.margin.b = 55 + room;
    how.height = (narrow.matches ? 280 : 380) + room;
    how.legend = { orientation: "h", x: 0, yref: "container", y: 0, yanchor: "bottom" };
    show(id, traces, how);
  }

  // A row for each label, the first one on top.
  function showRows(id, quantity, traces, labels, height) {
    const how = layout(narrow.matches ? "score" : quantity, "");
    how.yaxis.range = [labels.length - 0.4, -0.6];
    how.yaxis.tickvals = labels.map((_, at) => at);
    how.yaxis.ticktext = labels.map(wrapped);
    how.margin.t = 20;
    how.height = 110 + height * labels.length;
    show(id, traces, how);
  }

  function drawGroups() {
    const color = colorOf(0);
    const of = (value) => data.groups.map(value);
    const trace = {
      type: "scatter", mode: "markers", x: of((g) => g.iqm), y: of((_, at) => at),
      text: of((g) => plain(g.label)), hoverinfo: "x+text", marker: { size: 11, color },
      error_x: {
        type: "data", symmetric: false, color, thickness: 3, width: 0,
        array: of((g) => g.interval[1] - g.iqm), arrayminus: of((g) => g.iqm - g.interval[0]),
      },
    };
    showRows("groups", data.groupScale, [trace], of((g) => g.label), 30);
  }

  function drawCurves(groups, task, axis, lines, grouping) {
    // Hidden groups stay hidden until the grouping changes.
    const { layout: last, data: before } = document.getElementById("curves");
    const hidden = last && last.meta === grouping
      ? before.filter((trace) => trace.visible === "legendonly").map((trace) => trace.legendgroup) : [];
    const seeds = [], middles = []; // middles lie on top of all seeds
    groups.forEach(({ label, color, dash, members, middles: own }) => {
      const common = {
        type: "scatter", mode: "lines", legendgroup: label,
        visible: hidden.includes(label) ? "legendonly" : true,
      };
      const part = lines !== "seeds" && own && own[axis][task];
      if (!part || lines !== "groups") {
        members.forEach((seed, at) => seeds.push({
          ...common, x: data.points[axis][task], y: smooth(seed.curves[axis]), connectgaps: true,
          name: plain(label), line: { color, width: part ? 0.7 : 1.2, dash: part ? "solid" : dash },
          opacity: part ? 0.5 : 0.9, showlegend: at === 0 && !part,
          text: plain(seed.name), hoverinfo: "x+y+text",
        }));
      }
      if (!part) return;
      if (groups.length <= MOST_BANDS) {
        const edge = { ...common, x: part.x, hoverinfo: "skip", showlegend: false, line: { width: 0 } };
        middles.push({ ...edge, y: smooth(part.low) });
        middles.push({ ...edge, y: smooth(part.high), fill: "tonexty", fillcolor: faint(color) });
      }
      middles.push({
        ...common, x: part.x, y: smooth(part.y), line: { color, width: 2.5, dash },
        name: plain(label) + " (" + members.length + ")", hoverinfo: "x+y+name",
        mode: part.x.length === 1 ? "markers" : "lines",
      });
    });
    const how = layout(data.axisNames[axis], data.metric);
    showLines("curves", seeds.concat(middles), { ...how, meta: grouping });
  }

  function drawScores(groups) {
    const traces = groups.map(({ label, color, members }, row) => ({
      type: "box", orientation: "h", x: members.map((seed) => seed.score), y: members.map(() => row),
      name: plain(label), boxpoints: "all", jitter: 0.5, pointpos: 0, fillcolor: faint(color),
      line: { color, width: 1.2 }, marker: { size: 5, color }, showlegend: false,
      text: members.map((seed) => plain(seed.name)), hoverinfo: "x+text", hoveron: "points",
    }));
    showRows("scores", data.what, traces, groups.map((group) => group.label), 48);
  }

  function drawProfile(groups) {
    const all = groups.flatMap(({ members }) => members.map((seed) => seed.score));
    const low = Math.min(...all), high = Math.max(...all), edge = 0.03 * (high - low || 1);
    const traces = groups.map(({ label, color, dash, members }) => {
      const scores = members.map((seed) => seed.score).sort((a, b) => a - b);
      return {
        type: "scatter", mode: "lines", name: plain(label), hoverinfo: "x+y+name",
        x: [low - edge, ...scores, high + edge],
        y: [1, ...scores.map((_, at) => 1 - (at + 1) / scores.length), 0],
        line: { color, dash, width: 2, shape: "hv" }, // the share falls at every score
      };
    });
    const how = layout(narrow.matches ? "score" : "score: " + data.what, "share of seeds above it");
    how.yaxis.range = [-0.03, 1.03];
    showLines("profile", traces, how);
  }

  // --- Controls ---------------------------------------------------------------------------------

  function draw() {
    const chosen = CONTROLS.map((name) => [name, control(name).value]);
    // A page that reloads itself keeps its selection.
    history.replaceState(null, "", "#" + new URLSearchParams(chosen));
    const { grouping, task, lines, axis } = Object.fromEntries(chosen);
    const groups = data.groupings[grouping].groups.map((group, index) => ({
      ...group, color: colorOf(index), dash: DASHES[Math.floor(index / 6) % 4],
      members: group.seeds.map((i) => data.seeds[i]).filter((seed) => seed.task === task),
    })).filter((group) => group.members.length);
    drawGroups();
    if (axis) drawCurves(groups, task, axis, lines, grouping);
    drawScores(groups);
    drawProfile(groups);
  }

  const saved = new URLSearchParams(location.hash.slice(1));
  function choice(parent, name, text, entries, first) {
    const label = document.createElement("label"), select = document.createElement("select");
    const values = entries.map(([value]) => value);
    entries.forEach(([value, shown]) => select.add(new Option(shown, value)));
    select.id = "choose-" + name;
    select.value = [saved.get(name), first].find((each) => values.includes(each)) || values[0];
    select.addEventListener("change", draw);
    label.hidden = entries.length < 2;
    label.append(text + " ", select);
    document.getElementById(parent).append(label);
  }

  const axes = Object.keys(data.points);
  document.getElementById("curves-part").hidden = !axes.length;
  const groupings = data.groupings.map((each, i) => [String(i), shorten(each.name, 60)]);
  choice("controls", "grouping", "group by", groupings);
  choice("controls", "task", "task", data.tasks.map((task) => [task, task || "all"]));
  const lines = [["groups", "groups, 95% bands"], ["both", "groups and seeds"], ["seeds", "single seeds"]];
  choice("curves-controls", "lines", "lines", lines);
  choice("curves-controls", "axis", "align by", axes.map((axis) => [axis, data.axisNames[axis]]), data.axis);
  choice("curves-controls", "smoothing", "curves", [["smooth", "smoothed"], ["raw", "raw"]]);
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  draw();
})();
