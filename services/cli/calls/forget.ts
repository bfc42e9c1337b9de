import { createForget } from "../../../shared/calls/forget.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { toIso } from "../../../shared/time/iso.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ForgetOptions = { configDir: string; reason: string; yes?: boolean; json?: boolean };

/** `postern calls forget`: deletes what is kept of a call's sender. 1 if it is not done, because nobody said yes or the call is not at its end. */
export function forgetCall(deps: ProgramDeps, id: string, options: ForgetOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition, log }) => {
    if (!options.yes && !(await isConfirmed(deps, id))) {
      deps.say("nothing was changed\n");
      return EXIT.failed;
    }
    const forget = createForget({ partition, clock: systemClock, log, by: operatorName() });
    const forgotten = await forget(id, options.reason);
    const before = forgotten.kind === "before" ? toIso(forgotten.at) : null;
    if (options.json)
      deps.print(jsonLine({ call_id: id, changed: before === null, forgotten_before: before }));
    deps.say(before === null ? `${id} is forgotten\n` : `${id} was forgotten before, at ${before}\n`);
    return EXIT.ok;
  });
}

async function isConfirmed({ terminal }: ProgramDeps, id: string): Promise<boolean> {
  const what = `Delete body, metadata, result and attempts of ${id} for good?`;
  return /^y(es)?$/i.test(await terminal.ask(`${what} [y/N] `));
}
