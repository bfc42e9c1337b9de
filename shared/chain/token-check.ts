import { authorizationState } from "./eip3009.ts";
import { addressWord, type Hex, selectorOf } from "./encoding.ts";
import { addressTopic, type LogSearch, topicOf } from "./logs.ts";
import { allowanceOf, EXACT_PROXY, nonceBitmap, PERMIT2 } from "./permit2.ts";
import type { StateCall } from "./proof.ts";
import { type Block, type Reads, Reverted, unlessRefused } from "./rpc.ts";
import { stateCallOf } from "./transfer-rules.ts";
import { domainSeparator } from "./typed-data.ts";

export type TokenFindings = {
  /** Why the token must not be sold for. */
  problems: string[];
  /** What makes it slow, or costs requests. */
  warnings: string[];
};

/** What x402.toml says of a token. */
export type CheckedToken = { asset: Hex; decimals: number } & (Eip3009Token | { transfer_method: "permit2" });
type Eip3009Token = { transfer_method: "eip3009"; eip3009_name: string; eip3009_version: string };

type Given = { chainId: number; voidDepth: number };

/** A node that gives fewer blocks of logs at a time is asked often for one search. */
const LOG_SPAN_WANTED = 1000n;
/** So deep is a block that each of several nodes knows, also where blocks are quick, and of which a full node has the state. */
const KNOWN_DEPTH = 64n;
const NOBODY = { from: `0x${"0".repeat(39)}1`, nonce: `0x${"0".repeat(64)}` } as const;

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
    ...(method === "permit2"
      ? await permit2Problems(reads, asset)
      : await eip3009Problems(reads, token, chainId)),
    await hashProblem(reads, stateCallOf({ method, asset, ...NOBODY }), head),
  ];
  const warnings = [await finalityWarning(reads, voidDepth), await logsWarning(search, asset, head)];
  return { problems: problems.filter(isSaid), warnings: warnings.filter(isSaid) };
}

async function eip3009Problems(
  reads: Reads,
  token: CheckedToken & Eip3009Token,
  chainId: number,
): Promise<(string | undefined)[]> {
  const isAnswered = await answers(reads, authorizationState({ asset: token.asset, ...NOBODY }));
  return [
    await domainProblem(reads, token, chainId),
    isAnswered
      ? undefined
      : "its contract does not implement authorizationState(address,bytes32) of EIP-3009",
  ];
}

/** The addresses of Permit2 and of the proxy are the same on each chain that has them. */
async function permit2Problems(reads: Reads, asset: Hex): Promise<(string | undefined)[]> {
  return [
    (await answers(reads, nonceBitmap(NOBODY))) ? undefined : `its chain has no Permit2 at ${PERMIT2}`,
    (await reads.code(EXACT_PROXY)) !== "0x" ? undefined : `its chain has no x402 proxy at ${EXACT_PROXY}`,
    (await answers(reads, allowanceOf({ asset, from: NOBODY.from })))
      ? undefined
      : "its contract does not implement allowance(address,address)",
  ];
}

async function decimalsProblem(reads: Reads, { asset, decimals }: CheckedToken): Promise<string | undefined> {
  const answer = await ask(reads, asset, selectorOf("decimals()"));
  if (answer?.length !== 66) return "its contract does not implement decimals()";
  const told = BigInt(answer);
  if (told === BigInt(decimals)) return undefined;
  return `decimals = ${decimals}, but its contract says ${told}: every price would be wrong`;
}

/** Most tokens tell the hash of their domain (as EIP-2612 has it), others its parts (EIP-5267). */
async function domainProblem(
  reads: Reads,
  token: CheckedToken & Eip3009Token,
  chainId: number,
): Promise<string | undefined> {
  const { asset, eip3009_name: name, eip3009_version: version } = token;
  const separator = await ask(reads, asset, selectorOf("DOMAIN_SEPARATOR()"));
  const isTold = separator?.length === 66;
  const parts = isTold ? undefined : await ask(reads, asset, selectorOf("eip712Domain()"));
  if (!isTold && parts === undefined)
    return "its contract implements neither DOMAIN_SEPARATOR() nor eip712Domain()";
  const isSame = isTold
    ? separator === `0x${domainSeparator({ name, version, chainId, verifyingContract: asset })}`
    : parts !== undefined && hasParts(parts, { name, version, chainId, asset });
  if (isSame) return undefined;
  return `eip3009_name = "${name}" and eip3009_version = "${version}" are not the EIP-712 domain of its contract: no payer's signature would be valid`;
}

/** Of `(bytes1 fields, string name, string version, uint256 chainId, address verifyingContract, ...)`, in the ABI's encoding. */
function hasParts(
  parts: Hex,
  wanted: { name: string; version: string; chainId: number; asset: string },
): boolean {
  const word = (at: number) => parts.slice(2 + 2 * at, 66 + 2 * at);
  const numberAt = (at: number) => Number(`0x${word(at)}`);
  const textAt = (index: number) => {
    const at = numberAt(32 * index);
    return Buffer.from(parts.slice(66 + 2 * at, 66 + 2 * (at + numberAt(at))), "hex").toString();
  };
  return (
    textAt(1) === wanted.name &&
    textAt(2) === wanted.version &&
    numberAt(96) === wanted.chainId &&
    word(128) === addressWord(wanted.asset)
  );
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

/** Whether the contract has this function, which returns a word. */
async function answers(reads: Reads, { to, data }: { to: Hex; data: Hex }): Promise<boolean> {
  return (await ask(reads, to, data))?.length === 66;
}

/** Undefined if the contract has no such function; a node that cannot answer throws. */
function ask(reads: Reads, to: Hex, data: Hex): Promise<Hex | undefined> {
  return reads.call({ to, data }, "latest").catch((error: unknown) => {
    if (!(error instanceof Reverted)) throw error;
    return undefined;
  });
}

function isSaid(text: string | undefined): text is string {
  return text !== undefined;
}
