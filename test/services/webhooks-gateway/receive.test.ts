import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import type { Inject } from "../../../services/producer/producer.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { createOpenedEndpoints } from "../../../shared/ingress/opened-endpoints.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { createCallRecords, createFailedRecords } from "../../../shared/queue/call-record.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { useInjecting } from "../../fixtures/injecting.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { openRaw, send, sendRaw } from "../../support/http.ts";
import { markInjected } from "../../support/mark-injected.ts";
import { BODY, ENDPOINTS, SECRET, SIGNED_OVER, sign, utf8 } from "./receive/credentials.ts";

const webhooks = useWebhooks();

describe("200", () => {
  const signed = { job_id: 1, auth: "hmac-sha256", secret: SECRET };
  const endpoints = [
    { ...signed, path: "/json", answer: { status: 200 } },
    { ...signed, path: "/empty", answer: { status: 200, body: "" } },
    { ...signed, path: "/own", answer: { status: 200, content_type: "text/xml", body: "<Response/>" } },
  ];

  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints });
  });

  const post = (path: string) =>
    send(gateway.address, { path, headers: ["X-Signature-256", sign(BODY)], body: BODY });

  test.each([
    ["/json", /^\{"status":"accepted","job_id":1,"call_id":"c_[0-9a-f]{32}"\}$/, "application/json"],
    ["/empty", /^$/, undefined],
    ["/own", /^<Response\/>$/, "text/xml"],
  ])(
    "a webhook to %s gets the 200 that its sender expects, once the call is on disk",
    async (path, body, type) => {
      const answer = await post(path);
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, type]);
      expect(answer.text).toMatch(body);
      await webhooks.onlyCall();
    },
  );
});

describe("204", () => {
  test("a webhook whose sender expects 204 gets it without a body, once the call is on disk", async () => {
    const { address } = await webhooks.start({
      endpoints: [{ path: "/a", job_id: 1, auth: "none", answer: { status: 204 } }],
    });
    const answer = await send(address, { path: "/a", body: "x" });
    expect([answer.status, answer.text, answer.headers["content-length"]]).toEqual([204, "", undefined]);
    await webhooks.onlyCall();
  });
});

describe("400", () => {
  const endpoints = [
    { path: "/deliveries", job_id: 1, auth: "none", idempotency_header: "X-GitHub-Delivery" },
    { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
  ];

  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints });
  });

  const deliver = (...ids: string[]) =>
    send(gateway.address, {
      path: "/deliveries",
      headers: ids.flatMap((id) => ["X-GitHub-Delivery", id]),
      body: "x",
    });

  test.each([
    ["is empty", [""]],
    ["is repeated", ["a", "b"]],
    ["is repeated with the same value", ["a", "a"]],
    ["is longer than 256 bytes", ["x".repeat(257)]],
  ])("a webhook whose delivery id %s is refused with 400", async (_what, ids) => {
    const answer = await deliver(...ids);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: "webhook.delivery_id_invalid" });
    expect(await webhooks.waiting()).toEqual([]);
  });

  test("a delivery id of 256 bytes is accepted", async () => {
    expect((await deliver("x".repeat(256))).status).toBe(202);
  });

  test("a webhook whose body does not have the encoding that its header names is refused with 400", async () => {
    const headers = { "Content-Encoding": "gzip" };
    const answer = await send(gateway.address, { path: "/decodes", headers, body: "plain" });
    expect(answer.json()).toMatchObject({ status: 400, code: "request.encoding_broken" });
    expect(await webhooks.waiting()).toEqual([]);
  });
});

describe("401", () => {
  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints: [...ENDPOINTS, ...SIGNED_OVER] });
  });

  const good = sign(BODY);
  const refused: [string, string, string[], string][] = [
    ["no Authorization header", "/bearer", [], "missing"],
    ["another scheme than Bearer", "/bearer", ["Authorization", utf8(`Basic ${SECRET}`)], "malformed"],
    ["an empty bearer token", "/bearer", ["Authorization", "Bearer "], "malformed"],
    ["a bearer token that differs", "/bearer", ["Authorization", "Bearer nope"], "mismatch"],
    [
      "only the beginning of a bearer token",
      "/bearer",
      ["Authorization", utf8(`Bearer ${SECRET.slice(0, -1)}`)],
      "mismatch",
    ],
    [
      "two Authorization headers",
      "/bearer",
      ["Authorization", utf8(`Bearer ${SECRET}`), "Authorization", "Bearer x"],
      "repeated",
    ],
    ["no API key", "/key", [], "missing"],
    ["an API key in another case", "/key", ["X-API-Key", utf8(SECRET.toUpperCase())], "mismatch"],
    ["two API keys", "/key", ["X-API-Key", utf8(SECRET), "x-api-key", utf8(SECRET)], "repeated"],
    ["an API key in another header", "/own-key", ["X-API-Key", utf8(SECRET)], "missing"],
    ["no signature", "/hmac", [], "missing"],
    ["a signature of another body", "/hmac", ["X-Signature-256", sign("other")], "mismatch"],
    ["garbage after a valid signature", "/hmac", ["X-Signature-256", `${good}zz`], "malformed"],
    ["a list of signatures", "/hmac", ["X-Signature-256", `${good}, sha256=${"0".repeat(64)}`], "malformed"],
    ["garbage before a signature's prefix", "/hmac", ["X-Signature-256", `x sha256=${good}`], "malformed"],
    [
      "a signature with another algorithm's prefix",
      "/hmac",
      ["X-Signature-256", `sha1=${good}`],
      "malformed",
    ],
    ["a signature's prefix in upper case", "/hmac", ["X-Signature-256", `SHA256=${good}`], "malformed"],
    ["a signature of 63 digits", "/hmac", ["X-Signature-256", good.slice(1)], "malformed"],
    ["a repeated signature", "/hmac", ["X-Signature-256", good, "X-Signature-256", good], "repeated"],
    [
      "a valid signature after a wrong one",
      "/hmac",
      ["X-Hub-Signature-256", good, "X-Signature-256", "00"],
      "malformed",
    ],
  ];

  test.each(refused)(
    "a webhook with %s is refused with a 401 that does not say why",
    async (_what, path, headers, reason) => {
      const answer = await send(gateway.address, { path, headers, body: BODY });
      expect(answer.status).toBe(401);
      expect(answer.headers["www-authenticate"]).toMatch(/realm="postern"/);
      expect(answer.json()).toMatchObject({
        detail: expect.stringMatching(
          /^(?:the credential in [a-z0-9, -]+ is not valid|no complete credential: this endpoint reads it from [a-z0-9, -]+; the request has [a-z0-9, -]+)$/,
        ),
        code: "webhook.credential_rejected",
      });
      expect(answer.text).not.toContain(reason);
      expect(gateway.log.events.at(-1)).toMatchObject({
        event: "webhook.refused",
        fields: { reason: expect.stringMatching(new RegExp(`^${reason}(?:: |$)`)) },
      });
      expect(await webhooks.waiting()).toEqual([]);
    },
  );

  test("a webhook whose body differs from the signed one is refused with 401, even if both mean the same", async () => {
    const headers = ["X-Signature-256", sign("{}")];
    expect((await send(gateway.address, { path: "/hmac", headers, body: "{ }" })).status).toBe(401);
  });

  test("a webhook with a wrong credential is refused with 401 before its large body is read", async () => {
    const head = "POST /key HTTP/1.1\r\nHost: x\r\nX-API-Key: no\r\nContent-Length: 900000000\r\n\r\n";
    const raw = await sendRaw(gateway.address, head);
    expect(raw).toMatch(/^HTTP\/1\.1 401/);
    expect(raw).toMatch(/Connection: close/i);
  });

  test.each([
    ["received", Buffer.from(BODY)],
    ["decoded", gzipSync(BODY)],
  ])(
    "an encoded webhook whose signature does not cover its body as %s is refused with 401 if the endpoint requires that",
    async (how, over) => {
      const headers = { "Content-Encoding": "gzip", "X-Signature-256": sign(over) };
      const answer = await send(gateway.address, { path: `/signed-${how}`, headers, body: gzipSync(BODY) });
      expect(answer.status).toBe(401);
    },
  );
});

describe("403", () => {
  const endpoints = [
    { path: "/elsewhere", job_id: 1, auth: "none", allow_ips: ["203.0.113.0/24", "2001:db8::/32"] },
    { path: "/here", job_id: 1, auth: "none", allow_ips: ["127.0.0.0/8"] },
    { path: "/asana", job_id: 1, preset: "asana" },
  ];
  const SECRET = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";

  let gateway: TestWebhooks;
  let proxied: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints });
    proxied = await webhooks.start({ endpoints, http: { trusted_proxies: ["127.0.0.1"] } });
  });

  test("a webhook from an address outside allow_ips is refused with 403 before its credential is checked", async () => {
    const answer = await send(gateway.address, { path: "/elsewhere", body: "x" });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "request.address_refused"]);
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { address: "127.0.0.1" },
    });
    expect((await send(gateway.address, { path: "/here", body: "x" })).status).toBe(202);
  });

  test("a webhook counts for the address that a trusted proxy names, and a client's own claim is ignored", async () => {
    const to = (address: string, forwarded: string) =>
      send(address, { path: "/elsewhere", headers: { "X-Forwarded-For": forwarded }, body: "x" });
    expect((await to(gateway.address, "203.0.113.9")).status).toBe(403);
    expect((await to(proxied.address, "203.0.113.9")).status).toBe(202);
    expect((await to(proxied.address, "203.0.113.9, 198.51.100.1")).status).toBe(403);
  });

  test("extra lines in a client's X-Forwarded-For do not hide the proxy's own line", async () => {
    const head = [
      ...["POST /elsewhere HTTP/1.1", "Host: x", "X-Forwarded-For: 203.0.113.9"],
      ...Array.from({ length: 2100 }, () => "a:"),
      ...["X-Forwarded-For: 198.51.100.1", "Connection: close", "Content-Length: 1"],
    ];
    expect(await sendRaw(proxied.address, `${head.join("\r\n")}\r\n\r\nx`)).toMatch(/^HTTP\/1\.1 403 /);
  });

  const handshake = (secret = SECRET) =>
    send(gateway.address, { path: "/asana", headers: { "X-Hook-Secret": secret }, body: "{}" });

  test("a secret in a handshake is refused with 403 unless the operator has opened the endpoint, and then it is accepted once", async () => {
    expect((await handshake()).json()).toMatchObject({
      status: 403,
      code: "webhook.handshake_refused",
      detail: "the endpoint is not open for a new secret",
    });
    const reason = "the endpoint is not open for a new secret: run postern endpoints open";
    expect(gateway.log.events.at(-1)).toMatchObject({ fields: { reason } });

    const act = { at: 1, action: "open", path: "/asana", by: "a test", selection: "for 1 min" } as const;
    const opened = await createOpenedEndpoints(webhooks.redis.partition).open(act, 60_000);
    const answer = await eventually("the gateway sees that it is open", async () => {
      const answer = await handshake();
      return answer.status === 403 ? undefined : answer;
    });
    expect([answer.status, answer.headers["x-hook-secret"]]).toEqual([200, SECRET]);
    expect((await handshake("another secret of another sender")).status).toBe(403);
    expect(await opened.look()).toMatchObject({ kind: "secret", secret: SECRET, address: "127.0.0.1" });
    await eventually("the gateway sees that it is closed", async () => (await handshake()).status === 403);
    expect(await webhooks.waiting()).toEqual([]);
  });

  test("an endpoint that has no secret yet accepts no delivery", async () => {
    const headers = { "X-Hook-Signature": "0".repeat(64) };
    expect((await send(gateway.address, { path: "/asana", headers, body: "{}" })).status).toBe(401);
  });
});

describe("404", () => {
  const endpoints = [
    { path: "/Hooks/a", job_id: 1, auth: "none" },
    { path: "/%41", job_id: 3, auth: "none" },
    { path: "/hooks/a+", job_id: 4, auth: "none" },
  ];

  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints });
  });

  test.each([
    "/hooks/a",
    "/Hooks/a/",
    "/Hooks//a",
    "//Hooks/a",
    "/Hooks/%61",
    "/./Hooks/a",
    "/x/../Hooks/a",
    "/7",
    "/A",
    "/hooks/b",
    "/",
    "/Hooks/a#x",
  ])("a webhook to %s, which is not exactly an endpoint's path, is refused with 404", async (path) => {
    const answer = await send(gateway.address, { path, body: "x" });
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(answer.json()).toMatchObject({ code: "request.not_found", status: 404 });
  });

  test.each([
    ["with another path", "http://shop.example/hooks/a"],
    ["with a user in it", "http://user@shop.example/Hooks/a"],
    ["of another scheme", "ftp://shop.example/Hooks/a"],
    ["without a host", "http:///Hooks/a"],
  ])("a webhook whose target is a URL %s is refused with 404", async (_what, target) => {
    const raw = await sendRaw(
      gateway.address,
      `POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 404/);
  });
});

describe("405", () => {
  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  });

  test.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])(
    "a %s request to an endpoint is refused with 405 and Allow: POST",
    async (method) => {
      const answer = await send(gateway.address, { method, path: "/a" });
      expect(answer.status).toBe(405);
      expect(answer.headers["allow"]).toBe("POST");
      expect(gateway.log.events.at(-1)).toMatchObject({
        event: "webhook.refused",
        fields: { code: "request.method_not_allowed", reason: `${method}; this path accepts POST` },
      });
    },
  );
});

describe("408", () => {
  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({
      endpoints: [{ path: "/any", job_id: 1, auth: "none" }],
      webhooks: { request_timeout_secs: 0.3 },
    });
  });

  test("a webhook whose headers never end is refused with 408", async () => {
    const raw = await sendRaw(gateway.address, "POST /any HTTP/1.1\r\nHost: x\r\n");
    expect(raw).toMatch(/^HTTP\/1\.1 408/);
    expect(raw).toContain('"code":"request.timed_out"');
  });

  test("a webhook whose body never ends is refused with 408 and not queued", async () => {
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
    expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 408/);
    expect(await webhooks.waiting()).toEqual([]);
  });

  test("the rest of a body that arrives after the 408 is not accepted, and nothing is queued", async () => {
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabcde";
    const sender = openRaw(gateway.address, head);
    await eventually("the answer arrives", () => sender.received().includes("408"));
    await sender.sendUntilReset("fghij");
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { code: "request.timed_out", path: "/any" },
    });
    expect(await webhooks.waiting()).toEqual([]);
    expect(sender.received().match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

describe("409", () => {
  const SECRET = "a secret of the deduplicated";
  const endpoints = [
    { path: "/key", job_id: 1, auth: "api-key", secret: SECRET, idempotency_header: "X-Id" },
    { path: "/bearer", job_id: 1, auth: "bearer", secret: SECRET, idempotency_header: "X-Id" },
  ];

  let first: TestWebhooks;
  let second: TestWebhooks;

  beforeAll(async () => {
    first = await webhooks.start({ endpoints });
    second = await webhooks.start({ endpoints });
  });

  const post = ({ address }: TestWebhooks, path: string, body: string) =>
    send(address, {
      path,
      headers: { "X-API-Key": SECRET, Authorization: `Bearer ${SECRET}`, "X-Id": "d-1" },
      body,
    });

  test.each(["QUEUED", "INJECTED", "FAILED", "DISCARDED"])(
    "a delivery id that is repeated with another body is refused with 409 if its call is %s",
    async (state) => {
      const id = String((await post(first, "/key", "one")).json()["call_id"]);
      const partition = webhooks.redis.partitions.of(id);
      const records = createCallRecords(partition);
      const of = { id, queue: "webhook/7/1" };
      if (state === "INJECTED") await markInjected(partition, of);
      if (state === "FAILED") await records.failed(of, Date.now());
      if (state === "DISCARDED") await createFailedRecords(partition).endDiscard(of, Date.now());
      expect(await records.state(id)).toBe(state);
      const answer = await post(second, "/key", "two");
      expect(answer.status).toBe(409);
      expect(answer.json()).toMatchObject({ code: "call.conflict" });
      expect(await webhooks.waiting()).toHaveLength(1);
    },
  );

  test("a delivery id that is repeated with another body under the same bearer token is refused with 409", async () => {
    expect((await post(first, "/bearer", "one")).status).toBe(202);
    expect((await post(first, "/bearer", "two")).json()).toMatchObject({
      status: 409,
      code: "call.conflict",
    });
    expect(await webhooks.waiting()).toHaveLength(1);
  });
});

describe("413", () => {
  const endpoints = [
    { path: "/any", job_id: 1, auth: "none" },
    { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
  ];

  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints, webhooks: { body_limit_bytes: 4096 } });
  });

  test("a webhook that declares a body over the limit is refused with 413 before the body is read", async () => {
    const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 12}\r\n\r\n`;
    const raw = await sendRaw(gateway.address, head);
    expect(raw).toMatch(/^HTTP\/1\.1 413/);
    expect(raw).toMatch(/Connection: close/i);
    expect(raw).toContain('"code":"request.too_large"');
  });

  test("a webhook that expects 100-continue for a body over the limit gets 413 and no 100", async () => {
    const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 9}\r\nExpect: 100-continue\r\n\r\n`;
    expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 413/);
  });

  test("an endless chunked body is refused with 413 at the limit, and the sender still receives the answer", async () => {
    const chunk = `1000\r\n${"x".repeat(4096)}\r\n`;
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    const raw = await sendRaw(gateway.address, [head, ...Array<string>(500).fill(chunk)]);
    expect(raw).toMatch(/^HTTP\/1\.1 413/);
    expect(await webhooks.waiting()).toEqual([]);
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
  ] as const)("a small %s body that decodes to a large one is refused with 413", async (encoding, encode) => {
    const bomb = encode(Buffer.alloc(2 * 1024 * 1024));
    const headers = { "Content-Encoding": encoding };
    expect((await send(gateway.address, { path: "/decodes", headers, body: bomb })).status).toBe(413);
  });
});

describe("415", () => {
  const endpoints = [
    { path: "/any", job_id: 1, auth: "none" },
    { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
  ];

  let gateway: TestWebhooks;

  beforeAll(async () => {
    gateway = await webhooks.start({ endpoints });
  });

  const post = (path: string, encoding: string, body: Buffer) =>
    send(gateway.address, { path, headers: { "Content-Encoding": encoding }, body });

  test("an encoded body is refused with 415 unless the endpoint decodes bodies", async () => {
    const answer = await post("/any", "gzip", gzipSync("text"));
    expect(answer.status).toBe(415);
    expect(answer.json()).toMatchObject({ code: "request.encoding_unsupported" });
    expect(answer.headers["accept-encoding"]).toBe("identity");
    expect(await webhooks.waiting()).toEqual([]);
  });

  test.each([
    ["in an unsupported encoding", "zstd"],
    ["in two encodings", "gzip, br"],
  ])("a body %s is refused with 415 by an endpoint that decodes bodies", async (_what, encoding) => {
    const answer = await post("/decodes", encoding, Buffer.from("plain"));
    expect([answer.status, answer.headers["accept-encoding"]]).toEqual([
      415,
      "gzip, x-gzip, deflate, br, identity",
    ]);
  });
});

describe("429", () => {
  const bearer = { job_id: 1, auth: "bearer", secret: SECRET };
  const endpoints = [
    { ...bearer, path: "/limited", rate_limit: { per_second: 0.01, burst: 2 } },
    { ...bearer, path: "/per-address", rate_limit_per_address: { per_second: 0.01, burst: 2 } },
    {
      ...bearer,
      path: "/comes-again-on-503",
      rate_limit: { per_second: 0.01, burst: 1 },
      answer: { limited: 503 },
    },
    { ...bearer, path: "/guessed-at", rate_limit: { per_second: 0.01, burst: 2 } },
    { ...bearer, path: "/unlimited" },
    { ...bearer, path: "/probed", answer: { refusals_limited: 401 } },
    { path: "/meta", job_id: 1, preset: "meta", secret: SECRET, verify_token: "a token of twenty chars" },
  ];

  let first: TestWebhooks;
  let second: TestWebhooks;

  beforeAll(async () => {
    first = await webhooks.start({ endpoints });
    second = await webhooks.start({ endpoints });
  });

  /** Starts a gateway that permits three refused credentials per address. */
  const startStrict = () => webhooks.start({ endpoints, webhooks: { refusals_per_minute: 3 } });

  const GOOD = ["Authorization", utf8(`Bearer ${SECRET}`)];
  const BAD = ["Authorization", "Bearer wrong"];
  const post = ({ address }: TestWebhooks, path: string, headers = GOOD) =>
    send(address, { path, headers, body: "x" });

  test.each(["/limited", "/per-address"])(
    "webhooks to %s over its limit are refused with 429 by every replica, with the time to retry",
    async (path) => {
      expect((await post(first, path)).status).toBe(202);
      expect((await post(second, path)).status).toBe(202);
      const answer = await post(first, path);
      expect(answer.json()).toMatchObject({ status: 429, code: "request.rate_limited" });
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(1);
      expect(await webhooks.waiting()).toHaveLength(2);
    },
  );

  test("an endpoint over its limit answers with the status that makes its sender retry", async () => {
    expect((await post(first, "/comes-again-on-503")).status).toBe(202);
    const answer = await post(first, "/comes-again-on-503");
    expect(answer.status).toBe(503);
    expect(answer.json()).toMatchObject({ status: 503, code: "request.rate_limited" });
    expect(answer.headers["retry-after"]).toBeDefined();
  });

  test("webhooks with a wrong credential do not count towards the endpoint's limit", async () => {
    for (let i = 0; i < 5; i += 1) expect((await post(first, "/guessed-at", BAD)).status).toBe(401);
    expect((await post(first, "/guessed-at")).status).toBe(202);
  });

  const fieldsOf = ({ log }: TestWebhooks, event: string) =>
    log.events.filter((each) => each.event === event).map(({ fields }) => fields);

  /** Returns the log entry about refusals over the limit. */
  const loggedBy = (gateway: TestWebhooks) =>
    eventually("the refusals are logged", () => fieldsOf(gateway, "webhook.refusals_limited")[0]);

  test("an address with too many refused credentials gets 429 for wrong ones, and webhooks with a valid credential are still accepted", async () => {
    const strict = await startStrict();
    const statuses: number[] = [];
    for (let i = 0; i < 5; i += 1) statuses.push((await post(strict, "/unlimited", BAD)).status);
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    expect((await post(strict, "/unlimited")).status).toBe(202);
    const answer = await post(strict, "/unlimited", BAD);
    expect(answer.json()["detail"]).toBe("too many wrong credentials from this address");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(fieldsOf(strict, "webhook.refused")).toHaveLength(3);
    const list = createRejectedList(webhooks.redis.partition);
    await eventually("recorded", async () => (await list.matching({}, 10)).newest.length === 3);
    expect(await loggedBy(strict)).toEqual({
      path: "/unlimited",
      code: "request.rate_limited",
      reason: "too many wrong credentials from this address",
      times: 3,
    });
  });

  test("a sender that tests an endpoint with wrong credentials gets 401 for all of them, and those over the limit are only counted", async () => {
    const strict = await startStrict();
    for (let i = 0; i < 5; i += 1) {
      const answer = await post(strict, "/probed", BAD);
      expect(answer.json()).toMatchObject({ status: 401, code: "webhook.credential_rejected" });
      expect(answer.headers["www-authenticate"]).toBe('Bearer realm="postern"');
    }
    expect(fieldsOf(strict, "webhook.refused")).toHaveLength(3);
    expect(await loggedBy(strict)).toMatchObject({ code: "webhook.credential_rejected", times: 2 });
  });

  test("a wrong verify token counts as a wrong credential of the client's address", async () => {
    const strict = await startStrict();
    const path = "/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=guess";
    const statuses: number[] = [];
    for (let i = 0; i < 5; i += 1)
      statuses.push((await send(strict.address, { method: "GET", path })).status);
    expect(statuses).toEqual([403, 403, 403, 429, 429]);
    expect((await post(strict, "/unlimited", BAD)).status).toBe(429);
  });
});

describe("500", () => {
  test("an unforeseen error is answered with 500, and only the log contains the error", async () => {
    let reads = Number.POSITIVE_INFINITY;
    const clock = () => {
      reads -= 1;
      if (reads === 0) throw new Error("the clock fell off the wall");
      return Date.now();
    };
    const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }], clock });
    // The request reads the clock second, unless the gateway's check of its queues happens in between.
    const answer = await eventually("the request meets the error", async () => {
      reads = 2;
      const answer = await send(gateway.address, { path: "/a", body: "x" });
      return answer.status === 202 ? undefined : answer;
    });
    expect(answer.json()).toMatchObject({ status: 500, code: "internal.unexpected" });
    expect(answer.text).not.toContain("clock");
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: {
        path: "/a",
        reason: "the clock fell off the wall",
        stack: expect.stringContaining("receive.test"),
      },
    });
  });
});

describe("502", () => {
  const inject = useInjecting(webhooks.redis, "webhook");

  const ENDPOINT = {
    ...{ path: "/hooks/command", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" },
    ...{ respond: "result", wait_secs: 60 },
  };

  test("if the sender waits for the result, a call that fails for good is answered with 502 and the reason, now and when it is repeated", async () => {
    const run: Inject = async () => {
      throw new AppError("runner.refused", { reason: "the runner answered 402" });
    };
    await inject(run);
    const { address } = await webhooks.start({ endpoints: [ENDPOINT] });
    for (let i = 0; i < 2; i++) {
      const answer = await send(address, {
        path: ENDPOINT.path,
        headers: { "X-Delivery-Id": "delivery-1" },
        body: "hello",
      });
      expect([answer.status, answer.headers["content-type"]]).toEqual([502, "application/problem+json"]);
      expect(answer.json()).toMatchObject({
        code: "result.call_failed",
        failure: { code: "runner.refused" },
      });
    }
  });
});

describe("client-gone", () => {
  test("a webhook whose sender disconnects before the whole body arrived is not queued", async () => {
    const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
    const head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    const sender = openRaw(gateway.address, head);
    await eventually("its body is read", () => sender.received().includes("100 Continue"));
    sender.socket.write("abc");
    sender.socket.destroy();
    const refused = await eventually("it is refused", () =>
      gateway.log.events.find(({ event }) => event.startsWith("webhook.")),
    );
    expect(refused).toMatchObject({
      event: "webhook.refused",
      fields: { path: "/a", code: "request.malformed" },
    });
    expect(await webhooks.waiting()).toEqual([]);
  });
});

describe("secrecy", () => {
  test("credentials are neither queued nor logged, no matter whether the webhook is accepted", async () => {
    const gateway = await webhooks.start({ endpoints: ENDPOINTS });
    const good = sign(BODY);
    const sent: [string, string[], number][] = [
      ["/bearer", ["Authorization", utf8(`Bearer ${SECRET}`), "Cookie", "session=canary"], 202],
      ["/hmac", ["X-Signature-256", good], 202],
      ["/key", ["X-API-Key", "wrong-canary-key"], 401],
      ["/hmac", ["X-Signature-256", sign("canary")], 401],
    ];
    for (const [path, headers, status] of sent) {
      expect((await send(gateway.address, { path, headers, body: BODY })).status).toBe(status);
    }
    const stored = JSON.stringify(await webhooks.waiting());
    for (const trace of [SECRET, utf8(SECRET), "canary", good, sign("canary"), "uthorization"]) {
      expect(stored).not.toContain(trace);
      expect(gateway.log.text()).not.toContain(trace);
    }
  });
});
