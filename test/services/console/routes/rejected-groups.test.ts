import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createRecordRejected } from "../../../../shared/telemetry/rejected/record.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { sentRequest } from "../../../support/sent-request.ts";
import { useRejections } from "../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  useRejections(redis);

  test("refused requests are counted by endpoint, code and reason without its detail, largest group first", async () => {
    const now = Date.now() + 60_000;
    const record = createRecordRejected({ partition: redis.partition, endpoints: 1, clock: () => now });
    const req = sentRequest("/a", {});
    record("/a", "192.0.2.2", () => ({
      req,
      code: "webhook.credential_rejected",
      reason: "missing: Stripe-Signature",
    }));
    const { get } = await fixture.start();
    const groups = async (query = "") => {
      const answer = await get(`/api/v1/rejected/groups${query}`, { as: "viewer" });
      expect(answer.status).toBe(200);
      return answer.json<{ groups: Record<string, unknown>[] }>().groups;
    };
    await eventually("it is counted", async () => (await groups())[0]?.["count"] === 2);
    const times = { oldest_at: expect.any(String), newest_at: expect.any(String) };
    const ofUnknown = {
      ...{ endpoint: null, code: "request.not_found", reason: "differs from /a by case" },
      ...{ count: 1, ...times },
    };
    expect(await groups()).toEqual([
      { endpoint: "/a", code: "webhook.credential_rejected", reason: "missing", count: 2, ...times },
      ofUnknown,
      { endpoint: "/a", code: "request.too_large", reason: "too long", count: 1, ...times },
    ]);
    const [{ oldest_at, newest_at } = {}] = await groups();
    expect(newest_at).toBe(new Date(now).toISOString());
    expect(Date.parse(String(oldest_at))).toBeLessThan(now);
    expect(await groups("?unknown=true")).toEqual([ofUnknown]);
    expect(await groups("?reason=too%20long")).toHaveLength(1);
  });
});

describe("400", () => {
  test("an invalid filter is refused", async () => {
    const { get } = await fixture.start();
    const answer = await get("/api/v1/rejected/groups?code=none", { as: "viewer" });
    expect(refusalOf(answer)).toEqual([400, "request.malformed"]);
  });
});
