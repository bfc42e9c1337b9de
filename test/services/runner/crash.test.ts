import { join } from "node:path";
import { expect, test } from "vitest";
import { startPart } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useRunners } from "../../fixtures/runners.ts";
import { readEffects } from "../../support/effects.ts";
import { send } from "../../support/http.ts";
import { sample } from "../../support/long-run.ts";
import { programEntry } from "../../support/programs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { stateOf } from "./gated-jobs.ts";
import { LEASE_MS, tracedJobs } from "./traced-jobs.ts";

const effectsFile = join(tempDir(), "effects.jsonl");
const entry = programEntry("traced-runner");

const runners = useRunners({ fresh: "test" });
const ends = useEnds();

/** Starts a runner's process that kills itself at this failpoint. */
async function startMortal(failpoint: string) {
  const args = [runners.redis.url, effectsFile];
  const env = { ...process.env, POSTERN_FAILPOINT: failpoint };
  const part = await startPart({ name: "runner", entry, args, env });
  ends.defer(() => part.kill("SIGKILL"));
  const ask = () => send(part.address, { method: "GET", path: "/readyz" });
  await eventually("the runner is ready", async () => (await ask()).status === 200);
  return part;
}

const effectsOf = (callId: string) =>
  readEffects(effectsFile).filter((effect) => effect.callId === callId).length;

const JOBS = { short: { job: 1, status: 200 }, long: { job: 2, status: 202 } } as const;
const RUNS = { once: 1, twice: 2 } as const;

/**
 * How often a call runs in total if the runner is killed at this failpoint. It runs twice only if the handler may have done
 * its work before the store knows of it: docs state this exception.
 */
const KILLS = [
  ["short", "runner.after_remembered", "once"],
  ["long", "runner.in_handler", "twice"],
  ["short", "runner.in_handler", "twice"],
  ["long", "runner.after_stored", "once"],
  ["short", "runner.after_begin", "once"],
  ["short", "runner.after_handler", "twice"],
  ["short", "runner.after_answer", "once"],
  ["long", "runner.after_begin", "once"],
  ["long", "runner.after_remembered", "once"],
] as const;

test.each(sample(KILLS, 2))(
  "a %s call whose runner is killed at %s is answered by the next runner and has run %s",
  async (kind, point, times) => {
    const { job, status } = JOBS[kind];
    const callId = `${point}-${job}`;
    const mortal = await startMortal(point);
    const sent = { path: `/jobs/${job}`, headers: { "Idempotency-Key": callId }, body: "x" };
    await send(mortal.address, sent).catch(() => "the runner died");
    expect((await mortal.process.exit).signal).toBe("SIGKILL");
    const other = await runners.start({ jobs: tracedJobs(effectsFile), lease_ms: LEASE_MS });
    const answered = await eventually("it is answered", async () => {
      const answer = await other.offer(callId, { job, body: "x" });
      return answer.status === 409 ? undefined : answer;
    });
    expect(answered.status).toBe(status);
    await eventually("it is done", async () => (await stateOf(other, callId)) === "done");
    expect(effectsOf(callId)).toBe(RUNS[times]);
  },
);
