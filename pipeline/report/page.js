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
    const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, tickcolor: grid, automargin: true };
    return {
      ...layout,
      autosize: true,
      paper_bgcolor: panel,
      plot_bgcolor: panel,
      font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: panel, bordercolor: style("muted"), font: { color: ink }, align: "left", namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("muted"), activecolor: ink },
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  const drawn = new Map();  // element -> name of its figure
  let range = null;         // what all time axes show; null: everything
  let following = false;

  function draw(element, name) {
    const figure = painted(figures[name], "");
    const layout = dressed(figure.layout);
    if (range) layout.xaxis = { ...layout.xaxis, range: [...range], autorange: false };
    drawn.set(element, name);
    return Plotly.react(element, figure.data, layout, config).then(() => {
      if (!element.follows) {
        element.follows = true;
        element.on("plotly_relayout", (change) => follow(element, change));
      }
    });
  }

  // One time axis was moved: the others go with it.
  function follow(source, change) {
    if (following) return;
    if (change["xaxis.autorange"]) range = null;
    else if (change["xaxis.range[0]"] !== undefined) range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    else return;
    following = true;
    const wanted = range ? { "xaxis.range": [...range], "xaxis.autorange": false } : { "xaxis.autorange": true };
    const others = [...drawn.keys()].filter((element) => element !== source);
    Promise.all(others.map((element) => Plotly.relayout(element, wanted))).finally(() => { following = false; });
  }

  const drawAgain = () => Promise.all([...drawn].map(([element, name]) => draw(element, name)));

  const first = [...document.querySelectorAll("[data-figure]")].map((element) => draw(element, element.dataset.figure));
  const chosen = document.getElementById("owners-group");
  if (chosen) {
    const strips = document.getElementById("owners");
    chosen.addEventListener("change", () => draw(strips, chosen.value));
    first.push(draw(strips, chosen.value));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  matchMedia("print").addEventListener("change", drawAgain);
  Promise.all(first).then(() => { document.documentElement.dataset.drawn = String(drawn.size); });
})();
