import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a failed call that is replayed runs again, and the audit says who replayed it and why", async () => {
  const [id = ""] = await calls.fail([{}]);
  const { post } = await fixture.start();
  expect((await post(`/api/v1/failed/${id}/replay`, { reason: "mended" })).status).toBe(204);
  await calls.startProducer();
  await eventually("injected", async () => (await calls.records.state(id)) === "INJECTED");
  expect(await calls.audited()).toMatchObject([
    { action: "replay", call_id: id, by: "otto", selection: "by id", reason: "mended" },
  ]);
});

test("a call older than the runner's memory of keys is replayed with force", async () => {
  const [id = ""] = await calls.fail([{ acceptedAt: Date.now() - 31 * 86_400_000 }]);
  const { post } = await fixture.start();
  const forced = await post(`/api/v1/failed/${id}/replay`, { reason: "it is harmless", force: true });
  expect(forced.status).toBe(204);
  expect(await calls.calls.find(id)).toBeUndefined();
});
