import type { Secret } from "../../crypto/secret.ts";
import { messageOf } from "../../errors/app-error.ts";
import { keccak256Hex } from "../../ethereum/encoding.ts";
import { type Block, createEthCall, createReads, createRpc } from "../../ethereum/rpc.ts";
import type { Clock } from "../../time/clock.ts";
import { noRate } from "./source.ts";

type Hex = `0x${string}`;

export type Contracts = ReturnType<typeof contractsAt>;

type ViewOptions = {
  /** Words of the contract ABI, in hex without 0x. */
  args?: string;
  /** As of this block; of the node's latest one otherwise. */
  block?: bigint;
};

/** What a node says of contracts, and its latest block. All of it throws `price.unavailable`. */
export function contractsAt({ rpcUrl, timeoutMs }: { rpcUrl: Secret; timeoutMs: number }) {
  const ethCall = createEthCall({ rpcUrl, timeoutMs });
  const reads = createReads(createRpc({ url: rpcUrl, timeoutMs }));
  return {
    /** A view of a contract, by its signature; the answer is its words of the contract ABI. */
    async view(address: Hex, signature: string, { args = "", block }: ViewOptions = {}): Promise<Words> {
      const data: Hex = `${keccak256Hex(Buffer.from(signature)).slice(0, 10) as Hex}${args}`;
      const what = `${signature.replace(/\(.*/, "")} of ${address}`;
      const call = { to: address, data };
      const asked = block === undefined ? ethCall(call) : reads.call(call, block);
      return wordsOf(await asked.catch(toNoRate(what)), what);
    },
    latestBlock: (): Promise<Block> => reads.block("latest").catch(toNoRate("the node's latest block")),
  };
}

function toNoRate(what: string) {
  return (error: unknown): never => {
    throw noRate(`${what}: ${messageOf(error)}`);
  };
}

export type Words = {
  uint(index: number): bigint;
  int(index: number): bigint;
  /** The address in a word, in lower case. */
  address(index: number): Hex;
};

function wordsOf(bytes: Hex, what: string): Words {
  const word = (index: number): Hex => {
    const digits = bytes.slice(2 + 64 * index, 66 + 64 * index);
    if (digits.length !== 64) throw noRate(`${what}: its answer is too short; is it such a contract?`);
    return `0x${digits}`;
  };
  return {
    uint: (index) => BigInt(word(index)),
    int: (index) => BigInt.asIntN(256, BigInt(word(index))),
    address: (index) => `0x${word(index).slice(-40)}`,
  };
}

/** `decimals()` of a feed or a token. */
export async function decimalsOf(contracts: Contracts, address: Hex): Promise<number> {
  const decimals = (await contracts.view(address, "decimals()")).uint(0);
  if (decimals > 77n) throw noRate(`decimals of ${address}: ${decimals} is more than 77`);
  return Number(decimals);
}

/** How far a chain's clock may be ahead of ours. */
const SKEW_SECS = 60n;

type Limits = { what: string; maxAgeSecs: number; clock: Clock };

/** Throws `price.unavailable` for a moment of a chain, in Unix seconds, that is too old or in the future. */
export function assertRecent(moment: bigint, { what, maxAgeSecs, clock }: Limits): void {
  const now = nowSecs(clock);
  if (moment > now + SKEW_SECS) throw noRate(`${what} is ${moment - now} s in the future`);
  if (now - moment > BigInt(maxAgeSecs))
    throw noRate(`${what} is older than max_age_secs: ${now - moment} s`);
}

export function nowSecs(clock: Clock): bigint {
  return BigInt(Math.floor(clock() / 1000));
}
