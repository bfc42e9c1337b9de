import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { CallEvent } from "../../../../shared/telemetry/events/event.ts";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { readStream } from "../../../support/event-source.ts";
import { send } from "../../../support/http.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const webhooks = useWebhooks({ redis });
const ends = useEnds();

async function follow({ address }: TestOperator) {
  const stream = await readStream(`http://${address}/api/v1/events`, { token: TOKENS.viewer });
  ends.defer(stream.close);
  return stream;
}

describe("200", () => {
  test("a stream sends the processes that it follows and each event of a call, without bodies, until it is closed", async () => {
    const { address } = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
    const stream = await follow(await fixture.start());
    const toldOf = (name: string) =>
      stream.events.flatMap(({ event, data = {} }) => (event === name ? [data] : []));
    await eventually("it follows the gateway", () => toldOf("process").length > 0);
    expect(toldOf("process")).toEqual([{ service: "webhooks", process: expect.any(String) }]);
    const answer = await send(address, { path: "/a", body: "the body" });
    await eventually("the call is told of", () => toldOf("call").length > 0);
    const [{ at, from, ...call } = {}] = toldOf("call");
    const { call_id } = answer.json<{ call_id: string }>();
    expect(CallEvent.parse({ ...call, at: Date.parse(String(at)) })).toMatchObject({
      ...{ outcome: "accepted", endpoint: "/a", job: "7/1", call_id, bytes: 8 },
    });
    expect(from).toEqual(toldOf("process")[0]);
    expect(JSON.stringify(stream.events)).not.toContain("the body");
    stream.close();
    await eventually("nobody follows", async () => (await redis.client.exists(keys.followed)) === 0);
  });

  test("a stream ends when its replica stops, and tells its client when to reconnect", async () => {
    const service = await fixture.start();
    const stream = await follow(service);
    service.drain();
    await stream.ended;
    expect(stream.events.at(-1)?.retry).toBeGreaterThanOrEqual(2000);
    expect(service.liveStreams()).toBe(0);
  });
});

describe("400", () => {
  test("a query is refused, because the stream always has all events", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get("/api/v1/events?job=7%2F1"))).toEqual([400, "request.malformed"]);
  });
});

describe("429", () => {
  test("streams of events and of live data share the limit of a name", async () => {
    const service = await fixture.start();
    await Promise.all(Array.from({ length: 16 }, () => follow(service)));
    const refused = await service.get("/api/v1/live", { as: "viewer" });
    expect(refusalOf(refused)).toEqual([429, "request.rate_limited"]);
    expect(refusalOf(await service.get("/api/v1/events", { as: "viewer" }))).toEqual([
      ...[429, "request.rate_limited"],
    ]);
  });
});
