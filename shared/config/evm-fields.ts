import { z } from "zod";
import { isAddress, ZERO_ADDRESS } from "../chain/address.ts";
import { checksummed, hasRightChecksum } from "../chain/checksum.ts";
import { isEvmNetwork } from "../chain/encoding.ts";
import type { Eip712Domain } from "../chain/typed-data.ts";
import { wordsLike } from "../platform/text/similar-words.ts";
import { headerText } from "../webhook-auth/fields.ts";
import { domainText, isPrivateUrl, positive } from "./fields.ts";
import { type SecretSource, secretValue } from "./secrets.ts";

/** An address in upper or lower case, converted to the form of EIP-55. */
export const evmAddress = z.string().transform((text, context) => {
  const problem = addressProblem(text);
  if (problem === undefined && isAddress(text)) return checksummed(text);
  context.addIssue(problem ?? "is not an address");
  return z.NEVER;
});

function addressProblem(text: string): string | undefined {
  if (!isAddress(text)) return "must be an address: 0x and 40 hex digits";
  if (!hasRightChecksum(text))
    return "must have a valid EIP-55 checksum: a digit or the case of a letter is wrong";
  return text === ZERO_ADDRESS ? "must not be the zero address" : undefined;
}

/** URL of a chain's node. It is treated as a secret, because many providers put an API key in it. */
export function rpcUrl(from: SecretSource) {
  return secretValue(from).refine(
    (url) => isPrivateUrl(url.reveal()),
    "must be an https URL, or an http URL on this machine",
  );
}

/** Names of common chains, as used by people and by version 1 of x402. */
const CHAINS: Readonly<Record<string, number>> = {
  ethereum: 1,
  mainnet: 1,
  sepolia: 11155111,
  base: 8453,
  "base-sepolia": 84532,
  optimism: 10,
  arbitrum: 42161,
  polygon: 137,
  "polygon-amoy": 80002,
  avalanche: 43114,
  "avalanche-fuji": 43113,
};

export const network = z
  .string()
  .superRefine((text, context) => {
    if (!isEvmNetwork(text))
      context.addIssue(`must be "eip155:" and a decimal chain id, such as "eip155:8453"${meant(text)}`);
  })
  .transform((text) => text as `eip155:${number}`);

function meant(text: string): string {
  const [name] = wordsLike(text, Object.keys(CHAINS));
  const chainId = /^\d+$/.exec(text)?.[0] ?? (name && CHAINS[name]);
  return chainId === undefined ? "" : `; did you mean "eip155:${chainId}"?`;
}

export const rate = z
  .string('must be quoted, such as "3200" or "0.5"')
  .max(100)
  .regex(/^(?:0|[1-9]\d*)(?:\.\d+)?$/, 'must be a decimal number, such as "3200" or "0.5"')
  .regex(/[1-9]/, "must be above 0");
export const markupBps = z.int().min(0).max(1_000_000);
export const decimals = z.int().min(0).max(36);

/** Symbol of a token, which also becomes a header value. */
export const tokenSymbol = headerText.max(32);

/** An EIP-712 domain, with the names of EIP-712 for its members. */
export const eip712Domain = z.strictObject({
  name: domainText,
  version: domainText,
  chainId: positive.max(Number.MAX_SAFE_INTEGER),
  verifyingContract: evmAddress,
});

const { name, version, chainId, verifyingContract } = eip712Domain.shape;

/** The EIP-712 domain of job quotes. The signature of a quote covers this domain, so it is valid only there. */
export const jobQuoteDomain = z
  .strictObject({
    name: name.default("TangleQuote"),
    version: version.default("1"),
    chain_id: chainId,
    verifying_contract: verifyingContract,
  })
  .transform(({ chain_id: chainId, verifying_contract: verifyingContract, ...named }): Eip712Domain => {
    return { ...named, chainId, verifyingContract };
  });
