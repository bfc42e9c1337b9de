import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../services/runner/jobs.ts";
import { createRouter, json, text } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { type Offered, signedHeaders, type TestRunner, useRunners } from "../../../fixtures/runners.ts";
import { send, sendRaw } from "../../../support/http.ts";
import { counting, gatedLong, gatedShort, hasLogged, longJob, stateOf } from "../gated-jobs.ts";

describe("200", () => {
  const OLD = new Secret("the secret before rotation");
  const NEW = new Secret("the secret after rotation");

  const jobs = createRouter()
    .job(1, echo)
    .job(2, {
      name: "add",
      input: json(z.strictObject({ a: z.int(), b: z.int().default(1) })),
      handler: add,
    })
    .job(3, { name: "shout", input: text(), handler: ({ input }) => ({ body: input.toUpperCase() }) })
    .job(4, {
      name: "of a caller",
      metadata: z.object({ "X-PLATFORM-CALLER": z.string().startsWith("0x") }),
      handler: ({ metadata }) => ({ body: metadata["X-PLATFORM-CALLER"] }),
    });

  function add({ input }: { input: { a: number; b: number } }) {
    return { json: { sum: input.a + input.b } };
  }

  const runners = useRunners();
  let open: TestRunner;
  let closed: TestRunner;
  beforeAll(async () => {
    open = await runners.start({ jobs });
    closed = await runners.start({ jobs, secrets: [NEW, OLD] });
  });

  test("a call is answered with 200 without a signature if the runner has no secret", async () => {
    expect(await open.offer("unsigned", { body: "x" })).toMatchObject({ status: 200, text: "x" });
  });

  test.each([
    ["new", NEW],
    ["old", OLD],
  ])("a call signed with the %s secret runs while both are active", async (which, secret) => {
    const headers = { "X-WEBHOOK-PATH": "/a", "Content-Type": "text/plain" };
    const offered = { body: "hello", headers };
    const signed = signedHeaders(secret, which, offered);
    expect(await closed.offer(which, { body: "hello", headers: signed })).toMatchObject({
      status: 200,
      text: "hello",
    });
  });

  test("a job gets its body as JSON, validated by its schema, with defaults", async () => {
    expect((await open.offer("json", { job: 2, body: '{"a":2}' })).json()).toEqual({ sum: 3 });
  });

  test("a job gets its body as text", async () => {
    expect((await open.offer("text", { job: 3, body: "é!" })).text).toBe("É!");
  });

  test("a job gets its metadata with the types of its schema", async () => {
    const offered = { job: 4, headers: { "X-PLATFORM-CALLER": "0xabc" } };
    expect((await open.offer("metadata", offered)).text).toBe("0xabc");
  });

  test("the log line of a call names the sender's event", async () => {
    await open.offer("of-a-sender", { headers: { "X-WEBHOOK-EVENT": "push" } });
    const line = open.log.events.find(({ fields }) => fields["callId"] === "of-a-sender");
    expect(line).toMatchObject({ event: "job.finished", fields: { eventType: "push" } });
  });
});

describe("202", () => {
  const BODY = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);

  const runners = useRunners({ fresh: "test" });

  test("a long call is answered with 202 and runs afterwards, with the same bytes and metadata", async () => {
    const seen: unknown[] = [];
    const jobs = longJob(async ({ callId, body, contentType, metadata, serviceId, traceparent }) => {
      seen.push({ callId, body, contentType, metadata, serviceId, traceparent });
    });
    const runner = await runners.start({ jobs });
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const headers = {
      "Content-Type": "a/b",
      "X-Platform-Service-Id": "12",
      "X-WEBHOOK-PATH": "/a",
      traceparent,
    };
    const stored = await runner.offer("k", { body: BODY, headers });
    expect([stored.status, stored.json()]).toEqual([202, { status: "stored", call_id: "k" }]);
    await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
    const metadata = { "X-PLATFORM-SERVICE-ID": "12", "X-WEBHOOK-PATH": "/a" };
    expect(seen).toEqual([
      { callId: "k", body: BODY, contentType: "a/b", metadata, serviceId: 12, traceparent },
    ]);
    const events = runner.log.events.map(({ event }) => event);
    expect(events.filter((event) => event.startsWith("job."))).toEqual(["job.stored", "job.finished"]);
  });

  test("the log names the sender's event when a long call is stored, and when it is done", async () => {
    const runner = await runners.start({ jobs: longJob(async () => {}) });
    await runner.offer("k", { headers: { "X-WEBHOOK-EVENT": "push" } });
    const lines = () => runner.log.events.filter(({ event }) => event.startsWith("job."));
    await eventually("two lines", () => lines().length === 2);
    expect(lines()).toMatchObject([
      { event: "job.stored", fields: { eventType: "push" } },
      { event: "job.finished", fields: { eventType: "push" } },
    ]);
  });

  test("long calls beyond the limit are stored and wait, and do not use the slots of short calls", async () => {
    const { at, jobs } = gatedLong();
    jobs.job(2, { name: "short", handler: () => ({ body: "short" }) });
    const runner = await runners.start({ jobs, concurrency: 1 });
    expect((await runner.offer("k1")).status).toBe(202);
    expect((await runner.offer("k2")).status).toBe(202);
    await eventually("the first runs", () => at.runs === 1);
    expect((await runner.offer("k3", { job: 2 })).text).toBe("short");
    expect(await stateOf(runner, "k2")).toBe("stored");
    at.open();
    await eventually("both are done", async () => (await stateOf(runner, "k2")) === "done");
    expect(at.runs).toBe(2);
  });
});

describe("400", () => {
  const runners = useRunners();
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await runners.start({ jobs: createRouter().job(1, echo) });
  });

  test.each([
    ["is missing", undefined],
    ["is empty", ""],
    ["has a space", "has space"],
    ["has 129 characters", "x".repeat(129)],
  ])("a call whose Idempotency-Key %s is refused with 400", async (_, key) => {
    const refused = await runner.offer("", { headers: { "Idempotency-Key": key } });
    expect([refused.status, refused.json()["code"]]).toEqual([400, "runner.key_missing"]);
  });

  test("a call with two Idempotency-Keys is refused with 400", async () => {
    const headers = ["Idempotency-Key", "a", "Idempotency-Key", "a"];
    const refused = await send(runner.address, { path: "/jobs/1", headers, body: "" });
    expect([refused.status, refused.json()["code"]]).toEqual([400, "runner.key_missing"]);
  });

  test("a wrong Content-Digest is refused with 400, even if no signature is needed", async () => {
    const refused = await runner.offer("k", { body: "x", headers: { "Content-Digest": "sha-256=:AAAA:" } });
    expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
  });

  test("a call with a repeated metadata header is refused with 400", async () => {
    const twice = ["X-WEBHOOK-PATH", "/a", "X-Webhook-Path", "/a"];
    const headers = ["Idempotency-Key", "k", ...twice];
    const refused = await send(runner.address, { path: "/jobs/1", headers, body: "" });
    expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
  });
});

describe("401", () => {
  const SECRET = new Secret("of producer and runner");

  const runners = useRunners();
  let runner: TestRunner;
  beforeAll(async () => {
    const jobs = createRouter().job(1, echo).job(2, echo);
    runner = await runners.start({ jobs, secrets: [SECRET] });
  });

  const offered: Offered = {
    body: "hello",
    headers: { "X-WEBHOOK-PATH": "/a", "Content-Type": "text/plain" },
  };
  const withHeader = (name: string, value: string) => ({
    ...offered,
    headers: { ...offered.headers, [name]: value },
  });

  test.each<[string, { sent?: Offered; secret?: Secret }]>([
    ["by another secret", { secret: new Secret("another secret") }],
    ["for another job", { sent: { ...offered, job: 2 } }],
    ["for another body", { sent: { ...offered, body: "hallo" } }],
    ["without a metadata header that came", { sent: withHeader("X-Platform-Caller", "0x") }],
    ["for other metadata", { sent: withHeader("X-WEBHOOK-PATH", "/b") }],
    ["for another content type", { sent: withHeader("Content-Type", "text/html") }],
  ])(
    "a call signed %s is refused with 401 and does not run, and only the log says why",
    async (what, { sent = offered, secret = SECRET }) => {
      const key = what.replaceAll(" ", "-");
      const lower = Object.entries(sent.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
      const headers = { ...signedHeaders(secret, key, offered), ...Object.fromEntries(lower) };
      const refused = await runner.offer(key, { ...sent, headers });
      expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
      expect((await runner.get(`/calls/${key}`)).status).toBe(404);
      const line = runner.log.events.at(-1);
      expect(line).toMatchObject({ event: "job.refused", fields: { code: "runner.signature_rejected" } });
      expect(refused.text).not.toContain(line?.fields["reason"]);
    },
  );

  test("a call without a signature is refused with 401", async () => {
    expect((await runner.offer("unsigned")).status).toBe(401);
  });
});

describe("404", () => {
  const runners = useRunners();
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await runners.start({ jobs: createRouter().job(1, echo) });
  });

  test.each([
    ["/jobs/01", "request.not_found"],
    ["/jobs/1/", "request.not_found"],
    ["/jobs/%31", "request.not_found"],
    ["/jobs/1?x=1", "request.not_found"],
    ["/JOBS/1", "request.not_found"],
    ["/jobs/9007199254740992", "request.not_found"],
    ["/jobs/77", "runner.job_unknown"],
  ])("a POST to %s is answered with 404 %s", async (path, code) => {
    const answer = await send(runner.address, { path, headers: { "Idempotency-Key": "k" }, body: "" });
    expect([answer.status, answer.json()["code"]]).toEqual([404, code]);
  });
});

describe("405", () => {
  const runners = useRunners();

  test("a method other than POST is refused with 405 at a job, and the answer names POST", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    for (const method of ["GET", "PUT", "DELETE", "OPTIONS"]) {
      const answer = await send(address, { method, path: "/jobs/1" });
      expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST"]);
    }
  });
});

describe("408", () => {
  const runners = useRunners();
  const ends = useEnds();

  test("a call whose body does not arrive in time is refused with 408 and does not run", async () => {
    const { seen, jobs } = counting();
    const { runner, get, log } = await runners.start({ jobs });
    const server = await listen(runner.handler, "127.0.0.1:0", { requestTimeoutMs: 400 });
    ends.defer(() => server.close(0));
    const headers = ["Host: runner", "Idempotency-Key: k", "Content-Length: 10"];
    const answer = await sendRaw(
      server.address,
      `POST /jobs/1 HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\nhalf`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toContain('"code":"request.timed_out"');
    expect(log.events.at(-1)).toMatchObject({ event: "job.refused", fields: { callId: "k", status: 408 } });
    expect([(await get("/calls/k")).status, seen.runs]).toEqual([404, 0]);
  });
});

describe("409", () => {
  const runners = useRunners();

  test("a repeat of a running call is refused with 409 and Retry-After, at its runner and at another", async () => {
    const { at, jobs } = gatedShort();
    const [here, there] = [await runners.start({ jobs }), await runners.start({ jobs })];
    const first = here.offer("k");
    await eventually("the handler runs", () => at.runs === 1);
    for (const runner of [here, there]) {
      const repeat = await runner.offer("k");
      expect([repeat.status, repeat.headers["retry-after"], repeat.json()["code"]]).toEqual([
        409,
        "1",
        "runner.busy",
      ]);
    }
    at.open();
    expect((await first).text).toBe("run 1");
    expect((await there.offer("k")).headers["idempotent-replayed"]).toBe("true");
    expect(at.runs).toBe(1);
  });
});

describe("413", () => {
  const SECRET = new Secret("of producer and runner");

  const runners = useRunners();

  test("a call whose body is over the limit is refused with 413 and does not run, even if it is signed", async () => {
    const { seen, jobs } = counting();
    const runner = await runners.start({ jobs, secrets: [SECRET], bodyBytesMax: 1_000_000 });
    const body = Buffer.alloc(1_000_001);
    const refused = await runner.offer("k", { body, headers: signedHeaders(SECRET, "k", { body }) });
    expect([refused.status, refused.json()["code"]]).toEqual([413, "request.too_large"]);
    expect(seen.runs).toBe(0);
  });
});

describe("422", () => {
  const LONG = 3;
  const OF_A_CALLER = 4;
  const jobs = createRouter()
    .job(1, { name: "add", input: json(z.strictObject({ a: z.int() })), handler: () => ({}) })
    .job(2, { name: "shout", input: text(), handler: ({ input }) => ({ body: input.toUpperCase() }) })
    .job(LONG, {
      name: "long",
      long: true,
      input: json(z.strictObject({ steps: z.int() })),
      handler: async () => {},
    })
    .job(OF_A_CALLER, {
      name: "of a caller",
      metadata: z.object({ "X-PLATFORM-CALLER": z.string().startsWith("0x") }),
      handler: () => ({}),
    });

  const runners = useRunners();
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await runners.start({ jobs });
  });

  test.each([
    ["is no JSON", 1, "{", /must be JSON/],
    ["is missing", 1, "", /must be JSON/],
    ["has the wrong type", 1, '{"a":"2"}', /expected int|expected number/],
    ["has an unknown key", 1, '{"a":2,"c":1}', /"c"/],
    ["is no text", 2, Buffer.from([0xc3, 0x28]), /must be UTF-8/],
  ])(
    "a call whose input %s is refused with 422, and the answer says why",
    async (what, job, body, reason) => {
      const refused = await runner.offer(what.replaceAll(" ", "-"), { job, body });
      expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
      expect(refused.json()["detail"]).toMatch(reason);
    },
  );

  test("a call without the metadata that its job needs is refused with 422, and the answer names it", async () => {
    const refused = await runner.offer("without-metadata", { job: OF_A_CALLER });
    expect([refused.status, refused.json()["detail"]]).toEqual([
      422,
      expect.stringContaining("X-PLATFORM-CALLER"),
    ]);
  });

  test("a long call whose input its job refuses is refused with 422 and is not stored", async () => {
    const refused = await runner.offer("long", { job: LONG, body: '{"steps":"many"}' });
    expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
    expect(refused.json()["detail"]).toContain("steps");
    expect(await stateOf(runner, "long")).toBe("failed");
    expect((await runner.offer("long-2", { job: LONG, body: '{"steps":2}' })).status).toBe(202);
  });

  test("a call that was refused for its input is checked again when it is repeated", async () => {
    expect((await runner.offer("refused", { body: "{" })).status).toBe(422);
    const lenient = createRouter().job(1, { name: "lenient", handler: () => ({ body: "taken" }) });
    const other = await runners.start({ jobs: lenient });
    expect((await runner.offer("refused", { body: "{" })).status).toBe(422);
    expect(await other.offer("refused", { body: "{" })).toMatchObject({ status: 200, text: "taken" });
  });

  test("a key of another job or another body is refused with 422, while its call runs and after", async () => {
    const { at, jobs } = gatedShort();
    const handler = () => ({});
    const [here, there] = [
      await runners.start({ jobs: jobs.job(2, { name: "other", handler }) }),
      await runners.start({ jobs }),
    ];
    const first = here.offer("k", { body: "x" });
    await eventually("the handler runs", () => at.runs === 1);
    const expectRefused = async () => {
      for (const runner of [here, there]) {
        for (const other of [{ body: "y" }, { job: 2, body: "x" }]) {
          const refused = await runner.offer("k", other);
          expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.key_reused"]);
        }
      }
    };
    await expectRefused();
    at.open();
    await first;
    await expectRefused();
    expect(at.runs).toBe(1);
  });
});

describe("429", () => {
  const runners = useRunners();

  test("a call beyond the concurrency limit is refused with 429 and Retry-After, and is not begun", async () => {
    const { at, jobs } = gatedShort();
    const { offer, get } = await runners.start({ jobs, concurrency: 2 });
    const running = [offer("k1"), offer("k2")];
    await eventually("both run", () => at.runs === 2);
    const refused = await offer("k3");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "1"]);
    expect(refused.json()["code"]).toBe("runner.throttled");
    expect((await get("/calls/k3")).status).toBe(404);
    at.open();
    await Promise.all(running);
    expect((await offer("k3")).status).toBe(200);
  });
});

describe("500", () => {
  const runners = useRunners({ fresh: "test" });

  test("a call whose handler throws is answered with 500, and only the log has the error", async () => {
    const handler = () => Promise.reject(new Error("no luck"));
    const { offer, log } = await runners.start({ jobs: createRouter().job(1, { name: "unlucky", handler }) });
    const thrown = await offer("k");
    expect([thrown.status, thrown.json()["code"]]).toEqual([500, "runner.handler_failed"]);
    expect(thrown.text).not.toContain("no luck");
    expect(log.events.at(-1)).toMatchObject({
      event: "job.failed",
      fields: { status: 500, reason: "no luck" },
    });
  });

  test("an answer that is invalid in HTTP is a failure of the job, answered with 500 and not remembered", async () => {
    const types = ["text/plain; name=中", "text/plain\r\nX-More: 1", "text/plain"];
    const handler = () => ({ contentType: types.shift() ?? "none is left", body: "done" });
    const { offer } = await runners.start({ jobs: createRouter().job(1, { name: "odd", handler }) });
    for (const refused of [await offer("k"), await offer("k")]) {
      expect([refused.status, refused.json()["code"]]).toEqual([500, "runner.handler_failed"]);
    }
    expect(await offer("k")).toMatchObject({ status: 200, text: "done" });
  });
});

describe("429, while the store is away", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis, fresh: "test" });

  test("a call is refused with 429 and Retry-After while Redis is away, and is not begun", async () => {
    const { seen, jobs } = counting();
    const { offer } = await runners.start({ jobs });
    await redis.server.kill("SIGKILL");
    const refused = await eventually("Redis is missed", async () => {
      const answer = await offer("k");
      return answer.status === 429 ? answer : undefined;
    });
    expect(refused.json()["code"]).toBe("runner.throttled");
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(seen.runs).toBe(0);
    await redis.server.restart();
    const taken = await eventually("Redis is back", async () => {
      const answer = await offer("k");
      return answer.status === 429 ? undefined : answer;
    });
    expect(taken.text).toBe("run 1");
  });

  test("a call whose begin gets no reply from Redis is refused with 429, and runs when it is sent again", async () => {
    const { seen, jobs } = counting();
    const { offer } = await runners.start({ jobs });
    await offer("another"); // so that Redis knows the scripts
    await redis.client.client("PAUSE", 60_000, "WRITE");
    const refused = await offer("k");
    await redis.client.client("UNPAUSE");
    expect([refused.status, refused.json()["code"]]).toEqual([429, "runner.throttled"]);
    const after = await eventually("it runs", async () => {
      const answer = await offer("k");
      return answer.status === 429 ? undefined : answer;
    });
    expect([after.status, seen.runs]).toEqual([201, 2]);
  });
});

describe("503", () => {
  const runners = useRunners();
  const ends = useEnds();

  test("a call to a stopping runner is refused with 503 and does not run", async () => {
    const { seen, jobs } = counting();
    const { runner } = await runners.start({ jobs });
    const server = await listen(runner.handler, "127.0.0.1:0");
    ends.defer(() => server.close(0));
    await runner.close();
    const refused = await send(server.address, { path: "/jobs/1", headers: { "Idempotency-Key": "k" } });
    expect([refused.status, refused.headers["retry-after"], refused.json()["code"]]).toEqual([
      503,
      "1",
      "service.draining",
    ]);
    expect(seen.runs).toBe(0);
  });
});

describe("redis-gone", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis, fresh: "test" });

  test("the first answer to a call survives the end of its runner and a crash of Redis", async () => {
    const { seen, jobs } = counting();
    const first = await runners.start({ jobs });
    await first.offer("k");
    first.drop();
    await redis.server.kill("SIGKILL");
    await redis.server.restart();
    const second = await runners.start({ jobs });
    expect((await second.offer("k")).text).toBe("run 1");
    expect(seen.runs).toBe(1);
  });

  test("a call runs once if Redis is restarted during its handler, and its repeat gets its answer", async () => {
    const { at, jobs } = gatedShort();
    const runner = await runners.start({ jobs, lease_ms: 500 });
    const first = runner.offer("k");
    await eventually("the handler runs", () => at.runs === 1);
    await redis.server.kill("SIGKILL");
    at.open();
    await eventually("the answer cannot be stored", () => hasLogged(runner, "job.store_delayed"));
    expect((await runner.offer("k")).status).toBe(409);
    await redis.server.restart();
    expect((await first).text).toBe("run 1");
    expect(await runner.offer("k")).toMatchObject({ status: 200, text: "run 1" });
    expect(at.runs).toBe(1);
  });
});
