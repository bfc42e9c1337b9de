import { expect, test } from "vitest";
import type { FailedBulkView } from "../../../shared/console/failed-bulk.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS } from "../../../shared/platform/lifecycle/failpoint.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser } from "../../fixtures/redis.ts";
import { sample } from "../../support/long-run.ts";
import { endLeases, startConsole } from "./start-console.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

/** At this point some calls are replayed, and others are not yet. */
const MIDWAY = "console.after_operated";
const POINTS = [
  MIDWAY,
  ...FAILPOINTS.filter((point) => point.startsWith("console.") && point !== MIDWAY),
] as const;
const REPLAYS = "/api/v1/failed/replays";
const CALLS = 20;

test.each(sample(POINTS))(
  "if the process of a bulk replay is killed at %s, another process finishes it, and each call runs once",
  async (point) => {
    await fixture.fail(Array.from({ length: CALLS }, () => ({})));
    const killed = await startConsole(postern, point);
    await killed.begin(REPLAYS, { all: true, concurrency: 2, reason: "a test" });
    expect(await killed.exit).toMatchObject({ signal: "SIGKILL" });
    await endLeases(fixture.redis.client);
    const next = await startConsole(postern);
    const run = await next.runIn<FailedBulkView>("replay", "done");
    // If a call was replayed but not yet recorded, the new process knows only that it has left the failed calls.
    expect(run).toMatchObject({ matched: CALLS, remaining: 0, failure: null });
    expect(run.done + run.left_meanwhile).toBe(CALLS);
    expect(await fixture.calls.count({})).toBe(0);
    fixture.injected.splice(0);
    await fixture.startProducer();
    await eventually("all have run", () => fixture.injected.length >= CALLS);
    expect(new Set(fixture.injected).size).toBe(CALLS);
    expect(fixture.injected).toHaveLength(CALLS);
  },
);
