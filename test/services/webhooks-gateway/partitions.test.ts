import { expect, test } from "vitest";
import { callIdOfDelivery } from "../../../shared/call/call-id.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { asUser, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { partitionsOn } from "../../support/partitions.ts";

const redis = useRedis();
const other = useOwnRedis();
const webhooks = useWebhooks({ redis });
const TOKEN = "a-token-for-the-tests";
const endpoint = { path: "/a", job_id: 1, auth: "bearer", secret: TOKEN, delivery_id: "{header:x-id}" };

/** Starts a gateway with four partitions, one of which is on a separate Redis. Returns functions that inspect them. */
async function started(away: number) {
  const isAway = (index: number) => index === away;
  const urls = [redis.url, redis.url, redis.url, redis.url].map((url, index) =>
    isAway(index) ? other.url : url,
  );
  const { address, gateway } = await webhooks.start({
    endpoints: [endpoint],
    redisUrls: urls.map((url) => asUser(url, "webhooks")),
    enqueueTimeoutMs: 1500,
  });
  const partitions = partitionsOn(urls.map((_, index) => (isAway(index) ? other.client : redis.client)));
  const post = async (id?: string) => {
    const headers = { authorization: `Bearer ${TOKEN}`, ...(id !== undefined && { "x-id": id }) };
    const { status, json } = await send(address, { path: "/a", body: "x", headers });
    return { status, callId: String(json()["call_id"]), code: json()["code"] };
  };
  const found = () => gateway.readiness().checks["partitions"] as { redis: string }[];
  await eventually("all partitions can be used", () => found().every((each) => each.redis === "always"));
  const partitionOf = (callId: string) => partitions.of(callId).index;
  return { partitions, gateway, post, partitionOf };
}

/** Returns a delivery id whose call belongs to this partition. */
function deliveryIn(index: number, partitionOf: (callId: string) => number, name = "delivery"): string {
  for (let n = 0; ; n++) {
    if (partitionOf(callIdOfDelivery("/a", `${name}-${n}`)) === index) return `${name}-${n}`;
  }
}

test("webhooks are spread over all partitions, and each delivery is one call in the partition of its id", async () => {
  const { partitions, post, partitionOf } = await started(3);
  const random = await Promise.all(Array.from({ length: 64 }, () => post()));
  expect(random.flatMap(({ status, code }) => (status === 202 ? [] : code))).toEqual([]);
  expect(new Set(random.map(({ callId }) => partitionOf(callId))).size).toBe(4);
  for (let n = 0; n < 8; n++) {
    const first = await post(`id-${n}`);
    expect(await post(`id-${n}`)).toEqual(first);
    const { redis: there, keys } = partitions.of(first.callId);
    expect(await there.hget(keys.record(first.callId), "st")).toBe("QUEUED");
  }
});

test.each(sample([0, 2]))(
  "while partition %i is unavailable, its deliveries are refused with 503, and all other webhooks are accepted",
  async (away) => {
    const { post, gateway, partitionOf } = await started(away);
    const [lost, kept] = [deliveryIn(away, partitionOf), deliveryIn(1, partitionOf)];
    await other.server.kill("SIGKILL");
    await eventually("the gateway has noticed", async () => (await post(lost)).status === 503);

    for (let n = 0; n < 40; n++) {
      const { status, callId } = await post();
      expect([status, partitionOf(callId) === away]).toEqual([202, false]);
    }
    expect(await post(kept)).toMatchObject({ status: 202 });
    expect(await post(lost)).toMatchObject({ status: 503, code: "queue.unavailable" });
    expect(gateway.readiness()).toMatchObject({
      ready: true,
      checks: { redis: "3 of 4 partitions can be used" },
    });

    await other.server.restart();
    await eventually("it is back", async () => (await post(lost)).status === 202);
    expect(await post(kept)).toMatchObject({ status: 202 });
  },
);

onlyInLongRun(() => {
  test("a partition that was unavailable when an operator held an endpoint holds its first webhook after its return", async () => {
    const away = 2;
    const { post, partitions, partitionOf } = await started(away);
    await other.server.kill("SIGKILL");
    await eventually("the operator has noticed", () => other.client.status !== "ready");
    const why = { at: 1, by: "otto", reason: "its job is broken" };
    const told = await openEndpoints(partitions).set("/a", "held", why);
    expect(told).toEqual({ changed: true, unreached: [away] });
    const heldIn = async (index: number) => {
      const { redis: there, keys } = partitions.all[index] as (typeof partitions)["control"];
      return there.llen(keys.heldCalls("/a"));
    };
    await eventually("the gateway holds calls", async () => {
      await post();
      return (await heldIn(0)) > 0;
    });

    await other.server.restart();
    const id = deliveryIn(away, partitionOf, "to be held");
    await eventually("it is back", async () => (await post(id)).status === 202);
    expect(await heldIn(away)).toBe(1);
  });
});
