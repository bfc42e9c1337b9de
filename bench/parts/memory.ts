import { type Counts, totalOf } from "../support/counts.ts";
import type { Setup } from "../support/setup.ts";
import { mebibytes, table } from "../support/table.ts";
import { type ByDepth, type Level, measureByDepth } from "./memory-by-depth.ts";
import { measureOfRecords, type OfRecords } from "./memory-of-records.ts";
import { measureOfResults, type OfResults } from "./memory-of-results.ts";
import { measureOfRunner, type OfRunner } from "./memory-of-runner.ts";

export type MemoryFigures = Counts & {
  byDepth: ByDepth;
  withDeliveryIds: OfRecords;
  ofRunner: OfRunner;
  ofResults: OfResults;
};

/** What a call costs in Redis while it waits and when it has ended, and what the processes hold. */
export async function measureMemory(setup: Setup): Promise<MemoryFigures> {
  const withDeliveryIds = await measureOfRecords(setup);
  const ofRunner = await measureOfRunner(setup);
  const ofResults = await measureOfResults(setup);
  const byDepth = await measureByDepth(setup);
  return { ...totalOf([byDepth, withDeliveryIds]), byDepth, withDeliveryIds, ofRunner, ofResults };
}

export function memoryTable({ byDepth, withDeliveryIds, ofRunner, ofResults }: MemoryFigures): string {
  const bytes = [bytesTable(byDepth, withDeliveryIds), runnerTable(ofRunner), resultsTable(ofResults)];
  return [depthTable(byDepth.levels), ...bytes, rssTable(byDepth)].join("\n\n");
}

function depthTable(levels: readonly Level[]): string {
  const head = [
    "waiting calls",
    "Redis MiB",
    "bytes/call",
    "gateway MiB",
    "add p50 ms",
    "p99",
    "POST p50 ms",
    "p99",
  ];
  const rows = levels.map((level) => [
    level.waiting.toLocaleString("en"),
    mebibytes(level.redisBytes),
    Math.round(level.bytesPerCall),
    mebibytes(level.gatewayRssBytes),
    level.addP50Ms,
    level.addP99Ms,
    level.requestP50Ms,
    level.requestP99Ms,
  ]);
  return table(head, rows);
}

function bytesTable({ levels, finishedBytesPerCall }: ByDepth, withIds: OfRecords): string {
  const deepest = levels.at(-1)?.bytesPerCall ?? Number.NaN;
  return table(
    ["Redis bytes per call", "waiting", "finished", "kept for"],
    [
      ["without a delivery id", Math.round(deepest), Math.round(finishedBytesPerCall), "an hour"],
      [
        "with a delivery id",
        Math.round(withIds.waitingBytesPerCall),
        Math.round(withIds.finishedBytesPerCall),
        "its window",
      ],
    ],
  );
}

function runnerTable({ kept, compactBytesPerCall }: OfRunner): string {
  return table(
    ["the runner's Redis, per finished call", "bytes", "kept for"],
    [
      ...kept.map(({ answerBytes, bytesPerCall }) => [
        `with an answer of ${answerBytes / 1000} kB`,
        Math.round(bytesPerCall),
        "answer_secs",
      ]),
      ["after that", Math.round(compactBytesPerCall), "memory_secs"],
    ],
  );
}

function resultsTable(ofResults: OfResults): string {
  return table(
    ["Redis bytes per kept result", "bytes", "beside the body"],
    ofResults.map(({ bodyBytes, bytesPerResult }) => [
      `with a body of ${bodyBytes.toLocaleString("en")}`,
      Math.round(bytesPerResult),
      Math.round(bytesPerResult - bodyBytes),
    ]),
  );
}

function rssTable({ levels, producer }: ByDepth): string {
  return table(
    ["resident memory", "MiB"],
    [
      ["gateway, first level", mebibytes(levels[0]?.gatewayRssBytes ?? Number.NaN)],
      ["gateway, last level", mebibytes(levels.at(-1)?.gatewayRssBytes ?? Number.NaN)],
      ["producer, idle", mebibytes(producer.idleRssBytes)],
      ["producer, draining", mebibytes(producer.drainingRssBytes)],
    ],
  );
}
