import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { tellProgressOn } from "../../../support/results.ts";
import { ask, deliver, KEEPING, NOBODYS, startAskable } from "./called.ts";

const webhooks = useWebhooks();

describe("200", () => {
  const inject = useInjecting(webhooks.redis, "webhook");

  test("a client that knows a webhook's id can read its state word, and only the token shows its time, attempts and progress", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    const status = { call_id: id, state: "queued" };
    expect((await ask(gateway, id, { below: "" })).json()).toEqual(status);
    const proven = async () => (await ask(gateway, id, { below: "", token })).json();
    expect(await proven()).toEqual({ ...status, changed_at: expect.any(Number), attempts: 0 });

    await inject(async () => ({ status: 202 }));
    await eventually("it is injected", async () => (await proven())["state"] === "injected");
    await tellProgressOn(webhooks.redis.partition)(String(id), { at: 5, json: '{"percent":40}' });
    expect(await proven()).toMatchObject({ attempts: 1, progress: { percent: 40 }, progress_at: 5 });
    expect((await ask(gateway, id, { below: "" })).json()).toEqual({ ...status, state: "injected" });
  });
});

describe("404", () => {
  test("the status of a webhook without a delivery id is 404 while it waits, with an explanation, even with its token", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway, KEEPING)).json();
    for (const proof of [{}, { token }]) {
      const answer = await ask(gateway, id, { below: "", ...proof });
      expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
      expect(answer.json()["detail"]).toContain("without a delivery id");
    }
  });

  test("a malformed call path is 404, like any path without an endpoint", async () => {
    const gateway = await startAskable(webhooks);
    for (const id of ["c_0", `c_${"A".repeat(32)}`, ""]) expect((await ask(gateway, id)).status).toBe(404);
  });
});

describe("405", () => {
  test("POST to a webhook's status is refused with 405, which allows GET and HEAD", async () => {
    const answer = await ask(await startAskable(webhooks), NOBODYS, { below: "", method: "POST" });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD"]);
  });
});

describe("503", () => {
  const proxy = useRedisProxy(webhooks.redis);

  test("a webhook's status is 503 while Redis cannot be read, with the time to query again", async () => {
    const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    proxy.onCommand = (words) =>
      words.some((word) => word.endsWith(`:call:${String(id)}`)) ? { kind: "lose-command" } : undefined;
    const answer = await ask(gateway, id, { below: "", token });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});
