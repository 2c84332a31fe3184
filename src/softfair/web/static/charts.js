"use strict";
// Draws what stands in the page as data; the tables beside say the same.
(() => {
  const charts = new Map();
  const blue = "#1b5a86", red = "#9b2c1c", grey = "#718096";
  const base = (title, x, y) => ({
    animation: false, color: [blue, red, grey],
    title: { text: title, textStyle: { fontSize: 14 } },
    tooltip: { trigger: "item", renderMode: "richText" },
    grid: { left: 55, right: 20, top: 60, bottom: 45 },
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
  const frontier = (name, title, x, of, figures) => {
    const option = base(title, x, "benefit, %");
    option.xAxis = { ...option.xAxis, type: "value", scale: true };
    option.series = [
      { type: "line", name: "SoftFair over c", data: figures.curve.map((p) => [of(p), per_cent(p.benefit)]),
        markLine: { silent: true, symbol: "none", lineStyle: { color: grey, type: "dashed" }, data: [{ yAxis: per_cent(figures.bound) }] } },
      { type: "line", name: "chosen", symbolSize: 14, data: [[of(figures.now), per_cent(figures.now.benefit)]] },
    ];
    draw(name, option);
  };
  const fairness = () => {
    const data = document.getElementById("figures");
    if (!data) return;
    const figures = JSON.parse(data.textContent);
    frontier("entropy", "Benefit and evenness", "entropy of contacts", (p) => p.entropy, figures);
    frontier("never", "Benefit and who is never selected", "never selected, %", (p) => per_cent(p.never), figures);
    const bars = base("People by expected contacts", "contacts over the rounds left", "people");
    bars.legend = { top: 25 };
    bars.xAxis = { ...bars.xAxis, type: "category", data: figures.histogram.from.map((v) => v.toFixed(1)) };
    bars.series = [{ type: "bar", name: "this plan", data: figures.histogram.plan }];
    if (figures.histogram.whittle) bars.series.push({ type: "bar", name: "Whittle index", data: figures.histogram.whittle });
    draw("histogram", bars);
    const rates = base(`Contacts a round by ${figures.column}`, figures.column, "");
    rates.xAxis = { ...rates.xAxis, type: "category", data: figures.rates.map((one) => one.name) };
    rates.yAxis = { min: 0 };
    rates.series = [{ type: "bar", data: figures.rates.map((one) => +one.rate.toFixed(4)) }];
    draw("rates", rates);
  };
  const engagement = () => {
    const data = document.getElementById("engagement-data");
    if (!data) return;
    const [rounds, came, predicted, low, high] = JSON.parse(data.textContent);
    const option = base("", "round", "mean");
    option.legend = { top: 0 };
    option.xAxis = { ...option.xAxis, type: "category", data: rounds };
    option.series = [
      { type: "line", name: "came", data: came }, { type: "line", name: "predicted", data: predicted },
      { type: "line", name: "from", data: low, lineStyle: { type: "dashed", color: grey }, symbol: "none" },
      { type: "line", name: "to", data: high, lineStyle: { type: "dashed", color: grey }, symbol: "none" },
    ];
    draw("engagement", option);
  };
  const all = () => { fairness(); engagement(); };
  document.addEventListener("DOMContentLoaded", all);
  document.addEventListener("htmx:afterSwap", all);
  window.addEventListener("resize", () => charts.forEach((chart) => chart.resize()));
})();
