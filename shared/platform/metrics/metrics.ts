import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { droppedLines } from "../log/pino-logger.ts";

const SECONDS_BUCKETS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600,
];

type Labels<Label extends string> = Partial<Record<Label, string | number>>;

type Count<Label extends string> = {
  inc(labels?: Labels<Label>, by?: number): void;
  inc(by: number): void;
};

type Level<Label extends string> = Count<Label> & {
  dec(): void;
  set(labels: Labels<Label>, value: number): void;
  set(value: number): void;
  reset(): void;
};

/**
 * Metrics of one process. The type does not refer to types of prom-client, so that programs that use Postern as a
 * library need not install it.
 */
export type Metrics = {
  counter<Label extends string>(name: string, help: string, labelNames?: readonly Label[]): Count<Label>;
  gauge<Label extends string>(name: string, help: string, labelNames?: readonly Label[]): Level<Label>;
  /** Creates a histogram of durations. Pass milliseconds to `observeMs`; `buckets` are in seconds. */
  duration<Label extends string>(
    name: string,
    help: string,
    labelNames?: readonly Label[],
    buckets?: number[],
  ): { observeMs(labels: Record<Label, string>, ms: number): void };
  /** Registers a function that sets gauges before each scrape. */
  beforeScrape(set: () => void | Promise<void>): void;
  readonly contentType: string;
  /** Returns the metrics in Prometheus' text format. */
  text(): Promise<string>;
};

/** Creates the metrics of this process, including those of Node. */
export function createMetrics(): Metrics {
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
  let setting: Promise<unknown> | undefined;
  return {
    counter: (name, help, labelNames = []) => new Counter({ name, help, labelNames, registers }),
    gauge: (name, help, labelNames = []) => new Gauge({ name, help, labelNames, registers }),
    duration(name, help, labelNames = [], buckets = SECONDS_BUCKETS) {
      const histogram = new Histogram({ name, help, labelNames, registers, buckets });
      return { observeMs: (labels, ms) => histogram.observe(labels, ms / 1000) };
    },
    beforeScrape: (set) => void setters.push(set),
    contentType: registry.contentType,
    text: async () => {
      // Concurrent scrapes share one update of the gauges.
      setting ??= Promise.all(setters.map(async (set) => set())).finally(() => {
        setting = undefined;
      });
      await setting;
      return registry.metrics();
    },
  };
}
