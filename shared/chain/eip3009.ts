import { addressWord, bytes32Word, bytesWords, type Hex, selectorOf, uintWord } from "./encoding.ts";
import { addressIn, addressTopic, topicOf } from "./logs.ts";
import {
  type AuthorizedTransfer,
  amountOf,
  EVENT_ORDERS,
  type EventOrder,
  isBetween,
  isFrom,
  isOf,
  isTransferOf,
  type MethodOnChain,
  NOBODY,
  positionIn,
  type ReceiptEvidence,
  type StateCall,
  TRANSFER,
  type TransferRule,
} from "./proof.ts";
import { callIfAny, hasFunction, type Log, type Reads, type Receipt } from "./rpc.ts";
import { domainSeparator } from "./typed-data.ts";

/*
 * The one rule for what proves that an authorization of EIP-3009 has paid. Its nonce alone proves nothing, because its owner can spend
 * it on a transfer to himself. A transfer alone proves nothing, because a transaction may have others to the same recipient. So each
 * `AuthorizationUsed` pairs with one `Transfer` of the same contract, and the reverse, and no transfer proves two payments.
 */

/** A transfer that its sender has authorized by EIP-3009. */
type Eip3009Transfer = AuthorizedTransfer & { eventOrder?: EventOrder | undefined };

/** A token of EIP-3009, as x402.toml describes it. */
export type Eip3009Token = { eip3009_name: string; eip3009_version: string };

export const eip3009: MethodOnChain<Eip3009Token> = {
  signingExtra: ({ eip3009_name: name, eip3009_version: version }) => ({ name, version }),
  ruleOf,
  stateCallOf: authorizationState,
  nonceContract: (asset) => asset,
  callOfDeployed: (transfer, signature) => ({
    to: transfer.asset,
    data: transferWithAuthorization(transfer, signature),
  }),
  movedIn: async (receipt, { asset, eventOrder }) =>
    pairsIn(receipt, asset, eventOrder).map(({ used, transfer }) => {
      return { transfer, authorization: authorizationIn(used) };
    }),
  tokenProblems: async (reads, token, chainId) => [
    await domainProblem(reads, token, chainId),
    (await hasFunction(reads, authorizationState({ asset: token.asset, ...NOBODY })))
      ? undefined
      : "its contract does not implement authorizationState(address,bytes32) of EIP-3009",
  ],
};

export const AUTHORIZATION_USED = topicOf("AuthorizationUsed(address,bytes32)");
const AUTHORIZATION_CANCELED = topicOf("AuthorizationCanceled(address,bytes32)");

type Pair = { used: Log; transfer: Log };

/** The pairs of one token in a receipt. An event that stands between two of the other kind pairs with one of them: the order says which. */
function pairsIn({ logs }: Receipt, asset: Hex, order: EventOrder = "used_first"): Pair[] {
  const isEvent = (log: Log) => isOf(log, asset, AUTHORIZATION_USED) || isOf(log, asset, TRANSFER);
  const events = logs.filter(isEvent).toSorted((a, b) => a.logIndex - b.logIndex);
  return events.flatMap((first, i) => {
    const second = events[i + 1];
    if (second === undefined) return [];
    const [used, transfer] = order === "used_first" ? [first, second] : [second, first];
    if (used.topics[0] !== AUTHORIZATION_USED || transfer.topics[0] !== TRANSFER) return [];
    return [{ used, transfer }];
  });
}

function ruleOf(authorized: Eip3009Transfer): TransferRule {
  const { asset, from, nonce } = authorized;
  return {
    traces: {
      address: asset,
      topics: [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], addressTopic(from), nonce],
    },
    readTrace: async ({ topics }) => (topics[0] === AUTHORIZATION_USED ? "used" : "cancelled"),
    silence: (since) =>
      `the authorization is used, but by no transaction since block ${since}: it was used before the claim, or the node lacks logs`,
    evidenceIn: async (receipt) => proofIn(receipt, authorized),
  };
}

const AUTHORIZATION_STATE = selectorOf("authorizationState(address,bytes32)");

/** `authorizationState(from, nonce)` is true once the nonce is used or cancelled. */
function authorizationState({
  asset,
  from,
  nonce,
}: Pick<Eip3009Transfer, "asset" | "from" | "nonce">): StateCall {
  const data = `${AUTHORIZATION_STATE}${addressWord(from)}${bytes32Word(nonce)}` as const;
  return { to: asset, data, isSpent: (word) => word !== 0n };
}

function proofIn(receipt: Receipt, authorized: Eip3009Transfer): ReceiptEvidence {
  const { asset, eventOrder, value } = authorized;
  if (receipt.status !== 1n) return { kind: "none" };
  const pairs = pairsIn(receipt, asset, eventOrder);
  const isOwn = ({ used }: Pair) => isUseOf(used, authorized);
  const isPaying = (pair: Pair) => isOwn(pair) && isTransferOf(pair.transfer, authorized);
  const paid = pairs.find(isPaying);
  if (paid !== undefined) return { kind: "paid", position: positionIn(receipt, paid.transfer.logIndex) };
  if (!receipt.logs.some((log) => isUseOf(log, authorized))) return { kind: "none" };
  const ofOthers = new Set(pairs.filter((pair) => !isOwn(pair)).map(({ transfer }) => transfer));
  const spent = receipt.logs.filter((log) => isFrom(log, authorized) && !ofOthers.has(log));
  const come = spent.filter((log) => isBetween(log, authorized)).map(amountOf);
  const isElsewhere = EVENT_ORDERS.some((order) => pairsIn(receipt, asset, order).some(isPaying));
  if (isElsewhere || come.includes(value) || !pairs.some(isOwn)) return { kind: "unpaired" };
  const short = come.find((sum) => 2n * sum > value);
  const total = spent.reduce((sum, log) => sum + amountOf(log), 0n);
  return short === undefined || total !== value ? { kind: "none" } : { kind: "short", value: short };
}

function isUseOf(log: Log, { asset, from, nonce }: Eip3009Transfer): boolean {
  const [, authorizer, its] = log.topics;
  return (
    isOf(log, asset, AUTHORIZATION_USED) && authorizer === addressTopic(from) && its === nonce.toLowerCase()
  );
}

/** Whose authorization an `AuthorizationUsed` is of, in lower case. */
function authorizationIn({ topics }: Log): { authorizer: Hex; nonce: Hex } {
  const [, authorizer, nonce] = topics as [Hex, Hex, Hex];
  return { authorizer: addressIn(authorizer), nonce };
}

const TRANSFER_WITH_AUTHORIZATION = selectorOf(
  "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
);

/** The form of `transferWithAuthorization` that takes a contract's signature. */
function transferWithAuthorization(transfer: AuthorizedTransfer, signature: Hex): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = transfer;
  const words = [addressWord(from), addressWord(to), ...[value, validAfter, validBefore].map(uintWord)];
  const offset = uintWord(7n * 32n);
  return `${TRANSFER_WITH_AUTHORIZATION}${words.join("")}${bytes32Word(nonce)}${offset}${bytesWords(signature)}`;
}

/** Most tokens tell the hash of their domain (as EIP-2612 has it), others its parts (EIP-5267). */
async function domainProblem(
  reads: Reads,
  token: Eip3009Token & { asset: Hex },
  chainId: number,
): Promise<string | undefined> {
  const { asset, eip3009_name: name, eip3009_version: version } = token;
  const separator = await callIfAny(reads, { to: asset, data: selectorOf("DOMAIN_SEPARATOR()") });
  const isTold = separator?.length === 66;
  const parts = isTold
    ? undefined
    : await callIfAny(reads, { to: asset, data: selectorOf("eip712Domain()") });
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
