import type { Address } from "./address.ts";
import { eip2612Problems } from "./eip2612.ts";
import { addressWord, bytes32Word, type Hex, selectorOf, uintWord } from "./encoding.ts";
import { addressIn, addressTopic, topicOf } from "./logs.ts";
import {
  type AuthorizedTransfer,
  amountOf,
  isBetween,
  isOf,
  isTransferOf,
  type MethodOnChain,
  PROBE_ACCOUNT,
  positionIn,
  type ReadTransaction,
  type ReceiptEvidence,
  type StateCall,
  TRANSFER,
  type TransferRule,
} from "./proof.ts";
import { hasFunction, type Log, type Receipt, type Transaction } from "./rpc.ts";
import { hashOfText, hashOfWords, typedDataDigest } from "./typed-data.ts";

/*
 * The rule that decides whether a permit of Permit2 has paid. Permit2 emits no event for a use. A used nonce proves nothing: the
 * permit's owner can invalidate the nonce (`invalidateUnorderedNonces`), or use it for another spender's permit. But a permit is
 * for one spender, the x402 proxy, and the proxy settles it at most once. So a successful transaction to the proxy with this
 * permit in its call data has used the permit. The payment is then the transfer before the proxy's first `Settled`. If another
 * contract calls the proxy, the events are the only evidence, and they do not show which permits were used.
 */

/** Address of Permit2 (Uniswap), the same on every chain. */
export const PERMIT2: Address = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
/** Address of x402ExactPermit2Proxy, the spender of x402's `exact` payments. It is the same on every chain. */
export const EXACT_PROXY: Address = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";

/**
 * A token that Permit2 moves, as x402.toml describes it. If the token has permits of EIP-2612, `eip2612_domain` is their EIP-712 domain.
 */
export type Permit2Token = { eip2612_domain?: { name: string; version: string } | undefined };

/**
 * How payments with a Permit2 permit for the x402 proxy appear on the chain. In their `AuthorizedTransfer`, `validBefore` is the
 * permit's deadline. `to` and `validAfter` come from the permit's witness, which is the part of the signed message that only the
 * proxy checks.
 */
export const permit2: MethodOnChain<Permit2Token> = {
  signingExtra: ({ eip2612_domain: domain }) => ({ assetTransferMethod: "permit2", ...domain }),
  ruleOf,
  stateCallOf: nonceBitmap,
  nonceContract: () => PERMIT2,
  allowanceCall: allowanceOf,
  callAfterDeployment: () => ({
    impossible: "the payer's contract is not deployed, so it cannot have approved Permit2",
  }),
  async transfersIn(receipt, { asset }, read) {
    const permit = permitIn(await read(receipt.transactionHash));
    const transfer = permit && transfersOf(receipt, permit)[0];
    if (permit?.asset !== asset.toLowerCase() || transfer === undefined) return [];
    return [{ transfer, authorization: { authorizer: permit.from, nonce: permit.nonce } }];
  },
  /** Checks that Permit2 and the proxy are at their addresses, which are the same on each chain that has them. */
  tokenProblems: async (reads, { asset, eip2612_domain: domain }, chainId) => [
    (await hasFunction(reads, nonceBitmap(PROBE_ACCOUNT)))
      ? undefined
      : `its chain has no Permit2 at ${PERMIT2}`,
    (await reads.code(EXACT_PROXY)) !== "0x" ? undefined : `its chain has no x402 proxy at ${EXACT_PROXY}`,
    (await hasFunction(reads, allowanceOf({ asset, from: PROBE_ACCOUNT.from })))
      ? undefined
      : "its contract does not implement allowance(address,address)",
    ...(domain ? await eip2612Problems(reads, { ...domain, chainId, verifyingContract: asset }) : []),
  ],
};

const DOMAIN_TYPE = hashOfText("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
const DOMAIN_NAME = hashOfText("Permit2");
const PERMISSIONS_TYPE = "TokenPermissions(address token,uint256 amount)";
const WITNESS_TYPE = "Witness(address to,uint256 validAfter)";
const PERMISSIONS_TYPE_HASH = hashOfText(PERMISSIONS_TYPE);
const WITNESS_TYPE_HASH = hashOfText(WITNESS_TYPE);
const PERMIT_TYPE_HASH = hashOfText(
  `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)${PERMISSIONS_TYPE}${WITNESS_TYPE}`,
);

/** The domain separator of Permit2 on a chain, 32 bytes in hex without 0x (EIP-712). */
export function permit2Separator(chainId: number): string {
  return hashOfWords(DOMAIN_TYPE, DOMAIN_NAME, uintWord(BigInt(chainId)), addressWord(PERMIT2));
}

/** The 32 bytes that a payer signs to permit a transfer by the x402 proxy (x402, scheme exact on EVM, Permit2). */
export function permitDigest(separator: string, permit: AuthorizedTransfer): Uint8Array {
  const { asset, to, value, validAfter, validBefore, nonce } = permit;
  return typedDataDigest(separator, [
    PERMIT_TYPE_HASH,
    hashOfWords(PERMISSIONS_TYPE_HASH, addressWord(asset), uintWord(value)),
    addressWord(EXACT_PROXY),
    bytes32Word(nonce),
    uintWord(validBefore),
    hashOfWords(WITNESS_TYPE_HASH, addressWord(to), uintWord(validAfter)),
  ]);
}

const NONCE_BITMAP = selectorOf("nonceBitmap(address,uint256)");

/**
 * Finds the bit of a nonce in Permit2's bitmap. The nonce's last byte selects the bit, and its other bytes select the word with this bit.
 */
function bitPlaceOf(nonce: Hex): { position: bigint; bit: bigint } {
  return { position: BigInt(nonce) >> 8n, bit: 1n << (BigInt(nonce) & 0xffn) };
}

/** The call that reads the bit of a nonce. The bit is set once the nonce is used or invalidated. */
function nonceBitmap({ from, nonce }: Pick<AuthorizedTransfer, "from" | "nonce">): StateCall {
  const { position, bit } = bitPlaceOf(nonce);
  const data = `${NONCE_BITMAP}${addressWord(from)}${uintWord(position)}` as const;
  return { to: PERMIT2, data, isSpent: (word) => (word & bit) !== 0n };
}

const ALLOWANCE = selectorOf("allowance(address,address)");

/** The call that reads how many units Permit2 may move. */
function allowanceOf({ asset, from }: Pick<AuthorizedTransfer, "asset" | "from">): {
  to: Hex;
  data: Hex;
} {
  return { to: asset, data: `${ALLOWANCE}${addressWord(from)}${addressWord(PERMIT2)}` };
}

function ruleOf(permit: AuthorizedTransfer): TransferRule {
  const { asset, from, to } = permit;
  return {
    logFilter: { address: asset, topics: [TRANSFER, addressTopic(from), addressTopic(to)] },
    classifyLog: async (log, read) => {
      if (!isTransferOf(log, permit)) return undefined;
      return isSamePermit(permitIn(await read(log.transactionHash)), permit) ? "used" : undefined;
    },
    explainNoTrace: (since) =>
      `the permit's nonce is used, but no call of the x402 proxy since block ${since} used this permit. Either the payer has invalidated the nonce or used it otherwise, another contract has called the proxy, or the node lacks logs`,
    evidenceIn: (receipt, read) => proofIn(receipt, permit, read),
  };
}

const SETTLED = topicOf("Settled()");
const SETTLED_WITH_PERMIT = topicOf("SettledWithPermit()");
const NONCE_INVALIDATION = topicOf("UnorderedNonceInvalidation(address,uint256,uint256)");

async function proofIn(
  receipt: Receipt,
  permit: AuthorizedTransfer,
  read: ReadTransaction,
): Promise<ReceiptEvidence> {
  if (receipt.status !== 1n) return { kind: "none" };
  const transfers = transfersOf(receipt, permit);
  const [first, ...rest] = transfers.map(({ logIndex }) => positionIn(receipt, logIndex));
  const direct = permitIn(await read(receipt.transactionHash));
  if (direct !== undefined) {
    if (!isSamePermit(direct, permit)) return { kind: "none" };
    return first === undefined ? toShortEvidence(receipt, permit) : { kind: "paid", position: first };
  }
  if (first === undefined || receipt.logs.some((log) => isInvalidationOf(log, permit)))
    return { kind: "none" };
  return { kind: "wrapped", positions: [first, ...rest] };
}

/** Whether the log is `UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)` of this nonce. */
function isInvalidationOf(log: Log, { from, nonce }: AuthorizedTransfer): boolean {
  if (!isOf(log, PERMIT2, NONCE_INVALIDATION) || log.topics[1] !== addressTopic(from)) return false;
  const { position, bit } = bitPlaceOf(nonce);
  const [word, mask] = [log.data.slice(2, 66), log.data.slice(66)];
  return BigInt(`0x${word}`) === position && (BigInt(`0x${mask}`) & bit) !== 0n;
}

/**
 * The settled transfers with this permit's payer, recipient and amount. Each `Settled` event settles the last such transfer since the
 * previous `Settled`.
 */
function transfersOf({ logs }: Receipt, permit: AuthorizedTransfer): Log[] {
  const inOrder = logs.toSorted((a, b) => a.logIndex - b.logIndex);
  let last: Log | undefined;
  return inOrder.flatMap((log) => {
    if (isTransferOf(log, permit)) last = log;
    if (!isOf(log, EXACT_PROXY, SETTLED) && !isOf(log, EXACT_PROXY, SETTLED_WITH_PERMIT)) return [];
    const settled = last;
    last = undefined;
    return settled === undefined ? [] : [settled];
  });
}

function toShortEvidence({ logs }: Receipt, permit: AuthorizedTransfer): ReceiptEvidence {
  const sums = logs.filter((log) => isBetween(log, permit)).map(amountOf);
  return { kind: "short", value: sums.reduce((most, sum) => (sum > most ? sum : most), 0n) };
}

const PERMIT = "((address,uint256),uint256,uint256),address,(address,uint256),bytes";
/** Number of words before the permit in the call data of the proxy's two functions. */
const WORDS_BEFORE: ReadonlyMap<string, number> = new Map([
  [selectorOf(`settle(${PERMIT})`), 0],
  [selectorOf(`settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),${PERMIT})`), 5],
]);
const PERMIT_WORDS = 7;
const WORD_DIGITS = 64;

/**
 * The permit that a transaction to the proxy settles, with addresses in lower case. Undefined if the transaction settles no permit. The
 * signature is the only part of variable length, and it comes after the permit. Bytes after the signature do not matter (ERC-8021 puts
 * attributions there).
 */
function permitIn({ to, input }: Transaction): AuthorizedTransfer | undefined {
  const before = WORDS_BEFORE.get(input.slice(0, 10));
  if (to !== EXACT_PROXY.toLowerCase() || before === undefined) return undefined;
  const digits = input.slice(10 + before * WORD_DIGITS);
  if (digits.length < PERMIT_WORDS * WORD_DIGITS) return undefined;
  const word = (index: number): Hex => `0x${digits.slice(index * WORD_DIGITS, (index + 1) * WORD_DIGITS)}`;
  return {
    asset: addressIn(word(0)),
    value: BigInt(word(1)),
    nonce: word(2),
    validBefore: BigInt(word(3)),
    from: addressIn(word(4)),
    to: addressIn(word(5)),
    validAfter: BigInt(word(6)),
  };
}

function isSamePermit(found: AuthorizedTransfer | undefined, permit: AuthorizedTransfer): boolean {
  return found !== undefined && toWords(found) === toWords(permit);
}

function toWords({ asset, from, to, value, validAfter, validBefore, nonce }: AuthorizedTransfer): string {
  const addresses = [asset, from, to].map(addressWord);
  return [...addresses, ...[value, validAfter, validBefore].map(uintWord), bytes32Word(nonce)].join();
}
