import type { Authorization as Signed } from "./authorization.ts";
import { keccak256Hex } from "./keccak.ts";
import type { Hex, Log, Receipt } from "./node-answers.ts";
import { addressWord, bytes32Word } from "./words.ts";

/** An EIP-3009 authorization of the token at `asset`. */
export type Authorization = Signed & { asset: Hex };

export const TRANSFER = topicOf("Transfer(address,address,uint256)");
export const AUTHORIZATION_USED = topicOf("AuthorizationUsed(address,bytes32)");
export const AUTHORIZATION_CANCELED = topicOf("AuthorizationCanceled(address,bytes32)");

const AUTHORIZATION_STATE = topicOf("authorizationState(address,bytes32)").slice(0, 10);

/** Call data of `authorizationState(from, nonce)`: true once the nonce is used, and once it is cancelled too. */
export function authorizationStateOf({ from, nonce }: Authorization): Hex {
  return `${AUTHORIZATION_STATE}${addressWord(from)}${bytes32Word(nonce)}` as Hex;
}

export function addressTopic(address: string): Hex {
  return `0x${addressWord(address)}`;
}

/**
 * Whether this receipt is the payment: `AuthorizationUsed(from, nonce)` and, as the very next log, the exact
 * `Transfer(from, to, value)`. A nonce alone proves nothing, since its owner can spend it on himself; nor does a
 * transfer alone, since a batch may have others to the same recipient.
 */
export function isPayment({ status, logs }: Receipt, authorization: Authorization): boolean {
  if (status !== 1n) return false;
  return adjacent(logs).some(
    ([used, next]) => isUseOf(used, authorization) && isTransferOf(next, authorization),
  );
}

function isUseOf(log: Log, { asset, from, nonce }: Authorization): boolean {
  const [event, authorizer, its] = log.topics;
  return (
    log.address === asset.toLowerCase() &&
    event === AUTHORIZATION_USED &&
    authorizer === addressTopic(from) &&
    its === nonce.toLowerCase()
  );
}

function isTransferOf(log: Log, { asset, from, to, value }: Authorization): boolean {
  const [event, sender, recipient] = log.topics;
  return (
    log.address === asset.toLowerCase() &&
    event === TRANSFER &&
    sender === addressTopic(from) &&
    recipient === addressTopic(to) &&
    BigInt(log.data) === value
  );
}

/** The logs in pairs, each with the one right before it, where the token itself wrote both. */
export function adjacent(logs: readonly Log[]): [before: Log, next: Log][] {
  const byIndex = new Map(logs.map((log) => [log.logIndex, log]));
  return logs.flatMap((next): [Log, Log][] => {
    const before = byIndex.get(next.logIndex - 1);
    return before === undefined || before.address !== next.address ? [] : [[before, next]];
  });
}

/** The address in a topic, in lower case. */
export function addressIn(topic: Hex): Hex {
  return `0x${topic.slice(-40)}`;
}

function topicOf(signature: string): Hex {
  return keccak256Hex(Buffer.from(signature));
}
