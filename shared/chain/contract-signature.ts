import type { Address } from "./address.ts";
import { addressWord, bytes32Word, bytesWords, type Hex, selectorOf, toHex, uintWord } from "./encoding.ts";
import { addressIn } from "./logs.ts";
import { methodOnChain, type TransferMethod } from "./payment-schemes.ts";
import type { AuthorizedTransfer } from "./proof.ts";
import { type Block, type Reads, Reverted, TooLong, unlessRefused } from "./rpc.ts";

/** What a payer's contract, or the contract that a payer says can be deployed at his address, says of a signature. */
export type ContractVerdict =
  /** It takes the signature. `moves` is whether the token would move too, where that had to be tried. */
  { kind: "signed"; moves: boolean } | { kind: "refused"; why: string };

export type Question = {
  transfer: AuthorizedTransfer & { method: TransferMethod };
  /** What the payer has signed, 32 bytes. */
  digest: Uint8Array;
  /** 0x and hex digits. It may say how its signer is deployed (ERC-6492). */
  signature: Hex;
};

/** A passkey that is verified without a precompile takes a third of a million, and several owners take as much each. */
const SIGNATURE_GAS = 3_000_000n;
/** Beside it a deployment and the token's transfer, which asks for the signature once more. */
const DEPLOYMENT_GAS = 3n * SIGNATURE_GAS;

/** No wallet says so much, and a contract can be made to say any amount. */
const ANSWER_BYTES_MAX = 64 * 1024;

const IS_VALID_SIGNATURE = selectorOf("isValidSignature(bytes32,bytes)");
/** Its answer if the signature is good (ERC-1271), as a word. */
const GOOD: Hex = `${IS_VALID_SIGNATURE}${"0".repeat(56)}`;

/**
 * Asks the contract at the payer's address whether it takes a signature (ERC-1271). If there is none and the signature says how to
 * deploy it (ERC-6492), deployment, signature and transfer are tried in one call that changes nothing. A key's signature is not looked
 * at: a token asks the contract alone where there is one. Undefined if the node that was asked does not know the block.
 */
export async function askContract(
  reads: Reads,
  question: Question,
  block: Pick<Block, "hash">,
): Promise<ContractVerdict | undefined> {
  const { transfer, digest } = question;
  const { deployment, signature } = parseSignature(question.signature);
  const said = await wordOf(reads, { signer: transfer.from, digest, signature }, block);
  switch (said) {
    case undefined:
      return undefined;
    case "signed":
      return { kind: "signed", moves: true };
    case "not signed":
      return refused("the contract at the payer's address does not accept the signature");
    case "no contract":
      break;
  }
  if (deployment === undefined)
    return refused(
      "it is not by the payer's key, and the payer's address has no contract that could accept it",
    );
  return tryDeployed(reads, question, { deployment, signature, blockHash: block.hash });
}

/** A signature that the contract at this address may take for its own. */
export type ContractSignature = { signer: Address; digest: Uint8Array; signature: Hex };

/**
 * Whether the contract takes the signature (ERC-1271). How to deploy it may be said (ERC-6492), and is not tried. Undefined if the node
 * that was asked does not know the block.
 */
export async function askWhetherSigned(
  reads: Reads,
  signed: ContractSignature,
  block: Pick<Block, "hash">,
): Promise<boolean | undefined> {
  const { signature } = parseSignature(signed.signature);
  const said = await wordOf(reads, { ...signed, signature }, block);
  return said === undefined ? undefined : said === "signed";
}

async function wordOf(
  reads: Reads,
  { signer, digest, signature }: ContractSignature,
  { hash: blockHash }: Pick<Block, "hash">,
): Promise<"signed" | "not signed" | "no contract" | undefined> {
  const data = isValidSignature(digest, signature);
  const limits = { gas: SIGNATURE_GAS, answerBytesMax: ANSWER_BYTES_MAX };
  const answer = await reads.call({ to: signer, data, ...limits }, { blockHash }).catch(unlessFailed);
  if (answer === undefined) return undefined;
  if (answer === "0x") return "no contract";
  return answer.slice(0, 66) === GOOD ? "signed" : "not signed";
}

/** ERC-6492: `abi.encode(factory, data, signature)`, and this behind it. */
const WRAPPED = "6492".repeat(16);

type Deployment = { factory: Address; data: Hex };

/** The contract's own signature, and how it is deployed if that is said. What is wrapped badly is taken as it stands. */
function parseSignature(whole: Hex): { deployment: Deployment | undefined; signature: Hex } {
  const bare = { deployment: undefined, signature: whole };
  if (!whole.toLowerCase().endsWith(WRAPPED)) return bare;
  const bytes = Buffer.from(whole.slice(2, -WRAPPED.length), "hex");
  const data = bytesAt(bytes, 1);
  const signature = bytesAt(bytes, 2);
  if (data === undefined || signature === undefined) return bare;
  return { deployment: { factory: addressIn(toHex(bytes.subarray(0, 32))), data }, signature };
}

/** The bytes whose offset is in this word (contract ABI, dynamic types). */
function bytesAt(bytes: Buffer, word: number): Hex | undefined {
  const offset = numberAt(bytes, 32 * word);
  const length = offset && numberAt(bytes, offset);
  if (offset === undefined || length === undefined || offset + 32 + length > bytes.length) return undefined;
  return toHex(bytes.subarray(offset + 32, offset + 32 + length));
}

/** The number in the 32 bytes that begin here, if it can be the place or the size of anything. */
function numberAt(bytes: Buffer, at: number): number | undefined {
  if (at + 32 > bytes.length || bytes.subarray(at, at + 28).some((byte) => byte !== 0)) return undefined;
  return bytes.readUInt32BE(at + 28);
}

/** Makes several calls in one, and has this address on almost every chain. */
const MULTICALL3: Address = "0xcA11bde05977b3631167028862bE2a173976CA11";
const AGGREGATE3 = selectorOf("aggregate3((address,bool,bytes)[])");

async function tryDeployed(
  reads: Reads,
  { transfer, digest }: Question,
  { deployment, signature, blockHash }: { deployment: Deployment; signature: Hex; blockHash: Hex },
): Promise<ContractVerdict | undefined> {
  const move = methodOnChain(transfer.method).callOfDeployed(transfer, signature);
  if ("impossible" in move) return refused(move.impossible);
  const calls = [
    { to: deployment.factory, data: deployment.data },
    { to: transfer.from, data: isValidSignature(digest, signature) },
    move,
  ];
  const limits = { gas: DEPLOYMENT_GAS, answerBytesMax: ANSWER_BYTES_MAX };
  const call = { to: MULTICALL3, data: aggregate(calls), ...limits };
  const answer = await reads.call(call, { blockHash }).catch(unlessFailed);
  if (answer === undefined) return undefined;
  if (answer === "0x")
    return refused(`the chain has no Multicall3 at ${MULTICALL3}, which the check of a deployment needs`);
  const [deployed, signed, moved] = answer === "failed" ? [] : resultsIn(answer);
  if (deployed?.isDone !== true)
    return refused("the payer's contract cannot be deployed with this signature");
  if (signed?.isDone !== true || signed.data.slice(0, 66) !== GOOD)
    return refused(
      "the contract that the signature deploys is not at the payer's address, or does not accept the signature",
    );
  return { kind: "signed", moves: moved?.isDone === true };
}

function refused(why: string): ContractVerdict {
  return { kind: "refused", why };
}

/** The contract's failure, and not the node's. */
function unlessFailed(error: unknown): "failed" | undefined {
  if (error instanceof Reverted || error instanceof TooLong) return "failed";
  return unlessRefused(error);
}

function isValidSignature(digest: Uint8Array, signature: Hex): Hex {
  return `${IS_VALID_SIGNATURE}${bytes32Word(toHex(digest))}${uintWord(64n)}${bytesWords(signature)}`;
}

/** Each call may fail without failing the others. */
function aggregate(calls: readonly { to: Hex; data: Hex }[]): Hex {
  const tuples = calls.map(
    ({ to, data }) => `${addressWord(to)}${uintWord(1n)}${uintWord(96n)}${bytesWords(data)}`,
  );
  let next = 32 * calls.length;
  const offsets = tuples.map((tuple) => {
    const offset = uintWord(BigInt(next));
    next += tuple.length / 2;
    return offset;
  });
  return `${AGGREGATE3}${uintWord(32n)}${uintWord(BigInt(calls.length))}${offsets.join("")}${tuples.join("")}`;
}

/** Reads `(bool success, bytes returnData)[]`. */
function resultsIn(answer: Hex): { isDone: boolean; data: Hex }[] {
  const list = Buffer.from(answer.slice(2), "hex").subarray(32);
  const count = numberAt(list, 0) ?? 0;
  const tuples = list.subarray(32);
  return Array.from({ length: Math.min(count, 3) }, (_, index) => {
    const tuple = tuples.subarray(numberAt(tuples, 32 * index) ?? 0);
    return { isDone: numberAt(tuple, 0) === 1, data: bytesAt(tuple, 1) ?? "0x" };
  });
}
