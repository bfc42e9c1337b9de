import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT, stopSignal } from "../../shared/lifecycle/run-service.ts";
import { createStatus, type Status } from "../../shared/queue/status.ts";
import { delay, systemClock } from "../../shared/time/clock.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { statusJson, statusText } from "./status-text.ts";
import { withRedis } from "./with-redis.ts";

export type StatusOptions = { configDir: string; json?: boolean; watch?: boolean };

const SAMPLE_MS = 1000;
const WATCH_MS = 2000;
const CLEAR_SCREEN = "\x1b[H\x1b[J";

/** `postern status`: how full the queues are and who works on them. 1 when Redis cannot keep its promises. */
export function showStatus(deps: ProgramDeps, options: StatusOptions): Promise<number> {
  return withRedis(deps, options, async ({ redis, postern }) => {
    const mode = postern.redis.durability;
    const look = createStatus({ redis, mode, clock: systemClock, sampleMs: SAMPLE_MS });
    const frame = async () => show(deps, options, await look());
    return options.watch ? watch(deps, frame) : frame();
  });
}

function show({ print, terminal }: ProgramDeps, { json, watch }: StatusOptions, status: Status): number {
  const clear = watch && !json && terminal.columns !== undefined ? CLEAR_SCREEN : "";
  print(json ? `${JSON.stringify(statusJson(status))}\n` : `${clear}${statusText(status)}`);
  return "problem" in status.redis ? EXIT.failed : EXIT.ok;
}

/** Goes on while Redis is away: that is when somebody watches. The exit code is that of the last look. */
async function watch({ printError }: ProgramDeps, frame: () => Promise<number>): Promise<number> {
  const stopped = new AbortController();
  void stopSignal().then(() => stopped.abort());
  let code: number = EXIT.ok;
  while (!stopped.signal.aborted) {
    code = await frame().catch((error: unknown) => {
      printError(`Redis cannot be asked: ${messageOf(error)}\n`);
      return EXIT.failed;
    });
    await delay(WATCH_MS - SAMPLE_MS, stopped.signal).catch(() => {});
  }
  return code;
}
