import { EventSource } from "undici";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { readStream } from "../../../support/event-source.ts";
import { ask, deliver, eventsOf, KEEPING, NOBODYS, startAskable } from "./called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

describe("200", () => {
  const ends = useEnds();

  test("an EventSource with the token of a webhook's 202 receives the call's states and its end", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    const source = new EventSource(`${eventsOf(gateway, id)}?token=${String(token)}`);
    ends.defer(() => source.close());
    const seen: unknown[] = [];
    for (const kind of ["state", "end"])
      source.addEventListener(kind, (event) =>
        seen.push([kind, JSON.parse(String((event as MessageEvent).data))]),
      );
    await eventually("it waits", () => seen.length === 1);
    await inject(async () => ({ status: 200, body: "done" }));
    await eventually("it has ended", () => seen.length === 3);
    source.close();
    expect(seen).toMatchObject([
      ["state", { call_id: id, state: "queued", attempts: 0 }],
      ["state", { state: "injected", attempts: 1 }],
      ["end", { state: "injected", result: "kept" }],
    ]);
  });

  test("a webhook without a delivery id, which has no record while it waits, can be watched from the start with its token", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway, KEEPING)).json();
    expect((await readStream(eventsOf(gateway, id))).status, "no other client knows it").toBe(404);
    const stream = await readStream(eventsOf(gateway, id), { token: String(token) });
    expect([stream.status, stream.events.flatMap(({ event }) => event ?? [])]).toEqual([200, []]);
    await inject(async () => ({ status: 200, body: "done" }));
    await stream.ended;
    expect(stream.events.at(-1)).toMatchObject({ event: "end", data: { result: "kept" } });
  });

  test("without a token, a webhook's stream contains only the state words", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id } = (await deliver(gateway)).json();
    const stream = await readStream(eventsOf(gateway, id));
    await inject(async () => ({ status: 200, body: "done" }));
    await stream.ended;
    const data = (state: string) => ({ call_id: id, state });
    expect(stream.events.slice(1)).toEqual([
      { event: "state", id: "QUEUED::", data: data("queued") },
      { event: "state", id: "INJECTED::", data: data("injected") },
      { event: "end", id: "INJECTED::end", data: data("injected") },
    ]);
  });
});

describe("204", () => {
  test("a client that has received a webhook's end gets 204 when it reconnects with that event's id", async () => {
    const gateway = await startAskable(webhooks);
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    await inject(async () => ({ status: 200, body: "done" }));
    const proof = { token: String(token) };
    const first = await readStream(eventsOf(gateway, id), proof);
    await first.ended;
    const lastEventId = first.events.at(-1)?.id ?? "";
    expect((await readStream(eventsOf(gateway, id), { ...proof, lastEventId })).status).toBe(204);
  });
});

describe("404", () => {
  test("the stream of an unknown webhook is 404, and so is every stream if streams are disabled", async () => {
    const gateway = await startAskable(webhooks);
    const answer = await ask(gateway, NOBODYS, { below: "/events" });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    const without = await startAskable(webhooks, { results: { streams_max: 0, streams_per_call_max: 1 } });
    expect((await ask(without, NOBODYS, { below: "/events" })).status).toBe(404);
  });
});

describe("405", () => {
  test("POST to a webhook's events is refused with 405, which allows GET and HEAD", async () => {
    const answer = await ask(await startAskable(webhooks), NOBODYS, { below: "/events", method: "POST" });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD"]);
  });
});

describe("429", () => {
  test("a stream over the limit of its call is refused with 429", async () => {
    const gateway = await startAskable(webhooks, { results: { streams_max: 10, streams_per_call_max: 1 } });
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    const first = await readStream(eventsOf(gateway, id), { token: String(token) });
    const second = await ask(gateway, id, { below: "/events", token });
    expect([first.status, second.status, second.json()["code"]]).toEqual([200, 429, "request.rate_limited"]);
    first.close();
  });
});

describe("503", () => {
  const proxy = useRedisProxy(webhooks.redis);

  test("a webhook's stream is 503 while Redis cannot be read", async () => {
    const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
    const { call_id: id, result_token: token } = (await deliver(gateway)).json();
    proxy.onCommand = (words) =>
      words.some((word) => word.endsWith(`:call:${String(id)}`)) ? { kind: "lose-command" } : undefined;
    const answer = await ask(gateway, id, { below: "/events", token });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});
