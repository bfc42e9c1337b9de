import type { Address } from "./address.ts";
import { addressWord, bytes32Word, bytesWords, type Hex, selectorOf, toHex, uintWord } from "./encoding.ts";
import { addressIn } from "./logs.ts";
import { methodOnChain, type TransferMethod } from "./payment-schemes.ts";
import type { AuthorizedTransfer } from "./proof.ts";
import type { Block, Reads } from "./rpc.ts";
import { Reverted, TooLong, unlessRefused } from "./rpc-errors.ts";

/**
 * Verdict of the contract at the payer's address on a signature. If the address has no contract, it is the verdict of the
 * contract that the signature would deploy there (ERC-6492).
 */
export type ContractVerdict =
  /** The contract accepts the signature. `moves` is false only if the token's transfer was simulated and failed. */
  { kind: "signed"; moves: boolean } | { kind: "refused"; why: string };

export type SignatureCheck = {
  transfer: AuthorizedTransfer & { method: TransferMethod };
  /** The 32 bytes that the payer has signed. */
  digest: Uint8Array;
  /** 0x and hex digits. The signature may contain the deployment of the contract that accepts it (ERC-6492). */
  signature: Hex;
};

/** Gas limit of a signature check. Without a precompile, verifying a passkey takes about 330,000 gas for each owner of the wallet. */
const SIGNATURE_GAS = 3_000_000n;
/** Gas limit of a call that simulates deployment, signature check and transfer. The transfer checks the signature once more. */
const DEPLOYMENT_GAS = 3n * SIGNATURE_GAS;

/** Limit on the bytes of a contract's answer. No wallet answers with more, but a hostile contract can return any number of bytes. */
const ANSWER_BYTES_MAX = 64 * 1024;

const IS_VALID_SIGNATURE = selectorOf("isValidSignature(bytes32,bytes)");
/** The word that a contract returns if it accepts the signature (ERC-1271). */
const MAGIC_VALUE: Hex = `${IS_VALID_SIGNATURE}${"0".repeat(56)}`;

/**
 * Asks the contract at the payer's address whether it accepts a signature (ERC-1271). If the address has no contract, the
 * signature may contain how to deploy one (ERC-6492). Then deployment, signature check and transfer are simulated in one call.
 * This does not check whether the payer's private key made the signature: if the address has a contract, tokens ask only the
 * contract. Undefined if the node does not know the block.
 */
export async function checkContractSignature(
  reads: Reads,
  check: SignatureCheck,
  block: Pick<Block, "hash">,
): Promise<ContractVerdict | undefined> {
  const { transfer, digest } = check;
  const { deployment, signature } = parseSignature(check.signature);
  const verdict = await callIsValidSignature(reads, { signer: transfer.from, digest, signature }, block);
  switch (verdict) {
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
  return simulateDeployment(reads, check, { deployment, signature, blockHash: block.hash });
}

/** A signature to be checked by the contract at `signer`. */
export type ContractSignature = { signer: Address; digest: Uint8Array; signature: Hex };

/**
 * Whether the contract accepts the signature (ERC-1271). A deployment inside the signature (ERC-6492) is ignored. Undefined if the node
 * does not know the block.
 */
export async function acceptsSignature(
  reads: Reads,
  signed: ContractSignature,
  block: Pick<Block, "hash">,
): Promise<boolean | undefined> {
  const { signature } = parseSignature(signed.signature);
  const verdict = await callIsValidSignature(reads, { ...signed, signature }, block);
  return verdict === undefined ? undefined : verdict === "signed";
}

async function callIsValidSignature(
  reads: Reads,
  { signer, digest, signature }: ContractSignature,
  { hash: blockHash }: Pick<Block, "hash">,
): Promise<"signed" | "not signed" | "no contract" | undefined> {
  const data = isValidSignature(digest, signature);
  const limits = { gas: SIGNATURE_GAS, answerBytesMax: ANSWER_BYTES_MAX };
  const answer = await reads.call({ to: signer, data, ...limits }, { blockHash }).catch(unlessFailed);
  if (answer === undefined) return undefined;
  if (answer === "0x") return "no contract";
  return answer.slice(0, 66) === MAGIC_VALUE ? "signed" : "not signed";
}

/** Suffix that marks a signature of ERC-6492. `abi.encode(factory, data, signature)` comes before it. */
const ERC6492_SUFFIX = "6492".repeat(16);

type Deployment = { factory: Address; data: Hex };

/**
 * Splits a signature into the contract's own signature and the deployment, if it has one. A malformed wrapper counts as a plain signature.
 */
function parseSignature(whole: Hex): { deployment: Deployment | undefined; signature: Hex } {
  const bare = { deployment: undefined, signature: whole };
  if (!whole.toLowerCase().endsWith(ERC6492_SUFFIX)) return bare;
  const bytes = Buffer.from(whole.slice(2, -ERC6492_SUFFIX.length), "hex");
  const data = bytesAt(bytes, 1);
  const signature = bytesAt(bytes, 2);
  if (data === undefined || signature === undefined) return bare;
  return { deployment: { factory: addressIn(toHex(bytes.subarray(0, 32))), data }, signature };
}

/**
 * Reads the bytes that this word points to. In the contract ABI, the word of a dynamic value holds an offset. At the offset is
 * the number of bytes, and then the bytes.
 */
function bytesAt(bytes: Buffer, word: number): Hex | undefined {
  const offset = numberAt(bytes, 32 * word);
  const length = offset && numberAt(bytes, offset);
  if (offset === undefined || length === undefined || offset + 32 + length > bytes.length) return undefined;
  return toHex(bytes.subarray(offset + 32, offset + 32 + length));
}

/** The number in the 32 bytes at this offset. Undefined if it is too large for an offset or a length. */
function numberAt(bytes: Buffer, at: number): number | undefined {
  if (at + 32 > bytes.length || bytes.subarray(at, at + 28).some((byte) => byte !== 0)) return undefined;
  return bytes.readUInt32BE(at + 28);
}

/** The contract that makes several calls in one. It has this address on almost every chain. */
const MULTICALL3: Address = "0xcA11bde05977b3631167028862bE2a173976CA11";
const AGGREGATE3 = selectorOf("aggregate3((address,bool,bytes)[])");

async function simulateDeployment(
  reads: Reads,
  { transfer, digest }: SignatureCheck,
  { deployment, signature, blockHash }: { deployment: Deployment; signature: Hex; blockHash: Hex },
): Promise<ContractVerdict | undefined> {
  const move = methodOnChain(transfer.method).callAfterDeployment(transfer, signature);
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
  if (deployed?.isSuccess !== true)
    return refused("the payer's contract cannot be deployed with this signature");
  if (signed?.isSuccess !== true || signed.data.slice(0, 66) !== MAGIC_VALUE)
    return refused(
      "the contract that the signature deploys is not at the payer's address, or does not accept the signature",
    );
  return { kind: "signed", moves: moved?.isSuccess === true };
}

function refused(why: string): ContractVerdict {
  return { kind: "refused", why };
}

/** Returns "failed" for a failure of the contract, and undefined if the node refused the call. Throws any other error again. */
function unlessFailed(error: unknown): "failed" | undefined {
  if (error instanceof Reverted || error instanceof TooLong) return "failed";
  return unlessRefused(error);
}

function isValidSignature(digest: Uint8Array, signature: Hex): Hex {
  return `${IS_VALID_SIGNATURE}${bytes32Word(toHex(digest))}${uintWord(64n)}${bytesWords(signature)}`;
}

/** Encodes the calls for Multicall3, so that each call may fail without failing the others. */
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

/** Decodes `(bool success, bytes returnData)[]`. */
function resultsIn(answer: Hex): { isSuccess: boolean; data: Hex }[] {
  const list = Buffer.from(answer.slice(2), "hex").subarray(32);
  const count = numberAt(list, 0) ?? 0;
  const tuples = list.subarray(32);
  return Array.from({ length: Math.min(count, 3) }, (_, index) => {
    const tuple = tuples.subarray(numberAt(tuples, 32 * index) ?? 0);
    return { isSuccess: numberAt(tuple, 0) === 1, data: bytesAt(tuple, 1) ?? "0x" };
  });
}
