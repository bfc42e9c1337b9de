import { missingPackages } from "../../../shared/platform/lifecycle/optional-packages.ts";
import { runService, type ServiceOptions } from "../../../shared/platform/lifecycle/run-service.ts";

export type DevnetProcess = ServiceOptions & {
  /** Port of the chain's node. If a port is undefined or 0, a free one is chosen. */
  rpcPort?: number | undefined;
  facilitatorPort?: number | undefined;
  controlPort?: number | undefined;
  blockTimeMs?: number | undefined;
};

/** Packages that chain and facilitator import. They are optional, so an installation of Postern may lack them. */
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
    // Only the payers' addresses are logged, because a log may leave this machine. The control port also shows their keys.
    const published = { ...places, payers: payers.map(({ address }) => address) };
    log.info("service.started", { address: new URL(places.facilitatorUrl).host, ...published });
    return { fatal };
  });
}
