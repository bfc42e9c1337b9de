import { request } from "../../api/ask.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { STILL_FAILING } from "../jobs/run-delayed.tsx";

/** Asks for a reason, and then makes a delayed call wait in the queue. So a producer attempts it before its time. */
export function RunNowDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const run = (reason: string) => request("POST", "api/v1/calls/{call_id}/run-now", { call_id: id, reason });
  return (
    <Confirm
      title="Run this call now?"
      verb="Run call"
      example="The runner is repaired"
      onClose={onClose}
      act={run}
    >
      <p>
        A producer sends this call to the runner now, before the time of its next attempt. {STILL_FAILING}
      </p>
    </Confirm>
  );
}
