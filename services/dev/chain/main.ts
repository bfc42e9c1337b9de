import { missingPackages } from "../../../shared/platform/lifecycle/optional-packages.ts";
import { runService, type ServiceOptions } from "../../../shared/platform/lifecycle/run-service.ts";

export type DevnetProcess = ServiceOptions & {
  /** By default or with 0, a free port is chosen. */
  rpcPort?: number | undefined;
  facilitatorPort?: number | undefined;
  controlPort?: number | undefined;
  blockTimeMs?: number | undefined;
};

/** Packages that the chain and the facilitator import, and that not every install has. */
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
    // The log contains only the addresses, because a log may leave this machine. The control port shows the payers' keys.
    const published = { ...places, payers: payers.map(({ address }) => address) };
    log.info("service.started", { address: new URL(places.facilitatorUrl).host, ...published });
    return { fatal };
  });
}
