import { request } from "node:http";
import { beforeEach, describe, expect, test } from "vitest";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { listen } from "../../../shared/http/listen.ts";
import { serveRoutes } from "../../../shared/http/router.ts";
import { DISABLED_DELIVERY_ROUTES } from "../../../shared/ingress/deliveries.ts";
import { deliver, type SentDelivery, type TestDeliveries, useDeliveries } from "../../fixtures/deliveries.ts";
import { keys } from "../../fixtures/redis.ts";

const deliveries = useDeliveries();

const DEFAULT = "s".repeat(32);
const REPORTS = "r".repeat(32);
const POSTERN = {
  runner: { secret: [DEFAULT, "an older one of the same"] },
  runners: { reports: { url: "http://127.0.0.1:1", secret: REPORTS } },
  jobs: { "7/2": { runner: "reports" } },
  results: { deliveries: true, result_bytes_max: 1000 },
};

let gateway: TestDeliveries;
beforeEach(async () => {
  await deliveries.redis.client.flushdb();
  gateway = await deliveries.start(POSTERN);
});

/** Creates a call that its runner has accepted and must deliver. */
async function aCall(fields: Record<string, string> = {}): Promise<string> {
  const id = randomCallId();
  const record = { st: "INJECTED", at: "5", rs: "awaited", jb: "7/1", ...fields };
  await deliveries.redis.client.hset(keys.record(id), record);
  return id;
}

const put = (id: string, sent?: SentDelivery) => deliver(gateway.address, id, sent);
const codeOf = async (id: string, sent?: SentDelivery) => {
  const answer = await put(id, sent);
  return [answer.status, answer.status < 300 ? undefined : answer.json()["code"]];
};

describe("a runner's delivery becomes the result of its call:", () => {
  test("with status, Content-Type and bytes, stored once, for any number of repeats to any replica", async () => {
    const id = await aCall();
    const headers = { "content-type": "image/png", "result-status": "201" };
    const body = Buffer.from([0, 255, 10]);
    const other = await deliveries.start(POSTERN);
    const statuses = [
      (await put(id, { headers, body })).status,
      (await deliver(other.address, id, { headers, body })).status,
    ];
    expect(statuses).toEqual([204, 204]);
    expect(await gateway.results.read(id)).toMatchObject({
      ...{ kind: "answer", by: "delivery", status: 201, contentType: "image/png", body },
    });
  });

  test("with status 200 by default, and without a body or a Content-Type if the delivery has none", async () => {
    const id = await aCall();
    expect((await put(id, { body: "" })).status).toBe(204);
    const bare = { kind: "answer", status: 200, contentType: undefined, body: Buffer.alloc(0) };
    expect(await gateway.results.read(id)).toMatchObject(bare);
  });

  test("only as a note that it was too long, if it exceeds the limit or the runner says so", async () => {
    const [long, told] = [await aCall(), await aCall()];
    expect((await put(long, { body: "x".repeat(200_000) })).status).toBe(204);
    expect((await put(told, { body: "", headers: { "result-body": "too-long" } })).status).toBe(204);
    for (const id of [long, told])
      expect(await gateway.results.read(id)).toMatchObject({ kind: "too_long", status: 200 });
  });

  test("for a failure, with only the title and the detail of its problem document", async () => {
    const id = await aCall();
    const problem = { title: "No such page", detail: "404", stack: "at secret.ts:1" };
    const headers = { "content-type": "application/problem+json", "result-status": "500" };
    expect((await put(id, { headers, body: JSON.stringify(problem) })).status).toBe(204);
    expect(await gateway.results.read(id)).toMatchObject({
      ...{ kind: "failure", status: 500, title: "No such page", detail: "404", contentType: undefined },
    });
    expect(await deliveries.redis.client.get(keys.result(id))).not.toContain("secret.ts");
  });

  test("and a different result is refused with 409, unless it is the answer after a failure", async () => {
    const id = await aCall();
    const failed = { headers: { "result-status": "500" }, body: "" };
    expect((await put(id, failed)).status).toBe(204);
    expect((await put(id, { body: "at last" })).status).toBe(204);
    expect(await codeOf(id, { body: "another" })).toEqual([409, "result.conflict"]);
    expect(await codeOf(id, failed)).toEqual([409, "result.conflict"]);
    expect(await gateway.results.read(id)).toMatchObject({ body: Buffer.from("at last") });
  });

  test.each(["DISCARDED", "REFUND_PENDING", "REFUNDED"])(
    "and it is too late for a call that is %s",
    async (st) => {
      const id = await aCall({ st });
      expect(await codeOf(id)).toEqual([409, "result.too_late"]);
      expect(await codeOf(id, { what: "progress", body: "{}" })).toEqual([409, "result.too_late"]);
    },
  );
});

describe("progress of a call", () => {
  const tell = (id: string, body: string) => codeOf(id, { what: "progress", body });

  test("is shown until the result exists, and only the newest", async () => {
    const id = await aCall();
    for (const step of [1, 2]) expect(await tell(id, `{ "step": ${step} }`)).toEqual([204, undefined]);
    const progress = { json: '{"step":2}' };
    expect(await gateway.results.read(id)).toMatchObject({ kind: "pending", progress });
    await put(id);
    expect(await tell(id, '{"step":3}')).toEqual([409, "result.too_late"]);
  });

  test("is refused unless it is a JSON object of at most 4 KiB", async () => {
    const id = await aCall();
    for (const body of ["", "3", "[]", "null", "{"])
      expect(await tell(id, body)).toEqual([400, "request.malformed"]);
    expect(await tell(id, `{"a":"${"x".repeat(4096)}"}`)).toEqual([413, "request.too_large"]);
  });
});

describe("a delivery is refused with 401 and stores nothing,", () => {
  const now = () => Math.floor(Date.now() / 1000);
  const REFUSED: [string, () => SentDelivery][] = [
    ["by another secret", () => ({ secret: "guessed" })],
    ["signed too long ago", () => ({ created: now() - 310 })],
    ["signed in the future", () => ({ created: now() + 70 })],
    ["with another body", () => ({ changed: { body: "gone" } })],
    ["with a body that is longer, and than results may be", () => ({ changed: { body: "x".repeat(2000) } })],
    [
      "with another method",
      () => ({ what: "progress", body: "{}", changed: { path: "/calls/ID/result", method: "PUT" } }),
    ],
    ["with a status that is not covered", () => ({ changed: { headers: { "Result-Status": "500" } } })],
    [
      "with a Content-Type that is not covered",
      () => ({ changed: { headers: { "Content-Type": "text/html" } } }),
    ],
    ["without a signature", () => ({ changed: { headers: { Signature: "" } } })],
  ];

  test.each(REFUSED)("%s", async (_how, sent) => {
    const id = await aCall();
    const { changed, ...rest } = sent();
    const path = changed?.path?.replace("ID", id);
    const request = {
      ...rest,
      ...(changed && { changed: { ...changed, ...(path !== undefined && { path }) } }),
    };
    expect(await codeOf(id, request)).toEqual([401, "runner.signature_rejected"]);
    expect(await gateway.results.read(id)).toMatchObject({ kind: "pending" });
  });

  test("if it is signed for another call", async () => {
    const [id, other] = [await aCall(), await aCall()];
    const path = `/calls/${other}/result`;
    expect(await codeOf(id, { changed: { path } })).toEqual([401, "runner.signature_rejected"]);
  });

  test("before its body or Redis is read", async () => {
    const id = await aCall();
    await put(await aCall());
    const seen = Number(
      /cmdstat_hmget:calls=(\d+)/.exec(await deliveries.redis.client.info("commandstats"))?.[1],
    );
    const { hostname, port } = new URL(`http://${gateway.address}`);
    const status = await new Promise((resolve, reject) => {
      const headers = { "Content-Length": 1e6, Signature: "postern=:AAAA:", "Signature-Input": "postern=()" };
      const req = request({ hostname, port, method: "PUT", path: `/calls/${id}/result`, headers }, (res) => {
        resolve(res.statusCode);
        req.destroy();
      });
      req.on("error", reject);
      req.flushHeaders();
    });
    expect(status).toBe(401);
    expect(seen).toBeGreaterThan(0);
    const after = Number(
      /cmdstat_hmget:calls=(\d+)/.exec(await deliveries.redis.client.info("commandstats"))?.[1],
    );
    expect(after).toBe(seen);
  });
});

describe("a runner may not deliver for the jobs of another runner:", () => {
  test("if the record names the job, only its runner's secret is valid", async () => {
    const own = await aCall({ jb: "7/2" });
    expect(await codeOf(own)).toEqual([401, "runner.signature_rejected"]);
    expect(await codeOf(own, { secret: REPORTS })).toEqual([204, undefined]);
    const bought = await aCall({ jb: "", rt: "/x402/jobs/7/1" });
    await deliveries.redis.client.hdel(keys.record(bought), "jb");
    expect(await codeOf(bought, { secret: REPORTS })).toEqual([401, "runner.signature_rejected"]);
    expect(await codeOf(bought, { secret: "an older one of the same" })).toEqual([204, undefined]);
  });

  test("if there is no record yet, any runner's secret is valid, because only the call's own runner knows the id", async () => {
    const id = randomCallId();
    expect(await codeOf(id, { secret: REPORTS })).toEqual([204, undefined]);
    expect(await gateway.results.read(id)).toMatchObject({ kind: "answer" });
  });
});

describe("a malformed delivery is refused", () => {
  test.each([
    [404, "request.not_found", "/calls/c_1/result", {}],
    [404, "request.not_found", "/calls/ID/results", {}],
    [404, "request.not_found", "/calls/ID/result?a=b", {}],
    [405, "request.method_not_allowed", "/calls/ID/result", { method: "POST" }],
    [405, "request.method_not_allowed", "/calls/ID/progress", {}],
  ])("with %i %s at %s", async (status, code, path, changed) => {
    const id = await aCall();
    expect(await codeOf(id, { changed: { path: path.replace("ID", id), ...changed } })).toEqual([
      status,
      code,
    ]);
  });

  test.each([{ "result-status": "302" }, { "result-status": "2000" }, { "result-body": "empty" }])(
    "with 400 if it contains %j",
    async (headers) => {
      expect(await codeOf(await aCall(), { headers: headers as unknown as Record<string, string> })).toEqual([
        400,
        "request.malformed",
      ]);
    },
  );
});

test("a gateway that accepts no deliveries refuses them with 404, and names the missing setting", async () => {
  const server = await listen(serveRoutes(DISABLED_DELIVERY_ROUTES), "127.0.0.1:0");
  try {
    for (const what of ["result", "progress"] as const) {
      const answer = await deliver(server.address, randomCallId(), { what });
      expect(answer.json()).toMatchObject({
        status: 404,
        code: "request.not_found",
        detail: expect.stringContaining("set deliveries = true in [results] of postern.toml"),
      });
    }
  } finally {
    await server.close(0);
  }
});
