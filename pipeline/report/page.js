"use strict";
// Draws the figures that lie in the page as JSON, in the page's own colours, and again when those change.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "toggleSpikelines"] };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // "@name" under a key that is about colour is the page's variable of that name; other texts stay as they are.
  function painted(value, key) {
    if (Array.isArray(value)) return value.map((one) => painted(one, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, painted(one, name)]));
    }
    return typeof value === "string" && value[0] === "@" && /color$/.test(key) ? style(value.slice(1)) : value;
  }

  function dressed(layout) {
    const ink = style("ink"), grid = style("grid"), panel = style("panel");
    const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, tickcolor: grid };
    return {
      ...layout,
      autosize: true,
      paper_bgcolor: panel,
      plot_bgcolor: panel,
      font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: panel, bordercolor: style("muted"), font: { color: ink }, align: "left", namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("muted"), activecolor: ink },
      xaxis: { ...axis, automargin: true, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
      ...(layout.yaxis2 ? { yaxis2: { ...axis, ...layout.yaxis2 } } : {}),
    };
  }

  const drawn = new Map();  // element -> name of its figure
  const whole = JSON.parse(document.querySelector("main").dataset.window);
  let range = whole;        // what all time axes show
  let following = false;

  function draw(element, name) {
    const figure = painted(figures[name], "");
    const layout = dressed(figure.layout);
    if (range) layout.xaxis = { ...layout.xaxis, range: [...range], autorange: false };
    drawn.set(element, name);
    return Plotly.react(element, figure.data, layout, config).then(() => {
      if (element.follows) return;
      element.follows = true;
      element.on("plotly_relayout", (change) => follow(element, change));
      element.on("plotly_click", (event) => {
        const point = event.points[0], place = point.data.meta ?? point.customdata;
        if (Number.isInteger(place) && element.dataset.figure && element.dataset.figure !== "growth") choose(place);
      });
    });
  }

  // One time axis was moved: the others go with it.
  function follow(source, change) {
    if (following) return;
    if (change["xaxis.autorange"]) move(whole, null);
    else if (change["xaxis.range[0]"] !== undefined) move([change["xaxis.range[0]"], change["xaxis.range[1]"]], source);
  }

  function move(wanted, source) {
    range = wanted;
    following = true;
    const change = wanted ? { "xaxis.range": [...wanted], "xaxis.autorange": false } : { "xaxis.autorange": true };
    const others = [...drawn.keys()].filter((element) => element !== source);
    return Promise.all(others.map((element) => Plotly.relayout(element, change))).finally(() => { following = false; });
  }

  // One group: its figures and what is said about it.
  const chosen = document.getElementById("chosen-group");
  function show(place) {
    for (const part of document.querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== String(place);
    return Promise.all([["group-lag", "lag-"], ["owners", "owners-"]].map(([id, kind]) => {
      const element = document.getElementById(id), name = kind + place;
      element.hidden = !(name in figures);
      if (!element.hidden) return draw(element, name);
      drawn.delete(element);
    }));
  }
  function choose(place) {
    chosen.value = String(place);
    document.getElementById("group").scrollIntoView({ behavior: "smooth" });
    return show(place);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-choose]");
    if (!link) return;
    event.preventDefault();
    choose(Number(link.dataset.choose)).then(() => {
      if (link.dataset.first === undefined) return;
      // Some time around what the link is about.
      const first = Number(link.dataset.first), last = Number(link.dataset.last);
      const edge = Math.max((last - first) * 0.3, 120000);
      return move([first - edge, last + edge].map((ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ")), null);
    });
  });

  // Tables sort by a click on a heading, search, and fold what is too much to look at.
  const FOLDED = 40, SEARCHED = 10;
  function tend(table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    let rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() })), wanted = "", open = false;
    const tools = document.createElement("div"), said = document.createElement("span");
    const more = document.createElement("button"), search = document.createElement("input");
    function fold() {
      const hits = rows.filter((one) => one.text.includes(wanted)), shown = open ? hits : hits.slice(0, FOLDED);
      body.replaceChildren(...shown.map((one) => one.row));
      said.textContent = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
      more.hidden = hits.length <= FOLDED;
      more.textContent = open ? "show fewer" : `show all ${hits.length.toLocaleString("en")}`;
    }
    function value(one, at, kind) {
      const text = one.row.cells[at].textContent;
      if (text === "–" || text === "") return null;
      return kind === "number" ? parseFloat(text.replaceAll(",", "")) : text;
    }
    heads.forEach((head, at) => {
      head.setAttribute("aria-sort", "none");
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "none" ? head.className === "number" || head.className === "when"
          : head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const keyed = rows.map((one) => [value(one, at, head.className), one]);
        // What is not known comes last, either way.
        keyed.sort(([a], [b]) => a === b ? 0 : a === null ? 1 : b === null ? -1
          : (down ? -1 : 1) * (typeof a === "number" ? a - b : a < b ? -1 : 1));
        rows = keyed.map(([, one]) => one);
        fold();
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
    if (rows.length <= SEARCHED) return;
    search.type = "search";
    search.placeholder = "search";
    search.setAttribute("aria-label", "search this table");
    search.addEventListener("input", () => { wanted = search.value.toLowerCase(); fold(); });
    more.addEventListener("click", () => { open = !open; fold(); });
    tools.className = "tools";
    tools.append(search, said, more);
    table.parentElement.before(tools);
    fold();
  }
  document.querySelectorAll("table").forEach(tend);

  const drawAgain = () => Promise.all([...drawn].map(([element, name]) => draw(element, name)));

  const first = [...document.querySelectorAll("[data-figure]")].map((element) => draw(element, element.dataset.figure));
  if (chosen) {
    chosen.addEventListener("change", () => show(chosen.value));
    first.push(show(chosen.value));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  matchMedia("print").addEventListener("change", drawAgain);
  Promise.all(first).then(() => { document.documentElement.dataset.drawn = String(drawn.size); });
})();
