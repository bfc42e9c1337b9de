import type uPlot from "uplot";
import type { Line, Marker } from "./chart.tsx";
import { wordsOf } from "./chart-options.ts";
import { shortly } from "./time.tsx";

type Shown = {
  lines: readonly Line[];
  format: (value: number) => string;
  marks: { readonly current: readonly Marker[] };
};

/** Distance between the cursor and the tooltip, in pixels. */
const GAP = 12;

/**
 * Creates a uPlot plugin that shows the values at the cursor, and the markers near it. Charts can move their crosshairs
 * together, but only the chart under the pointer shows a tooltip.
 */
export function createTooltip({ lines, format, marks }: Shown): uPlot.Plugin {
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.hidden = true;
  let isOver = false;

  function show(plot: uPlot): void {
    const { idx, left = -1 } = plot.cursor;
    const at = idx == null ? undefined : plot.data[0][idx];
    tip.hidden = !isOver || at === undefined || left < 0;
    if (tip.hidden || at === undefined || idx == null) return;
    const values = lines.map(({ name, colour }, i): Row => {
      return { name, words: wordsOf(plot.data[i + 1]?.[idx], format), colour };
    });
    const near = markersNear(marks.current, plot, idx).map((text): Row => ({ name: text }));
    tip.replaceChildren(headOf(at * 1000), ...[...values, ...near].map(rowOf));
    const isLeft = left + tip.offsetWidth + GAP > plot.over.clientWidth;
    tip.style.left = `${isLeft ? Math.max(0, left - tip.offsetWidth - GAP) : left + GAP}px`;
  }

  return {
    hooks: {
      ready(plot) {
        plot.over.append(tip);
        plot.over.addEventListener("mouseenter", () => {
          isOver = true;
        });
        plot.over.addEventListener("mouseleave", () => {
          isOver = false;
          tip.hidden = true;
        });
      },
      setCursor: show,
    },
  };
}

type Row = { name: string; words?: string; colour?: string };

function headOf(at: number): HTMLElement {
  const head = document.createElement("strong");
  head.textContent = shortly(new Date(at));
  return head;
}

function rowOf({ name, words, colour }: Row): HTMLElement {
  const row = document.createElement("span");
  const label = document.createElement("span");
  label.textContent = name;
  if (colour !== undefined) label.className = `tip-${colour}`;
  row.append(label);
  if (words !== undefined) {
    const value = document.createElement("b");
    value.textContent = words;
    row.append(value);
  }
  return row;
}

/** Returns the texts of the markers whose time is closer to this point than to the points before and after it. */
function markersNear(markers: readonly Marker[], { data: [times] }: uPlot, idx: number): string[] {
  const at = times[idx] ?? 0;
  const [before, after] = [times[idx - 1] ?? at, times[idx + 1] ?? at];
  return markers
    .filter((each) => each.at / 1000 >= (before + at) / 2 && each.at / 1000 <= (at + after) / 2)
    .map(({ text }) => text);
}
