import { EventSource } from "undici";
import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { readStream } from "../../../../support/event-source.ts";
import { deliver, eventsOf, KEEPING, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");
const ends = useEnds();

test("an EventSource with the token of a webhook's 202 is told its states and its end", async () => {
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

test("a webhook without a delivery id, which has no record while it waits, is watched from the start by who has its token", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway, KEEPING)).json();
  expect((await readStream(eventsOf(gateway, id))).status, "nobody else knows it").toBe(404);
  const stream = await readStream(eventsOf(gateway, id), { token: String(token) });
  expect([stream.status, stream.events.flatMap(({ event }) => event ?? [])]).toEqual([200, []]);
  await inject(async () => ({ status: 200, body: "done" }));
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({ event: "end", data: { result: "kept" } });
});

test("without a token a stream of a webhook has the state words and nothing else", async () => {
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
