import fc from "fast-check";
import { expect, test } from "vitest";
import { createFairLimit } from "../../../services/x402-gateway/fair-limit.ts";

const OPTIONS = {
  max: 2,
  waitingMax: 3,
  waitMs: 60_000,
  what: "things",
  code: "payment.unavailable",
} as const;

/** Resolves once all work has run that needs no further event. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Pieces of work that end when the test ends them. */
function works() {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  return {
    begun,
    of: (name: string) => () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    },
    async endOne() {
      ends.shift()?.();
      await settled();
    },
    async endAll() {
      while (ends.length > 0) await this.endOne();
    },
  };
}

test("waiting clients take turns, however many requests one of them sends", async () => {
  const limit = createFairLimit(OPTIONS);
  const { begun, of, endOne } = works();
  for (const name of ["a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2"])
    void limit.within(name.charAt(0), of(name));
  await settled();
  expect(begun).toEqual(["a1", "a2"]);
  for (let each = 0; each < 6; each++) await endOne();
  expect(begun).toEqual(["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]);
});

test("a client key with too much waiting work is refused with 429, and another key is not", async () => {
  const limit = createFairLimit(OPTIONS);
  const work = works();
  const { begun, of, endOne } = work;
  for (let each = 0; each < 5; each++) void limit.within("a", of("a"));
  await expect(limit.within("a", of("a"))).rejects.toMatchObject({
    code: "request.rate_limited",
    retryAfterMs: 2000,
  });
  void limit.within("b", of("b"));
  await endOne();
  await endOne();
  expect(begun).toEqual(["a", "a", "a", "b"]);
  await work.endAll();
});

test("work that waits too long is refused with the limit's code, and uses no slot later", async () => {
  const limit = createFairLimit({ ...OPTIONS, max: 1, waitMs: 1 });
  const { begun, of, endOne } = works();
  void limit.within("a", of("a1"));
  await expect(limit.within("a", of("a2"))).rejects.toMatchObject({ code: "payment.unavailable" });
  void limit.within("b", of("b1")).catch(() => {});
  await endOne();
  expect(begun).not.toContain("a2");
});

test("a slot is released whether the work succeeds or fails", async () => {
  const limit = createFairLimit({ ...OPTIONS, max: 1 });
  const failing = limit.within("a", () => Promise.reject(new Error("no")));
  const next = limit.within("b", async () => "done");
  await expect(failing).rejects.toThrow("no");
  expect(await next).toBe("done");
  expect(await limit.within("a", async () => "again")).toBe("again");
});

test("the number of running pieces of work never exceeds the limit, and each one runs or is refused", async () => {
  const schedule = fc.scheduler();
  const parties = fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(schedule, parties, fc.integer({ min: 1, max: 4 }), async (s, asked, max) => {
      const limit = createFairLimit({ ...OPTIONS, max });
      let inside = 0;
      let most = 0;
      const ended = asked.map((party) =>
        limit
          .within(party, async () => {
            inside += 1;
            most = Math.max(most, inside);
            await s.schedule(Promise.resolve());
            inside -= 1;
          })
          .then(
            () => "in",
            (error) => error.code,
          ),
      );
      const outcomes = await s.waitFor(Promise.all(ended));
      expect(most).toBeLessThanOrEqual(max);
      expect(outcomes.every((each) => ["in", "request.rate_limited"].includes(each))).toBe(true);
    }),
  );
});
