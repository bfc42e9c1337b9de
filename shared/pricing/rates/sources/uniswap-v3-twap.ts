import { type Hex, UINT256_MAX, uintWord } from "../../../chain/encoding.ts";
import type { TwapSource } from "../../../config/rate-source.ts";
import { inverse, type Ratio, toDecimal } from "../../../platform/text/decimal.ts";
import { assertRecent, type Contracts, contractsAt, decimalsOf } from "../evm-contract.ts";
import { noRate, type ReadOptions, type ReadRate } from "../source.ts";

const Q192 = 2n ** 192n;

/**
 * Creates the reader of the time-weighted average price of a Uniswap v3 pool. The pool's contract records its price over time.
 * The reader asks it, at the node's latest block, for the geometric mean over the configured window. If that block is too old,
 * there is no rate.
 */
export function twapReader(source: TwapSource, { clock, timeoutMs }: ReadOptions): ReadRate {
  const contracts = contractsAt(source.rpc_url, timeoutMs);
  return async () => {
    const [pair, latest] = await Promise.all([pairOf(contracts, source), contracts.latestBlock()]);
    assertRecent("the node's latest block", latest.timestamp, source.max_age_secs, clock);
    const [tick, decimals0, decimals1] = await Promise.all([
      meanTick(contracts, source, latest.number),
      decimalsOf(contracts, pair[0]),
      decimalsOf(contracts, pair[1]),
    ]);
    const price = priceAt(tick, { decimals0, decimals1 });
    return toDecimal(isNative(source, pair[0]) ? price : inverse(price));
  };
}

type Pair = readonly [Hex, Hex];

async function pairOf(contracts: Contracts, source: TwapSource): Promise<Pair> {
  const [first, second] = await Promise.all([
    contracts.view(source.pool, "token0()"),
    contracts.view(source.pool, "token1()"),
  ]);
  const pair: Pair = [first.address(0), second.address(0)];
  if (pair.filter((token) => isNative(source, token)).length !== 1)
    throw noRate(`the pool trades ${pair.join(" and ")}, but exactly one of them must be native_token`);
  return pair;
}

function isNative({ native_token }: TwapSource, token: Hex): boolean {
  return token === native_token.toLowerCase();
}

/**
 * Returns the pool's mean tick over the window, computed from the answer of `observe([window, 0])`. A tick is the logarithm of a
 * price to the base 1.0001. The mean is rounded towards negative infinity, as in Uniswap's OracleLibrary.
 */
async function meanTick(
  contracts: Contracts,
  { pool, window_secs }: TwapSource,
  block: bigint,
): Promise<number> {
  const args = [32n, 2n, BigInt(window_secs), 0n].map(uintWord).join("");
  const words = await contracts.view(pool, "observe(uint32[])", { args, block });
  const at = Number(words.uint(0) / 32n);
  if (at > 16 || words.uint(at) !== 2n) throw noRate("the pool's answer to observe must have two values");
  const window = BigInt(window_secs);
  const moved = words.int(at + 2) - words.int(at + 1);
  const tick = moved / window - (moved < 0n && moved % window !== 0n ? 1n : 0n);
  if (tick < -MAX_TICK || tick > MAX_TICK) throw noRate(`the pool's mean tick ${tick} is out of range`);
  return Number(tick);
}

/** Returns how many whole units of the pool's token1 one whole unit of its token0 costs. */
export function priceAt(tick: number, tokens: { decimals0: number; decimals1: number }): Ratio {
  const root = sqrtRatioAtTick(tick);
  return {
    numerator: root * root * 10n ** BigInt(tokens.decimals0),
    denominator: Q192 * 10n ** BigInt(tokens.decimals1),
  };
}

/** Largest absolute value of a tick in a Uniswap v3 pool. */
export const MAX_TICK = 887_272;

const Q128 = 2n ** 128n;

/**
 * The numbers 1.0001^(-2^i / 2), by i, as in Uniswap v3-core's TickMath.sol. Each is multiplied by 2^128 (Q128), to be an
 * integer.
 */
const FACTORS = [
  0xfffcb933bd6fad37aa2d162d1a594001n,
  0xfff97272373d413259a46990580e213an,
  0xfff2e50f5f656932ef12357cf3c7fdccn,
  0xffe5caca7e10e4e61c3624eaa0941cd0n,
  0xffcb9843d60f6159c9db58835c926644n,
  0xff973b41fa98c081472e6896dfb254c0n,
  0xff2ea16466c96a3843ec78b326b52861n,
  0xfe5dee046a99a2a811c461f1969c3053n,
  0xfcbe86c7900a88aedcffc83b479aa3a4n,
  0xf987a7253ac413176f2b074cf7815e54n,
  0xf3392b0822b70005940c7a398e4b70f3n,
  0xe7159475a2c29b7443b29c7fa6e889d9n,
  0xd097f3bdfd2022b8845ad8f792aa5825n,
  0xa9f746462d870fdf8a65dc1f90e061e5n,
  0x70d869a156d2a1b890bb3df62baf32f7n,
  0x31be135f97d08fd981231505542fcfa6n,
  0x9aa508b5b7a84e1c677de54f3e99bc9n,
  0x5d6af8dedb81196699c329225ee604n,
  0x2216e584f5fa1ea926041bedfe98n,
  0x48a170391f7dc42444e8fa2n,
];

/** Returns sqrt(1.0001^tick), multiplied by 2^96 (Q64.96). It has exactly the bits of the pool's own `getSqrtRatioAtTick`. */
export function sqrtRatioAtTick(tick: number): bigint {
  if (!Number.isInteger(tick) || Math.abs(tick) > MAX_TICK) throw new RangeError(`no tick: ${tick}`);
  const steps = Math.abs(tick);
  const inverse = FACTORS.reduce(
    (ratio, factor, bit) => ((steps >> bit) & 1 ? (ratio * factor) >> 128n : ratio),
    Q128,
  );
  const ratio = tick > 0 ? UINT256_MAX / inverse : inverse;
  return (ratio + 2n ** 32n - 1n) >> 32n;
}
