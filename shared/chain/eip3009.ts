import { domainProblem } from "./domain-check.ts";
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
  PROBE_ACCOUNT,
  positionIn,
  type ReceiptEvidence,
  type StateCall,
  TRANSFER,
  type TransferRule,
} from "./proof.ts";
import { hasFunction, type Log, type Receipt } from "./rpc.ts";

/*
 * The one rule that decides whether an authorization of EIP-3009 has paid. A used nonce proves nothing, because the owner can use it for a
 * transfer to themselves. A transfer proves nothing, because a transaction may have several to the same recipient. So each
 * `AuthorizationUsed` pairs with exactly one `Transfer` of the same contract, and no transfer proves two payments.
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
  callAfterDeployment: (transfer, signature) => ({
    to: transfer.asset,
    data: transferWithAuthorization(transfer, signature),
  }),
  transfersIn: async (receipt, { asset, eventOrder }) =>
    pairsIn(receipt, asset, eventOrder).map(({ used, transfer }) => {
      return { transfer, authorization: authorizationIn(used) };
    }),
  tokenProblems: async (reads, { asset, eip3009_name: name, eip3009_version: version }, chainId) => [
    await domainProblem(
      reads,
      { name, version, chainId, verifyingContract: asset },
      `eip3009_name = "${name}" and eip3009_version = "${version}" are`,
    ),
    (await hasFunction(reads, authorizationState({ asset, ...PROBE_ACCOUNT })))
      ? undefined
      : "its contract does not implement authorizationState(address,bytes32) of EIP-3009",
  ],
};

export const AUTHORIZATION_USED = topicOf("AuthorizationUsed(address,bytes32)");
const AUTHORIZATION_CANCELED = topicOf("AuthorizationCanceled(address,bytes32)");

type Pair = { used: Log; transfer: Log };

/**
 * Pairs each `AuthorizationUsed` of one token in a receipt with its `Transfer`. Among the token's events of these two kinds, the
 * transfer comes directly after the use, or directly before it. `order` says which, because an event between two events of the
 * other kind could pair with either.
 */
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
    logFilter: {
      address: asset,
      topics: [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], addressTopic(from), nonce],
    },
    classifyLog: async ({ topics }) => (topics[0] === AUTHORIZATION_USED ? "used" : "cancelled"),
    explainNoTrace: (since) =>
      `the authorization is used, but by no transaction since block ${since}: it was used before the claim, or the node lacks logs`,
    evidenceIn: async (receipt) => proofIn(receipt, authorized),
  };
}

const AUTHORIZATION_STATE = selectorOf("authorizationState(address,bytes32)");

/** `authorizationState(from, nonce)` returns true once the nonce is used or cancelled. */
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
  const otherTransfers = new Set(pairs.filter((pair) => !isOwn(pair)).map(({ transfer }) => transfer));
  const spent = receipt.logs.filter((log) => isFrom(log, authorized) && !otherTransfers.has(log));
  const received = spent.filter((log) => isBetween(log, authorized)).map(amountOf);
  const isPaidInEitherOrder = EVENT_ORDERS.some((order) => pairsIn(receipt, asset, order).some(isPaying));
  if (isPaidInEitherOrder || received.includes(value) || !pairs.some(isOwn)) return { kind: "unpaired" };
  const short = received.find((sum) => 2n * sum > value);
  const total = spent.reduce((sum, log) => sum + amountOf(log), 0n);
  return short === undefined || total !== value ? { kind: "none" } : { kind: "short", value: short };
}

function isUseOf(log: Log, { asset, from, nonce }: Eip3009Transfer): boolean {
  const [, authorizer, eventNonce] = log.topics;
  return (
    isOf(log, asset, AUTHORIZATION_USED) &&
    authorizer === addressTopic(from) &&
    eventNonce === nonce.toLowerCase()
  );
}

/** The payer and nonce of an `AuthorizationUsed` event, in lower case. */
function authorizationIn({ topics }: Log): { authorizer: Hex; nonce: Hex } {
  const [, authorizer, nonce] = topics as [Hex, Hex, Hex];
  return { authorizer: addressIn(authorizer), nonce };
}

const TRANSFER_WITH_AUTHORIZATION = selectorOf(
  "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
);

/** The call data of the `transferWithAuthorization` variant that takes a contract's signature. */
function transferWithAuthorization(transfer: AuthorizedTransfer, signature: Hex): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = transfer;
  const words = [addressWord(from), addressWord(to), ...[value, validAfter, validBefore].map(uintWord)];
  const offset = uintWord(7n * 32n);
  return `${TRANSFER_WITH_AUTHORIZATION}${words.join("")}${bytes32Word(nonce)}${offset}${bytesWords(signature)}`;
}
