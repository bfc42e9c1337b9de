import { expect, test } from "vitest";
import { createRunStore } from "../../../../../shared/runs/store.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

test("an audit that was never begun is 404, and so is a run of another kind", async () => {
  const { get } = await fixture.start();
  const unknown = await get(`/api/v1/payments/audits/run_${"0".repeat(32)}`);
  expect(refusalOf(unknown)).toEqual([404, "run.unknown"]);
  const { id } = await createRunStore(redis.partition).create({ kind: "other", by: "x", request: {} });
  expect(refusalOf(await get(`/api/v1/payments/audits/${id}`))).toEqual([404, "run.unknown"]);
});
