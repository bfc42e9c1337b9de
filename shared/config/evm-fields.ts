import { z } from "zod";
import { checksummed, hasRightChecksum, isAddress, ZERO_ADDRESS } from "../ethereum/address.ts";
import { isEvmNetwork } from "../ethereum/encoding.ts";
import type { Eip712Domain } from "../ethereum/typed-data.ts";
import { domainText, headerText, isPrivateUrl, positive } from "./fields.ts";
import { type Env, secretValue } from "./secrets.ts";

/** An address in any case; it becomes the form of EIP-55. */
export const evmAddress = z.string().transform((text, context) => {
  const problem = addressProblem(text);
  if (problem === undefined && isAddress(text)) return checksummed(text);
  context.addIssue(problem ?? "is not an address");
  return z.NEVER;
});

function addressProblem(text: string): string | undefined {
  if (!isAddress(text)) return "must be an address: 0x and 40 hex digits";
  if (!hasRightChecksum(text))
    return "has a wrong checksum (EIP-55): a digit, or the case of a letter, is wrong";
  return text === ZERO_ADDRESS ? "is the zero address" : undefined;
}

/** A URL that may hold a credential. */
export function rpcUrl(env: Env) {
  return secretValue(env).refine(
    (url) => isPrivateUrl(url.reveal()),
    "must be an https URL, or an http URL on this machine",
  );
}

export const network = z
  .string()
  .refine(isEvmNetwork, 'must be "eip155:" and a chain id, in decimal, as "eip155:8453"')
  .transform((text) => text as `eip155:${number}`);

export const rate = z
  .string('must be quoted, as "3200" or "0.5"')
  .max(100)
  .regex(/^(?:0|[1-9]\d*)(?:\.\d+)?$/, 'must be a decimal number, as "3200" or "0.5"')
  .regex(/[1-9]/, "must be above 0");
export const markupBps = z.int().min(0).max(1_000_000);
export const decimals = z.int().min(0).max(36);

/** The name of a token as people say it; it becomes a header value. */
export const tokenSymbol = headerText.max(32);

/** An EIP-712 domain as code has it. */
export const eip712Domain = z.strictObject({
  name: domainText,
  version: domainText,
  chainId: positive.max(Number.MAX_SAFE_INTEGER),
  verifyingContract: evmAddress,
});

const { name, version, chainId, verifyingContract } = eip712Domain.shape;

/** The EIP-712 domain of operators' job quotes: pricing engines sign for it, and contracts check against it. */
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
