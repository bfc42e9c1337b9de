import type { BulkKind } from "../../../shared/console/bulk-operations.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import type { Postern } from "../../fixtures/postern.ts";
import { keys } from "../../fixtures/redis.ts";
import { type Answer, send } from "../../support/http.ts";

type Listed = { id: string; state: string };

/** `postern operator`, which is killed at the failpoint if there is one. Whoever is on this machine may ask it. */
export async function startConsole(postern: Postern, failpoint?: Failpoint) {
  const args = ["operator", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const env = failpoint && { POSTERN_FAILPOINT: failpoint };
  const { exit, kill, waitForEvent } = postern.start(args, env && { env });
  const { address, opsAddress } = await waitForEvent("service.started");
  await eventually("it is ready", async () => {
    return (await send(String(opsAddress), { method: "GET", path: "/readyz" })).status === 200;
  });
  const ask = (method: string, path: string, json?: object): Promise<Answer> =>
    send(String(address), {
      ...{ method, path },
      ...(json && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) }),
    });

  /** The one run of a kind that there is, with its result. */
  async function theRun<Run extends Listed>(kind: BulkKind): Promise<Run | undefined> {
    const { runs } = (await ask("GET", `/api/v1/bulk?kind=${kind}`)).json<{ runs: Listed[] }>();
    const [run, ...more] = runs;
    if (more.length > 0) throw new Error("there is more than one run");
    return run && (await ask("GET", `/api/v1/bulk/${run.id}`)).json<Run>();
  }

  return {
    ...{ exit, kill, ask, theRun },

    /** Asks for what its process may be killed before it is answered. */
    async begin(path: string, order: object): Promise<void> {
      const status = await ask("POST", path, order).then(
        (answer) => answer.status,
        () => "killed",
      );
      if (status !== 202 && status !== "killed") throw new Error(`${path}: ${status}`);
    },

    /** The same, once it is in this state. */
    async runIn<Run extends Listed>(kind: BulkKind, state: string): Promise<Run> {
      const waited = `the ${kind} is ${state}`;
      return eventually(
        waited,
        async () => {
          const run = await theRun<Run>(kind);
          return run?.state === state ? run : undefined;
        },
        60_000,
      );
    },
  };
}

/** Ends the leases of all runs, as if their time had passed: nobody can put Redis' own clock ahead. */
export async function endLeases(redis: Redis): Promise<void> {
  for (const id of await redis.zrange(keys.openRuns, "0", "-1")) await redis.zadd(keys.openRuns, "XX", 0, id);
}
