"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent).figures;

  // Light and dark: the system's choice until the reader makes one.
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  });

  // Tables: numbers by value, words by alphabet, missing cells last.
  function sortable(table) {
    const heads = [...table.querySelectorAll("thead tr:last-child th")];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const words = head.classList.contains("text");
        const first = words ? "ascending" : "descending";
        const second = words ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? second : first;
        heads.forEach((other) => other.setAttribute("aria-sort", other === head ? order : "none"));
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...body.rows].map((row) => {
          const cell = row.cells[column];
          return { row, text: cell.textContent, value: parseFloat(cell.dataset.value) };
        });
        rows.sort((a, b) => {
          if (words) return sign * a.text.localeCompare(b.text, "en", { numeric: true });
          const missing = Number.isNaN(a.value) - Number.isNaN(b.value);
          return missing || (Number.isNaN(a.value) ? 0 : sign * (a.value - b.value));
        });
        body.append(...rows.map((entry) => entry.row));
      });
    });
  }
  document.querySelectorAll("table[data-table]").forEach(sortable);

  // Figures: values under the pointer or the arrow keys, lines switched on and off.
  const SVG = "http://www.w3.org/2000/svg";
  const show = (value) => String(Number(value.toPrecision(4)));
  const withUnit = (value, axis) => show(value) + (axis.unit ? " " + axis.unit : "");

  function place(axis, value) {
    return axis.log
      ? Math.log(value / axis.low) / Math.log(axis.high / axis.low)
      : (value - axis.low) / (axis.high - axis.low);
  }

  // Position of the last element that is not above `value`; -1 if none.
  function last(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function chart(element) {
    const { frame, x, y, series } = figures[Number(element.dataset.figure)];
    const plot = element.querySelector(".plot");
    const svg = plot.querySelector("svg");
    const tip = plot.querySelector(".tip");
    const groups = series.map((_, at) => svg.querySelector(`[data-series="${at}"]`));
    const on = series.map(() => true);
    const cursor = document.createElementNS(SVG, "g");
    svg.append(cursor);
    let stops = [];
    let current = -1;

    function refresh() {
      const values = new Set();
      series.forEach((line, at) => on[at] && line.x.forEach((value) => values.add(value)));
      stops = [...values].sort((a, b) => a - b);
      hide();
    }
    function hide() {
      current = -1;
      tip.hidden = true;
      cursor.replaceChildren();
    }
    function draw(tag, attributes) {
      const node = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      cursor.append(node);
      return node;
    }
    function read(stop) {
      current = Math.max(0, Math.min(stops.length - 1, stop));
      const value = stops[current];
      if (value === undefined) return hide();
      const px = frame.left + place(x, value) * (frame.right - frame.left);
      cursor.replaceChildren();
      draw("line", { class: "cursor", x1: px, x2: px, y1: frame.top, y2: frame.bottom });
      const lines = [];
      series.forEach((line, at) => {
        const found = last(line.x, value);
        const beyond = value > line.x[line.x.length - 1];
        if (!on[at] || found < 0 || beyond) return;
        const share = Math.max(0, Math.min(1, place(y, line.y[found])));
        const dot = draw("circle", { cx: px, cy: frame.bottom - share * (frame.bottom - frame.top), r: 4 });
        dot.style.fill = getComputedStyle(groups[at]).getPropertyValue("--c");
        lines.push({ at, name: line.name, value: line.y[found] });
      });
      lines.sort((a, b) => b.value - a.value);
      const head = document.createElement("b");
      head.textContent = `${x.label} ${withUnit(value, x)}`;
      tip.replaceChildren(head, ...lines.map((line) => {
        const row = document.createElement("div");
        row.className = [...groups[line.at].classList].find((name) => /^s\d$/.test(name));
        const name = document.createElement("span"), number = document.createElement("span");
        name.textContent = line.name;
        number.textContent = withUnit(line.value, y);
        row.append(name, number);
        return row;
      }));
      tip.hidden = false;
      const scale = svg.getBoundingClientRect().width / frame.width;
      const left = px * scale + 14;
      const flips = left + tip.offsetWidth > plot.clientWidth;
      tip.style.left = `${Math.max(0, flips ? px * scale - tip.offsetWidth - 14 : left)}px`;
      tip.style.top = `${frame.top * scale + 6}px`;
    }

    plot.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * frame.width;
      const share = (at - frame.left) / (frame.right - frame.left);
      if (share < -0.02 || share > 1.02) return hide();
      const value = x.log
        ? x.low * Math.pow(x.high / x.low, share)
        : x.low + share * (x.high - x.low);
      const below = Math.max(0, last(stops, value));
      const above = Math.min(stops.length - 1, below + 1);
      const distance = (stop) => Math.abs(place(x, stops[stop]) - share);
      read(distance(below) <= distance(above) ? below : above);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const stride = event.shiftKey ? 10 : 1;
      const moves = {
        ArrowRight: () => current + stride,
        ArrowLeft: () => (current < 0 ? stops.length : current) - stride,
        Home: () => 0,
        End: () => stops.length - 1,
      };
      if (event.key === "Escape") return hide();
      if (!moves[event.key]) return;
      event.preventDefault();
      read(moves[event.key]());
    });
    element.querySelectorAll(".switches button").forEach((button) => {
      button.addEventListener("click", () => {
        const at = Number(button.dataset.series);
        on[at] = !on[at];
        button.setAttribute("aria-pressed", String(on[at]));
        groups[at].classList.toggle("off", !on[at]);
        refresh();
      });
    });
    refresh();
  }
  document.querySelectorAll("figure[data-figure]").forEach(chart);

  // Gallery: which images, in which order.
  const form = document.getElementById("filters");
  if (form) {
    const holder = document.getElementById("cards");
    const cards = [...holder.children];
    const update = () => {
      const show = form.elements.show.value, model = form.elements.model.value;
      let count = 0;
      for (const card of cards) {
        const models = show === "all" ? null : card.dataset[show].split(" ").filter(Boolean);
        const fits = !models || (model === "any" ? models.length > 0 : models.includes(model));
        card.hidden = !fits;
        count += fits;
      }
      const key = form.elements.order.value === "difference"
        ? (card) => -Number(card.dataset.spread)
        : (card) => cards.indexOf(card);
      holder.append(...[...cards].sort((a, b) => key(a) - key(b) || cards.indexOf(a) - cards.indexOf(b)));
      form.elements.count.value = `${count} of ${cards.length} images`;
    };
    form.addEventListener("change", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }
})();
