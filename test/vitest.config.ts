import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { loaderPlugin } from "../services/dev/loader.mjs";
import { LONG_RUN } from "./support/long-run.ts";
import { SkippedTests } from "./support/skipped-tests.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Tests that need the whole machine. They run after all other tests. */
const ALONE = "test/system/flood/**/*.test.ts";
const LONG = "test/**/*.long.test.ts";
/** Files that take many minutes, mostly because they wait. They start first, so that the run does not end with one of them alone. */
const SLOWEST = [
  "test/services/console/schemathesis.long.test.ts",
  "test/system/crash/kills.long.test.ts",
  "test/docs/buyers.long.test.ts",
];

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSlow = ({ moduleId }: TestSpecification) => SLOWEST.some((file) => moduleId.endsWith(file));
    const others = await super.sort(files.filter((file) => !isSlow(file)));
    return [...files.filter(isSlow), ...others];
  }
}

/**
 * V8 flags of the test processes. With the default of 16 MiB for young objects, garbage collection takes a tenth of the tests' processor
 * time.
 */
const NODE_FLAGS = ["--max-semi-space-size=64"];

/**
 * Common settings. Tests start real processes and wait for them. Seven parallel files keep two cores busy, and four in the long run, whose
 * tests compile, flood and fuzz. The deadlines are long, because tests wait for events and not for times.
 */
const shared = {
  root,
  setupFiles: "test/support/worker.ts",
  pool: "forks",
  isolate: false,
  maxWorkers: LONG_RUN ? 4 : 7,
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
    sequence: { sequencer: SlowestFirst },
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
