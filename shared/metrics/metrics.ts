import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { droppedLines } from "../log/pino-logger.ts";

const SECONDS_BUCKETS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600,
];

export type Metrics = ReturnType<typeof createMetrics>;

/** The metrics of one process in Prometheus' text format, with those of Node itself. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Counter({
    name: "postern_log_lines_dropped_total",
    help: "Log lines lost because the reader of stdout was too slow or gone",
    registers,
    collect() {
      this.reset();
      this.inc(droppedLines());
    },
  });
  const setters: (() => void | Promise<void>)[] = [];
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Counter<Label>({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge<Label>({ name, help, labelNames, registers }),
    /** A duration; give milliseconds to `observeMs`. */
    duration: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) => {
      const histogram = new Histogram<Label>({ name, help, labelNames, registers, buckets: SECONDS_BUCKETS });
      return {
        observeMs: (labels: Record<Label, string>, ms: number) => histogram.observe(labels, ms / 1000),
      };
    },
    /** Runs before each scrape, to set gauges. */
    beforeScrape: (set: () => void | Promise<void>) => void setters.push(set),
    contentType: registry.contentType,
    text: async () => {
      await Promise.all(setters.map((set) => set()));
      return registry.metrics();
    },
  };
}
