import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { startDevnet } from "./devnet.ts";

export type DevnetProcess = ServiceOptions & {
  /** Without it, or with 0, a free one. */
  rpcPort?: number | undefined;
  facilitatorPort?: number | undefined;
  controlPort?: number | undefined;
  blockTimeMs?: number | undefined;
};

export function runDevnet(options: DevnetProcess): Promise<number> {
  return runService("devnet", options, async ({ log, shutdown }) => {
    const { rpcPort, facilitatorPort, controlPort, blockTimeMs } = options;
    const { stop, fatal, ...places } = await startDevnet({
      env: options.env,
      log,
      ports: { rpc: rpcPort, facilitator: facilitatorPort, control: controlPort },
      blockTimeMs,
    });
    shutdown.defer("devnet", stop);
    log.info("service.started", { address: new URL(places.facilitatorUrl).host, ...places });
    return { fatal };
  });
}
