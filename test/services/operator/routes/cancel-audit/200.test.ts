import { expect, test } from "vitest";
import { createRunStore } from "../../../../../shared/runs/store.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

test("an audit under way is asked to end, and says so until it has", async () => {
  const { ask } = await fixture.start();
  const runs = createRunStore(redis.partition);
  const run = await runs.create({ kind: "refund-check", by: "vera", request: {} });
  await runs.take("somebody else", 60_000, ["refund-check"]);
  const cancelled = await ask("DELETE", `/api/v1/payments/refund-checks/${run.id}`);
  expect(cancelled.status).toBe(200);
  expect((await runs.find(run.id))?.isCancelling || cancelled.json()["state"] === "cancelled").toBe(true);
});
