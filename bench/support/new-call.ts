import { randomCallId } from "../../shared/call/call-id.ts";
import {
  type JobCall,
  platformKeys,
  toJobCall,
  WEBHOOK_NAME,
  WEBHOOK_ORIGIN,
  WEBHOOK_PATH,
} from "../../shared/call/job-call.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { BODY, hookPath } from "./world.ts";

/** Creates the call that the webhooks gateway would create from a request of the bench. */
export function newCall(): JobCall {
  const [id, keys, body] = [randomCallId(), platformKeys("X-PLATFORM"), Buffer.from(BODY)];
  return toJobCall({
    ...{ id, origin: "webhook", service_id: 1, job_id: 1, content_type: "application/json" },
    ...{ body, bodySha256: sha256Hex(body), accepted_at: Date.now() },
    metadata: {
      [keys.serviceId]: "1",
      [WEBHOOK_PATH]: hookPath(1),
      [WEBHOOK_NAME]: "bench",
      [WEBHOOK_ORIGIN]: "webhook",
      [keys.callId]: id,
    },
  });
}
