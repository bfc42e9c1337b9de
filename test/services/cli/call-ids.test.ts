import { expect, test } from "vitest";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser } from "../../fixtures/redis.ts";
import { runHereWith } from "./run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

const REASON = ["--reason", "a test", "--yes"];

test("a call can be named by a prefix of its id only if no other call has that prefix", async () => {
  const [one, other] = [`c_abcd${"1".repeat(28)}`, `c_abcd${"2".repeat(28)}`];
  await fixture.fail([{ id: one }, { id: other }]);
  for (const command of [
    ["calls", "show"],
    ["failed", "show"],
  ]) {
    const shown = await here([...command, "c_abcd1"]);
    expect([shown.code, shown.stdout]).toEqual([0, expect.stringMatching(new RegExp(`^call +${one}\n`))]);
  }
  const both = await here(["failed", "discard", "c_abcd", ...REASON]);
  expect(both).toMatchObject({ code: 1, stdout: "" });
  expect(both.stderr).toMatch(/^several calls have an id that starts with c_abcd: c_.*, c_.*\n$/);
  const none = await here(["failed", "replay", "c_abcd3"]);
  expect([none.code, none.stderr]).toEqual([
    1,
    expect.stringMatching(/^no listed call .* starts with c_abcd3; /),
  ]);
  expect(await here(["failed", "discard", "c_abcd1", ...REASON])).toMatchObject({ code: 0 });
  expect((await here(["failed", "list", "--call", "c_abcd2"])).stdout).toContain(other);
  expect((await here(["calls", "show", one])).stdout).toMatch(/^state +discarded since /m);
});
