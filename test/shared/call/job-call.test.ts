import { expect, test } from "vitest";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { storedBytes, toJobCall, toJson } from "../../../shared/call/job-call.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const MIB = 2 ** 20;

function callOf(body: Buffer, metadata: Record<string, string> = {}) {
  return toJobCall({
    id: randomCallId(),
    origin: "webhook",
    service_id: 7,
    job_id: 1,
    metadata,
    content_type: "application/json",
    body,
    bodySha256: sha256Hex(body),
    accepted_at: 1,
  });
}

onlyInLongRun(() => {
  test("a call holds no second copy of a large body", () => {
    const body = Buffer.alloc(16 * MIB, "x");
    const before = process.memoryUsage().external;
    const calls = Array.from({ length: 8 }, () => callOf(body));
    expect(process.memoryUsage().external - before).toBeLessThan(16 * MIB);
    expect(calls.map(storedBytes)).toEqual(calls.map((call) => call.body.length));
  });
});

test("a call is stored as its JSON, with any metadata; a large one as bytes", () => {
  for (const body of [Buffer.alloc(0), Buffer.from([255, 0, 128, 10]), Buffer.alloc(300_001, "ü")]) {
    const call = callOf(body, { "X-WEBHOOK-PATH": "/hooks/ü", body: '","body":"' });
    for (const same of [call, { ...call }]) {
      expect(toJson(same).toString()).toBe(JSON.stringify(call));
      expect(Buffer.isBuffer(toJson(same))).toBe(body.length > MIB / 4);
    }
  }
});
