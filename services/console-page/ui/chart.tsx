import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { optionsOf, toData } from "./chart-options.ts";
import { createTooltip } from "./chart-tooltip.ts";
import { zone } from "./zone.tsx";

export type Line = {
  name: string;
  /** One value for each time in `times`; null if a value is missing, for example because no process reported. */
  values: readonly (number | null)[];
  /** Name of a colour variable in tokens.css, without the leading `--`. */
  colour: "accent" | "good" | "warn" | "bad" | "muted";
  isFilled?: boolean;
  isDashed?: boolean;
  /** Whether the line keeps each value until the next one, and then jumps, instead of connecting them. */
  isStepped?: boolean;
};

/** An event that may explain a change of the lines, such as a deploy. The chart shows it as a flag. */
export type Marker = {
  /** Unix ms. */
  at: number;
  text: string;
};

export type ChartProps = {
  /** Describes the chart to a screen reader. */
  label: string;
  /** Unix ms, in order. */
  times: readonly number[];
  lines: readonly Line[];
  /** Formats a value with its unit, for the legend and the tooltip. Also for the axis, unless `formatTick` is given. */
  format: (value: number) => string;
  formatTick?: (value: number) => string;
  /** Unit of the axis. */
  unit?: string;
  height?: number;
  /** Whether the axis is logarithmic, for values of very different sizes. */
  isLogarithmic?: boolean;
  /** Whether the axis covers only the range of the values, for values that are far from 0. */
  isFitted?: boolean;
  /** Whether the axis has only whole numbers, for counts. */
  isWhole?: boolean;
  markers?: readonly Marker[];
  /** Charts with the same key move their crosshairs together. */
  syncKey?: string;
  /** Called with the time (unix ms) of a point when the user clicks on it. */
  onPick?: ((at: number) => void) | undefined;
};

const NO_MARKERS: readonly Marker[] = [];

/** Draws lines over time. The space of the chart stays the same while new values load. */
export function Chart(props: ChartProps) {
  const { label, times, lines, format, formatTick = format, height = 200, unit = "", syncKey = "" } = props;
  const { isLogarithmic = false, isFitted = false, isWhole = false } = props;
  const { markers = NO_MARKERS, onPick } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const marks = useRef(markers);
  marks.current = markers;
  const pick = useRef(onPick);
  pick.current = onPick;
  const theme = useThemeTurn();
  const shownIn = zone();
  const names = lines.map(({ name, colour }) => `${name}/${colour}`).join();

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const flags = { isLogarithmic, isFitted, isWhole };
    const drawn = { lines, format, formatTick, height, unit, ...flags, syncKey, marks };
    const tooltip = createTooltip({ lines, format, marks });
    const options = optionsOf(element, drawn);
    const plot = new uPlot({ ...options, plugins: [tooltip] }, toData(times, lines), element);
    chart.current = plot;
    plot.over.addEventListener("click", () => pickAt(plot, pick.current));
    const fit = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    fit.observe(element);
    return () => {
      fit.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [names, height, unit, isLogarithmic, isFitted, syncKey, theme, shownIn, format, formatTick]);

  useEffect(() => {
    chart.current?.setData(toData(times, lines));
  }, [times, lines, markers]);

  return (
    <div
      class={`chart ${onPick === undefined ? "" : "picks"}`}
      role="img"
      aria-label={label}
      ref={box}
      style={{ minHeight: `${height + 28}px` }}
    />
  );
}

function pickAt({ cursor, data: [times] }: uPlot, onPick: ChartProps["onPick"]): void {
  const at = cursor.idx == null ? undefined : times[cursor.idx];
  if (at !== undefined) onPick?.(at * 1000);
}

/**
 * Returns a number that changes when the page's colours change: when the user switches the theme, or the system does.
 * The chart must then be drawn again, because a canvas does not follow CSS.
 */
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
