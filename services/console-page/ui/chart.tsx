import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

export type Line = {
  name: string;
  /** One for each time; null where nothing was counted. */
  values: readonly (number | null)[];
  /** A colour of tokens.css, without its dashes. */
  colour: "accent" | "good" | "warn" | "bad" | "muted";
  isFilled?: boolean;
  isDashed?: boolean;
  /** Whether a value holds until the next one. */
  isStepped?: boolean;
};

type Props = {
  /** What it shows, for whoever does not see it. */
  label: string;
  /** Unix ms, in order. */
  times: readonly number[];
  lines: readonly Line[];
  /** How a value is written in the legend, and on the axis unless `formatTick` says otherwise. */
  format: (value: number) => string;
  formatTick?: (value: number) => string;
  height?: number;
  /** For values of several magnitudes. */
  isLogarithmic?: boolean;
  /** For values that are far from 0: the axis has only what they need. */
  isFitted?: boolean;
};

/** Lines over time. It keeps its place while new values come. */
export function Chart(props: Props) {
  const { label, times, lines, format, formatTick = format, height = 200 } = props;
  const { isLogarithmic = false, isFitted = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const theme = useThemeTurn();
  const names = lines.map(({ name, colour }) => `${name}/${colour}`).join();

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const drawn = new uPlot(
      optionsOf(element, { lines, format, formatTick, height, isLogarithmic, isFitted }),
      toData(times, lines),
      element,
    );
    chart.current = drawn;
    const fit = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    fit.observe(element);
    return () => {
      fit.disconnect();
      drawn.destroy();
      chart.current = null;
    };
  }, [names, height, isLogarithmic, isFitted, theme, format, formatTick]);

  useEffect(() => {
    chart.current?.setData(toData(times, lines));
  }, [times, lines]);

  return (
    <div class="chart" role="img" aria-label={label} ref={box} style={{ minHeight: `${height + 28}px` }} />
  );
}

function toData(times: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [times.map((at) => at / 1000), ...lines.map(({ values }) => [...values])];
}

type Drawn = Omit<Required<Props>, "label" | "times">;

function optionsOf(element: HTMLElement, drawn: Drawn): uPlot.Options {
  const { lines, format, formatTick, height, isLogarithmic } = drawn;
  const colourOf = colours(element);
  const axis = {
    stroke: colourOf("muted"),
    grid: { stroke: colourOf("line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const powers = (_: uPlot, ticks: number[]) =>
    ticks.map((tick) => (isLogarithmic && !isPowerOfTen(tick) ? null : tick));
  return {
    width: element.clientWidth,
    height,
    padding: [10, 20, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { y: scaleOf(drawn) },
    axes: [
      { ...axis, space: 70, size: 30, values: clockTicks },
      {
        ...axis,
        size: 62,
        // Of several magnitudes only the powers of ten: between them lines and words would stand on one another.
        filter: powers,
        grid: { ...axis.grid, filter: powers },
        values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : formatTick(tick))),
      },
    ],
    series: [
      { label: "At", value: ({ data: [times] }, at) => timeOf(at ?? times.at(-1)) },
      ...lines.map(({ name, colour, isFilled = false, isDashed = false, isStepped = false }) => ({
        label: name,
        stroke: colourOf(colour),
        width: isDashed ? 1 : 1.5,
        ...(isDashed && { dash: [6, 4] }),
        ...(isStepped && stepped !== undefined && { paths: stepped }),
        ...(isFilled && { fill: `color-mix(in srgb, ${colourOf(colour)} 12%, transparent)` }),
        points: { show: true, size: 5, filter: alone },
        // Of the newest, unless the pointer chooses another.
        value: ({ data }: uPlot, value: number | null, at: number, i: number | null) =>
          wordsOf(i === null ? data[at]?.at(-1) : value, format),
      })),
    ],
  };
}

/** The values without one before and after them, which no line shows. */
function alone({ data }: uPlot, line: number): number[] {
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

function wordsOf(value: number | null | undefined, format: Drawn["format"]): string {
  return value == null ? "–" : format(value);
}

function timeOf(at: number | undefined): string {
  return at === undefined ? "" : tick.format(at * 1000);
}

const tick = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

function clockTicks(_: uPlot, ticks: number[]): string[] {
  return ticks.map((at) => tick.format(at * 1000));
}

function isPowerOfTen(value: number): boolean {
  return Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6);
}

/** A canvas knows no variables of CSS: an element resolves them, by the theme that it is in. */
function colours(within: HTMLElement): (name: string) => string {
  const probe = within.appendChild(document.createElement("span"));
  const resolved = new Map<string, string>();
  for (const name of ["accent", "good", "warn", "bad", "muted", "line"]) {
    probe.style.color = `var(--${name})`;
    resolved.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => resolved.get(name) ?? "gray";
}

/** Changes with the colours of the page. */
function useThemeTurn(): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const follow = () => setTurn((before) => before + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", follow);
    window.addEventListener("themechange", follow);
    return () => {
      system.removeEventListener("change", follow);
      window.removeEventListener("themechange", follow);
    };
  }, []);
  return turn;
}
