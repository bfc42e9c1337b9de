import type { TwapSource } from "../../config/rate-source.ts";
import { uintWord } from "../../ethereum/encoding.ts";
import { inverse, type Ratio, toDecimal } from "../../text/decimal.ts";
import { type Contracts, contractsAt, decimalsOf } from "./contract.ts";
import { noRate } from "./failure.ts";
import type { ReadOptions, ReadRate } from "./reader.ts";
import { assertRecent } from "./recent.ts";
import { MAX_TICK, sqrtRatioAtTick } from "./tick-math.ts";

const Q192 = 2n ** 192n;

/**
 * The time-weighted average price of a Uniswap v3 pool: the geometric mean over the window, by its own oracle, as of the
 * node's latest block, once that is young enough.
 */
export function twapReader(source: TwapSource, { clock, timeoutMs }: ReadOptions): ReadRate {
  const contracts = contractsAt({ rpcUrl: source.rpc_url, timeoutMs });
  return async () => {
    const [pair, latest] = await Promise.all([pairOf(contracts, source), contracts.latestBlock()]);
    assertRecent(latest.timestamp, {
      what: "the node's latest block",
      maxAgeSecs: source.max_age_secs,
      clock,
    });
    const [tick, decimals0, decimals1] = await Promise.all([
      meanTick(contracts, source, latest.number),
      decimalsOf(contracts, pair[0]),
      decimalsOf(contracts, pair[1]),
    ]);
    const price = priceAt(tick, { decimals0, decimals1 });
    return toDecimal(isNative(source, pair[0]) ? price : inverse(price));
  };
}

type Address = `0x${string}`;
type Pair = readonly [Address, Address];

async function pairOf(contracts: Contracts, source: TwapSource): Promise<Pair> {
  const [first, second] = await Promise.all([
    contracts.view(source.pool, "token0()"),
    contracts.view(source.pool, "token1()"),
  ]);
  const pair: Pair = [first.address(0), second.address(0)];
  if (pair.filter((token) => isNative(source, token)).length !== 1)
    throw noRate(`the pool trades ${pair.join(" and ")}: native_token is none of them`);
  return pair;
}

function isNative({ native_token }: TwapSource, token: Address): boolean {
  return token === native_token.toLowerCase();
}

/** `observe([window, 0])`, whose difference is divided towards negative infinity, as Uniswap's OracleLibrary does. */
async function meanTick(
  contracts: Contracts,
  { pool, window_secs }: TwapSource,
  block: bigint,
): Promise<number> {
  const args = [32n, 2n, BigInt(window_secs), 0n].map(uintWord).join("");
  const words = await contracts.view(pool, "observe(uint32[])", { args, block });
  const at = Number(words.uint(0) / 32n);
  if (at > 16 || words.uint(at) !== 2n) throw noRate("the pool's answer to observe is not of two moments");
  const window = BigInt(window_secs);
  const moved = words.int(at + 2) - words.int(at + 1);
  const tick = moved / window - (moved < 0n && moved % window !== 0n ? 1n : 0n);
  if (tick < -MAX_TICK || tick > MAX_TICK) throw noRate(`the pool's mean tick is ${tick}`);
  return Number(tick);
}

/** What one token0 is worth in token1, both whole tokens. */
export function priceAt(tick: number, tokens: { decimals0: number; decimals1: number }): Ratio {
  const root = sqrtRatioAtTick(tick);
  return {
    numerator: root * root * 10n ** BigInt(tokens.decimals0),
    denominator: Q192 * 10n ** BigInt(tokens.decimals1),
  };
}
