import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { gatedShort } from "../../gated-jobs.ts";

const runners = useRunners();

test("a call beyond the concurrency limit is refused with 429 and Retry-After, and nothing of it is begun", async () => {
  const { at, jobs } = gatedShort();
  const { offer, get } = await runners.start({ jobs, concurrency: 2 });
  const running = [offer("k1"), offer("k2")];
  await eventually("both run", () => at.runs === 2);
  const refused = await offer("k3");
  expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "1"]);
  expect(refused.json()["code"]).toBe("runner.throttled");
  expect((await get("/calls/k3")).status).toBe(404);
  at.open();
  await Promise.all(running);
  expect((await offer("k3")).status).toBe(200);
});
