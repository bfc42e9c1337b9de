import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { loaderPlugin } from "../services/dev/loader.mjs";
import { LONG_RUN } from "./support/long-run.ts";
import { SkippedTests } from "./support/skipped-tests.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
/** What needs the machine for itself runs once all else is over. */
const ALONE = "test/system/flood/**/*.test.ts";
const LONG = "test/**/*.long.test.ts";
/** With V8's default of 16 MiB for young objects, collecting garbage takes a tenth of the tests' processor time. */
const NODE_FLAGS = ["--max-semi-space-size=64"];

/**
 * Tests start real processes, and wait for them: seven files at a time keep two cores busy, and five of the long run, whose tests
 * compile, flood and fuzz. The deadlines are long, and a test that waits waits for an event.
 */
const shared = {
  root,
  setupFiles: "test/support/worker.ts",
  pool: "forks",
  isolate: false,
  maxWorkers: LONG_RUN ? 5 : 7,
  maxConcurrency: 2,
  execArgv: NODE_FLAGS,
  testTimeout: 180_000,
  hookTimeout: 180_000,
  expect: { poll: { timeout: 60_000 } },
} as const;

export default defineConfig({
  test: {
    root,
    globalSetup: "test/support/build.ts",
    reporters: ["default", new SkippedTests()],
    projects: [
      {
        plugins: [loaderPlugin],
        test: {
          ...shared,
          name: "parallel",
          include: ["test/**/*.test.ts"],
          exclude: LONG_RUN ? [ALONE] : [ALONE, LONG],
          sequence: { groupOrder: 0 },
        },
      },
      {
        plugins: [loaderPlugin],
        test: {
          ...shared,
          name: "serial",
          include: [ALONE],
          exclude: LONG_RUN ? [] : [LONG],
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
