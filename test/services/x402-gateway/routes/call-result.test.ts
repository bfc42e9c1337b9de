import { describe, expect, test } from "vitest";
import { Refused } from "../../../../services/producer/producer.ts";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { createResultTokens } from "../../../../shared/call/results/token.ts";
import { createForget } from "../../../../shared/call-search/forget.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useBoughtCalls } from "../../../fixtures/bought-call.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { JOB_PATH, PUBLIC_URL, useX402 } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { type Answer, send } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { contentsOf } from "../../../support/redis-content.ts";
import { signInAs, signInAskedBy } from "../../../support/sign-in.ts";
import { buyCall } from "../sign-in/bought.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);
const proxy = useRedisProxy(fixture.redis);

describe("200", () => {
  test("a client with the token of the first 202 gets the runner's answer with its status and type, also by a link and by HEAD", async () => {
    const x402 = await fixture.gateway();
    const body = Buffer.from([0, 1, 2, 255]);
    const bought = await calls.ended(x402, async () => ({ status: 201, contentType: "image/x", body }));
    expect(bought.answer.json()).toMatchObject({
      result_token: expect.stringMatching(/^rt_[\w-]{43}$/),
      result_url: `${PUBLIC_URL}/x402/calls/${bought.id}/result`,
    });

    const result = await bought.get();
    expect([result.status, result.headers["content-type"], result.body]).toEqual([201, "image/x", body]);
    expect(result.headers).toMatchObject({ "access-control-allow-origin": "*", "cache-control": "no-store" });

    const link = `/x402/calls/${bought.id}/result?token=${bought.token}`;
    expect((await send(x402.address, { method: "GET", path: link })).body).toEqual(body);
    const head = await bought.get("/result", { method: "HEAD" });
    expect([head.status, head.headers["content-length"], head.body.length]).toEqual([201, "4", 0]);
  });

  onlyInLongRun(() => {
    test("with the token, a call's status also shows when it was accepted, how many attempts have ended, and why it failed", async () => {
      const x402 = await fixture.gateway();
      const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
      expect((await bought.get("")).json()).toEqual({
        call_id: bought.id,
        state: "injected",
        accepted_at: expect.any(Number),
        changed_at: expect.any(Number),
        attempts: 1,
      });
    });

    test("tokens are made with the first secret of results, and tokens made with its other secrets or the quote secret stay valid", async () => {
      const [old, rotated] = ["the old secret of these tests", "the new secret of these tests"];
      const replicas = await Promise.all([
        fixture.gateway(),
        fixture.gateway({ resultSecrets: [old] }),
        fixture.gateway({ resultSecrets: [rotated, old] }),
      ]);
      const [quoting, before, after] = replicas;
      const bought = await calls.buy(quoting, async () => ({ status: 200, body: "done" }));
      const again = (gateway: typeof before, token: string) =>
        gateway.post({ ...bought.headers, Authorization: `Bearer ${token}` });
      const ofOld = String((await again(before, bought.token)).json()["result_token"]);
      const ofNew = String((await again(after, ofOld)).json()["result_token"]);
      expect(new Set([bought.token, ofOld, ofNew]).size).toBe(3);
      for (const token of [bought.token, ofOld, ofNew]) {
        const answer = await send(after.address, {
          method: "GET",
          path: `/x402/calls/${bought.id}/result?token=${token}`,
        });
        expect(answer.status).not.toBe(402);
      }
      const path = `/x402/calls/${bought.id}/result?token=${ofNew}`;
      expect((await send(before.address, { method: "GET", path })).status).toBe(402);
    });
  });
});

describe("402", () => {
  test("without the call's own token a result is refused with 402 before Redis is asked, whether the call exists or not", async () => {
    const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
    const bought = await calls.buy(x402);
    const other = await x402.post(await x402.pay({ payer: await newPayer(fixture.devnet) }));
    const ofOther = String(other.json()["result_token"]);
    expect(ofOther).toMatch(/^rt_/);

    const touched: string[] = [];
    proxy.onCommand = (words) => {
      // Excludes the reconciler's reads of bought calls, which also name the list of payments.
      const isAsked = words.some((word) => word.includes(":call:c_")) && !words.includes(keys.payments);
      if (isAsked) touched.push(words.join(" "));
      return undefined;
    };
    const wrong = `rt_${"A".repeat(43)}`;
    const nobodys = `c_${"0".repeat(32)}`;
    const asks = [bought.id, nobodys].flatMap((id) => [
      { path: `/x402/calls/${id}/result`, headers: {} },
      { path: `/x402/calls/${id}/result?token=${wrong}`, headers: {} },
      { path: `/x402/calls/${id}/result?token=${ofOther}&token=${bought.token}`, headers: {} },
      { path: `/x402/calls/${id}/result`, headers: { Authorization: `Bearer ${ofOther}` } },
      { path: `/x402/calls/${id}/result`, headers: { Authorization: `Basic ${bought.token}` } },
      { path: `/x402/calls/${id}/result`, headers: bought.headers },
    ]);
    const answers = await Promise.all(asks.map((ask) => send(x402.address, { method: "GET", ...ask })));
    const told = answers.map(comparable);
    expect(told[0]?.status).toBe(402);
    expect(answers[0]?.json()).toMatchObject({
      code: "result.sign_in_required",
      x402Version: 2,
      accepts: [],
    });
    for (const each of told) expect(each).toEqual(told[0]);
    expect(touched).toEqual([]);
  });

  /** Returns the answer without the call's id and without values that change with each answer. */
  function comparable({ status, headers, text }: Answer) {
    const { date, "payment-required": required, ...rest } = headers;
    const plain = text
      .replace(/c_[0-9a-f]{32}/g, "ID")
      .replace(/"(nonce|issuedAt|expirationTime)":"[^"]+"/g, "");
    expect(JSON.parse(Buffer.from(String(required), "base64").toString())).toMatchObject({ x402Version: 2 });
    return { status, headers: rest, text: plain };
  }

  onlyInLongRun(() => {
    test("a token that was made with a secret no longer configured is refused with 402", async () => {
      const before = await fixture.gateway({ resultSecrets: ["a secret that leaked, so it was removed"] });
      const bought = await calls.buy(before);
      const after = await fixture.gateway({ resultSecrets: ["another secret of the same results"] });
      const path = `/x402/calls/${bought.id}/result?token=${bought.token}`;
      expect((await send(before.address, { method: "GET", path })).status).toBe(404);
      expect((await send(after.address, { method: "GET", path })).status).toBe(402);
    });
  });
});

describe("404", () => {
  test("the result of a waiting call is 404, and the answer says when to ask again", async () => {
    const x402 = await fixture.gateway();
    const answer = await (await calls.buy(x402)).get();
    expect([answer.status, answer.json()["code"]]).toEqual([404, "result.pending"]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });

  test("the result of an unknown call is 404 for a client with its token", async () => {
    const secret = "a secret of the results of these tests";
    const x402 = await fixture.gateway({ resultSecrets: [secret] });
    const id = `c_${"0".repeat(32)}`;
    const token = createResultTokens([new Secret(secret)]).of(id);
    const answer = await send(x402.address, {
      method: "GET",
      path: `/x402/calls/${id}/result?token=${token}`,
    });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  });

  test("the 202 of a job that keeps no results has no token, and neither has a repeat by its payer", async () => {
    const price = { price_wei: "1000000000000000", keep_result: false };
    const x402 = await fixture.gateway({ prices: { "7": price } });
    const headers = await x402.pay({ payer: fixture.payer });
    for (let times = 0; times < 2; times += 1) {
      const members = Object.keys((await x402.post(headers)).json());
      expect(members.filter((name) => name.startsWith("result"))).toEqual([]);
    }
  });

  onlyInLongRun(() => {
    test("the result, state and events of a webhook's call are 404 for a client with its token", async () => {
      const secret = "a secret of the results of these tests";
      const x402 = await fixture.gateway({ resultSecrets: [secret] });
      const call = aCall();
      const claim = { by: "a request", bodySha256: "", windowMs: 60_000 };
      await createEnqueue(fixture.redis.partition)(call, claim);
      const token = createResultTokens([new Secret(secret)]).of(call.id);
      for (const below of ["", "/result", "/events"]) {
        const path = `/x402/calls/${call.id}${below}?token=${token}`;
        const answer = await send(x402.address, { method: "GET", path });
        expect([below, answer.status, answer.json()["code"]]).toEqual([below, 404, "request.not_found"]);
      }
      // The fixture expects that every call was paid for, so the webhook's call is deleted.
      await fixture.redis.client.flushdb();
    });
  });
});

describe("405", () => {
  test("POST to a call's result gets 405 before any proof is checked, and the answer allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { path: `/x402/calls/c_${"0".repeat(32)}/result` });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });
});

describe("410", () => {
  test("a result that is no longer kept is 410", async () => {
    const x402 = await fixture.gateway();
    const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
    expect((await bought.get()).text).toBe("done");
    await fixture.redis.client.del(keys.result(bought.id));
    const answer = await bought.get();
    expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
  });

  onlyInLongRun(() => {
    test("the result of a forgotten call is 410, and a repeat of its payment gets the earlier answer and buys nothing", async () => {
      const x402 = await fixture.gateway();
      const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
      const { partition } = fixture.redis;
      const operator = { partition, clock: systemClock, log: silentLogger, by: "a test" };
      expect(await createForget(operator)(bought.id, "the law")).toEqual({ kind: "done" });
      const answer = await bought.get();
      expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
      expect((await bought.get("")).json()).toMatchObject({ state: "injected", attempts: 1 });
      const repeat = await x402.post(bought.headers);
      expect([repeat.status, repeat.json()]).toMatchObject([202, { call_id: bought.id, status: "accepted" }]);
    });
  });
});

describe("429", () => {
  test("a payer who signs in to one call more than sixty times a minute is refused with a retry time", async () => {
    const { id, payer } = await buyCall(fixture);
    const now = Date.now();
    const { address } = await fixture.gateway({ clock: () => now });
    const get = (headers = {}) => send(address, { method: "GET", path: `/x402/calls/${id}/result`, headers });
    const signIn = async () => get(await signInAs(signInAskedBy(await get()), { payer }));
    for (let i = 0; i < 60; i++) expect((await signIn()).status).toBe(404);
    const answer = await signIn();
    expect([answer.status, answer.json()["code"], answer.headers["retry-after"]]).toEqual([
      429,
      "request.rate_limited",
      "1",
    ]);
  });
});

describe("502", () => {
  test("the result of a call that failed for good is 502 with the runner's answer, which only its payer also sees in the call's status", async () => {
    const x402 = await fixture.gateway();
    const problem = { title: "Out of paper", detail: "The printer has none" };
    const bought = await calls.ended(x402, async () => {
      throw new Refused("the runner's own reason", { problem });
    });
    const failure = { code: "runner.refused", ...problem };
    const answer = await bought.get();
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: "result.call_failed", failure });
    expect((await bought.get("")).json()).toMatchObject({ state: "failed", attempts: 1, failure });
    expect((await bought.get("", { token: "" })).json()).toEqual({ call_id: bought.id, state: "failed" });
  });
});

describe("503", () => {
  test("a result is 503 while Redis cannot be read, and the answer says when to ask again", async () => {
    const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
    const bought = await calls.buy(x402);
    proxy.onCommand = (words) =>
      words.some((word) => word.endsWith(`:result:${bought.id}`)) ? { kind: "lose-command" } : undefined;
    const answer = await bought.get();
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});

describe("unseen", () => {
  test("wherever a client puts its token, it is in no log, is not kept, and is in no answer except the payer's", async () => {
    const x402 = await fixture.gateway();
    const { id, token, headers } = await calls.buy(x402);
    const secret = token.slice(3);
    const call = `/x402/calls/${id}`;
    const Authorization = `Bearer ${token}`;
    const asks = [
      { method: "GET", path: `${call}/result?token=${token}` },
      { method: "GET", path: `${call}/result`, headers: { Authorization } },
      { method: "GET", path: `${call}/result/${token}` },
      { method: "GET", path: `${call}/result&token=${token}` },
      { method: "GET", path: `/x402/calls/${token}` },
      { method: "POST", path: `${call}/result?token=${token}` },
      { method: "GET", path: `/x402?page=${token}` },
      { method: "GET", path: `/x402/jobs/1/7/${token}` },
      { method: "POST", path: `${JOB_PATH}?network=${token}` },
      { method: "POST", path: JOB_PATH, headers: { "PAYMENT-SIGNATURE": token } },
      { method: "POST", path: JOB_PATH, headers: { ...headers, Authorization }, body: "another body" },
      { method: "POST", path: `${JOB_PATH}/auth-dry-run?token=${token}`, headers: { Authorization } },
    ];
    for (const ask of asks) {
      const answer = await send(x402.address, ask);
      expect(answer.text + JSON.stringify(answer.headers), ask.path).not.toContain(secret);
    }
    // A repeat with the right token is the only answer that contains the token.
    expect((await x402.post({ ...headers, Authorization })).text).toContain(secret);

    const { client } = fixture.redis;
    const kept = JSON.stringify(await contentsOf(client, await client.keys("*")));
    expect(kept).toContain(id);
    expect(kept).not.toContain(secret);
    expect(x402.log.text()).not.toContain(secret);
  });
});
