import { appendFileSync } from "node:fs";
import { type Call, createRouter } from "../../../services/runner/runner.ts";

/** How long a call of a killed runner waits before another runner takes it over. */
export const LEASE_MS = 200;

/** Short job 1 and long job 2, which append a line to this file for each run. */
export function tracedJobs(effectsFile: string) {
  const leaveTrace = ({ callId }: Pick<Call<undefined, unknown>, "callId">) =>
    appendFileSync(effectsFile, `${JSON.stringify({ callId })}\n`);
  return createRouter()
    .job(1, {
      name: "short",
      handler(call) {
        leaveTrace(call);
        return { body: "done" };
      },
    })
    .job(2, { name: "long", long: true, handler: async (call) => leaveTrace(call) });
}
