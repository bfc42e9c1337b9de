import { request } from "../../api/ask.ts";
import type { Job } from "../../api/jobs.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { counted } from "../../ui/number.ts";

/**
 * Asks for a reason, and then makes the delayed calls of a job wait in the queue. So producers attempt them before
 * their time.
 */
export function RunDelayedDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const run = (reason: string) => request("POST", "api/v1/jobs/{job+}/run-delayed", { job: job.job, reason });
  return (
    <Confirm
      title={`Run the delayed calls of job ${job.job}?`}
      verb={`Run ${counted(job.delayed, "delayed call")}`}
      example="The runner is repaired"
      onClose={onClose}
      act={run}
    >
      <p>
        Producers send these calls to the runner now, after the calls that wait already. {STILL_FAILING} Held
        calls stay held.
      </p>
      {job.paused !== undefined && <p>The job is paused, so they wait until it is resumed.</p>}
    </Confirm>
  );
}

export const STILL_FAILING =
  "If the runner still fails, the attempt counts: the call is delayed again, or fails after its last attempt.";
