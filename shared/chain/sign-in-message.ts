import type { Address } from "./address.ts";
import { checksummed } from "./checksum.ts";

/** The fields of a sign-in message. No field may contain a line break. */
export type SignInMessage = {
  /** Host, and the port if it is not the scheme's default. */
  domain: string;
  address: Address;
  statement: string;
  uri: string;
  chainId: number;
  /** At least eight letters and digits. */
  nonce: string;
  /** Times as in RFC 3339. */
  issuedAt: string;
  expirationTime: string | undefined;
  notBefore: string | undefined;
};

/** The text that a wallet shows and signs (EIP-4361, version 1). The address has the letter case of EIP-55. */
export function toSignInText(message: SignInMessage): string {
  const { domain, address, statement, uri, chainId, nonce, issuedAt, expirationTime, notBefore } = message;
  return [
    `${domain} wants you to sign in with your Ethereum account:`,
    checksummed(address),
    "",
    statement,
    "",
    `URI: ${uri}`,
    "Version: 1",
    `Chain ID: ${chainId}`,
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt}`,
    ...(expirationTime === undefined ? [] : [`Expiration Time: ${expirationTime}`]),
    ...(notBefore === undefined ? [] : [`Not Before: ${notBefore}`]),
  ].join("\n");
}
