import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { SECRET } from "./receive/credentials.ts";

const webhooks = useWebhooks();
const MIB = 1024 * 1024;

const byId = { job_id: 1, delivery_id: "{body:/id}" };
const endpoints = [
  { path: "/token", job_id: 1, auth: "token", token_field: "/token", secret: "a token in the body" },
  { path: "/open", ...byId, auth: "none", encoded_bodies: "decode" },
  { path: "/opaque", job_id: 1, auth: "none" },
  { path: "/proven", ...byId, auth: "bearer", secret: SECRET },
];
const right = (n: number) => JSON.stringify({ token: "a token in the body", n });

const start = (options: object = {}) => webhooks.start({ endpoints, ...options });
const deliver = ({ address }: TestWebhooks, path: string, body: string | Buffer) =>
  send(address, {
    path,
    body,
    headers: { Authorization: Buffer.from(`Bearer ${SECRET}`).toString("latin1") },
  });

const deep = "[".repeat(MIB);
const wide = `[${"1,".repeat(MIB / 2 - 2)}1]`;

test.each([
  ["too deep", deep, "is nested more than 64 levels deep"],
  ["of too many values", wide, "has more than 100000 values"],
])("a body that is %s is not parsed before it is proven", async (_what, body, problem) => {
  const gateway = await start();
  expect((await deliver(gateway, "/token", body)).json()["code"]).toBe("webhook.credential_rejected");
  expect(gateway.log.events.at(-1)?.fields["reason"]).toBe(`malformed: the body ${problem}`);
  const open = await deliver(gateway, "/open", body);
  expect(open.json()).toMatchObject({
    ...{ status: 400, code: "request.malformed", detail: `the body ${problem}` },
  });
  expect((await deliver(gateway, "/opaque", body)).status).toBe(202);
  expect((await deliver(gateway, "/proven", body)).status).toBe(202);
});

test("an encoded body that is too deep after decoding is not parsed", async () => {
  const gateway = await start();
  const headers = { "Content-Encoding": "gzip" };
  const body = gzipSync(deep);
  expect((await send(gateway.address, { path: "/open", headers, body })).json()["code"]).toBe(
    "request.malformed",
  );
});

/** Small JSON within all limits that is slow to parse, because every object has different member names. */
const slow = JSON.stringify(Array.from({ length: 25_000 }, (_, n) => ({ [`k${n}`]: n })));

onlyInLongRun(() => {
  test("if one address sends 1,000 wrong and 10 right requests, all 10 are accepted, however expensive the wrong ones are", async () => {
    const bodyBudgetBytes = 32 * MIB;
    const gateway = await start({ http: { body_budget_bytes: bodyBudgetBytes } });
    const answers = new Map<number, number>();
    let most = 0;
    let floodBegan = (): void => {};
    const began = new Promise<void>((resolve) => {
      floodBegan = resolve;
    });
    const wrong = Array.from({ length: 250 }, async () => {
      for (let i = 0; i < 4; i++) {
        const { status } = await deliver(gateway, "/token", slow);
        most = Math.max(most, gateway.gateway.bodyBytes());
        answers.set(status, (answers.get(status) ?? 0) + 1);
        if (status === 503) floodBegan();
      }
    });
    await began;
    const accepted = Array.from({ length: 10 }, (_, n) => deliver(gateway, "/token", right(n)));
    expect((await Promise.all(accepted)).map(({ status }) => status)).toEqual(Array(10).fill(202));
    await Promise.all(wrong);
    expect([...answers.keys()].filter((status) => ![401, 429, 503].includes(status))).toEqual([]);
    expect(most).toBeLessThanOrEqual(bodyBudgetBytes);
  });
});
