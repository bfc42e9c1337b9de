import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { JobCall } from "../../../shared/call/job-call.ts";
import { encodeKeepArgs } from "../../../shared/call/kept/kept.ts";
import { createForget } from "../../../shared/call-search/forget.ts";
import { createReplayDelivered, type ReplayDelivered } from "../../../shared/call-search/replay-delivered.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend } from "../../../shared/queue/backend.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useOwnRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { WORK } from "../../support/results.ts";

const redis = useOwnRedis();
const QUEUE = "webhook/7/1";
const TOKEN = "worker:1";
const CALLBACK = { receiver: "a.example", url: "https://a.example/", result_url: "https://b.example/" };

let backend: QueueBackend;
let replay: ReplayDelivered;
const operator = () => ({ partition: redis.partition, clock: systemClock, log: silentLogger, by: "me@here" });

beforeAll(() => {
  backend = openBackends(redis.partition, WORK)(QUEUE);
  replay = createReplayDelivered(operator());
});
beforeEach(() => redis.client.flushdb());

const take = () => backend.fetch(TOKEN, { bytes: undefined, alone: false });

/** A call that its runner has accepted and whose data is kept after that. */
async function delivered(fields: Parameters<typeof aCall>[0] = {}): Promise<JobCall> {
  const call = aCall({ keep_delivered: { secs: 3600, bytes_max: 8_000_000 }, ...fields });
  await createEnqueue(redis.partition)(call);
  await take();
  const kept = encodeKeepArgs(call);
  await backend.injected(call.id, TOKEN, { fetchNext: undefined, retried: false, kept });
  return call;
}

/** The call that a worker takes next. */
async function taken(): Promise<JobCall | undefined> {
  const fetched = await take();
  return fetched.kind === "call" ? JobCall.parse(JSON.parse(fetched.data)) : undefined;
}

test("a delivered webhook is queued unchanged under a new id, names the delivered call, and writes a line to the audit log", async () => {
  const body = Buffer.from([0, 0xff, 0x22, 0x5c, 0x0a]);
  const call = await delivered({ body, keep_result: true, callback: CALLBACK, content_type: "text/plain" });
  const before = Date.now();
  const replayed = await replay(call.id, { reason: "the runner lost it" });
  const id = replayed?.callId ?? "";
  expect(replayed).toEqual({ callId: expect.stringMatching(/^c_[0-9a-f]{32}$/), changed: true });
  const { callback: _, ...rest } = call;
  const again = await taken();
  expect(again).toEqual({
    ...rest,
    id,
    accepted_at: expect.any(Number),
    metadata: { ...call.metadata, "X-PLATFORM-CALL-ID": id, "X-WEBHOOK-REPLAY-OF": call.id },
  });
  expect(again?.accepted_at).toBeGreaterThanOrEqual(before);
  expect(await redis.client.hgetall(keys.record(id))).toMatchObject({ st: "QUEUED", jb: "7/1" });
  expect(await audited(redis.client)).toMatchObject([
    {
      ...{ action: "replay_delivered", call_id: call.id, by: "me@here" },
      ...{ selection: `as ${id}`, reason: "the runner lost it" },
    },
  ]);
  expect(await redis.client.hget(keys.bytes, QUEUE)).toBe(String(JSON.stringify(again).length));
});

test("a header with the name body, and a large body, are copied unchanged", async () => {
  const metadata = { ...aCall().metadata, body: "a header" };
  const call = await delivered({ body: Buffer.alloc(1_000_000, "é"), metadata });
  await replay(call.id, { reason: "x" });
  const again = await taken();
  expect([again?.metadata["body"], again?.sha256, again?.body === call.body]).toEqual([
    "a header",
    call.sha256,
    true,
  ]);
});

test("the replay is kept like the delivered call, and can be replayed again", async () => {
  const call = await delivered();
  const { callId = "" } = (await replay(call.id, { reason: "x" })) ?? {};
  const again = await taken();
  const kept = again && encodeKeepArgs(again);
  await backend.injected(callId, TOKEN, { fetchNext: undefined, retried: false, kept });
  expect(await replay(callId, { reason: "x" })).toMatchObject({ changed: true });
  expect((await taken())?.metadata["X-WEBHOOK-REPLAY-OF"]).toBe(callId);
});

describe("a request", () => {
  test("that is repeated gives the same new call, while the first runs and after its end", async () => {
    const call = await delivered();
    const order = { reason: "x", requestId: "one" };
    const all = await Promise.all([1, 2, 3, 4].map(() => replay(call.id, order)));
    const ids = new Set(all.map((each) => each?.callId));
    expect(ids.size).toBe(1);
    expect(all.filter((each) => each?.changed)).toHaveLength(1);
    const [id = ""] = ids;
    expect(await taken()).toMatchObject({ id });
    await backend.injected(id, TOKEN, { fetchNext: undefined, retried: false });
    expect(await replay(call.id, order)).toEqual({ callId: id, changed: false });
    expect(await taken()).toBeUndefined();
    expect(await audited(redis.client)).toHaveLength(1);
  });

  test("that is repeated gives the same new call, even if the delivered call is no longer kept", async () => {
    const call = await delivered();
    const order = { reason: "x", requestId: "one" };
    const first = await replay(call.id, order);
    await createForget(operator())(call.id, "the law");
    expect(await replay(call.id, order)).toEqual({ ...first, changed: false });
    expect(await replay(call.id, { ...order, requestId: "two" })).toBeUndefined();
  });

  test("is remembered for at least as long as the delivered call is kept, even if the new call is not", async () => {
    const call = await delivered({ keep_delivered: { secs: 7200, bytes_max: 8_000_000 } });
    const { callId = "" } = (await replay(call.id, { reason: "x", requestId: "one" })) ?? {};
    const fetched = await take();
    const windowMs = fetched.kind === "call" ? fetched.windowMs : undefined;
    await backend.injected(callId, TOKEN, { fetchNext: undefined, retried: false, windowMs });
    expect(await redis.client.pttl(keys.record(callId))).toBeGreaterThan(
      (await redis.client.pttl(keys.kept(call.id))) - 1000,
    );
  });

  test("with another id, or for another call, gives another new call", async () => {
    const [one, other] = [await delivered(), await delivered()];
    const made = [
      await replay(one.id, { reason: "x", requestId: "a" }),
      await replay(one.id, { reason: "x", requestId: "b" }),
      await replay(other.id, { reason: "x", requestId: "a" }),
      await replay(other.id, { reason: "x" }),
    ];
    expect(new Set(made.map((each) => each?.callId)).size).toBe(4);
  });
});

describe("nothing is queued, and no line is written,", () => {
  const nothing = async () => {
    expect(await taken()).toBeUndefined();
    expect(await audited(redis.client)).toEqual([]);
  };

  test("for a call that is not kept, has failed, waits, or was forgotten or evicted", async () => {
    const unkept = await delivered({ keep_delivered: undefined });
    const evicted = await delivered();
    await redis.client.del(keys.kept(evicted.id));
    for (const { id } of [unkept, evicted, aCall()])
      expect(await replay(id, { reason: "x" })).toBeUndefined();
    await nothing();
    const forgotten = await delivered();
    await createForget(operator())(forgotten.id, "the law");
    expect(await replay(forgotten.id, { reason: "x" })).toBeUndefined();
    expect(await taken()).toBeUndefined();
  });

  test("if the call is forgotten between the read and the script that queues it", async () => {
    const call = await delivered();
    const forget = createForget(operator());
    await forget(aCall().id, "loads the script").catch(() => {});
    let forgotten: Promise<unknown> | undefined;
    // The replay asks for the time after it has read the call. Both use one connection, so the call is forgotten before the
    // replay's script runs.
    const clock = () => {
      forgotten = forget(call.id, "the law");
      return Date.now();
    };
    const late = createReplayDelivered({ ...operator(), clock });
    expect(await late(call.id, { reason: "x" })).toBeUndefined();
    expect(await forgotten).toEqual({ kind: "done" });
    expect(await taken()).toBeUndefined();
    expect((await audited(redis.client)).map(({ action }) => action)).not.toContain("replay_delivered");
  });

  test("for a paid call, even if it was kept; the error says so", async () => {
    const id = await claimPayment(new PaymentJournal(redis.partition), {
      ...{ network: "eip155:84532", asset: `0x${"5".repeat(40)}` },
    });
    await expect(replay(id, { reason: "x" })).rejects.toMatchObject({ code: "call.paid" });
    const forged = await delivered();
    const stored = (await redis.client.get(keys.kept(forged.id))) ?? "";
    await redis.client.set(keys.kept(forged.id), stored.replace('"origin":"webhook"', '"origin":"x402"'));
    await expect(replay(forged.id, { reason: "x" })).rejects.toMatchObject({ code: "call.paid" });
    await nothing();
  });

  test("if the kept data belongs to another call, or is damaged", async () => {
    const [call, other] = [await delivered(), await delivered()];
    await redis.client.copy(keys.kept(call.id), keys.kept(other.id), "REPLACE");
    await expect(replay(other.id, { reason: "x" })).rejects.toMatchObject({ code: "call.corrupt" });
    for (const damaged of ["", "x", "/a\n3\nabc", '/a\n0\n{"body":"'])
      await redis.client
        .set(keys.kept(call.id), damaged)
        .then(() => replay(call.id, { reason: "x" }).catch(() => {}));
    await nothing();
  });

  test("in a full Redis", async () => {
    const call = await delivered();
    await redis.client.config("SET", "maxmemory", 1);
    await expect(replay(call.id, { reason: "x" })).rejects.toThrow("OOM");
    await redis.client.config("SET", "maxmemory", 0);
    await nothing();
  });
});
