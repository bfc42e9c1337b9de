import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("204", () => {
  test("a replayed call runs again, and the audit log says who replayed it and why", async () => {
    const [id = ""] = await calls.fail([{}]);
    const { post } = await fixture.start();
    expect((await post(`/api/v1/failed/${id}/replay`, { reason: "mended" })).status).toBe(204);
    await calls.startProducer();
    await eventually("injected", async () => (await calls.records.state(id)) === "INJECTED");
    expect(await calls.audited()).toMatchObject([
      { action: "replay", call_id: id, by: "otto", selection: "by id", reason: "mended" },
    ]);
  });

  test("with force a call is replayed that is older than the runner's memory of keys", async () => {
    const [id = ""] = await calls.fail([{ acceptedAt: Date.now() - 31 * 86_400_000 }]);
    const { post } = await fixture.start();
    const forced = await post(`/api/v1/failed/${id}/replay`, { reason: "it is harmless", force: true });
    expect(forced.status).toBe(204);
    expect(await calls.calls.find(id)).toBeUndefined();
  });
});

describe("400", () => {
  test.each([[{}], [{ reason: "" }], [{ reason: "x", force: "yes" }]])(
    "a replay without a valid reason is refused with 400: %j",
    async (json) => {
      const [id = ""] = await calls.fail([{}]);
      const { post } = await fixture.start();
      expect(refusalOf(await post(`/api/v1/failed/${id}/replay`, json))).toEqual([400, "request.malformed"]);
      expect(await calls.calls.count({})).toBe(1);
    },
  );
});

describe("404", () => {
  test("an unknown call cannot be replayed: 404", async () => {
    const { post } = await fixture.start();
    const answer = await post(`/api/v1/failed/c_${"0".repeat(32)}/replay`, { reason: "x" });
    expect(refusalOf(answer)).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  test("if several operators replay a call at once, one succeeds, and the others get 409 because the call has left", async () => {
    const [id = ""] = await calls.fail([{}]);
    const [one, other] = [await fixture.start(), await fixture.start()];
    const both = [one, other, one, other].map(({ post }) =>
      post(`/api/v1/failed/${id}/replay`, { reason: "x" }),
    );
    const statuses = (await Promise.all(both)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([204, 409, 409, 409]);
    expect(await calls.audited()).toHaveLength(1);
  });

  test("without force a call that is older than the runner's memory of keys is not replayed: 409", async () => {
    const [id = ""] = await calls.fail([{ acceptedAt: Date.now() - 31 * 86_400_000 }]);
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/failed/${id}/replay`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([409, "call.too_old"]);
    expect(await calls.calls.count({})).toBe(1);
  });
});
