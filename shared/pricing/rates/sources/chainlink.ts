import type { ChainlinkSource } from "../../../config/rate-source.ts";
import { inverse, scaled, toDecimal } from "../../../platform/text/decimal.ts";
import { assertRecent, type Contracts, contractsAt, decimalsOf, nowSecs } from "../evm-contract.ts";
import { noRate, type ReadOptions, type ReadRate } from "../source.ts";

/**
 * Creates the reader of a Chainlink price feed (AggregatorV3Interface). It throws if the feed's round is invalid, if the answer
 * is too old, or if the sequencer of the rollup is down or was down recently.
 */
export function chainlinkReader(source: ChainlinkSource, { clock, timeoutMs }: ReadOptions): ReadRate {
  const contracts = contractsAt(source.rpc_url, timeoutMs);
  return async () => {
    const [round, decimals] = await Promise.all([
      latestRound(contracts, source.feed),
      decimalsOf(contracts, source.feed),
      assertSequencerUp(contracts, source, clock),
    ]);
    assertSound(round);
    assertRecent("the feed's answer", round.updatedAt, source.max_age_secs, clock);
    const answer = scaled(round.answer, -decimals);
    return toDecimal(source.invert ? inverse(answer) : answer);
  };
}

type Round = {
  roundId: bigint;
  answer: bigint;
  startedAt: bigint;
  updatedAt: bigint;
  answeredInRound: bigint;
};

async function latestRound(contracts: Contracts, feed: `0x${string}`): Promise<Round> {
  const words = await contracts.view(feed, "latestRoundData()");
  return {
    roundId: words.uint(0),
    answer: words.int(1),
    startedAt: words.uint(2),
    updatedAt: words.uint(3),
    answeredInRound: words.uint(4),
  };
}

function assertSound({ roundId, answer, updatedAt, answeredInRound }: Round): void {
  if (answer <= 0n) throw noRate(`the feed answers ${answer}, which is not above 0`);
  if (updatedAt === 0n) throw noRate("the feed's round is not complete");
  if (answeredInRound < roundId)
    throw noRate(`the feed's answer is of round ${answeredInRound}, but the latest round is ${roundId}`);
}

/**
 * Throws if the sequencer of the rollup is down or was down recently. A rollup is a chain on top of another one, and its
 * transactions go through one server, the sequencer. While it is down, no transaction can update the price feed, so the
 * feed's answer may be old.
 */
async function assertSequencerUp(
  contracts: Contracts,
  { sequencer_feed, sequencer_grace_secs }: ChainlinkSource,
  clock: () => number,
): Promise<void> {
  if (sequencer_feed === undefined) return;
  const { answer, startedAt } = await latestRound(contracts, sequencer_feed);
  if (answer !== 0n) throw noRate("the sequencer is down");
  const upSecs = nowSecs(clock) - startedAt;
  if (startedAt === 0n || upSecs <= BigInt(sequencer_grace_secs))
    throw noRate("the sequencer has been up for sequencer_grace_secs or less");
}
