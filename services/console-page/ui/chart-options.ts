import uPlot from "uplot";
import type { ChartProps, Line, Marker } from "./chart.tsx";
import { minute } from "./time.tsx";

const FONT = "12px system-ui, sans-serif";

/** Permitted steps between the ticks of an axis for counts: 1, 2, 5, 10 and so on. */
const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) =>
  [1, 2, 5].map((step) => step * 10 ** power),
).flat();

export function toData(times: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [times.map((at) => at / 1000), ...lines.map(({ values }) => [...values])];
}

type Drawn = Omit<Required<ChartProps>, "label" | "times" | "markers" | "onPick"> & {
  /** Reference to the current markers. They can change after the chart was created, which then draws the new ones. */
  marks: { readonly current: readonly Marker[] };
};

export function optionsOf(element: HTMLElement, drawn: Drawn): uPlot.Options {
  const { lines, height, isLogarithmic, isWhole, formatTick, unit, syncKey, marks } = drawn;
  const colourOf = colourResolver(element);
  const axis = {
    stroke: colourOf("muted"),
    grid: { stroke: colourOf("line"), width: 1 },
    ticks: { show: false },
    font: FONT,
  };
  const powers = (_: uPlot, ticks: number[]) =>
    ticks.map((tick) => (isLogarithmic && !isPowerOfTen(tick) ? null : tick));
  return {
    width: element.clientWidth,
    height,
    padding: [10, 20, 0, 0],
    cursor: {
      y: false,
      points: { size: 6 },
      drag: { x: false, y: false },
      ...(syncKey !== "" && { sync: { key: syncKey, scales: ["x", null] as [string, null] } }),
    },
    hooks: { draw: [(plot) => drawMarkers(plot, marks.current, colourOf)] },
    legend: { live: true },
    scales: { y: scaleOf(drawn) },
    axes: [
      { ...axis, space: 70, size: 30, values: clockTicks },
      {
        ...axis,
        size: 62,
        ...(unit !== "" && { label: unit, labelSize: 18, labelGap: 2, labelFont: FONT }),
        ...(isWhole && { incrs: WHOLE_STEPS }),
        // `powers` keeps only the labels at powers of ten, if the axis is logarithmic. Labels between them would overlap.
        filter: powers,
        grid: { ...axis.grid, filter: powers },
        values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : formatTick(tick))),
      },
    ],
    series: [
      { label: "At", value: ({ data: [times] }, at) => timeOf(at ?? times.at(-1)) },
      ...lines.map((line) => seriesOf(line, drawn, colourOf)),
    ],
  };
}

function seriesOf(line: Line, { format }: Drawn, colourOf: ColourOf): uPlot.Series {
  const { name, colour, isFilled = false, isDashed = false, isStepped = false } = line;
  return {
    label: name,
    stroke: colourOf(colour),
    width: isDashed ? 1 : 1.5,
    ...(isDashed && { dash: [6, 4] }),
    ...(isStepped && stepped !== undefined && { paths: stepped }),
    ...(isFilled && { fill: `color-mix(in srgb, ${colourOf(colour)} 12%, transparent)` }),
    points: { show: true, size: 5, filter: isolatedPoints },
    // While the pointer is not on the chart, `i` is null and the legend shows the newest value.
    value: ({ data }: uPlot, value: number | null, at: number, i: number | null) =>
      wordsOf(i === null ? data[at]?.at(-1) : value, format),
  };
}

/** Draws a dashed line with a flag at the time of each marker. */
function drawMarkers({ ctx, bbox, valToPos, scales }: uPlot, markers: readonly Marker[], colourOf: ColourOf) {
  const { min = null, max = null } = scales["x"] ?? {};
  if (min === null || max === null) return;
  const size = 5 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colourOf("muted");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at } of markers) {
    if (at / 1000 < min || at / 1000 > max) continue;
    const x = Math.round(valToPos(at / 1000, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x + size, bbox.top + size / 2);
    ctx.lineTo(x, bbox.top + size);
    ctx.fill();
  }
  ctx.restore();
}

/**
 * Returns the indexes of points without a value directly before or after them. They are drawn as dots, because no line
 * reaches them.
 */
function isolatedPoints({ data }: uPlot, line: number): number[] {
  const values = data[line] ?? [];
  return [...values.keys()].filter(
    (i) => values[i] != null && values[i - 1] == null && values[i + 1] == null,
  );
}

const stepped = uPlot.paths.stepped?.({ align: 1 });

function scaleOf({ isLogarithmic, isFitted }: Drawn): uPlot.Scale {
  if (isLogarithmic) return { distr: 3 };
  if (!isFitted) return { range: (_, __, most) => [0, Math.max(most * 1.1, 0.1)] };
  return {
    range(_, least, most) {
      const room = most === least ? Math.abs(most) * 0.01 : (most - least) * 0.08;
      return [least - room, most + room];
    },
  };
}

export function wordsOf(value: number | null | undefined, format: Drawn["format"]): string {
  return value == null ? "–" : format(value);
}

function timeOf(at: number | undefined): string {
  return at === undefined ? "" : minute(at * 1000);
}

function clockTicks(_: uPlot, ticks: number[]): string[] {
  return ticks.map((at) => minute(at * 1000));
}

function isPowerOfTen(value: number): boolean {
  return Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6);
}

type ColourOf = (name: string) => string;

/**
 * Returns a function that gives the colour of a name such as `accent`. A canvas cannot use CSS variables. So an
 * invisible element gets each variable as its colour, and the browser computes the value for the current theme.
 */
function colourResolver(within: HTMLElement): ColourOf {
  const probe = within.appendChild(document.createElement("span"));
  const resolved = new Map<string, string>();
  for (const name of ["accent", "good", "warn", "bad", "muted", "line"]) {
    probe.style.color = `var(--${name})`;
    resolved.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => resolved.get(name) ?? "gray";
}
