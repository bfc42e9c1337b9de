import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Tests start real processes, so few files run at a time and the deadlines are long; a test that waits waits for an event. */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("..", import.meta.url)),
    include: ["test/**/*.test.ts"],
    globalSetup: "test/support/build.ts",
    setupFiles: "test/support/worker.ts",
    pool: "forks",
    isolate: false,
    maxWorkers: 3,
    maxConcurrency: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
