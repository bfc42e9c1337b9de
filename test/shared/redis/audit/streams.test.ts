import { beforeEach, describe, expect, test } from "vitest";
import { PaymentJournal } from "../../../../shared/payments/journal.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import type { AuditEntry } from "../../../../shared/redis/audit/actions.ts";
import { AUDIT, createAudit, toLine } from "../../../../shared/redis/audit/audit.ts";
import { createReadAudit } from "../../../../shared/redis/audit/read.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { claimPayment, dropOf } from "../../../support/made-payment.ts";
import { partitionsOver } from "../../../support/partitions.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const CALL = `c_${"1".repeat(32)}`;
const DAY_MS = 86_400_000;

const audit: (entry: AuditEntry<"acts" | "reads">) => Promise<void> = (entry) =>
  createAudit(redis.partition, silentLogger)(entry);
const act = (by: string, job: string, more: { reason?: string } = {}) =>
  audit({ at: Date.now(), action: "pause", job, by, selection: "by name", ...more });
const inActs = () => audited(redis.client, ["acts"]);

/** Adds this number of lines to a stream in one script, as other operators would over time. */
async function fill(place: "acts" | "repeats" | "money" | "reads", count: number, firstAt?: number) {
  const script = `for i = 1, tonumber(ARGV[1]) do
    redis.call('XADD', KEYS[1], ARGV[2] == '' and '*' or ARGV[2] .. '-' .. i, 'action', 'filler', 'at', '1', 'by', 'x')
  end`;
  await redis.client.eval(script, 1, keys.audit(place), count, firstAt ?? "");
}

/** Drops a payment, which writes the line to the audit log in the same script. */
async function dropOne(): Promise<string> {
  const journal = new PaymentJournal(redis.partition);
  const id = await claimPayment(journal, { network: "eip155:84532", asset: `0x${"5".repeat(40)}` });
  await journal.drop(id, { by: "me", reason: "a test" }, dropOf(id));
  return id;
}

describe("an operator who tries to hide an act", () => {
  test("by pausing and resuming in a loop evicts nothing: no other act, also of their own name, and no line about money", async () => {
    const dropped = await dropOne();
    await audit({ at: 1, action: "forget", callId: CALL, by: "mallory", selection: "by id" });
    await act("bob", "7/1");
    const jobs = openJobs(redis.partitions);
    const loop = AUDIT.aDay + 50;
    for (let n = 0; n < loop; n++) {
      await jobs.pause("7/9", { at: n, by: "mallory", reason: "x" });
      await jobs.resume("7/9", { at: n, by: "mallory" });
    }
    // These lines stand for further rounds of the loop, until more lines than the limit were written.
    await fill("repeats", AUDIT.repeatsKept + 9000);
    await act("mallory", "7/9");
    const kept = await inActs();
    expect(kept.slice(0, 2)).toMatchObject([
      { action: "forget", by: "mallory" },
      { action: "pause", by: "bob", job: "7/1" },
    ]);
    const count = (action: string) =>
      kept.filter((line) => line["by"] === "mallory" && line["action"] === action);
    expect([count("pause").length, count("resume").length]).toEqual([AUDIT.aDay, AUDIT.aDay]);
    expect(await redis.client.xlen(keys.audit("repeats"))).toBeLessThan(1.01 * AUDIT.repeatsKept);
    expect((await audited(redis.client, ["money"])).map(({ call_id: id }) => id)).toEqual([dropped]);
  });

  test("by a bulk operation of any size leaves the lines for single calls of the same action", async () => {
    const replay = (callId: string, run?: string) =>
      audit({ at: 1, action: "replay", callId, by: "mallory", selection: "by id", run });
    const ids = Array.from({ length: AUDIT.aDay + 10 }, (_, n) => `c_${String(n).padStart(32, "0")}`);
    for (const id of ids) await replay(id, `run_${"1".repeat(32)}`);
    await replay(CALL);
    expect((await inActs()).at(-1)).toMatchObject({ call_id: CALL });
    expect(await redis.client.xlen(keys.audit("repeats"))).toBe(10);
    const { entries } = await createReadAudit(partitionsOver(redis.client))(
      { call_id: ids.at(-1) },
      { limit: 5 },
    );
    expect(entries).toMatchObject([{ stream: "acts", fields: { action: "replay", by: "mallory" } }]);
  });

  test("by long texts uses little space: a line is cut, and a repeat is cut shorter, at whole characters", async () => {
    const reason = "ä😀".repeat(50_000);
    for (let n = 0; n <= AUDIT.aDay; n++) await act("x".repeat(5000), `7/${n}`, { reason });
    const [first] = await inActs();
    expect([first?.["reason"]?.length, first?.["by"]?.length]).toEqual([1000, 256]);
    const [repeat] = await audited(redis.client, ["repeats"]);
    expect(reason.startsWith(String(repeat?.["reason"]))).toBe(true);
    expect(Buffer.byteLength(String(repeat?.["reason"]))).toBeGreaterThan(AUDIT.repeatBytes - 10);
    expect(repeat).toMatchObject({ action: "pause", job: `7/${AUDIT.aDay}` });
  });

  test("by a name or a reason with control characters writes no second line, and affects no other name's count", async () => {
    const name = "ann\nby bob\u0000:replay in runs";
    await act(name, "7/1", { reason: 'x"\r\n\u202e{"by":"bob"}' });
    await act("ann", "7/2");
    expect(await inActs()).toMatchObject([
      { by: name, job: "7/1", reason: 'x"\r\n\u202e{"by":"bob"}' },
      { by: "ann", job: "7/2" },
    ]);
    expect(await redis.client.get(keys.auditCount("pause", "ann"))).toBe("1");
  });
});

test("a viewer who reads endlessly evicts older reads, but no act", async () => {
  await act("ann", "7/1");
  const read = () => audit({ at: 1, action: "read_body", callId: CALL, by: "vera", selection: "by id" });
  await read();
  await fill("reads", AUDIT.readsKept + 9000);
  await read();
  expect(await redis.client.xlen(keys.audit("reads"))).toBeLessThan(1.01 * AUDIT.readsKept);
  expect(await inActs()).toMatchObject([{ by: "ann" }]);
});

test("lines about money and acts are trimmed only by age, a few with each new line, so that a clock that jumps ahead removes few", async () => {
  const now = Date.now();
  await fill("money", 5000, now - AUDIT.keptMs - DAY_MS);
  await fill("money", 500, now - AUDIT.keptMs + DAY_MS);
  const left = async () => redis.client.xlen(keys.audit("money"));
  await dropOne();
  expect(await left()).toBeGreaterThan(5501 - 1 - AUDIT.trimmedAtOnce);
  for (let n = 0; n < 60; n++) await dropOne();
  const old = await redis.client.xrange(keys.audit("money"), "-", now - AUDIT.keptMs);
  expect(old.length).toBeLessThan(AUDIT.trimmedAtOnce);
  expect(await left()).toBeGreaterThanOrEqual(500 + 61);
});

test("a full Redis accepts the lines of operators", async () => {
  await redis.client.config("SET", "maxmemory", 1);
  try {
    await act("ann", "7/1");
    await audit({ at: 1, action: "read_body", callId: CALL, by: "vera", selection: "by id" });
    await openJobs(redis.partitions).pause("7/2", { at: 1, by: "ann", reason: "x" });
  } finally {
    await redis.client.config("SET", "maxmemory", 0);
  }
  const written = await audited(redis.client, ["acts", "reads"]);
  expect(written.map(({ action }) => action).toSorted()).toEqual(["pause", "pause", "read_body"]);
});

test("a line is JSON without half surrogate pairs", () => {
  const entry = {
    at: 1,
    action: "pause",
    job: "7/1",
    by: "ann",
    selection: "by name",
    reason: "\ud83d",
  } as const;
  expect(toLine(entry)).toBe(
    '["at","1","action","pause","job","7/1","by","ann","selection","by name","reason","\ufffd"]',
  );
});
