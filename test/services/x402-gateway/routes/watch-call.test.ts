import { EventSource } from "undici";
import { describe, expect, test } from "vitest";
import { createResultTokens } from "../../../../shared/call/results/token.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { useBoughtCalls } from "../../../fixtures/bought-call.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { QUOTE_SECRET, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { paymentIn } from "../../../support/books.ts";
import { newPayer } from "../../../support/devnet.ts";
import { type ReadStream, readStream } from "../../../support/event-source.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { deliverResultOn, tellProgressOn } from "../../../support/results.ts";
import { signInAs, signInAskedBy } from "../../../support/sign-in.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

describe("200", () => {
  const inject = useInjecting(fixture.redis, "x402");
  const ends = useEnds();

  const urlOf = ({ address }: TestX402, id: string, query = "") =>
    `http://${address}/x402/calls/${id}/events${query}`;
  const kindsOf = ({ events }: ReadStream) => events.flatMap(({ event }) => event ?? []);

  test("an EventSource with the token of the 202 follows a long job: its states, its progress and its end", async () => {
    const x402 = await fixture.gateway();
    const bought = await calls.buy(x402);
    const source = new EventSource(urlOf(x402, bought.id, `?token=${bought.token}`));
    ends.defer(() => source.close());
    const seen: [string, Record<string, unknown>][] = [];
    for (const kind of ["state", "progress", "end"])
      source.addEventListener(kind, (event) =>
        seen.push([kind, JSON.parse(String((event as MessageEvent).data))]),
      );
    await eventually("it waits", () => seen.length === 1);
    fixture.foreign.push(paymentIn(bought.headers)?.nonce ?? "");
    await inject(async () => ({ status: 202 }));
    await eventually("it is injected", () => seen.length === 2);
    await tellProgressOn(fixture.redis.partition)(bought.id, {
      at: 5,
      json: '{"step":1,"steps":2}',
    });
    await eventually("its progress is reported", () => seen.length === 3);
    const told = { status: 200, contentType: "text/plain", at: 6, by: "delivery" } as const;
    await deliverResultOn(fixture.redis.partition)(bought.id, {
      ...told,
      kind: "answer",
      body: Buffer.from("done"),
    });
    await eventually("it has ended", () => seen.length === 4);
    source.close();
    expect(seen).toMatchObject([
      ["state", { call_id: bought.id, state: "queued", attempts: 0 }],
      ["state", { state: "injected", attempts: 1 }],
      ["progress", { progress: { step: 1, steps: 2 }, progress_at: 5 }],
      ["end", { state: "injected", result: "kept" }],
    ]);
    expect((await bought.get()).text).toBe("done");
    expect(x402.log.text()).not.toContain(bought.token.slice(3));
  });

  test("without a proof, or with the proof of another call, a stream has only the state words", async () => {
    const x402 = await fixture.gateway();
    const bought = await calls.ended(x402, async () => ({ status: 200, body: "forty-two" }));
    const token = createResultTokens([new Secret(QUOTE_SECRET)]).of(`c_${"0".repeat(32)}`);
    for (const given of [undefined, token, "rt_nonsense"]) {
      const stream = await readStream(
        urlOf(x402, bought.id, given === undefined ? "" : `?token=${given}`),
        given === undefined ? {} : { token: given },
      );
      await stream.ended;
      const data = { call_id: bought.id, state: "injected" };
      expect(stream.events.slice(1)).toEqual([
        { event: "state", id: "INJECTED::", data },
        { event: "end", id: "INJECTED::end", data },
      ]);
    }
  });

  onlyInLongRun(() => {
    test("a payer who signs in gets everything, once for each nonce, and a stranger who signs in does not", async () => {
      const x402 = await fixture.gateway();
      const bought = await calls.ended(x402, async () => ({ status: 200, body: "forty-two" }));
      const stranger = await newPayer(fixture.devnet);
      const watchAs = async (headers: Record<string, string>) => {
        const stream = await readStream(urlOf(x402, bought.id), { headers });
        await stream.ended;
        return stream.events.at(-1)?.data ?? {};
      };
      const signIn = async (payer: typeof stranger) =>
        signInAs(signInAskedBy(await bought.get("/result", { token: "" })), { payer });
      const headers = await signIn(fixture.payer);
      expect(await watchAs(headers)).toHaveProperty("result", "kept");
      expect(await watchAs(headers), "its nonce was used").not.toHaveProperty("result");
      expect(await watchAs(await signIn(stranger))).not.toHaveProperty("result");
    });

    test("a page of another origin may read the stream, and a draining gateway makes it reconnect", async () => {
      const x402 = await fixture.gateway();
      const bought = await calls.buy(x402);
      const stream = await readStream(urlOf(x402, bought.id), { token: bought.token });
      expect(stream.headers).toMatchObject({ "access-control-allow-origin": "*" });
      await eventually("its state", () => kindsOf(stream).length === 1);
      expect(x402.gateway.streaming()).toBe(1);
      x402.gateway.drain();
      await stream.ended;
      expect(stream.events.at(-1)).toEqual({ retry: expect.any(Number) });
      expect(x402.gateway.streaming()).toBe(0);
    });
  });
});

describe("204", () => {
  test("a client that has received the end of a call and reconnects with its id gets 204", async () => {
    const x402 = await fixture.gateway();
    const { id, token } = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
    const url = `http://${x402.address}/x402/calls/${id}/events`;
    const first = await readStream(url, { token });
    await first.ended;
    const lastEventId = first.events.at(-1)?.id ?? "";
    expect((await readStream(url, { token, lastEventId })).status).toBe(204);
    expect((await readStream(url, { lastEventId })).status, "a client without a proof received less").toBe(
      200,
    );
  });
});

describe("404", () => {
  const ID = `c_${"0".repeat(32)}`;

  test.each(sample([ID, "nothing", `${ID}/more`]))(
    "a stream of %s, a call that was never paid for, is 404",
    async (id) => {
      const x402 = await fixture.gateway();
      const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${id}/events` });
      expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    },
  );

  test("a payment gateway has no stream for a webhook's call", async () => {
    const x402 = await fixture.gateway();
    await fixture.redis.client.hset(keys.record(ID), { st: "QUEUED", at: "1" });
    const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${ID}/events` });
    expect(answer.status).toBe(404);
  });
});

describe("405", () => {
  test("POST to a call's events is 405, and allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { path: `/x402/calls/c_${"0".repeat(32)}/events` });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });
});

describe("429", () => {
  test("a stream above the limit of a call is 429, and the answer says when to come again", async () => {
    const x402 = await fixture.gateway({ results: { streams_max: 10, streams_per_call_max: 1 } });
    const { id, token, get } = await calls.buy(x402);
    const first = await readStream(`http://${x402.address}/x402/calls/${id}/events`, { token });
    expect(first.status).toBe(200);
    const answer = await get("/events");
    expect([answer.status, answer.json()["code"]]).toEqual([429, "request.rate_limited"]);
    expect(answer.headers["retry-after"]).toBe("10");
    expect((await get("")).status, "its state can be asked for").toBe(200);
    first.close();
  });
});

describe("503", () => {
  const proxy = useRedisProxy(fixture.redis);

  test("a stream is 503 while Redis cannot be read, and the answer says when to come again", async () => {
    const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
    const bought = await calls.buy(x402);
    proxy.onCommand = (words) =>
      words.some((word) => word.endsWith(`:result:${bought.id}`)) ? { kind: "lose-command" } : undefined;
    const answer = await bought.get("/events");
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});
