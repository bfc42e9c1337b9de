import { request, type ServerResponse } from "node:http";
import { EventSource } from "undici";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Changes, createChanges } from "../../../shared/call/results/changes.ts";
import { createResults, type Results } from "../../../shared/call/results/store.ts";
import type { DeliverResult, Delivery } from "../../../shared/call-search/deliver-result.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { type Listening, listen } from "../../../shared/http/listen.ts";
import { sendProblem } from "../../../shared/http/problem.ts";
import { type CallStreams, createCallStreams } from "../../../shared/ingress/call-streams.ts";
import { AppError, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { type ReadStream, readStream } from "../../support/event-source.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { markInjected } from "../../support/mark-injected.ts";
import { type RecordingLog, recordingLog } from "../../support/recording-log.ts";
import { deliverResultOn, tellProgressOn } from "../../support/results.ts";

const redis = useRedis();
const ends = useEnds();
const QUEUE = "webhook/7/1";

const ANSWER: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" },
  body: Buffer.from("done"),
};

let results: Results;
let deliver: DeliverResult;
let changes: Changes;
let log: RecordingLog;
let server: Listening;
let streams: CallStreams;
/** Answers that the server has begun. */
let answers: ServerResponse[];

beforeAll(() => {
  results = createResults(redis.partition);
  deliver = deliverResultOn(redis.partition);
});
beforeEach(async () => {
  await redis.client.flushdb();
  log = recordingLog();
});
afterEach(() => {
  streams?.end();
});

const LIMITS = { streamsMax: 1000, perCallMax: 16 };

type Options = Partial<Parameters<typeof createCallStreams>[0]> & { mayBegin?: boolean };

/**
 * Starts a server that opens a stream of the call at `/<call id>`. `?proven` makes the request authenticated, and
 * `?clientKey` sets its address.
 */
async function serve({ mayBegin = false, ...options }: Options = {}): Promise<void> {
  changes = createChanges(redis.partition, { sweepEveryMs: 3_600_000 });
  streams = createCallStreams({ results, changes, limits: LIMITS, clock: systemClock, log, ...options });
  const opened = streams;
  answers = [];
  server = await listen((req, res) => {
    answers.push(res);
    const { pathname, searchParams } = new URL(req.url ?? "", "http://a");
    const clientKey = searchParams.get("clientKey") ?? "an address";
    const asking = {
      callId: pathname.slice(1),
      isAuthenticated: searchParams.has("proven"),
      clientKey,
      mayBegin,
    };
    opened.open(req, res, asking).catch((error: unknown) => sendProblem(req, res, toAppError(error)));
  }, "127.0.0.1:0");
  const { close } = server;
  const closeChanges = changes.close;
  ends.defer(async () => {
    opened.end();
    closeChanges();
    await close(100);
  });
  // From here on, changes are noticed only by messages, because the sweep on subscribing has already happened.
  let isListening = false;
  changes.watch("none", () => {
    isListening = true;
  });
  await eventually("it listens", () => isListening);
}

const urlOf = (id: string, query = "?proven") => `${server.url}/${id}${query}`;

async function open(id: string, query?: string, lastEventId?: string): Promise<ReadStream> {
  const stream = await readStream(urlOf(id, query), lastEventId === undefined ? {} : { lastEventId });
  ends.defer(stream.close);
  return stream;
}

async function aRecord(fields: Record<string, string | number> = {}): Promise<string> {
  const { id } = aCall();
  await redis.client.hset(keys.record(id), { st: "QUEUED", at: 5, ...fields });
  return id;
}

const kindsOf = ({ events }: ReadStream) => events.flatMap(({ event }) => event ?? []);
const untilEvents = (stream: ReadStream, count: number) =>
  eventually(`${count} events`, () => kindsOf(stream).length >= count);
const lastOf = ({ events }: ReadStream) => events.at(-1);

async function injected(id: string): Promise<void> {
  await markInjected(redis.partition, { id, queue: QUEUE }, { known: "awaited" });
}

const tellProgress = (id: string, at: number, fields: object) =>
  tellProgressOn(redis.partition)(id, { at, json: JSON.stringify(fields) });

describe("a stream sends an authenticated client", () => {
  test("the state, each change, the progress of a long job, and the end of the call, and then ends", async () => {
    await serve();
    const id = await aRecord();
    const stream = await open(id);
    expect(stream.headers).toMatchObject({
      ...{ "content-type": "text/event-stream", "cache-control": "no-store" },
      "x-accel-buffering": "no",
    });
    await untilEvents(stream, 1);
    expect(stream.events).toEqual([
      { retry: 2000 },
      {
        ...{ event: "state", id: "QUEUED-5-0::" },
        data: { call_id: id, state: "queued", changed_at: 5, attempts: 0 },
      },
    ]);
    await injected(id);
    await untilEvents(stream, 2);
    expect(lastOf(stream)).toMatchObject({ event: "state", data: { state: "injected", attempts: 1 } });
    await tellProgress(id, 7, { step: 1, steps: 3 });
    await untilEvents(stream, 3);
    expect(lastOf(stream)).toMatchObject({
      event: "progress",
      data: { call_id: id, progress: { step: 1, steps: 3 }, progress_at: 7 },
    });
    await deliver(id, ANSWER);
    await stream.ended;
    expect(lastOf(stream)).toMatchObject({ event: "end", data: { state: "injected", result: "kept" } });
    expect(streams.count()).toBe(0);
    expect(log.events).toMatchObject([{ event: "stream.ended", fields: { callId: id, ending: "ended" } }]);
  });

  test("the failure of an attempt, and the reason why the call failed for good", async () => {
    await serve();
    const id = await aRecord({ rt: "/x402/jobs/7/1" });
    const stream = await open(id);
    const records = createCallRecords(redis.partition);
    const attempt = { at: 6, code: "runner.failed", reason: "500", worker: "w" };
    await untilEvents(stream, 1);
    await records.attemptFailed({ id, queue: QUEUE, take: 1 }, attempt, 1);
    await untilEvents(stream, 2);
    expect(lastOf(stream)).toMatchObject({ event: "state", data: { state: "queued", attempts: 1 } });
    const problem = { title: "No" };
    await records.failed({ id, queue: QUEUE }, 9, { keepsResult: true, code: "runner.refused", problem });
    await stream.ended;
    expect(lastOf(stream)?.data).toEqual({
      ...{ call_id: id, state: "failed", changed_at: 9, attempts: 1, result: "failed" },
      failure: { code: "runner.refused", title: "No" },
    });
  });

  test.each([
    [{ st: "INJECTED" }, "none_kept"],
    [{ st: "INJECTED", rs: "gone" }, "gone"],
    [{ st: "DISCARDED", fc: "runner.refused" }, "failed"],
    [{ st: "INJECTED", fg: "6" }, "gone"],
  ])("at once how it has ended: %o is %s", async (record, result) => {
    await serve();
    const stream = await open(await aRecord(record));
    await stream.ended;
    expect(kindsOf(stream)).toEqual(["state", "end"]);
    expect(lastOf(stream)?.data).toMatchObject({ result });
  });

  test("the events of a call without a record, once the record exists", async () => {
    await serve({ mayBegin: true });
    const { id } = aCall();
    const stream = await open(id);
    expect([stream.status, kindsOf(stream)]).toEqual([200, []]);
    await markInjected(redis.partition, { id, queue: QUEUE });
    await stream.ended;
    expect(kindsOf(stream)).toEqual(["state", "end"]);
  });
});

describe("an unauthenticated client", () => {
  test("gets only the state words, whose event ids reveal nothing more, and nothing about a later result", async () => {
    await serve();
    const id = await aRecord();
    const stream = await open(id, "");
    await untilEvents(stream, 1);
    await tellProgress(id, 6, { secret: "of the job" });
    await injected(id);
    await stream.ended;
    expect(stream.events).toEqual([
      { retry: 2000 },
      { event: "state", id: "QUEUED::", data: { call_id: id, state: "queued" } },
      { event: "state", id: "INJECTED::", data: { call_id: id, state: "injected" } },
      { event: "end", id: "INJECTED::end", data: { call_id: id, state: "injected" } },
    ]);
    expect(log.events).toEqual([]);
  });

  test.each(["SETTLING", "REVIEW"])("watches a payment that is %s until it is decided", async (st) => {
    await serve();
    const id = await aRecord({ st });
    const stream = await open(id, "");
    await untilEvents(stream, 1);
    await redis.client.hset(keys.record(id), "st", "VOID");
    await redis.client.publish(keys.changes, id);
    await stream.ended;
    expect(kindsOf(stream)).toEqual(["state", "state", "end"]);
  });
});

describe("a client that reconnects with the id of the last event it has seen", () => {
  test("receives what has changed since, and not what it has already received", async () => {
    await serve();
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    await tellProgress(id, 7, { step: 1 });
    const first = await open(id);
    await untilEvents(first, 2);
    const lastEventId = lastOf(first)?.id ?? "";
    first.close();
    const same = await open(id, "?proven", lastEventId);
    await tellProgress(id, 8, { step: 2 });
    await untilEvents(same, 1);
    expect(same.events).toMatchObject([
      { retry: 2000 },
      { event: "progress", data: { progress: { step: 2 } } },
    ]);
    same.close();
    await deliver(id, ANSWER);
    const late = await open(id, "?proven", lastEventId);
    await late.ended;
    expect(kindsOf(late)).toEqual(["end"]);
    expect((await open(id, "?proven", lastOf(late)?.id)).status).toBe(204);
  });

  test("gets 204 once it has received the end, unless the call has changed since", async () => {
    await serve();
    const id = await aRecord({ st: "FAILED", fc: "runner.refused" });
    for (const query of ["", "?proven"]) {
      const first = await open(id, query);
      await first.ended;
      const lastEventId = lastOf(first)?.id ?? "";
      const again = await open(id, query, lastEventId);
      expect([again.status, again.events]).toEqual([204, []]);
      await redis.client.hset(keys.record(id), { st: "QUEUED", at: 6 });
      const replayed = await open(id, query, lastEventId);
      await untilEvents(replayed, 1);
      expect(replayed.events.slice(1)).toMatchObject([{ event: "state", data: { state: "queued" } }]);
      await redis.client.hset(keys.record(id), { st: "FAILED", at: 7 });
    }
    expect(await eventually("no stream is left", () => streams.count() <= 2)).toBeDefined();
  });

  test("receives everything if the id is unknown, or if the client has authenticated since", async () => {
    await serve();
    const id = await aRecord();
    for (const lastEventId of ["nonsense", "::::", "QUEUED::", `${"x".repeat(5000)}:`]) {
      const stream = await open(id, "?proven", lastEventId);
      await untilEvents(stream, 1);
      expect(lastOf(stream)?.data).toMatchObject({ changed_at: 5 });
    }
  });
});

test("an EventSource reconnects by itself after a break, misses nothing, and stops after the end", async () => {
  await serve();
  const id = await aRecord({ st: "INJECTED", rs: "awaited" });
  const source = new EventSource(urlOf(id), { node: { reconnectionTime: 1 } });
  ends.defer(() => source.close());
  const seen: string[] = [];
  for (const kind of ["state", "progress", "end"])
    source.addEventListener(kind, (event) => seen.push(`${kind} ${(event as MessageEvent).data}`));
  await eventually("the state", () => seen.length === 1);
  const { address } = server;
  // The gateway stops, and the call changes before another gateway runs.
  streams.end();
  await server.close(100);
  await tellProgress(id, 7, { step: 2, steps: 3 });
  await serveAt(address);
  await eventually("the progress that it has missed", () => seen.length === 2, 10_000);
  expect(seen[1]).toContain('"progress":{"step":2,"steps":3}');
  await deliver(id, ANSWER);
  await eventually("the end", () => seen.length === 3);
  expect(seen[2]).toContain('"result":"kept"');
  await eventually("it has stopped", () => source.readyState === source.CLOSED, 10_000);
  expect(seen).toHaveLength(3);
});

async function serveAt(address: string): Promise<void> {
  const reopened = createCallStreams({ results, changes, limits: LIMITS, clock: systemClock, log });
  streams = reopened;
  server = await listen((req, res) => {
    const callId = new URL(req.url ?? "", "http://a").pathname.slice(1);
    void reopened.open(req, res, { callId, isAuthenticated: true, clientKey: "", mayBegin: false });
  }, address);
  const { close } = server;
  ends.defer(async () => {
    reopened.end();
    await close(100);
  });
}

describe("between the first read of a call and the start of its stream,", () => {
  /** Reads the status, and runs `meanwhile` before the first reader gets it. */
  function lookedAt(meanwhile: (id: string) => Promise<unknown>) {
    let looks = 0;
    const status: Results["status"] = async (id) => {
      const read = await results.status(id);
      looks += 1;
      if (looks === 1) await meanwhile(id);
      return read;
    };
    return { results: { status }, looks: () => looks };
  }

  test("no change of the call is missed", async () => {
    const looked = lookedAt(async (id) => {
      await injected(id);
      await eventually("it was looked at for the change", () => looked.looks() > 1);
    });
    await serve(looked);
    const stream = await open(await aRecord());
    await untilEvents(stream, 2);
    expect(stream.events.slice(1)).toMatchObject([
      { data: { state: "queued" } },
      { data: { state: "injected" } },
    ]);
  });

  test("a client that hangs up leaves no stream", async () => {
    const looked = lookedAt(async () => {
      req.socket?.resetAndDestroy(); // end() would leave the connection half open
      await eventually("it is gone", () => answers[0]?.destroyed);
    });
    await serve(looked);
    const req = request(urlOf(await aRecord())).on("error", () => {});
    req.end();
    await eventually("it has left", () => log.events.length > 0);
    expect(log.events[0]?.fields).toMatchObject({ ending: "left" });
    expect([streams.count(), answers[0]?.headersSent]).toEqual([0, false]);
  });

  test("a gateway that shuts down makes the client reconnect", async () => {
    await serve(lookedAt(async () => streams.end()));
    const stream = await open(await aRecord());
    await stream.ended;
    expect(stream.events).toEqual([{ retry: expect.any(Number) }]);
  });
});

describe("the number of streams is limited:", () => {
  const refusedWith = (stream: ReadStream) => [stream.status, stream.headers["retry-after"]];

  test("for a gateway, where unauthenticated clients get at most half", async () => {
    await serve({ limits: { streamsMax: 4, perCallMax: 9 } });
    const id = await aRecord();
    for (const clientKey of ["a", "b"]) expect((await open(id, `?clientKey=${clientKey}`)).status).toBe(200);
    expect(refusedWith(await open(id, "?clientKey=c"))).toEqual([429, "10"]);
    const proven = [await open(id), await open(id)];
    expect(proven.map(({ status }) => status)).toEqual([200, 200]);
    expect((await open(id)).status).toBe(429);
    expect(streams.count()).toBe(4);
    proven[0]?.close();
    await eventually("its place is free", () => streams.count() === 3);
    expect((await open(id)).status).toBe(200);
    streams.end();
    expect(log.events).toContainEqual(
      expect.objectContaining({ event: "stream.over_limit", fields: { limit: "unproven", times: 1 } }),
    );
  });

  test("for each call, where unauthenticated clients use no slot of authenticated ones", async () => {
    await serve({ limits: { streamsMax: 100, perCallMax: 2 } });
    const [id, other] = [await aRecord(), await aRecord()];
    for (const query of ["?clientKey=a", "?clientKey=b", "?proven", "?proven"])
      expect((await open(id, query)).status).toBe(200);
    for (const query of ["?clientKey=c", "?proven"]) expect((await open(id, query)).status).toBe(429);
    expect((await open(other)).status).toBe(200);
  });

  test("for each address of unauthenticated clients", async () => {
    await serve();
    for (let i = 0; i < 16; i++) expect((await open(await aRecord(), "?clientKey=a")).status).toBe(200);
    expect((await open(await aRecord(), "?clientKey=a")).status).toBe(429);
    expect((await open(await aRecord(), "?clientKey=b")).status).toBe(200);
    expect((await open(await aRecord(), "?clientKey=a&proven")).status).toBe(200);
  });

  test("a limit of 0 disables all streams", async () => {
    await serve({ limits: { streamsMax: 0, perCallMax: 1 } });
    expect((await open(await aRecord())).status).toBe(404);
  });

  test("a refused stream uses no slot", async () => {
    await serve({ limits: { streamsMax: 2, perCallMax: 2 } });
    for (let i = 0; i < 5; i++) expect((await open(aCall().id)).status).toBe(404);
    expect(streams.count()).toBe(0);
  });
});

describe("an open stream is kept or closed:", () => {
  test("comments keep its connection open while nothing happens", async () => {
    await serve({ times: { heartbeatMs: 5 } });
    const stream = await open(await aRecord());
    await eventually("three comments", () => stream.comments() >= 3);
    expect(kindsOf(stream)).toEqual(["state"]);
  });

  test("an old stream ends, and its client reconnects", async () => {
    let now = 0;
    await serve({ times: { heartbeatMs: 5, lifeMs: 1000 }, clock: () => now });
    const stream = await open(await aRecord());
    await eventually("a comment", () => stream.comments() > 0);
    now = 1000;
    await stream.ended;
    expect(lastOf(stream)).toEqual({ retry: 2000 });
    expect(log.events.at(-1)?.fields).toMatchObject({ ending: "outlived", ms: 1000 });
  });

  onlyInLongRun(() => {
    test("a reader that stops reading gets fewer events, delays at most a few in memory, and is disconnected", async () => {
      await serve({ times: { stalledMs: 50 } });
      const id = await aRecord({ st: "INJECTED", rs: "awaited" });
      const stream = await open(id);
      await untilEvents(stream, 1);
      stream.pause();
      let held = 0;
      for (let sent = 1; streams.count() > 0; sent++) {
        await tellProgress(id, sent, { padding: "p".repeat(3500) });
        held = Math.max(held, answers[0]?.writableLength ?? 0);
      }
      expect(held).toBeGreaterThan(0);
      expect(held).toBeLessThan(32 * 1024);
      expect(log.events.at(-1)?.fields).toMatchObject({ ending: "left" });
    });

    test("a slow reader gets the newest state once it reads again", async () => {
      await serve({ times: { stalledMs: 60_000 } });
      const id = await aRecord({ st: "INJECTED", rs: "awaited" });
      const stream = await open(id);
      await untilEvents(stream, 1);
      stream.pause();
      let sent = 0;
      for (; answers[0]?.writableNeedDrain !== true; sent++)
        await tellProgress(id, sent + 1, { padding: "p".repeat(3500) });
      for (let more = 0; more < 10; more++) await tellProgress(id, ++sent, { padding: "p".repeat(3500) });
      await deliver(id, ANSWER);
      stream.resume();
      await stream.ended;
      expect(lastOf(stream)).toMatchObject({ event: "end" });
      expect(kindsOf(stream).length).toBeLessThan(sent);
    });
  });

  test("a gateway that shuts down ends its open and new streams, with a time to reconnect", async () => {
    await serve();
    const id = await aRecord();
    const [watching, stranger] = [await open(id), await open(id, "")];
    streams.end();
    await Promise.all([watching.ended, stranger.ended]);
    const late = await open(id);
    await late.ended;
    for (const stream of [watching, stranger, late]) {
      const { retry = 0 } = lastOf(stream) ?? {};
      expect(retry).toBeGreaterThanOrEqual(2000);
      expect(retry).toBeLessThan(6000);
    }
    expect(late.status).toBe(200);
    expect(streams.count()).toBe(0);
  });

  test("a call whose record can no longer be read ends its streams", async () => {
    await serve();
    const id = await aRecord();
    const stream = await open(id);
    await untilEvents(stream, 1);
    await redis.client.hset(keys.record(id), "st", "LATER");
    await redis.client.publish(keys.changes, id);
    await stream.ended;
    expect(lastOf(stream)).toEqual({ retry: expect.any(Number) });
    expect((await open(id)).status).toBe(503);
  });

  test("while Redis cannot be read the stream stays open, and the call is read again later", async () => {
    let isAway = false;
    let inVain = 0;
    const status: Results["status"] = (id) => {
      if (!isAway) return results.status(id);
      inVain += 1;
      return Promise.reject(new AppError("queue.unavailable", { reason: "a test" }));
    };
    await serve({ results: { status }, times: { lookAgainMs: 5 } });
    const id = await aRecord();
    const stream = await open(id);
    await untilEvents(stream, 1);
    isAway = true;
    await injected(id);
    await eventually("it has looked twice in vain", () => inVain >= 2);
    isAway = false;
    await untilEvents(stream, 2);
    expect(lastOf(stream)).toMatchObject({ data: { state: "injected" } });
  });

  test("a HEAD request is answered without a stream", async () => {
    await serve();
    const head = await readStream(urlOf(await aRecord()), { method: "HEAD" });
    expect(head.headers["content-type"]).toBe("text/event-stream");
    expect(streams.count()).toBe(0);
  });
});
