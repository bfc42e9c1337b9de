import { sha256Hex } from "../../shared/crypto/compare.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import {
  type JobCall,
  platformKeys,
  toJobCall,
  WEBHOOK_NAME,
  WEBHOOK_ORIGIN,
  WEBHOOK_PATH,
} from "../../shared/job-call/job-call.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { BODY, hookPath } from "./world.ts";

const AT_ONCE = 64;
const body = Buffer.from(BODY);
const bodySha256 = sha256Hex(body);
const keys = platformKeys("X-PLATFORM");

/** A call as the gateway makes it of the bench's request. */
export function newCall(id = randomCallId()): JobCall {
  return toJobCall({
    id,
    origin: "webhook",
    service_id: 1,
    job_id: 1,
    metadata: {
      [keys.serviceId]: "1",
      [WEBHOOK_PATH]: hookPath(1),
      [WEBHOOK_NAME]: "bench",
      [WEBHOOK_ORIGIN]: "webhook",
      [keys.callId]: id,
    },
    contentType: "application/json",
    body,
    bodySha256,
    accepted_at: systemClock(),
    traceparent: undefined,
  });
}

/** Accepts so many new calls, many at once. */
export async function fill(calls: number, accept: (call: JobCall) => Promise<unknown>): Promise<void> {
  let left = calls;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await accept(newCall());
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** How long each of so many new calls took, one after the other, in ms. */
export async function timeEach(
  calls: number,
  accept: (call: JobCall) => Promise<unknown>,
): Promise<number[]> {
  const took: number[] = [];
  for (let i = 0; i < calls; i++) {
    const call = newCall();
    const startedAt = performance.now();
    await accept(call);
    took.push(performance.now() - startedAt);
  }
  return took;
}
