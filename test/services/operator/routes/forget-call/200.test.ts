import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a failed call that is forgotten has lost all that its sender said, and the audit says who did it and why", async () => {
  const [id = ""] = await calls.fail([{ path: "/canary" }]);
  const { get, post } = await fixture.start();
  const forgotten = await post(`/api/v1/calls/${id}/forget`, { reason: "the sender has asked" });
  expect([forgotten.status, forgotten.json()]).toEqual([200, { changed: true, forgotten_before: null }]);
  const life = await get(`/api/v1/calls/${id}`);
  expect(life.json()).toMatchObject({ body_kept: false, metadata: null, forgotten_at: expect.any(String) });
  expect(life.text).not.toContain("canary");
  expect(await calls.audited()).toMatchObject([
    { action: "forget", call_id: id, by: "otto", reason: "the sender has asked" },
  ]);
  const again = await post(`/api/v1/calls/${id}/forget`, { reason: "once more" });
  expect(again.json()).toEqual({ changed: false, forgotten_before: life.json()["forgotten_at"] });
});
