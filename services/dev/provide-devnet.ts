import { freePort } from "../../shared/dev/free-port.ts";
import { type DevnetPart, startDevnet } from "../../shared/dev/start-devnet.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Shutdown } from "../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../shared/log/logger.ts";

type Options = {
  env: NodeJS.ProcessEnv;
  log: Logger;
  shutdown: Shutdown;
  print: (part: string) => (line: string) => void;
};

const BLOCK_TIME_MS = 1000;

/** A devnet that ends with dev; undefined, and said in the log, where what it needs is not installed. */
export async function provideDevnet({ env, log, shutdown, print }: Options): Promise<DevnetPart | undefined> {
  try {
    const devnet = await startDevnet({
      env,
      ports: {
        rpc: await freePort(8545),
        facilitator: await freePort(8546),
        control: await freePort(8547),
      },
      blockTimeMs: BLOCK_TIME_MS,
      onLine: print("devnet"),
    });
    shutdown.defer("devnet", () => devnet.part.kill("SIGTERM"));
    return devnet;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.program_missing") throw error;
    log.warn("dev.without_payments", { reason: error.message });
    return undefined;
  }
}
