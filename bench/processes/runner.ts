import { runRunner } from "../../services/runner/main.ts";
import { createRouter, type LongJob, type ShortJob } from "../../services/runner/router.ts";
import { ANSWER_BYTES, callIn, failsFirst, soakJobs } from "../support/soak-plan.ts";
import type { SoakRuns } from "./soak-protocol.ts";
import { serveJson } from "./tell.ts";
import "./heap.ts";

/*
 * Runs `postern runner` with the jobs of a soak. The arguments are the configuration folder and the number of calls. The
 * handlers count the runs of each call. The process serves the sums over HTTP on a port of its own, and logs the URL as
 * the event `bench.counts`. The counters have a fixed size, because the soak checks that the runner's memory does not grow.
 */
const [configDir = "", calls = ""] = process.argv.slice(2);
const failures = new Uint8Array(Number(calls));
const successes = new Uint8Array(Number(calls));
const runs: SoakRuns = { succeeded: 0, doubled: 0, failed: 0 };

function run(body: Buffer): void {
  const call = callIn(body);
  if (failsFirst(call) && failures[call] === 0) {
    failures[call] = 1;
    runs.failed += 1;
    throw new Error("the first run of this call fails");
  }
  if (successes[call] === 0) runs.succeeded += 1;
  else runs.doubled += 1;
  successes[call] = 1;
}

const short = (name: string): ShortJob => ({
  name,
  handler({ body }) {
    run(body);
    return { body: body.subarray(0, ANSWER_BYTES) };
  },
});
const long = (name: string): LongJob => ({ name, long: true, handler: ({ body }) => run(body) });

const router = createRouter();
for (const job of soakJobs) {
  const name = `soak-${job.id}`;
  if (job.long) router.job(job.id, long(name));
  else router.job(job.id, short(name));
}

serveJson("bench.counts", () => runs);

process.exit(
  await runRunner(
    { configDir, bindAddress: "127.0.0.1:0", opsAddress: "127.0.0.1:0", env: process.env, pretty: false },
    router,
  ),
);
