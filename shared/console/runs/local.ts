import { AppError, toAppError } from "../../platform/errors/app-error.ts";
import type { Clock } from "../../platform/time/clock.ts";
import type { Audit } from "../../redis/audit/audit.ts";
import { unlessRedis } from "../../redis/failure.ts";
import { newRunId, type Run, type RunState } from "./run.ts";
import type { Runs } from "./store.ts";
import type { DoRun } from "./worker.ts";

type Options = { kinds: Readonly<Record<string, DoRun>>; audit: Audit; clock: Clock };

/**
 * Keeps runs in memory and carries them out, for a command that uses Redis directly instead of a console. The runs
 * end with the process.
 */
export function createLocalRuns({ kinds, audit, clock }: Options): Runs {
  const known = new Map<string, { run: Run; stop: AbortController }>();

  function found(id: string) {
    const own = known.get(id);
    if (own !== undefined) return own;
    throw AppError.public("run.unknown", `there is no bulk operation ${id} of this command`);
  }

  async function work({ run, stop }: ReturnType<typeof found>): Promise<void> {
    const storeProgressSoon = (progress: unknown) => void Object.assign(run, { progress });
    const storeProgress = async (progress: unknown) => storeProgressSoon(progress);
    let state: RunState = "done";
    try {
      await kinds[run.kind]?.({ run, signal: stop.signal, storeProgressSoon, storeProgress });
    } catch (thrown) {
      state = "stopped";
      const { code, message: reason } = toAppError(unlessRedis(thrown));
      if (!stop.signal.aborted) run.failure = { code, reason };
    }
    Object.assign(run, { state: stop.signal.aborted ? "cancelled" : state, endedAt: clock() });
  }

  return {
    async create(asked, actOf) {
      const id = newRunId();
      const act = actOf?.(id);
      if (act !== undefined) await audit(act);
      const nothing = { resumedBy: undefined, progress: undefined, failure: undefined, endedAt: undefined };
      const run: Run = { ...asked, id, state: "running", isCancelling: false, at: clock(), ...nothing };
      const own = { run, stop: new AbortController() };
      known.set(id, own);
      void work(own);
      return run;
    },
    find: async (id) => known.get(id)?.run,
    list: async (kind) => [...known.values()].map(({ run }) => run).filter((run) => run.kind === kind),
    async cancel({ run: id }) {
      const { run, stop } = found(id);
      run.isCancelling = true;
      stop.abort(new Error("the run must end: cancelled"));
      return run;
    },
    async resume({ run: id }) {
      found(id);
      throw AppError.public("run.not_resumable", `${id} is of this command, which does not resume it`);
    },
  };
}
