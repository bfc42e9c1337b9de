import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { type Part, type ProcessOptions, startPart } from "./process.ts";

type Hex = `0x${string}`;

/** A devnet, as its control port describes it. */
export type Devnet = {
  readonly rpcUrl: string;
  /** The same chain by a node that has ills on command. */
  readonly nodeUrl: string;
  readonly facilitatorUrl: string;
  readonly controlUrl: string;
  readonly chainId: number;
  /** The network's name in version 2 of x402 (CAIP-2) and in version 1. */
  readonly network: string;
  readonly networkV1: string;
  /** USDC: 6 decimals, EIP-712 domain name "USDC", version "2". */
  readonly token: Hex;
  /** Without EIP-3009: USDT with 6 decimals, whose transfers return nothing, and DAI with 18. */
  readonly permit2Tokens: { readonly usdt: Hex; readonly dai: Hex };
  /** `createWallet(address owner, uint256 salt)` deploys a wallet that signs as ERC-1271 says. */
  readonly walletFactory: Hex;
  readonly callerRegistry: Hex;
  /** Each holds a million of each token; everybody knows the keys. */
  readonly payers: readonly { readonly address: Hex; readonly privateKey: Hex }[];
  /** Has no tokens. */
  readonly seller: Hex;
};

export type DevnetPart = { part: Part; devnet: Devnet };

type Options = Pick<ProcessOptions, "env" | "onLine"> & {
  /** On 127.0.0.1; 0 is a free one. */
  ports: { rpc: number; facilitator: number; control: number };
  blockTimeMs: number;
};

const MISSING: readonly unknown[] = ["start.program_missing", "start.package_missing"];

/**
 * Runs `postern devnet` out of reach of the terminal's Ctrl-C. Without anvil or its packages there is no devnet: `missing` then says what to
 * install. Throws `start.part_ended` if it does not start for another reason.
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
