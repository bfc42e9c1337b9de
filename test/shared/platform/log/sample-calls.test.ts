import { expect, test } from "vitest";
import { randomCallId } from "../../../../shared/call/call-id.ts";
import type { Fields } from "../../../../shared/platform/log/logger.ts";
import { sampleCalls } from "../../../../shared/platform/log/sample-calls.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const IDS = Array.from({ length: 2000 }, randomCallId);

/** Returns the calls for which a process that samples with this share logs the event. */
function logged(share: number, event: string, fields: Fields = {}): string[] {
  const recorded = recordingLog();
  const log = sampleCalls(recorded, share);
  for (const callId of IDS) log.info(event, { callId, ...fields });
  return recorded.events.map(({ fields: { callId } }) => String(callId));
}

test("each event of a successful call is logged for the same tenth of the calls, which a larger share includes", () => {
  const tenth = logged(0.1, "webhook.accepted");
  expect(tenth.length).toBeGreaterThan(100);
  expect(tenth.length).toBeLessThan(300);
  for (const event of ["call.injected", "job.finished", "result.delivered", "payment.accepted"])
    expect(logged(0.1, event)).toEqual(tenth);
  expect(new Set(logged(0.5, "job.stored"))).toEqual(new Set([...logged(0.5, "call.injected"), ...tenth]));
});

test("with a share of 0 no successful call is logged, and with 1 each one is", () => {
  expect([logged(0, "call.injected"), logged(1, "call.injected")]).toEqual([[], IDS]);
});

test.each([
  ["a call that was injected after a postponement", "call.injected", { attemptsBefore: 2 }],
  ["a settled payment", "payment.settled", {}],
  ["an operator's action on a call", "call.forgotten", {}],
])("%s is logged even with a share of 0", (_what, event, fields) => {
  expect(logged(0, event, fields)).toEqual(IDS);
});

test("warnings and errors are logged even with a share of 0, also under the name of a sampled event", () => {
  const recorded = recordingLog();
  const log = sampleCalls(recorded, 0);
  log.warn("job.finished", { callId: IDS[0] });
  log.error("job.finished", { callId: IDS[0] });
  expect(recorded.events).toHaveLength(2);
});
