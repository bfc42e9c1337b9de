import { describe, expect, test } from "vitest";
import { Refused } from "../../../../services/producer/producer.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { ask, deliver, FORGETTING, KEEPING, NAMED, NOBODYS, startAskable, tokenOf } from "./called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");
const proxy = useRedisProxy(webhooks.redis);

describe("200", () => {
  test.each([KEEPING, NAMED])(
    "the sender of a webhook at %s gets the runner's answer with the token of its 202, also by the link in the 202",
    async (path) => {
      const gateway = await startAskable(webhooks, { mountPath: "/mounted" });
      const accepted = (await deliver(gateway, path)).json<Record<string, string>>();
      const { call_id: id, result_token: token, result_url: url } = accepted;
      expect([token, url]).toEqual([
        expect.stringMatching(/^rt_[\w-]{43}$/),
        `/mounted/webhooks/calls/${id}/result`,
      ]);
      await inject(async () => ({ status: 201, contentType: "text/x", body: "done" }));
      await eventually("it has ended", async () => (await ask(gateway, id, { token })).status === 201);
      const result = await ask(gateway, id, { token });
      expect([result.headers["content-type"], result.text]).toEqual(["text/x", "done"]);
      const link = `/webhooks/calls/${id}/result?token=${token}`;
      expect((await send(gateway.address, { method: "GET", path: link })).text).toBe("done");
      const head = await ask(gateway, id, { token, method: "HEAD" });
      expect([head.status, head.headers["content-length"], head.text]).toEqual([201, "4", ""]);
    },
  );

  test("a repeated delivery gets the token again, and a delivery whose result is not kept gets no token", async () => {
    const gateway = await startAskable(webhooks);
    const [first, repeat] = [await deliver(gateway), await deliver(gateway)];
    expect(repeat.headers["idempotent-replayed"]).toBe("true");
    expect(repeat.json()).toEqual(first.json());
    expect(Object.keys((await deliver(gateway, FORGETTING)).json())).toEqual(["status", "job_id", "call_id"]);
  });
});

describe("401", () => {
  test("without the call's own token the answer is 401, whether the call exists or not, and Redis is not queried", async () => {
    const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
    const id = String((await deliver(gateway)).json()["call_id"]);
    const touched: string[] = [];
    proxy.onCommand = (words) => {
      if (words.some((word) => word.includes(":call:c_"))) touched.push(words.join(" "));
      return undefined;
    };
    const ofOther = tokenOf(`c_${"1".repeat(32)}`);
    const answers = await Promise.all(
      [id, NOBODYS].flatMap((each) => [ask(gateway, each), ask(gateway, each, { token: ofOther })]),
    );
    const told = answers.map(({ status, headers: { date, ...headers }, text }) => ({
      status,
      headers,
      text,
    }));
    expect(told[0]).toMatchObject({ status: 401, headers: { "www-authenticate": 'Bearer realm="postern"' } });
    expect(answers[0]?.json()["code"]).toBe("result.proof_required");
    for (const each of told) expect(each).toEqual(told[0]);
    expect(touched).toEqual([]);
  });

  test("a gateway without a result secret accepts no token", async () => {
    const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
    expect((await ask(gateway, NOBODYS, { token: tokenOf(NOBODYS) })).status).toBe(401);
  });
});

describe("404", () => {
  test("the result of a waiting webhook is 404, with the time to query again", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    const answer = await ask(gateway, id, { token });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "result.pending"]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });

  test("the result of an unknown webhook is 404, and says that the call may become known later", async () => {
    const gateway = await startAskable(webhooks);
    const answer = await ask(gateway, NOBODYS, { token: tokenOf(NOBODYS) });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    expect(answer.json()["detail"]).toContain("without a delivery id");
  });
});

describe("405", () => {
  test("POST to a webhook's result is refused with 405, which allows GET and HEAD", async () => {
    const answer = await ask(await startAskable(webhooks), NOBODYS, { method: "POST" });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD"]);
  });
});

describe("410", () => {
  test("a webhook's result that is no longer kept is 410", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    await inject(async () => ({ status: 200, body: "done" }));
    await eventually("it has ended", async () => (await ask(gateway, id, { token })).status === 200);
    await webhooks.redis.client.del(keys.result(String(id)));
    const answer = await ask(gateway, id, { token });
    expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
  });
});

describe("502", () => {
  test("the result of a webhook whose call failed for good is 502 with the reason, and the status shows that only with the token", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    const problem = { title: "Out of paper" };
    await inject(async () => {
      throw new Refused("the runner's own reason", { problem });
    });
    await eventually("it has failed", async () => (await ask(gateway, id, { token })).status === 502);
    const failure = { code: "runner.refused", ...problem };
    expect((await ask(gateway, id, { token })).json()).toMatchObject({ code: "result.call_failed", failure });
    const status = { call_id: id, state: "failed" };
    const proven = (await ask(gateway, id, { below: "", token })).json();
    expect(proven).toEqual({ ...status, changed_at: expect.any(Number), attempts: 1, failure });
    expect((await ask(gateway, id, { below: "" })).json()).toEqual(status);
  });
});

describe("503", () => {
  test("a webhook's result is 503 while Redis cannot be read, with the time to query again", async () => {
    const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    proxy.onCommand = (words) =>
      words.some((word) => word.endsWith(`:result:${String(id)}`)) ? { kind: "lose-command" } : undefined;
    const answer = await ask(gateway, id, { token });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});
