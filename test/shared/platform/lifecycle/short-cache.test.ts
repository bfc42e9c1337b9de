import { expect, test } from "vitest";
import { createShortCache } from "../../../../shared/platform/lifecycle/short-cache.ts";

test("running work is shared, its value is kept for a time, and a failure is not kept", async () => {
  let now = 0;
  let works = 0;
  const cache = createShortCache<number>({ keptMs: 1000, clock: () => now });
  const work = async () => {
    works += 1;
    if (works === 3) throw new Error("no");
    return works;
  };
  const ask = () => cache.get("a", work);
  expect(await Promise.all([ask(), ask(), cache.get("b", work)])).toEqual([1, 1, 2]);
  now = 999;
  expect(await ask()).toBe(1);
  now = 1000;
  await expect(Promise.all([ask(), ask()])).rejects.toThrow("no");
  expect(await ask()).toBe(4);
});

test("only matching outcomes are kept, and at most the maximum number of entries", async () => {
  const keeps = ({ kind }: { kind: string }) => kind === "failed";
  const cache = createShortCache<string>({ keptMs: 1000, entriesMax: 2, keeps, clock: () => 0 });
  const fail = (what: string) => cache.get(what, () => Promise.reject(new Error(what))).catch(() => "failed");
  await fail("a");
  const ask = (what: string) => cache.get(what, async () => "asked").catch(() => "failed");
  expect(await ask("a")).toBe("failed");
  expect([await ask("v"), await ask("v")]).toEqual(["asked", "asked"]);
  await fail("b");
  await fail("c");
  expect(await ask("a")).toBe("asked");
});
