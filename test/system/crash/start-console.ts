import type { BulkKind } from "../../../shared/console/bulk-operations.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import type { Postern } from "../../fixtures/postern.ts";
import { keys } from "../../fixtures/redis.ts";
import { type Answer, send } from "../../support/http.ts";

type Listed = { id: string; state: string };

/** Starts `postern operator`, and kills it at the failpoint, if given. It accepts every client on this machine. */
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

  /** Returns the only bulk operation of this kind, with its result. */
  async function onlyOperation<Run extends Listed>(kind: BulkKind): Promise<Run | undefined> {
    const { runs } = (await ask("GET", `/api/v1/bulk?kind=${kind}`)).json<{ runs: Listed[] }>();
    const [run, ...more] = runs;
    if (more.length > 0) throw new Error("there is more than one run");
    return run && (await ask("GET", `/api/v1/bulk/${run.id}`)).json<Run>();
  }

  return {
    ...{ exit, kill, ask, onlyOperation },

    /** Begins a bulk operation. The process may be killed before it answers. */
    async begin(path: string, order: object): Promise<void> {
      const status = await ask("POST", path, order).then(
        (answer) => answer.status,
        () => "killed",
      );
      if (status !== 202 && status !== "killed") throw new Error(`${path}: ${status}`);
    },

    /** Returns the only bulk operation of this kind, once it is in this state. */
    async runIn<Run extends Listed>(kind: BulkKind, state: string): Promise<Run> {
      const waited = `the ${kind} is ${state}`;
      return eventually(
        waited,
        async () => {
          const run = await onlyOperation<Run>(kind);
          return run?.state === state ? run : undefined;
        },
        60_000,
      );
    },
  };
}

/** Expires the leases of all bulk operations. Redis' own clock cannot be moved, so the test changes their times. */
export async function endLeases(redis: Redis): Promise<void> {
  for (const id of await redis.zrange(keys.openRuns, "0", "-1")) await redis.zadd(keys.openRuns, "XX", 0, id);
}
