import { expect, test } from "vitest";
import { createEnqueue } from "../../../../../shared/queue/enqueue.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { aCall } from "../../../../fixtures/producer.ts";

const fixture = useOperator();

test("one job is shown as in the list", async () => {
  const { get } = await fixture.start();
  await createEnqueue(fixture.redis.partition)(aCall());
  const shown = await get("/api/v1/jobs/7/1");
  expect([shown.status, shown.json()]).toMatchObject([200, { job: "7/1", state: "running", waiting: 1 }]);
});
