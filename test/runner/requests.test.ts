import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { echo, keccak256, slow } from "../../services/runner/jobs.ts";
import { createRouter, json, text } from "../../services/runner/runner.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { send } from "../support/http.ts";
import { type Offered, onRedis, type Rig, signedHeaders, startRig, type TestRunner } from "./runners.ts";

const OLD = new Secret("the secret before rotation");
const NEW = new Secret("the secret after rotation");

const jobs = createRouter()
  .job(1, echo)
  .job(2, keccak256)
  .job(3, slow)
  .job(4, { name: "add", input: json(z.strictObject({ a: z.int(), b: z.int().default(1) })), handler: add })
  .job(5, { name: "shout", input: text(), handler: ({ input }) => ({ body: input.toUpperCase() }) })
  .job(6, {
    name: "of a caller",
    metadata: z.object({ "X-PLATFORM-CALLER": z.string().startsWith("0x") }),
    handler: ({ metadata }) => ({ body: metadata["X-PLATFORM-CALLER"] }),
  });

function add({ input }: { input: { a: number; b: number } }) {
  return { json: { sum: input.a + input.b } };
}

let rig: Rig;
let open: TestRunner;
let closed: TestRunner;
beforeAll(async () => {
  rig = await startRig();
  open = await rig.start({ jobs });
  closed = await rig.start({ jobs, secrets: [NEW, OLD], bodyBytesMax: 1_000_000 });
});
afterAll(() => rig.stop());

let keysMade = 0;
const newKey = () => `key-${++keysMade}`;

describe("with a secret", () => {
  const offered: Offered = {
    body: "hello",
    headers: { "X-WEBHOOK-PATH": "/a", "Content-Type": "text/plain" },
  };

  function offerSigned(key: string, { sign = offered, send: sent = offered, secret = NEW } = {}) {
    const lower = Object.entries(sent.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
    const headers = { ...signedHeaders(secret, key, sign), ...Object.fromEntries(lower) };
    return closed.offer(key, { ...sent, headers });
  }

  test("a signed call runs, whichever active secret signed it", async () => {
    expect(await offerSigned(newKey())).toMatchObject({ status: 200, text: "hello" });
    expect(await offerSigned(newKey(), { secret: OLD })).toMatchObject({ status: 200, text: "hello" });
  });

  test.each<[string, Parameters<typeof offerSigned>[1]]>([
    ["by another secret", { secret: new Secret("of somebody else") }],
    ["for another job", { send: { ...offered, job: 2 } }],
    ["for another body", { send: { ...offered, body: "hallo" } }],
    [
      "without a metadata header that came",
      { send: { ...offered, headers: { ...offered.headers, "X-Platform-Caller": "0x" } } },
    ],
    ["for other metadata", { send: { ...offered, headers: { ...offered.headers, "X-WEBHOOK-PATH": "/b" } } }],
    [
      "for another content type",
      { send: { ...offered, headers: { ...offered.headers, "Content-Type": "text/html" } } },
    ],
  ])("a call signed %s is 401, runs nothing, and the reason is in the log alone", async (_what, how) => {
    const key = newKey();
    const refused = await offerSigned(key, how);
    expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
    expect((await closed.get(`/calls/${key}`)).status).toBe(404);
    const line = closed.log.events.at(-1);
    expect(line).toMatchObject({ event: "job.refused", fields: { code: "runner.signature_rejected" } });
    expect(refused.text).not.toContain(line?.fields["reason"]);
  });

  test("an unsigned call is 401", async () => {
    expect((await closed.offer(newKey())).status).toBe(401);
  });

  test("a body over the limit is 413", async () => {
    const body = Buffer.alloc(1_000_001);
    const key = newKey();
    const refused = await closed.offer(key, { body, headers: signedHeaders(NEW, key, { body }) });
    expect(refused.status).toBe(413);
  });
});

test("without a secret no signature is needed, but a Content-Digest that is wrong is refused", async () => {
  expect((await open.offer(newKey(), { body: "x" })).status).toBe(200);
  const refused = await open.offer(newKey(), { body: "x", headers: { "Content-Digest": "sha-256=:AAAA:" } });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
});

test.each([undefined, "", "has space", "x".repeat(129)])("the key %j is refused with 400", async (key) => {
  const refused = await open.offer("", { headers: { "Idempotency-Key": key } });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "runner.key_missing"]);
});

test("a key that comes twice is refused with 400", async () => {
  const headers = ["Idempotency-Key", "a", "Idempotency-Key", "a"];
  expect((await send(open.address, { path: "/jobs/1", headers, body: "" })).status).toBe(400);
});

describe("a job gets what it declared, or the call is 422 with the reason:", () => {
  test("JSON by a schema, defaults filled in", async () => {
    expect((await open.offer(newKey(), { job: 4, body: '{"a":2}' })).json()).toEqual({ sum: 3 });
  });

  test.each([
    ["no JSON", 4, "{", /not JSON/],
    ["nothing", 4, "", /not JSON/],
    ["the wrong type", 4, '{"a":"2"}', /expected int|expected number/],
    ["an unknown key", 4, '{"a":2,"c":1}', /"c"/],
    ["bytes that are no text", 5, Buffer.from([0xc3, 0x28]), /not UTF-8/],
  ])("%s", async (_what, job, body, reason) => {
    const refused = await open.offer(newKey(), { job, body });
    expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
    expect(refused.json()["detail"]).toMatch(reason);
  });

  test("text", async () => {
    expect((await open.offer(newKey(), { job: 5, body: "é!" })).text).toBe("É!");
  });

  test("metadata by a schema, typed", async () => {
    const named = { job: 6, headers: { "X-PLATFORM-CALLER": "0xabc" } };
    expect((await open.offer(newKey(), named)).text).toBe("0xabc");
    const refused = await open.offer(newKey(), { job: 6 });
    expect([refused.status, refused.json()["detail"]]).toEqual([
      422,
      expect.stringContaining("X-PLATFORM-CALLER"),
    ]);
  });

  test("after a refusal the key is free for the same request, once the job accepts it", async () => {
    const key = newKey();
    expect((await open.offer(key, { job: 4, body: "{" })).status).toBe(422);
    expect((await open.offer(key, { job: 4, body: "{" })).status).toBe(422);
  });
});

describe("the jobs it ships:", () => {
  test("echo answers any bytes unchanged, from memory too, under their Content-Type or none", async () => {
    for (const body of [Buffer.alloc(0), Buffer.from([0, 0xff, 0xfe, 13, 10]), randomBytes(300_000)]) {
      const key = newKey();
      const offered = { body, headers: { "Content-Type": "application/x-any; a=b" } };
      for (const answer of [await open.offer(key, offered), await open.offer(key, offered)]) {
        expect(answer.body.equals(body)).toBe(true);
        expect(answer.headers["content-type"]).toBe("application/x-any; a=b");
      }
    }
    expect((await open.offer(newKey(), { body: "x" })).headers["content-type"]).toBeUndefined();
  });

  test("keccak256 answers the published digests of nothing and of abc", async () => {
    const digestOf = async (body: string) => (await open.offer(newKey(), { job: 2, body })).json();
    const empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    const abc = "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45";
    expect([await digestOf(""), await digestOf("abc")]).toEqual([{ keccak256: empty }, { keccak256: abc }]);
  });

  test("slow says in the log how far it is", async () => {
    const key = newKey();
    await open.offer(key, { job: 3, body: '{"steps":2,"ms_per_step":1}' });
    const mine = () => open.log.events.filter(({ fields }) => fields["callId"] === key);
    await eventually("it is done", () => mine().some(({ event }) => event === "job.finished"));
    const progress = mine().filter(({ event }) => event === "job.progressed");
    expect(progress.map(({ fields }) => [fields["step"], fields["steps"], fields["job"]])).toEqual([
      [1, 2, "slow"],
      [2, 2, "slow"],
    ]);
  });
});

describe("the list of what it ran", () => {
  type Listed = { calls: { id: string; state: string; job_id: number }[]; next?: string };
  let runner: TestRunner;
  let own: Rig;
  beforeAll(async () => {
    own = await startRig();
    runner = await own.start({ jobs });
    for (let i = 1; i <= 5; i++) await runner.offer(`echo-${i}`, { body: `x${i}` });
    await runner.offer("bad-1", { job: 4, body: "{" });
  });
  afterAll(() => own.stop());

  test("shows job, state, times, status, size and hash of a call, and no bytes", async () => {
    const call = (await runner.get("/calls/echo-1")).json();
    const at = expect.any(Number);
    expect(call).toEqual({
      id: "echo-1",
      job_id: 1,
      state: "done",
      started_at: at,
      finished_at: at,
      status: 200,
      bytes: 2,
      sha256: sha256Hex(Buffer.from("x1")),
    });
  });

  test("has the newest first, filtered, and in pages that together are all", async () => {
    const list = async (query: string) => (await runner.get(`/calls${query}`)).json<Listed>();
    const ids = ({ calls }: Listed) => calls.map(({ id }) => id);
    expect(ids(await list(""))).toEqual(["bad-1", "echo-5", "echo-4", "echo-3", "echo-2", "echo-1"]);
    expect(ids(await list("?state=failed"))).toEqual(["bad-1"]);
    expect(ids(await list("?job_id=1&limit=2"))).toEqual(["echo-5", "echo-4"]);
    const first = await list("?limit=4");
    const second = await list(`?limit=4&after=${first.next}`);
    expect([...ids(first), ...ids(second)]).toEqual(ids(await list("")));
    expect(second.next).toBeUndefined();
  });

  test("never shows what a handler said of its failure: its code is enough for a reader without a credential", async () => {
    const { code, ...bad } = (await runner.get("/calls/bad-1")).json();
    expect(code).toBe("runner.input_rejected");
    expect(bad).not.toHaveProperty("reason");
    expect((await runner.get("/calls?state=failed")).text).not.toContain("reason");
  });

  test("looks at no more than 1000 calls for one answer, and goes on from there though none matched", async () => {
    const many = await startRig();
    try {
      const ids = Array.from({ length: 2500 }, (_, i) => `call-${i}`);
      await onRedis(many, async (redis) => {
        const later = Date.now() + 3_600_000;
        await Promise.all(ids.map((id, i) => redis.zadd(runnerKeys.calls, later + i, id)));
        await Promise.all(ids.map((id) => redis.hset(runnerKeys.call(id), { st: "DONE", job: 1 })));
        await redis.hset(runnerKeys.call("call-700"), { st: "FAILED" });
        await redis.config("RESETSTAT");
      });
      const { get } = await many.start({ jobs });
      const list = async (query: string) => (await get(`/calls?state=failed${query}`)).json<Listed>();
      const first = await list("");
      expect(first).toEqual({ calls: [], next: "call-1500" });
      const stats = await onRedis(many, (redis) => redis.info("commandstats"));
      expect(Number(/cmdstat_hmget:calls=(\d+)/.exec(stats)?.[1])).toBe(1000);
      const second = await list(`&after=${first.next}`);
      expect(second).toMatchObject({ calls: [{ id: "call-700" }], next: "call-500" });
      expect(await list(`&after=${second.next}`)).toEqual({ calls: [] });
    } finally {
      await many.stop();
    }
  });

  test("refuses to go on from a call that it no longer remembers, rather than begin anew", async () => {
    expect((await runner.get("/calls?after=forgotten")).status).toBe(400);
  });

  test.each(["?state=finished", "?limit=many", "?job_id=-1"])("refuses %s with 400", async (query) => {
    expect((await runner.get(`/calls${query}`)).status).toBe(400);
  });
});

test("the catalog names the jobs", async () => {
  const { jobs: listed } = (await open.get("/jobs")).json<{ jobs: unknown[] }>();
  expect(listed.slice(0, 3)).toEqual([
    { id: 1, name: "echo", long: false },
    { id: 2, name: "keccak256", long: false },
    { id: 3, name: "slow", long: true },
  ]);
});

test.each([
  ["/jobs/01", 404, "request.not_found"],
  ["/jobs/1/", 404, "request.not_found"],
  ["/jobs/%31", 404, "request.not_found"],
  ["/jobs/1?x=1", 404, "request.not_found"],
  ["/JOBS/1", 404, "request.not_found"],
  ["/jobs/9007199254740992", 404, "request.not_found"],
  ["/jobs/77", 404, "runner.job_unknown"],
])("POST %s is %i %s", async (path, status, code) => {
  const answer = await send(open.address, { path, headers: { "Idempotency-Key": newKey() }, body: "" });
  expect([answer.status, answer.json()["code"]]).toEqual([status, code]);
});

test.each([
  ["GET", "/jobs/1", "POST"],
  ["POST", "/jobs", "GET"],
  ["DELETE", "/calls/x", "GET"],
  ["DELETE", "/calls/x/run", "POST"],
])("%s %s is 405 with Allow: %s", async (method, path, allow) => {
  const answer = await send(open.address, { method, path });
  expect([answer.status, answer.headers["allow"]]).toEqual([405, allow]);
});
