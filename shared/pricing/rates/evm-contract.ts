import { type Hex, selectorOf } from "../../chain/encoding.ts";
import { type Block, createReads, createRpc } from "../../chain/rpc.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { noRate } from "./source.ts";

export type Contracts = ReturnType<typeof contractsAt>;

type ViewOptions = {
  /** Arguments of the call: words of the contract ABI, in hex without 0x. */
  args?: string;
  /** Block whose state is read. By default, it is the node's latest block. */
  block?: bigint;
};

/** Creates functions that read contracts and the latest block from one node. Every read may throw `price.unavailable`. */
export function contractsAt(rpcUrl: Secret, timeoutMs: number) {
  const reads = createReads(createRpc({ url: rpcUrl, timeoutMs }));
  return {
    /**
     * Calls a read-only function of a contract by its signature, such as "decimals()". The answer consists of words of the
     * contract ABI, 32 bytes each.
     */
    async view(address: Hex, signature: string, options: ViewOptions = {}): Promise<Words> {
      const { args = "", block = "latest" } = options;
      const data: Hex = `${selectorOf(signature)}${args}`;
      const what = `${signature.replace(/\(.*/, "")} of ${address}`;
      return wordsOf(await reads.call({ to: address, data }, block).catch(toNoRate(what)), what);
    },
    latestBlock: (): Promise<Block> => reads.block("latest").catch(toNoRate("the node's latest block")),
  };
}

function toNoRate(what: string) {
  return (error: unknown): never => {
    throw noRate(`${what}: ${messageOf(error)}`);
  };
}

type Words = {
  uint(index: number): bigint;
  int(index: number): bigint;
  /** Returns the address in a word, in lower case. */
  address(index: number): Hex;
};

function wordsOf(bytes: Hex, what: string): Words {
  const word = (index: number): Hex => {
    const digits = bytes.slice(2 + 64 * index, 66 + 64 * index);
    if (digits.length !== 64)
      throw noRate(`${what}: the answer is too short; check that the address is the right contract`);
    return `0x${digits}`;
  };
  return {
    uint: (index) => BigInt(word(index)),
    int: (index) => BigInt.asIntN(256, BigInt(word(index))),
    address: (index) => `0x${word(index).slice(-40)}`,
  };
}

/** Reads `decimals()` of a feed or a token. */
export async function decimalsOf(contracts: Contracts, address: Hex): Promise<number> {
  const decimals = (await contracts.view(address, "decimals()")).uint(0);
  if (decimals > 77n) throw noRate(`decimals of ${address}: ${decimals} is more than 77`);
  return Number(decimals);
}

/** Maximum time by which a chain's clock may be ahead of this machine's clock. */
const SKEW_SECS = 60n;

/** Throws `price.unavailable` if a timestamp of the chain (Unix seconds) is too old, or in the future. */
export function assertRecent(what: string, moment: bigint, maxAgeSecs: number, clock: Clock): void {
  const now = nowSecs(clock);
  if (moment > now + SKEW_SECS) throw noRate(`${what} is ${moment - now} s in the future`);
  if (now - moment > BigInt(maxAgeSecs))
    throw noRate(`${what} is older than max_age_secs: ${now - moment} s`);
}

export function nowSecs(clock: Clock): bigint {
  return BigInt(Math.floor(clock() / 1000));
}
