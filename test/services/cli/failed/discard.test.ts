import { expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { runHereWith } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

test("postern failed discard ends a call only with a reason and somebody's yes", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await here(["failed", "discard", id, "--reason", "x"])).toMatchObject({ code: 2 });
  expect(await here(["failed", "discard", id, "--reason", "x", "--dry-run"])).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(1);
  expect(await postern.run(["failed", "discard", id, "--reason", "x", "--yes"])).toMatchObject({ code: 0 });
  expect(await fixture.records.state(id)).toBe("DISCARDED");
});
