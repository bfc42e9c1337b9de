import { type Hex, selectorOf } from "./encoding.ts";
import { addressTopic, type LogSearch, topicOf } from "./logs.ts";
import { type MethodToken, methodProblems, stateCallOf } from "./payment-schemes.ts";
import { NOBODY, type StateCall } from "./proof.ts";
import { type Block, callIfAny, type Reads, Reverted, unlessRefused } from "./rpc.ts";

export type TokenFindings = {
  /** Why the token must not be sold for. */
  problems: string[];
  /** What makes it slow, or costs requests. */
  warnings: string[];
};

/** What x402.toml says of a token. */
export type CheckedToken = { asset: Hex; decimals: number } & MethodToken;

type Given = { chainId: number; voidDepth: number };

/** A node that gives fewer blocks of logs at a time is asked often for one search. */
const LOG_SPAN_WANTED = 1000n;
/** So deep is a block that each of several nodes knows, also where blocks are quick, and of which a full node has the state. */
const KNOWN_DEPTH = 64n;

/**
 * Compares a token with its contract, and looks at what its node can answer. Throws `payment.unavailable` if the node does not
 * answer: then nothing is known of the token.
 */
export async function checkToken(
  reads: Reads,
  search: LogSearch,
  token: CheckedToken,
  { chainId, voidDepth }: Given,
): Promise<TokenFindings> {
  const { asset } = token;
  if ((await reads.code(asset)) === "0x")
    return { problems: [`there is no contract at ${asset}`], warnings: [] };
  const head = await reads.block("latest");
  const { transfer_method: method } = token;
  const problems = [
    await decimalsProblem(reads, token),
    ...(await methodProblems(reads, token, chainId)),
    await hashProblem(reads, stateCallOf({ method, asset, ...NOBODY }), head),
  ];
  const warnings = [await finalityWarning(reads, voidDepth), await logsWarning(search, asset, head)];
  return { problems: problems.filter(isSaid), warnings: warnings.filter(isSaid) };
}

async function decimalsProblem(reads: Reads, { asset, decimals }: CheckedToken): Promise<string | undefined> {
  const answer = await callIfAny(reads, { to: asset, data: selectorOf("decimals()") });
  if (answer?.length !== 66) return "its contract does not implement decimals()";
  const told = BigInt(answer);
  if (told === BigInt(decimals)) return undefined;
  return `decimals = ${decimals}, but its contract says ${told}: every price would be wrong`;
}

/** What is asked at a block that was read must be answered by any of several nodes, or no payment is taken (EIP-1898). */
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
  const topics = [topicOf("Nothing()"), addressTopic(NOBODY.from)];
  for await (const found of search({ address: asset, topics, fromBlock, toBlock })) {
    if (found.toBlock === toBlock) break;
    return `its node returns no logs of ${LOG_SPAN_WANTED} blocks at once, so each search takes many requests`;
  }
  return undefined;
}

function isSaid(text: string | undefined): text is string {
  return text !== undefined;
}
