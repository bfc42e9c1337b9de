import { type Hex, selectorOf } from "./encoding.ts";
import { addressTopic, type LogSearch, topicOf } from "./logs.ts";
import { type MethodToken, methodProblems, stateCallOf } from "./payment-schemes.ts";
import { PROBE_ACCOUNT, type StateCall } from "./proof.ts";
import { type Block, callIfImplemented, type Reads } from "./rpc.ts";
import { Reverted, unlessRefused } from "./rpc-errors.ts";

export type TokenFindings = {
  /** Reasons why the token cannot be accepted as payment. */
  problems: string[];
  /** Reasons why the token is slow to check, or costs many requests. */
  warnings: string[];
};

/** A token as x402.toml describes it. */
export type CheckedToken = { asset: Hex; decimals: number } & MethodToken;

type ChainFacts = { chainId: number; voidDepth: number };

/**
 * Number of blocks whose logs a node should return in one answer. If the node returns fewer, each search for a payment takes many
 * requests, and the check warns.
 */
const LOG_SPAN_WANTED = 1000n;
/**
 * Number of blocks below the newest one at which `hashProblem` picks a block. One URL may hide several nodes, and some lag by a
 * few blocks. All of them should know a block this deep, even on a fast chain. The block is still recent enough for a full node
 * to have its state.
 */
const KNOWN_DEPTH = 64n;

/**
 * Compares a token of x402.toml with its contract, and checks which kinds of requests the node at its `rpc_url` can answer.
 * Throws `payment.unavailable` if the node does not answer, because the check then has no result.
 */
export async function checkToken(
  reads: Reads,
  search: LogSearch,
  token: CheckedToken,
  { chainId, voidDepth }: ChainFacts,
): Promise<TokenFindings> {
  const { asset } = token;
  if ((await reads.code(asset)) === "0x")
    return { problems: [`there is no contract at ${asset}`], warnings: [] };
  const head = await reads.block("latest");
  const { transfer_method: method } = token;
  const problems = [
    await decimalsProblem(reads, token),
    ...(await methodProblems(reads, token, chainId)),
    await hashProblem(reads, stateCallOf({ method, asset, ...PROBE_ACCOUNT }), head),
  ];
  const warnings = [await finalityWarning(reads, voidDepth), await logsWarning(search, asset, head)];
  return { problems: problems.filter(isDefined), warnings: warnings.filter(isDefined) };
}

async function decimalsProblem(reads: Reads, { asset, decimals }: CheckedToken): Promise<string | undefined> {
  const answer = await callIfImplemented(reads, { to: asset, data: selectorOf("decimals()") });
  if (answer?.length !== 66) return "its contract does not implement decimals()";
  const actual = BigInt(answer);
  if (actual === BigInt(decimals)) return undefined;
  return `decimals = ${decimals}, but its contract says ${actual}: every price would be wrong`;
}

/**
 * Checks that every node behind the URL can answer a call at a block named by its hash (EIP-1898). Without such calls no payment
 * can be accepted, because the gateway reads the payer's balance and the authorization's state with them.
 */
async function hashProblem(reads: Reads, { to, data }: StateCall, head: Block): Promise<string | undefined> {
  const { hash: blockHash } = await reads.block(head.number > KNOWN_DEPTH ? head.number - KNOWN_DEPTH : 0n);
  const isAnswered = await reads.call({ to, data }, { blockHash }).then(
    () => true,
    (error: unknown) => unlessRefused(error) ?? error instanceof Reverted,
  );
  return isAnswered ? undefined : "its node does not support eth_call by block hash (EIP-1898)";
}

async function finalityWarning(reads: Reads, voidDepth: number): Promise<string | undefined> {
  const finalized = await reads.block("finalized").catch(unlessRefused);
  if (finalized !== undefined) return undefined;
  return `its node does not know the tag "finalized": an unpaid authorization becomes void only ${voidDepth} blocks (void_depth) after its end`;
}

async function logsWarning(
  search: LogSearch,
  asset: Hex,
  { number: toBlock }: Block,
): Promise<string | undefined> {
  const fromBlock = toBlock > LOG_SPAN_WANTED ? toBlock - LOG_SPAN_WANTED : 0n;
  const topics = [topicOf("Nothing()"), addressTopic(PROBE_ACCOUNT.from)];
  for await (const found of search({ address: asset, topics, fromBlock, toBlock })) {
    if (found.toBlock === toBlock) break;
    return `its node returns no logs of ${LOG_SPAN_WANTED} blocks at once, so each search takes many requests`;
  }
  return undefined;
}

function isDefined(text: string | undefined): text is string {
  return text !== undefined;
}
