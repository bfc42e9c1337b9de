import { missingPackages } from "../../../shared/platform/lifecycle/optional-packages.ts";
import { runService, type ServiceOptions } from "../../../shared/platform/lifecycle/run-service.ts";

export type DevnetProcess = ServiceOptions & {
  /** Without it, or with 0, a free one. */
  rpcPort?: number | undefined;
  facilitatorPort?: number | undefined;
  controlPort?: number | undefined;
  blockTimeMs?: number | undefined;
};

/** What the chain and the facilitator import, beside what every install has. */
const PACKAGES = ["@x402/evm", "viem"];

export function runDevnet(options: DevnetProcess): Promise<number> {
  return runService("devnet", options, async ({ log, shutdown }) => {
    const missing = missingPackages("postern devnet", PACKAGES);
    if (missing !== undefined) throw missing;
    const { startDevnet } = await import("./devnet.ts");
    const { rpcPort, facilitatorPort, controlPort, blockTimeMs } = options;
    const { stop, fatal, payers, ...places } = await startDevnet({
      env: options.env,
      log,
      ports: { rpc: rpcPort, facilitator: facilitatorPort, control: controlPort },
      blockTimeMs,
    });
    shutdown.defer("devnet", stop);
    // The keys of the payers are at the control port: a log goes further than this machine.
    const told = { ...places, payers: payers.map(({ address }) => address) };
    log.info("service.started", { address: new URL(places.facilitatorUrl).host, ...told });
    return { fatal };
  });
}
