import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS } from "../../../shared/lifecycle/failpoint.ts";
import type { BulkRunView } from "../../../shared/operator/bulk-runs.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { send } from "../../support/http.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: fixture.redis.url } } }));

const POINTS = FAILPOINTS.filter((point) => point.startsWith("console."));
const CALLS = 20;

async function start(env: NodeJS.ProcessEnv = {}) {
  const args = ["operator", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const started = postern.start(args, { env });
  const { address, opsAddress } = await started.waitForEvent("service.started");
  await eventually("it is ready", async () => {
    return (await send(String(opsAddress), { method: "GET", path: "/readyz" })).status === 200;
  });
  return { started, address: String(address) };
}

test.each(POINTS)(
  "a replay of many calls whose process is killed at %s is finished by another process, and each call runs once",
  async (point) => {
    await fixture.fail(Array.from({ length: CALLS }, () => ({})));
    const { started, address } = await start({ POSTERN_FAILPOINT: point });
    const begun = await send(address, {
      ...{ path: "/api/v1/failed/replays", headers: { "Content-Type": "application/json" } },
      body: JSON.stringify({ all: true, concurrency: 2, reason: "a test" }),
    });
    expect(begun.status).toBe(202);
    await started.exit;
    const next = await start();
    let run: BulkRunView | undefined;
    await eventually(
      "the run is done",
      async () => {
        run = (await send(next.address, { method: "GET", path: String(begun.headers["location"]) })).json();
        return run?.state === "done";
      },
      60_000,
    );
    // Of a call that was replayed and not yet told of, only that it has left is known.
    expect(run).toMatchObject({ matched: CALLS, remaining: 0, failure: null });
    expect((run?.done ?? 0) + (run?.left_meanwhile ?? 0)).toBe(CALLS);
    expect(await fixture.calls.count({})).toBe(0);
    fixture.injected.splice(0);
    await fixture.startProducer();
    await eventually("all have run", () => fixture.injected.length >= CALLS);
    expect(new Set(fixture.injected).size).toBe(CALLS);
    expect(fixture.injected).toHaveLength(CALLS);
  },
);
