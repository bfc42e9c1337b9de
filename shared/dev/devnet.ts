import { AppError, messageOf } from "../errors/app-error.ts";
import type { LoggedEvent, ProcessOptions } from "./process.ts";
import { type Part, startPart } from "./process.ts";

type Hex = `0x${string}`;

/** What `postern devnet` says of itself once it runs. */
export type Devnet = {
  readonly rpcUrl: string;
  readonly facilitatorUrl: string;
  readonly controlUrl: string;
  readonly chainId: number;
  /** CAIP-2. */
  readonly network: string;
  readonly token: Hex;
  readonly callerRegistry: Hex;
  /** Their keys are known to everybody. */
  readonly payers: readonly { readonly address: Hex; readonly privateKey: Hex }[];
  readonly seller: Hex;
};

export type DevnetPart = { part: Part; devnet: Devnet };

type Options = Pick<ProcessOptions, "env" | "onLine"> & {
  /** On 127.0.0.1; 0 is a free one. */
  ports: { rpc: number; facilitator: number; control: number };
  blockTimeMs: number;
};

/**
 * Runs `postern devnet` out of reach of the terminal's Ctrl-C. Throws `start.program_missing`, with what to install, where
 * there is no anvil, and `start.part_ended` where it does not start for another reason.
 */
export async function startDevnet({ env, ports, blockTimeMs, onLine }: Options): Promise<DevnetPart> {
  let failed: Record<string, unknown> | undefined;
  const take = (line: string): void => {
    if (line.includes('"service.failed"')) failed = JSON.parse(line) as LoggedEvent;
    onLine?.(line);
  };
  const args = [
    ...["devnet", "--rpc-port", String(ports.rpc), "--facilitator-port", String(ports.facilitator)],
    ...["--control-port", String(ports.control), "--block-time-ms", String(blockTimeMs)],
  ];
  try {
    const part = await startPart({
      name: "devnet",
      args,
      env,
      detached: true,
      lastSignal: "SIGTERM",
      onLine: take,
    });
    const started = part.process.events("service.started").at(-1);
    return { part, devnet: started as unknown as Devnet };
  } catch (cause) {
    const code = failed?.["code"] === "start.program_missing" ? "start.program_missing" : "start.part_ended";
    const reason = String(failed?.["reason"] ?? messageOf(cause));
    throw new AppError(code, { reason, cause });
  }
}
