import { expect, test } from "vitest";
import { createRunStore } from "../../../../../shared/runs/store.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

test("an audit that waits is shown with who began it, and without a result", async () => {
  const { get } = await fixture.start();
  const runs = createRunStore(redis.partition);
  // Somebody else does it.
  const run = await runs.create({ kind: "audit", by: "vera", request: { network: "eip155:1" } });
  await runs.take("somebody else", 60_000, ["audit"]);
  const shown = await get(`/api/v1/payments/audits/${run.id}`, { as: "viewer" });
  expect([shown.status, shown.json()]).toMatchObject([
    ...[200, { id: run.id, by: "vera", order: { network: "eip155:1" }, ended_at: null }],
  ]);
});
