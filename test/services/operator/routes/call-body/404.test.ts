import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("the body of a call that has ended is 404, which says that, and so is the body of no call", async () => {
  const id = await calls.add();
  await calls.startProducer();
  await eventually("it has ended", async () => (await calls.records.state(id)) === "INJECTED");
  const { get } = await fixture.start();
  const ended = await get(`/api/v1/calls/${id}/body`);
  expect(refusalOf(ended)).toEqual([404, "call.no_body"]);
  expect(ended.json()["detail"]).toBe(`${id}: its body is not kept; the call is injected`);
  const none = await get(`/api/v1/calls/c_${"0".repeat(32)}/body`);
  expect(refusalOf(none)).toEqual([404, "call.unknown"]);
});
