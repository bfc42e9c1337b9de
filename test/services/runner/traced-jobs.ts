import { appendFileSync } from "node:fs";
import { type Call, createRouter } from "../../../services/runner/runner.ts";

/** How long a call stays with a runner that was killed. */
export const LEASE_MS = 200;

/** Jobs that leave one line in this file for each run: 1 is short, 2 long. */
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
