import { addressWord, type Hex, selectorOf } from "./encoding.ts";
import { callIfImplemented, type Reads } from "./rpc.ts";
import { domainSeparator, type Eip712Domain } from "./typed-data.ts";

/**
 * Explains how a token's EIP-712 domain differs from the configured one; undefined if they are equal. Most tokens publish the hash of their
 * domain (EIP-2612), others its parts (EIP-5267). `configured` starts the explanation: it names the configured keys, and ends with a verb.
 */
export async function domainProblem(
  reads: Reads,
  domain: Eip712Domain & { verifyingContract: Hex },
  configured: string,
): Promise<string | undefined> {
  const { verifyingContract: asset } = domain;
  const separator = await callIfImplemented(reads, { to: asset, data: selectorOf("DOMAIN_SEPARATOR()") });
  const hasSeparator = separator?.length === 66;
  const parts = hasSeparator
    ? undefined
    : await callIfImplemented(reads, { to: asset, data: selectorOf("eip712Domain()") });
  if (!hasSeparator && parts === undefined)
    return "its contract implements neither DOMAIN_SEPARATOR() nor eip712Domain()";
  const isSame = hasSeparator
    ? separator === `0x${domainSeparator(domain)}`
    : parts !== undefined && hasParts(parts, domain);
  if (isSame) return undefined;
  return `${configured} not the EIP-712 domain of its contract: no payer's signature would be valid`;
}

/**
 * Whether the answer of `eip712Domain()` matches the domain. The answer is `(bytes1 fields, string name, string version, uint256 chainId,
 * address verifyingContract, ...)`, ABI-encoded.
 */
function hasParts(parts: Hex, wanted: Eip712Domain): boolean {
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
    word(128) === addressWord(wanted.verifyingContract)
  );
}
