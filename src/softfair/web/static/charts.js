"use strict";
// Draws what stands in the page as data; the tables beside say the same.
(() => {
  const charts = new Map();
  const blue = "#1b5a86", red = "#9b2c1c", grey = "#718096";
  // Titles and keys stand in the page: this build of ECharts has neither, nor lines of marks.
  const base = (x, y) => ({
    animation: false, color: [blue, red, grey],
    tooltip: { trigger: "item", renderMode: "richText" },
    grid: { left: 55, right: 20, top: 35, bottom: 45 },
    xAxis: { name: x, nameLocation: "middle", nameGap: 28, ...{} },
    yAxis: { name: y, scale: true },
  });
  const draw = (name, option) => {
    const place = document.querySelector(`[data-chart=${name}]`);
    if (!place) return;
    if (!charts.has(place)) charts.set(place, echarts.init(place));
    charts.get(place).setOption(option, { notMerge: true });
    place.dataset.drawn = String(Number(place.dataset.drawn || 0) + 1);
  };
  const per_cent = (value) => +(100 * value).toFixed(2);
  const frontier = (name, x, of, figures) => {
    const option = base(x, "benefit, %");
    option.xAxis = { ...option.xAxis, type: "value", scale: true };
    const along = figures.curve.map(of), bound = per_cent(figures.bound);
    option.series = [
      { type: "line", name: "SoftFair over c", data: figures.curve.map((p) => [of(p), per_cent(p.benefit)]) },
      { type: "line", name: "chosen", symbolSize: 14, data: [[of(figures.now), per_cent(figures.now.benefit)]] },
      { type: "line", name: "no policy can keep more", symbol: "none", lineStyle: { color: grey, type: "dashed" },
        data: [[Math.min(...along), bound], [Math.max(...along), bound]] },
    ];
    draw(name, option);
  };
  // What was found for a wish moves the sliders; what they were moved to themselves does not.
  const settle = (figures, found) => {
    const slider = (name) => document.querySelector(`input[type=range][name=${name}]`);
    slider("even").disabled = figures.promise !== "none";
    if (found) for (const name of ["position", "even"]) slider(name).value = figures.now[name];
    document.querySelector("#goal [name=position]").value = figures.now.position;
  };
  // The range of the slider is that of what is asked for; the field beside it is what is sent.
  const slide = () => {
    const form = document.getElementById("goal");
    if (!form) return;
    const place = form.querySelector("[data-for=value]"), range = place.querySelector("input");
    const field = form.elements.value, unit = () => form.elements.goal.selectedOptions[0].dataset;
    const fit = () => {
      const { least, most, step } = unit();
      Object.assign(range, { min: least, max: most, step });
      range.value = parseFloat(field.value) || (Number(least) + Number(most)) / 2;
    };
    place.hidden = false;
    fit();
    form.elements.goal.addEventListener("change", () => { field.value = ""; fit(); });
    field.addEventListener("input", () => { range.value = parseFloat(field.value) || range.value; });
    range.addEventListener("input", (event) => {
      event.stopPropagation();
      field.value = range.value + unit().unit;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
  };
  const fairness = () => {
    const data = document.getElementById("figures");
    if (!data) return;
    const figures = JSON.parse(data.textContent);
    settle(figures, "found" in data.dataset);
    frontier("entropy", "entropy of contacts", (p) => p.entropy, figures);
    frontier("never", "never selected, %", (p) => per_cent(p.never), figures);
    const bars = base("contacts over the rounds left", "people");
    bars.xAxis = { ...bars.xAxis, type: "category", data: figures.histogram.from.map((v) => v.toFixed(1)) };
    bars.series = [{ type: "bar", name: "this plan", data: figures.histogram.plan }];
    if (figures.histogram.whittle) bars.series.push({ type: "bar", name: "Whittle index", data: figures.histogram.whittle });
    draw("histogram", bars);
    const rates = base(figures.column, "");
    rates.xAxis = { ...rates.xAxis, type: "category", data: figures.rates.map((one) => one.name) };
    rates.yAxis = { min: 0 };
    rates.series = [{ type: "bar", data: figures.rates.map((one) => +one.rate.toFixed(4)) }];
    draw("rates", rates);
  };
  const engagement = () => {
    const data = document.getElementById("engagement-data");
    if (!data) return;
    const [rounds, came, predicted, low, high] = JSON.parse(data.textContent);
    const option = base("round", "mean");
    option.xAxis = { ...option.xAxis, type: "category", data: rounds };
    option.series = [
      { type: "line", name: "came", data: came }, { type: "line", name: "predicted", data: predicted },
      { type: "line", name: "from", data: low, lineStyle: { type: "dashed", color: grey }, symbol: "none" },
      { type: "line", name: "to", data: high, lineStyle: { type: "dashed", color: grey }, symbol: "none" },
    ];
    draw("engagement", option);
  };
  const all = () => { fairness(); engagement(); };
  document.addEventListener("DOMContentLoaded", () => { all(); slide(); });
  document.addEventListener("htmx:afterSwap", all);
  window.addEventListener("resize", () => charts.forEach((chart) => chart.resize()));
})();
