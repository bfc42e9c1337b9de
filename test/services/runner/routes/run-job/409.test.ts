import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { gatedShort } from "../../gated-jobs.ts";

const runners = useRunners();

test("a repeat of a call that still runs is refused with 409 and Retry-After, at its runner and at another", async () => {
  const { at, jobs } = gatedShort();
  const [here, there] = [await runners.start({ jobs }), await runners.start({ jobs })];
  const first = here.offer("k");
  await eventually("the handler runs", () => at.runs === 1);
  for (const runner of [here, there]) {
    const repeat = await runner.offer("k");
    expect([repeat.status, repeat.headers["retry-after"], repeat.json()["code"]]).toEqual([
      409,
      "1",
      "runner.busy",
    ]);
  }
  at.open();
  expect((await first).text).toBe("run 1");
  expect((await there.offer("k")).headers["idempotent-replayed"]).toBe("true");
  expect(at.runs).toBe(1);
});
