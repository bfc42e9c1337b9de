import type { Exit } from "./spawn-child.ts";
import { type PosternProcess, type ProcessOptions, startProcess } from "./start-process.ts";

/** A long-running process that can die and come back under the same arguments. */
export type Part = {
  /** The one that runs now, or ran last. */
  readonly process: PosternProcess;
  /** `host:port` of its public listener, if it has one. */
  readonly address: string;
  /** Where its probes are, if not on the public listener. */
  readonly opsAddress: string | undefined;
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Kills it if it still runs, starts it again and waits until it listens. `env` is added for this run only. */
  restart(env?: NodeJS.ProcessEnv): Promise<void>;
};

export async function startPart(options: ProcessOptions): Promise<Part> {
  let { process, started } = await start(options);
  return {
    get process() {
      return process;
    },
    get address() {
      return String(started["address"]);
    },
    get opsAddress() {
      const address = started["opsAddress"];
      return address === undefined ? undefined : String(address);
    },
    kill: (signal = "SIGTERM") => process.kill(signal),
    async restart(env = {}) {
      await process.kill("SIGKILL");
      ({ process, started } = await start({ ...options, env: { ...options.env, ...env } }));
    },
  };
}

async function start(options: ProcessOptions) {
  const process = startProcess(options);
  try {
    return { process, started: await process.waitForEvent("service.started") };
  } catch (error) {
    await process.kill("SIGKILL");
    throw error;
  }
}
