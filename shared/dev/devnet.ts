import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { type Part, type ProcessOptions, startPart } from "./process.ts";

type Hex = `0x${string}`;

/** A devnet, as the JSON of its control port describes it. */
export type Devnet = {
  readonly rpcUrl: string;
  /** URL of a second node of the same chain. Tests can make this node misbehave. */
  readonly nodeUrl: string;
  readonly facilitatorUrl: string;
  readonly controlUrl: string;
  readonly chainId: number;
  /** Network name in version 2 of x402 (CAIP-2). */
  readonly network: string;
  readonly networkV1: string;
  /** USDC: 6 decimals, EIP-712 domain name "USDC", version "2". */
  readonly token: Hex;
  /**
   * Tokens without EIP-3009, which Permit2 transfers: USDT (6 decimals; its transfers return no value) and DAI (18
   * decimals).
   */
  readonly permit2Tokens: { readonly usdt: Hex; readonly dai: Hex };
  /** Contract whose `createWallet(address owner, uint256 salt)` deploys a wallet that signs by ERC-1271. */
  readonly walletFactory: Hex;
  readonly callerRegistry: Hex;
  /** Payers that each hold a million of each token. Their keys are public. */
  readonly payers: readonly { readonly address: Hex; readonly privateKey: Hex }[];
  /** Account that receives payments. It starts without tokens. */
  readonly seller: Hex;
};

export type DevnetPart = { part: Part; devnet: Devnet };

type Options = Pick<ProcessOptions, "env" | "onLine"> & {
  /** Ports on 127.0.0.1; 0 chooses a free one. */
  ports: { rpc: number; facilitator: number; control: number };
  blockTimeMs: number;
};

const MISSING: readonly unknown[] = ["start.program_missing", "start.package_missing"];

/**
 * Runs `postern devnet`. The terminal's Ctrl-C does not reach it, because this process ends it itself. If anvil or a
 * package is missing, returns `missing`, a text that says what to install. Throws `start.part_ended` if the devnet does
 * not start for another reason.
 */
export async function provideDevnet(options: Options): Promise<DevnetPart | { missing: string }> {
  const { env, ports, blockTimeMs, onLine } = options;
  let failed: Record<string, unknown> = {};
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
      onLine(line) {
        if (line.includes('"service.failed"')) failed = JSON.parse(line) as typeof failed;
        onLine?.(line);
      },
    });
    const { controlUrl } = part.process.events("service.started").at(-1) as unknown as Devnet;
    const described = await fetch(controlUrl);
    return { part, devnet: (await described.json()) as Devnet };
  } catch (cause) {
    const reason = String(failed["reason"] ?? messageOf(cause));
    if (MISSING.includes(failed["code"])) return { missing: reason };
    throw new AppError("start.part_ended", { reason, cause });
  }
}
